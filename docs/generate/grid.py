"""The page of the grid: which invariant is checked for which kind of output, by which rules, and why not elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from perfguard.contract.grid import Cell, Grid, Row, grid
from perfguard.reports.prose import code, prose, sentence, table


def page() -> str:
    """Return the page."""
    shown = grid()
    cells = [cell for row in shown.rows for cell in row.cells.values()]
    return "\n".join(
        [
            "# Grid of invariants\n",
            "Each row is something that must hold of a profiler's output, each column a kind of output. A number counts the "
            "rules that check it; `-`: it cannot hold there (the reasons are below); **missing**: there is no rule and no "
            "reason yet. `perfguard codes --grid` prints this in the terminal.\n",
            table(("what must hold", *(one.title for one in shown.outputs)), _rows(shown)),
            f"\nOf {len(cells)} cells {sum(bool(one.checks) for one in cells)} are checked, "
            f"{sum(bool(one.cannot) for one in cells)} cannot hold, {sum(one.is_missing for one in cells)} are missing. "
            "A rule belongs to the invariant that its header names, or to that of its [code](findings.md).",
            *(line for row in shown.rows for line in _section(row, shown)),
        ]
    )


def _rows(shown: Grid) -> Iterator[tuple[str, ...]]:
    for row in shown.rows:
        yield f"[{_words(row)}](#{row.name.replace('_', '-')})", *(_count(row.cells[one.name]) for one in shown.outputs)


def _count(cell: Cell) -> str:
    return str(len(cell.checks)) if cell.checks else "-" if cell.cannot else "**missing**"


def _section(row: Row, shown: Grid) -> Iterator[str]:
    yield f"\n({row.name.replace('_', '-')})=\n## {_words(row).capitalize()}\n"
    if row.about:
        yield f"{sentence(row.about)}\n"
    for one in shown.outputs:
        cell = row.cells[one.name]
        if cell.checks:
            yield f"* {one.title}: {', '.join(map(code, cell.checks))}"
        elif cell.cannot:
            yield f"* {one.title}: cannot hold; {prose(cell.cannot)}"


def _words(row: Row) -> str:
    return row.name.replace("_", " ")
