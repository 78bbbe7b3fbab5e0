"""What nobody could detect: a rule for each kind of corruption that leaves a directory as right as it was, and why."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

_IDENTIFIER = "the column measures nothing, and no other file repeats it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Globs of operator, layout, slot and column (units: glob of its unit, "-" for none), and the reason."""

    operator: str
    layout: str = "*"
    slot: str = "*"
    column: str = "*"
    unit: str = "*"
    because: str

    def covers(self, operator: str, layout: str, slot: str, column: str, unit: str) -> bool:
        """Whether a mutant is one of these."""
        pairs = ((operator, self.operator), (layout, self.layout), (slot, self.slot), (column, self.column))
        return all(_matches(text, globs) for text, globs in (*pairs, (unit, self.unit)))


def _matches(text: str, globs: str) -> bool:
    """Whether a text matches one of several globs, separated by `|`; `[` and `]` mean themselves."""
    return any(fnmatch.fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs.split("|"))


UNDETECTABLE: tuple[Rule, ...] = ()


def rule_of(operator: str, layout: str, slot: str, column: str, unit: str) -> Rule | None:
    """Return the first rule that covers a mutant."""
    found = (rule for rule in UNDETECTABLE if rule.covers(operator, layout, slot, column, unit))
    return next(found, None)
