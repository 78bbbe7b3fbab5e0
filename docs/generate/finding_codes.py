"""The page of the finding codes: an anchor each, with advice and the checks that raise it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from perfguard.contract.checks import Check, checks_of
from perfguard.dialects.queries import DIALECTS, folders
from perfguard.findings import FAMILIES, OWN_FAMILY, Advice, Code, OwnCode, Severity, advice
from perfguard.judge.verdict import Outcome
from perfguard.reports.prose import code, prose, sentence, table

_SEVERITIES = {
    Severity.ERROR: "It decides the outcome of the test.",
    Severity.WARNING: "It is shown, and decides nothing (R107 makes the outcome CHANGED).",
    Severity.NOTE: "It is information, and decides nothing. An ignored finding becomes a note.",
}


def page() -> str:
    """Return the page."""
    by_code = _checks_by_code()
    return "\n".join(
        [
            "# Findings and outcomes\n",
            "A *finding* is one thing that is wrong, with a code that never changes its meaning, a message and a place: "
            "`op_type_info.csv:7 $.percent`. `perfguard codes A102` prints this in the terminal.\n",
            "## Outcomes\n",
            table(("outcome", "means", "the test"), _outcomes()),
            "\n## Severities\n",
            table(("severity", "means"), ((code(one.value), _SEVERITIES[one]) for one in Severity)),
            "\n## All codes\n",
            table(
                ("code", "headline", "severity"),
                ((f"[{one.name}](#{one.name.lower()})", prose(one.value), _severities(advice(one))) for one in Code),
            ),
            *(line for family in FAMILIES for line in _family(family, by_code)),
            "\n(dialects)=\n## Dialects of checks\n",
            "A dialect is a folder of queries in `perfguard/dialects`. Its checks run for these layouts, unless a check names "
            "some of them.\n",
            table(("dialect", "layouts"), _dialects()),
        ]
    )


def _outcomes() -> Iterator[tuple[str, str, str]]:
    for one in Outcome:
        result = {Outcome.PASSED: "passes", Outcome.CHANGED: 'passes; fails with `changed = "fail"`'}.get(one, "fails")
        yield code(one.value), prose(one.meaning), result


def _family(family: str, by_code: dict[str, list[tuple[str, Check]]]) -> Iterator[str]:
    name, _, about = FAMILIES[family].partition(": ")
    yield f"\n## {family}: {name}\n"
    yield f"{sentence(about)}\n"
    if family == OWN_FAMILY:
        yield "(u001)=\n### U001 to U999\n"
        yield "Codes of the checks in your own `.sql` files; the headline is the name of the check.\n"
        yield _advice_lines(advice(OwnCode("U001", "")))
        return
    for one in (one for one in Code if one.family == family):
        yield f"({one.name.lower()})=\n### {one.name}: {one.value}\n"
        yield _advice_lines(advice(one))
        if checks := by_code.get(one.name):
            yield from _check_lines(checks)
        yield ""


def _advice_lines(found: Advice) -> str:
    lines = [
        f"* Severity: {_severities(found)}",
        f"* Outcome: {_outcome(found)}",
        f"* Cause: {sentence(found.cause)}",
        f"* Fix: {sentence(found.fix)}",
    ]
    return "\n".join(lines)


def _outcome(found: Advice) -> str:
    if not found.outcome:
        return "that of the other findings"
    if found.outcome not in Outcome.__members__:
        return prose(found.outcome)
    others = Severity.ERROR in found.severity and len(found.severity) > 1
    return code(found.outcome) + (" for an error" if others else "")


def _severities(found: Advice) -> str:
    return " or ".join(one.value for one in found.severity)


def _checks_by_code() -> dict[str, list[tuple[str, Check]]]:
    found: dict[str, list[tuple[str, Check]]] = {}
    for folder in folders():
        for check in checks_of(folder):
            found.setdefault(check.code.name, []).append((folder, check))
    return found


def _check_lines(checks: list[tuple[str, Check]]) -> Iterator[str]:
    """Yield the checks of a code by dialect, each rule with what must hold and its message."""
    yield "\nThese checks raise it, by [dialect](#dialects):"
    for folder, pairs in groupby(checks, lambda pair: pair[0]):
        yield f"\n{code(folder)}\n"
        # A query that runs once for each of several tables is one rule with several messages.
        rules: dict[tuple[str, str], dict[str, set[str]]] = {}
        for _, check in pairs:
            messages = rules.setdefault((check.name, check.about), {})
            messages.setdefault(check.message, set()).update(check.layouts)
        for (name, about), messages in rules.items():
            shown = [f"{code(message)}{_only(layouts)}" for message, layouts in messages.items()]
            one = f" Message: {shown[0]}" if len(shown) == 1 else " Messages:"
            yield f"* {code(name)}: {sentence(about)}{one}"
            yield from (f"  * {text}" for text in shown if len(shown) > 1)


def _only(layouts: set[str]) -> str:
    return f" (only {', '.join(sorted(layouts))})" if layouts else ""


def _dialects() -> Iterator[tuple[str, str]]:
    for folder in folders():
        known = (layout for layout, dialect in DIALECTS.items() if folder in dialect.folders)
        yield code(folder), ", ".join(map(code, known)) or "all layouts"
