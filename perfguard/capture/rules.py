"""Rules for the values of a configuration: what a value must be, and the sentence about one that is something else.

MindSpore's profiler options, MindFormers' YAML, the tools.json of MindSpeed-MM and the profiler_config.json of torch_npu are
checked by these rules. A rule is data: `must` completes the sentence "NAME must be ...", `holds` decides, `hint` may add what
to do.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from perfguard.errors import nearest

_LONGEST_SHOWN = 60


def _no_hint(value: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be."""

    must: str
    holds: Callable[[Any], bool]
    hint: Callable[[Any], str] = _no_hint

    def violation(self, value: Any) -> str:
        """Return "must be ..., got ..." for a value that breaks the rule, and an empty text for one that keeps it."""
        return "" if self.holds(value) else f"must be {self.must}, got {shown(value)}{self.hint(value)}"


def integer(least: float = -math.inf, most: float = math.inf, *, must: str = "", below: str = "") -> Rule:
    """Return the rule for an integer from `least` to `most`. `below` is the hint for a smaller one."""

    def hint(value: Any) -> str:
        return f" ({below})" if below and is_integer(value) and value < least else ""

    return Rule(must or _range(least, most), lambda value: is_integer(value, least, most), hint)


def number(least: float) -> Rule:
    """Return the rule for a finite number of at least `least`."""
    return Rule(f"a number of at least {least:g}", lambda value: _is_number(value) and least <= value < math.inf)


def one_of(names: Iterable[Any], *, ignore_case: bool = False) -> Rule:
    """Return the rule for one of some names; a near one is the hint."""
    allowed = tuple(names)
    texts = [str(name) for name in allowed if name is not None]
    lower = [text.lower() for text in texts]

    def holds(value: Any) -> bool:
        if ignore_case:
            return isinstance(value, str) and value.lower() in lower
        return (value is None or isinstance(value, str)) and value in allowed

    def hint(value: Any) -> str:
        near = nearest(one_line(value), texts, otherwise="") if isinstance(value, str) else ""
        return f" ({near})" if near else ""

    return Rule(f"one of {', '.join(texts)}", holds, hint)


def list_of(item: Rule, must: str, *, or_alone: bool = False, least: int = 0) -> Rule:
    """Return the rule for a list of values that keep a rule; with `or_alone` one value without a list will do."""

    def holds(value: Any) -> bool:
        if isinstance(value, (list, tuple)):
            return len(value) >= least and all(map(item.holds, value))
        return or_alone and item.holds(value)

    def hint(value: Any) -> str:
        wrong = [one for one in value if not item.holds(one)] if isinstance(value, (list, tuple)) else []
        return f" ({shown(wrong[0])} is not {item.must})" if wrong else ""

    return Rule(must, holds, hint)


def is_integer(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    """Whether a value is an integer of a range; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _range(least: float, most: float) -> str:
    if most == math.inf:
        return "an integer" if least == -math.inf else f"an integer of at least {least}"
    return f"an integer from {least} to {most}"


def _is_path(value: object) -> bool:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _unquoted(value: Any) -> str:
    return " (write it without quotes)" if isinstance(value, str) and value.lower() in ("true", "false") else ""


BOOLEAN = Rule("true or false", lambda value: isinstance(value, bool), _unquoted)
STRING = Rule("a string", lambda value: isinstance(value, str))
NAME = Rule("a string that is not empty", lambda value: isinstance(value, str) and value != "")
PATH = Rule("a path", _is_path)


def shown(value: object) -> str:
    """Return a value as messages show it: short, and in one line; YAML aliases can give it 2**60 entries."""
    short = reprlib.Repr()
    short.maxlevel = short.maxlist = short.maxdict = 4
    short.maxstring = short.maxother = short.maxlong = _LONGEST_SHOWN
    return one_line(short.repr(value))


def one_line(text: str) -> str:
    """Return a text with spaces in place of line breaks and control characters."""
    return "".join(one if one.isprintable() else " " for one in text)
