"""Validator: JSON Schema (2020-12). jsonschema-rs gives the verdict, some 40 times faster, and jsonschema the messages.

The verdict is always jsonschema's: it is asked about every value that jsonschema-rs refuses, and about those that the two could
judge differently (texts with line breaks where there are patterns, infinite numbers, lone surrogates, deep nesting).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator as SlowValidator
    from jsonschema_rs import Draft202012Validator as FastValidator

Schema = Mapping[str, Any] | bool

#: Patterns that mean the same to Python's re and to Rust's regex, in texts without line breaks: no classes like \w, no groups
#: that begin with (?, no sets within sets.
_PORTABLE = re.compile(r"(?:\\[.\[\]()/+*?{}|^$-]|\[\^?(?:[^\]\[\\&~]|\\[.\[\]()/+*?{}|^$tnr-])+\]|[^\\\[(]|\((?!\?))*")


class Validator:
    """Validates values with a schema, or with a part of the document `root`, which holds its `$defs`."""

    def __init__(self, schema: Schema, root: Mapping[str, Any] | None = None) -> None:
        self._schema = schema
        self._root = root if root is not None else schema if isinstance(schema, Mapping) else {}

    def is_valid(self, value: Any) -> bool:
        """Whether a value keeps the schema."""
        return self._is_proven(value) or self._slow.is_valid(value)

    def errors(self, value: Any) -> Iterator[ValidationError]:
        """Yield jsonschema's errors for a value, with values in their messages as JSON has them."""
        if not self._is_proven(value):
            for error in self._slow.iter_errors(value):
                error.message = in_json(error)
                yield error

    def _is_proven(self, value: Any) -> bool:
        fast, has_patterns = self._fast
        try:
            return fast is not None and fast.is_valid(value) and not _is_odd(value, has_patterns)
        except ValueError:
            # jsonschema-rs takes no lone surrogates, and no deep nesting.
            return False

    @cached_property
    def _fast(self) -> tuple[FastValidator | None, bool]:
        schema = self._schema
        if isinstance(schema, Mapping) and schema is not self._root and "$defs" in self._root:
            schema = {"$defs": self._root["$defs"], **schema}
        return _compiled(json.dumps(schema))

    @cached_property
    def _slow(self) -> SlowValidator:
        from jsonschema import Draft202012Validator

        return Draft202012Validator(dict(self._root)).evolve(schema=self._schema)


@lru_cache(maxsize=1024)
def _compiled(schema: str) -> tuple[FastValidator | None, bool]:
    """Compile a schema, and return whether it has patterns; None: only jsonschema can use it."""
    from jsonschema_rs import Draft202012Validator

    patterns = [*_patterns(json.loads(schema))]
    # Of `multipleOf` the two think differently where floats are not exact.
    if not all(map(_PORTABLE.fullmatch, patterns)) or '"multipleOf"' in schema:
        return None, True
    return Draft202012Validator(schema), bool(patterns)


def _patterns(schema: object) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _patterns(part)
    elif isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        if isinstance(parts := schema.get("patternProperties"), dict):
            yield from parts
        for part in schema.values():
            yield from _patterns(part)


def in_json(error: ValidationError) -> str:
    """Return the message of an error, with JSON where Python would write `False`, `None` or `{'a': True}`."""
    message = str(error.message)
    if error.schema is False:
        message = message.replace("False schema does not allow", "nothing is allowed here, found", 1)
    for value in (error.instance, error.validator_value):
        if not isinstance(value, str) and re.search(r"\b(?:False|True|None)\b", repr(value)):
            message = message.replace(repr(value), json.dumps(value, ensure_ascii=False), 1)
    return message


def _is_odd(value: object, has_patterns: bool) -> bool:
    """Whether jsonschema-rs could judge a value in another way: it takes infinity and NaN for null, and `$` and `.` in patterns
    mean something else where there are line breaks."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
            if has_patterns and not all(map(str.isprintable, one)):
                return True
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, float):
            if one - one != 0:
                return True
        elif has_patterns and isinstance(one, str) and not one.isprintable():
            return True
    return False
