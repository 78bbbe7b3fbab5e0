"""Deleting: what a command asks before it deletes anything."""

from __future__ import annotations

import sys

import click

from perfguard.cli.exits import EXIT_USAGE
from perfguard.cli.screen import echo_plain
from perfguard.errors import UsageError

yes_option = click.option("--yes", is_flag=True, help="Delete without asking.")


def confirm_deletion(what: str, *, yes: bool) -> None:
    """Ask whether to delete, unless `--yes` was given; end the command where the answer is no."""
    try:
        agreed = yes or click.confirm(f"Delete {what}?")
    except click.Abort as error:
        raise UsageError(
            "The question was not answered, so nothing was deleted; to delete without a question: --yes"
        ) from error
    if not agreed:
        echo_plain("nothing was deleted")
        sys.exit(EXIT_USAGE)
