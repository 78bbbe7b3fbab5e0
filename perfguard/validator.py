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

#: From so many items on those that are proven are not validated again.
_MANY = 100
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
        """jsonschema, which needs 40 us for a small object: the items of a long list that are proven are left out."""
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend

        rules = Draft202012Validator.VALIDATORS

        def items(validator: Any, schema: Any, value: Any, around: Any) -> Iterator[ValidationError]:
            if not isinstance(value, list) or len(value) < _MANY or "prefixItems" in around:
                yield from rules["items"](validator, schema, value, around) or ()
                return
            one = Validator(schema, self._root)
            for index, item in enumerate(value):
                if not one._is_proven(item):
                    yield from validator.descend(item, schema, path=index)

        def additional(validator: Any, schema: Any, value: Any, around: Any) -> Iterator[ValidationError]:
            if isinstance(value, dict) and len(value) >= _MANY and isinstance(schema, Mapping):
                one = Validator(schema, self._root)
                value = {key: item for key, item in value.items() if not one._is_proven(item)}
            yield from rules["additionalProperties"](validator, schema, value, around) or ()

        slow: type[SlowValidator] = extend(  # type: ignore[no-untyped-call]
            Draft202012Validator, {"items": items, "additionalProperties": additional}
        )
        found: SlowValidator = slow(_unnamed(self._root)).evolve(schema=_unnamed(self._schema))
        return found


def _unnamed(schema: Any) -> Any:
    """Return a schema without "$schema": by it jsonschema would go on with its own class of validators."""
    return {key: part for key, part in schema.items() if key != "$schema"} if isinstance(schema, Mapping) else schema


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
        if isinstance(value, str) or _has_more_values(value, len(message)):
            continue
        if re.search(r"\b(?:False|True|None)\b", repr(value)):
            message = message.replace(repr(value), json.dumps(value, ensure_ascii=False), 1)
    return message


def _has_more_values(value: object, most: int) -> bool:
    """Whether a value has more parts than a text of that length can show."""
    waiting, count = [value], 0
    while waiting and count <= most:
        one = waiting.pop()
        count += 1
        if isinstance(one, dict):
            count += len(one)
            waiting += one.values()
        elif isinstance(one, list):
            count += len(one)
            waiting += one
    return count > most


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
