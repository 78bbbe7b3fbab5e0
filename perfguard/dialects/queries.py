"""The SQL of dialects: macros that all of them have, and a folder for each with its views, its checks and other queries."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from perfguard.dialects.collectives import COLLECTIVE, HOST_COLLECTIVE

#: The dialect of a layout, where its rules are queries.
DIALECTS = {"pt-torch": "torch"}
_NAMED = re.compile(r"number_of\('([^']*)'\)")
_MACROS = f"""
create macro is_collective(name) as regexp_matches(name, '{COLLECTIVE.pattern}');
create macro is_host_collective(name) as regexp_matches(name, '{HOST_COLLECTIVE.pattern}');
"""


@cache
def sql(dialect: str, name: str) -> str:
    """Return the text of a file of a dialect; `number_of('text')` in it is the number that the text has in `words`."""
    numbers = {text: number for number, text in enumerate(named_texts())}
    # A number is planned at once, a subquery for it is a join.
    return _NAMED.sub(lambda found: str(numbers[found[1]]), _read(f"{dialect}/{name}.sql"))


@cache
def views() -> str:
    """Return the statements that make the macros and the views of all dialects."""
    return "\n".join([_MACROS, _read("macros.sql"), *(sql(dialect, "views") for dialect in _dialects())])


@cache
def named_texts() -> tuple[str, ...]:
    """Return the texts that queries name. They come first in `words`, so their numbers are always the same."""
    found = (
        text
        for dialect in _dialects()
        for file in sorted((files(__package__) / dialect).iterdir(), key=lambda one: one.name)
        if PurePosixPath(file.name).suffix == ".sql"
        for text in _NAMED.findall(file.read_text(encoding="utf-8"))
    )
    return tuple(dict.fromkeys(found))


def _dialects() -> list[str]:
    return sorted(set(DIALECTS.values()))


def _read(path: str) -> str:
    return (files(__package__) / path).read_text(encoding="utf-8")
