"""`perfguard ops DIR`: how often, how long and with which shapes operators ran, or how often they stand in saved graphs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli.exits import EXIT_NOTHING
from perfguard.cli.screen import echo, echo_json, echo_plain, screen, verbose_option
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.contract import Contract
    from perfguard.measure.census import Census, Difference
    from perfguard.screen import Screen

#: How many names a refusal suggests.
_SUGGESTED = 3
_LONGEST_NAME = 70
_SHORTEST_NAME = 16


@click.command(name="ops")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--op", "wanted", multiple=True, metavar="NAME", help="Operators to show: MatMul, 'Mat*' (all where none is named)."
)
@click.option(
    "--against",
    "base",
    type=click.Path(path_type=Path),
    metavar="BASE",
    help="Show what differs from BASE, by operator.",
)
@click.option("--all", "everything", is_flag=True, help="With --against: also the operators that do not differ.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object an operator and rank.")
@verbose_option("Show whole names, every shape and every column, however narrow the screen.")
def command(
    directory: Path, wanted: tuple[str, ...], base: Path | None, everything: bool, as_json: bool, verbose: bool
) -> None:
    """Show the operators in a profiler's output.

    Each with its occurrences, total and average time, and shapes. It answers what MindSpore's Profiler.op_analyse
    answers, for every layout. Of saved graphs (save_graphs) it counts the operators of the final ones. Exit codes: 0
    (whatever differs), 2 usage (no such operator), 4 no operators could be read here.
    """
    if everything and base is None:
        raise UsageError(
            "--all says which operators --against shows; name a base, or leave it out: ops shows them all."
        )
    if base is not None:
        _show_differences(directory, base, wanted, everything=everything, as_json=as_json, verbose=verbose)
        return
    import json

    from perfguard.judge.tolerance import is_like
    from perfguard.measure import operators_of
    from perfguard.measure.census import Counted, censuses
    from perfguard.reports.terminal import operator_rows

    contract = _inspected(directory)
    ran = operators_of(contract)
    in_graphs = [one for one in censuses(contract) if one.counted is Counted.GRAPH]
    known = {one.operator for one in ran} | {name for census in in_graphs for name in census.counts}
    if not known:
        _give_up(directory)
    _refuse_unknown(wanted, known, directory)
    shown = [one for one in ran if not wanted or any(is_like(one.operator, name) for name in wanted)]
    rows = _graph_rows(in_graphs, wanted)
    if as_json:
        graphs = [{"rank": rank, "operator": name, "in_graphs": count} for rank, name, count in rows]
        echo_json(json.dumps([one.as_dict() for one in shown] + graphs, indent=2))
        return
    shown_on = screen(verbose=verbose)
    tables = [operator_rows(shown, shown_on)] if shown else []
    tables += [_table(("rank", "operator", "in final graphs"), rows, shown_on)] if rows else []
    echo("\n\n".join(tables), shown_on)


def _show_differences(
    directory: Path, base: Path, wanted: tuple[str, ...], *, everything: bool, as_json: bool, verbose: bool
) -> None:
    import json

    from perfguard.judge.tolerance import is_like
    from perfguard.measure.census import censuses, differences

    before, now = (_censuses_of(one, censuses(_inspected(one))) for one in (base, directory))
    found = differences(before, now)
    if not found:
        raise UsageError(
            f"{base} holds {_worded(before)}, and {directory} {_worded(now)}: nothing was counted in both; name two "
            "recordings, or two directories of saved graphs."
        )
    _refuse_unknown(wanted, {one.operator for one in found}, directory)
    found = [one for one in found if not wanted or any(is_like(one.operator, name) for name in wanted)]
    differing = [one for one in found if one.difference]
    shown = found if everything else differing
    if as_json:
        echo_json(json.dumps([one.as_dict() for one in shown], indent=2))
        return
    if shown:
        shown_on = screen(verbose=verbose)
        echo(_difference_rows(shown, shown_on, by_step=_are_by_step(before, now)), shown_on)
        click.echo("")
    echo_plain(
        f"{len(differing)} of {len(found)} operators differ" if differing else f"none of {len(found)} operators differs"
    )


def _inspected(directory: Path) -> Contract:
    """Inspect a directory; that it is not whole is said, and what can be read is shown all the same."""
    from perfguard.capture.replay import replay
    from perfguard.contract import inspect
    from perfguard.reports.names import printable

    contract = inspect(replay(directory))
    if contract.cycles and not contract.is_whole:
        place = printable(str(directory))
        echo_plain(f"perfguard: {place} is not whole, so operators may be missing; look at: perfguard check", err=True)
    return contract


def _censuses_of(directory: Path, found: list[Census]) -> list[Census]:
    if not found:
        _give_up(directory)
    return found


def _give_up(directory: Path) -> None:
    from perfguard.reports.names import printable

    echo_plain(
        f"perfguard: no operators could be read in {printable(str(directory))}; look at: perfguard check", err=True
    )
    sys.exit(EXIT_NOTHING)


def _worded(found: list[Census]) -> str:
    from perfguard.measure.census import Counted

    return "operators that ran" if found[0].counted is Counted.RUN else "graphs"


def _are_by_step(*sides: list[Census]) -> bool:
    from perfguard.measure.census import Counted

    return all(one.steps is not None for side in sides for one in side if one.counted is Counted.RUN)


def _graph_rows(found: list[Census], wanted: tuple[str, ...]) -> list[tuple[int, str, int]]:
    """Return the operators of the final graphs, of each rank the most frequent first."""
    from perfguard.judge.tolerance import is_like

    return [
        (census.rank, name, count)
        for census in found
        for name, count in sorted(census.counts.items(), key=lambda item: (-item[1], item[0]))
        if not wanted or any(is_like(name, one) for one in wanted)
    ]


def _difference_rows(shown: Iterable[Difference], shown_on: Screen, *, by_step: bool) -> str:
    from perfguard.measure.census import Counted

    units = {Counted.GRAPH: "in final graphs", Counted.RUN: "calls/step" if by_step else "calls"}
    rows = [
        (
            one.rank,
            one.operator,
            f"{one.base:g}",
            f"{one.now:g}",
            f"{one.difference:+g}" if one.difference else "",
            units[one.counted],
        )
        for one in shown
    ]
    return _table(("rank", "operator", "base", "now", "difference", "counted"), rows, shown_on)


def _table(headers: tuple[str, ...], rows: Iterable[tuple[object, ...]], shown_on: Screen) -> str:
    from perfguard.reports.names import printable
    from perfguard.reports.table import Column, table

    rank, operator, *others = headers
    columns = [
        Column(title=rank, align="right", leaves=2),
        Column(title=operator, least=_SHORTEST_NAME, most=_LONGEST_NAME),
        *(Column(title=title, align="right") for title in others[:3]),
        *(Column(title=title, leaves=1) for title in others[3:]),
    ]
    return table(columns, [(rank, printable(str(name)), *rest) for rank, name, *rest in rows], shown_on)


def _refuse_unknown(wanted: tuple[str, ...], known: Iterable[str], directory: Path) -> None:
    from perfguard.judge.tolerance import is_like

    names = sorted(known)
    for name in wanted:
        if not any(is_like(one, name) for one in names):
            raise UsageError(f"There is no operator {name!r} in {directory}; {_suggested(name, names, directory)}")


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
