"""`perfguard ops DIR`: how often, how long and with which shapes operators ran, or how often they are in saved graphs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo, echo_json, echo_line, screen, table_text
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.contract import Contract
    from perfguard.measure.census import Census, Difference

#: How many names a refusal suggests.
_SUGGESTED = 3
_LONGEST_NAME = 70
_SHORTEST_NAME = 16


@click.command(name="ops")
@click.argument("directory", type=options.PATH)
@click.option(
    "--op",
    "requested",
    multiple=True,
    metavar="NAME",
    help="Operators to show: MatMul, or 'Mat*' (default: all).",
)
@options.path("--against", "base", metavar="BASE", help="Show what differs from BASE, by operator.")
@options.flag("--all", "everything", help="With --against: show operators that do not differ, too.")
@options.flag("--json", "as_json", help="Print JSON: an object for each operator and rank.")
@options.verbose("Show whole names, all shapes and all columns, whatever the width of the terminal.")
def command(directory: Path, requested: tuple[str, ...], base: Path | None, everything: bool, as_json: bool) -> None:
    """Show the operators in a profiler's output.

    It shows occurrences, total and average time, and shapes, as MindSpore's Profiler.op_analyse does, for every layout.
    Of saved graphs (save_graphs) it counts the operators of the final ones.

    Exit codes: 0 operators were shown, whatever differs; 2 usage, or no such operator; 4 there are no operators.
    """
    if everything and base is None:
        raise UsageError(
            "--all says which operators --against shows; name a base, or leave it out: ops shows them all."
        )
    if base is not None:
        _show_differences(directory, base, requested, everything=everything, as_json=as_json)
        return
    from perfguard.measure import operators_of
    from perfguard.measure.census import Counted, censuses
    from perfguard.reports.terminal import operator_rows

    contract = _inspected(directory)
    ran = operators_of(contract)
    in_graphs = [
        (census.rank, name, count)
        for census in censuses(contract)
        if census.counted is Counted.GRAPH
        for name, count in sorted(census.counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    known = {one.operator for one in ran} | {name for _, name, _ in in_graphs}
    if not known:
        _give_up(directory)
    _refuse_unknown(requested, known, directory)
    shown = [one for one in ran if _is_requested(one.operator, requested)]
    rows = [row for row in in_graphs if _is_requested(row[1], requested)]
    if as_json:
        graphs = [{"rank": rank, "operator": name, "in_graphs": count} for rank, name, count in rows]
        echo_json(json.dumps([one.as_dict() for one in shown] + graphs, indent=2))
        return
    tables = [operator_rows(shown, screen())] if shown else []
    tables += [_table(("rank", "operator", "in final graphs"), rows)] if rows else []
    echo("\n\n".join(tables))


def _show_differences(
    directory: Path, base: Path, requested: tuple[str, ...], *, everything: bool, as_json: bool
) -> None:
    from perfguard.measure.census import censuses, differences

    before, now = (censuses(_inspected(one)) or _give_up(one) for one in (base, directory))
    found = differences(before, now)
    if not found:
        raise UsageError(
            f"{base} holds {_kind(before)}, and {directory} {_kind(now)}: nothing was counted in both; name two "
            "recordings, or two directories of saved graphs."
        )
    _refuse_unknown(requested, {one.operator for one in found}, directory)
    found = [one for one in found if _is_requested(one.operator, requested)]
    differing = [one for one in found if one.difference]
    shown = found if everything else differing
    if as_json:
        echo_json(json.dumps([one.as_dict() for one in shown], indent=2))
        return
    if shown:
        echo(_difference_rows(shown, [*before, *now]) + "\n")
    echo(
        f"{len(differing)} of {len(found)} operators differ" if differing else f"none of {len(found)} operators differs"
    )


def _inspected(directory: Path) -> Contract:
    """Inspect a directory; an incomplete one gets a warning, and what can be read is shown."""
    from perfguard.capture.replay import replay
    from perfguard.contract import inspect

    contract = inspect(replay(directory))
    if contract.cycles and not contract.is_whole:
        echo_line(
            f"perfguard: {directory} is incomplete, so operators may be missing; look at: perfguard check", err=True
        )
    return contract


def _give_up(directory: Path) -> NoReturn:
    echo_line(f"perfguard: no operators could be read in {directory}; look at: perfguard check", err=True)
    sys.exit(Exit.NOTHING)


def _kind(found: list[Census]) -> str:
    return {"run": "operators that ran", "device": "kernels", "graph": "graphs"}[found[0].counted.value]


def _is_requested(name: str, globs: tuple[str, ...]) -> bool:
    from perfguard.measure.measurement import is_like

    return not globs or any(is_like(name, glob) for glob in globs)


def _difference_rows(shown: Iterable[Difference], censuses: list[Census]) -> str:
    calls = "calls/step" if all(one.steps is not None for one in censuses if one.counted.value != "graph") else "calls"
    units = {"graph": "in final graphs", "run": calls, "device": f"{calls} on a device"}
    rows = []
    for one in shown:
        difference = f"{one.difference:+g}" if one.difference else ""
        unit = units[one.counted.value]
        rows.append((one.rank, one.operator, f"{one.base:g}", f"{one.now:g}", difference, unit))
    return _table(("rank", "operator", "base", "now", "difference", "counted"), rows)


def _table(headers: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    rank, operator, *others = headers
    columns: dict[str, dict[str, Any]] = {
        rank: {"align": "right", "leaves": 2},
        operator: {"least": _SHORTEST_NAME, "most": _LONGEST_NAME},
        **{title: {"align": "right"} for title in others[:3]},
        **{title: {"leaves": 1} for title in others[3:]},
    }
    return table_text(columns, rows)


def _refuse_unknown(requested: tuple[str, ...], known: Iterable[str], directory: Path) -> None:
    names = sorted(known)
    for glob in requested:
        if not any(_is_requested(name, (glob,)) for name in names):
            raise UsageError(f"There is no operator {glob!r} in {directory}; {_suggested(glob, names, directory)}")


def _suggested(name: str, known: list[str], directory: Path) -> str:
    """Return the nearest names: those that hold the text where there are some (`mm` is in `aten::mm`), else those like it."""
    import difflib

    plain = name.strip("*?").lower()
    by_lower = {one.lower(): one for one in known}
    holding = [one for one in by_lower if plain and plain in one]
    near = difflib.get_close_matches(plain, holding or by_lower, n=_SUGGESTED, cutoff=0.0 if holding else 0.6)
    if not near:
        return f"list them with: perfguard ops {shlex.quote(str(directory))}"
    return f"did you mean {' or '.join(repr(by_lower[one]) for one in near)}?"
