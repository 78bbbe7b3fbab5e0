"""Databases: their tables as columns, and what a finding in one of them looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.schema import WORDED_ROWS
from perfguard.artifacts.table import unquoted
from perfguard.dialects.disagreement import disagreements
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle


PROFILERS = ("ascend_pytorch_profiler", "ascend_mindspore_profiler")
ANALYSES = ("analysis", "communication_analyzer")
#: The last Int64.
LARGEST = 2**63 - 1
EXACT_MS = 1e-6
FOUR_DECIMALS = 1e-4
#: Three decimals of a microsecond, added up as floats.
SUM_US = 0.002
MOST = 0.9
#: The entry that adds up the operators of a step, in versions that write one.
TOTAL = "Total Op Info"


def databases(cycle: Cycle, slots: tuple[str, ...]) -> Iterator[Artifact]:
    """Yield the databases of these slots that are there."""
    for slot in slots:
        if slot in cycle.artifacts:
            yield cycle.artifacts[slot]


def table_frame(artifact: Artifact, table: str, *columns: str) -> pl.DataFrame | None:
    """Return a table with at least these columns, or None where the database has no such table.

    A column in which every cell is NULL may be absent from what was read; it comes back as one of nulls.
    """
    import polars as pl

    if table not in artifact.content.tables:
        return None
    frame = artifact.content.tables[table].frame
    return frame.with_columns(
        pl.lit(None, dtype=pl.String).alias(name) for name in columns if name not in frame.columns
    )


def integers(frame: pl.DataFrame, column: str) -> pl.Series:
    """Return a column as exact Int64; times are integers, or integers in text."""
    import polars as pl

    return frame[column].str.strip_chars('"').cast(pl.Int64, strict=False)


def broken_rows(
    artifact: Artifact, table: str, frame: pl.DataFrame, broken: pl.Series, code: Code, message: Callable[[Any], str]
) -> Iterator[Finding]:
    """Yield a finding for every row of a table where `broken` is true; `message` is called with the row of `frame`."""
    numbers = broken.fill_null(False).arg_true()
    rows = numbers.head(WORDED_ROWS).to_list()
    place = artifact.content.tables[table].place
    yield from disagreements(
        code,
        ((f"{artifact.place}{place(row)}", message(frame.row(row, named=True))) for row in rows),
        count=len(numbers),
        place=f"{artifact.place} {table}",
    )


def missing_table(artifact: Artifact, table: str, because: str) -> Finding:
    """Say that a table is missing, and why it should be there."""
    return Finding(code=Code.S102, place=artifact.place, message=f"table '{table}' is missing: {because}")


def row_count(artifact: Artifact | None, table: str) -> int:
    """Return how many rows a table has; none where it is missing."""
    if artifact is None or table not in artifact.content.tables:
        return 0
    return artifact.content.tables[table].frame.height


def texts_of(artifact: Artifact, among: pl.Series | None = None) -> pl.DataFrame:
    """Return STRING_IDS as `id` (as its cells are) and `text`; given some ids, only theirs."""
    import polars as pl

    frame = table_frame(artifact, "STRING_IDS", "id", "value")
    if frame is None:
        return pl.DataFrame(schema={"id": pl.String, "text": pl.String})
    if among is not None:
        frame = frame.filter(pl.col("id").is_in(among.drop_nulls().unique().implode()))
    return frame.select("id", text=unquoted("value")).unique("id", keep="first", maintain_order=True)


def with_text(artifact: Artifact, frame: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    """Return the frame with one more column: the text that an id of STRING_IDS stands for."""
    texts = texts_of(artifact, among=frame[column])
    return frame.join(texts.rename({"id": column, "text": name}), on=column, how="left", maintain_order="left")
