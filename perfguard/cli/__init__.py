"""The command line: thin shells over `perfguard.gate`. Exit codes are in `output.Exit`."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module

import click

from perfguard.cli.options import CommandGroup, with_colours
from perfguard.cli.output import Exit, echo_line, echo_plain
from perfguard.errors import PerfguardError, of_system
from perfguard.screen import written_in_ascii
from perfguard.version import __version__

#: The commands in the order of `--help`, those of other modules with their module.
_COMMANDS = {
    **dict.fromkeys(
        ("demo", "init", "doctor", "run", "check", "analyse", "compare", "ab", "calibrate", "ops", "sql", "report"), ""
    ),
    "view": "report",
    **dict.fromkeys(("baseline", "history", "schema"), ""),
    "codes": "schema",
}

_DEFECT = "perfguard: this is a defect of perfguard. Report it with the lines above, without what is secret in them."


class _Commands(CommandGroup):
    """Imports a command when it is run, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"perfguard.cli.{_COMMANDS[cmd_name] or cmd_name}")
        command: click.Command = getattr(module, cmd_name if _COMMANDS[cmd_name] else "command")
        return with_colours(command)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perfguard")
def cli() -> None:
    """Run scripts under the profiler, check what profilers wrote, compare runs, keep baselines."""


with_colours(cli)


def main() -> None:
    """Run the command line, in the characters that the output has."""
    with written_in_ascii((sys.stdout, sys.stderr)):
        try:
            _main()
        except (BrokenPipeError, _OutputClosed):
            # The reader of the output has seen enough (`| head`); Python would say so once more when it ends.
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            sys.exit(Exit.USAGE)
        except Exception as error:
            # Python would exit with 1, which means a regression. A full disk may take no word of it.
            with suppress(OSError):
                echo_plain("".join(traceback.format_exception(error)) + _DEFECT, err=True)
            raise SystemExit(Exit.USAGE) from error


def _main() -> None:
    """Run it; perfguard's own errors become one sentence and exit code 2, as click's do."""
    try:
        sys.exit(_status())
    except click.ClickException as error:
        error.show()
    except (click.Abort, KeyboardInterrupt):
        # Ctrl-C, or a question nobody was there to answer; 1 would mean a regression.
        echo_plain("perfguard: stopped before the end; nothing more was done.", err=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        # A full disk, a place that may not be written; 1 would mean a regression.
        echo_plain(f"perfguard: {of_system(error)}", err=True)
    except PerfguardError as error:
        echo_line(f"perfguard: {error}", err=True)
    sys.exit(Exit.USAGE)


class _OutputClosed(Exception):
    """The reader of standard output has closed it."""


def _status() -> int | None:
    """Run the command. Where its output is closed, click puts something else in its place and ends the program, with 1."""
    output = sys.stdout
    try:
        status: int | None = cli.main(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SystemExit as end:
        if sys.stdout is not output:
            raise _OutputClosed from end
        raise
    return status
