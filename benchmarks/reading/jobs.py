"""What is measured, one small function a job, each run in a fresh process: python -m benchmarks.reading.jobs JOB PATH ...

A job imports what it needs, says `work_begins()`, and returns what it found, which is printed as one line of JSON: so that
figures of the same work can be told from figures of other work. `cpu_before_s` is what start-up and imports had taken.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

_cpu_before_s = 0.0


def work_begins() -> None:
    """Note what start-up and imports have taken so far."""
    global _cpu_before_s
    _cpu_before_s = time.process_time()


# -- plain parsers ---------------------------------------------------------------------------------------------------


def plain_json(path: Path) -> dict[str, Any]:
    """`json.load`: every object in memory, nothing checked."""
    opened = _opener(path)
    work_begins()
    with opened(path, "rb") as file:
        return {"rows": _count(json.load(file))}


def orjson_loads(path: Path) -> dict[str, Any]:
    """`orjson.loads` of the whole file, with the garbage collector as it is: every object in memory, nothing checked."""
    import orjson

    opened = _opener(path)
    work_begins()
    with opened(path, "rb") as file:
        return {"rows": _count(orjson.loads(file.read()))}


def polars_columns(path: Path, schema_name: str) -> dict[str, Any]:
    """polars reads the columns that the schema says more of than that they are texts, numbers as numbers, in a stream."""
    import polars as pl

    from perfguard.artifacts.grammar import ANY_CELL, _cell
    from perfguard.artifacts.schema import RowSchema, row_schema

    rules = _rules(schema_name)
    rows = RowSchema(row_schema(rules), rules)
    columns = [name for name in _header(path) if _cell(name, rows) not in (ANY_CELL, f"(?:{ANY_CELL})")]
    work_begins()
    scanned = pl.scan_csv(path, null_values=["N/A"], infer_schema_length=10_000)
    return {"rows": scanned.select(columns).collect(engine="streaming").height}


def polars_text(path: Path) -> dict[str, Any]:
    """polars reads every column of a table as text, in a stream that keeps nothing."""
    import polars as pl

    work_begins()
    counted = pl.scan_csv(path, infer_schema=False).select(pl.len(), pl.all().null_count()).collect(engine="streaming")
    return {"rows": counted["len"].item()}


# -- jsonschema, row by row, on a sample -----------------------------------------------------------------------------


def jsonschema_rows(path: Path, schema_name: str, sample: str) -> dict[str, Any]:
    """Check the first rows of a table one by one with jsonschema; `sampled` says how many, so that it can be extrapolated."""
    import csv

    from jsonschema import Draft202012Validator

    rules = _rules(schema_name)
    validator = Draft202012Validator(rules["items"])
    work_begins()
    bad = sampled = 0
    with path.open(newline="", encoding="utf-8") as file:
        for row in islice(csv.DictReader(file), int(sample)):
            bad += any(True for _ in validator.iter_errors({name: _value(cell) for name, cell in row.items()}))
            sampled += 1
    return {"sampled": sampled, "bad": bad}


def jsonschema_events(path: Path, schema_name: str, sample: str) -> dict[str, Any]:
    """Read a trace with orjson and check its first events one by one with jsonschema."""
    import orjson
    from jsonschema import Draft202012Validator

    rules = _rules(schema_name)
    items = rules["items"] if "items" in rules else rules["$defs"]["event"]
    validator = Draft202012Validator(items)
    document = orjson.loads(path.read_bytes())
    work_begins()
    events = document["traceEvents"] if isinstance(document, dict) else document
    checked = events[: int(sample)]
    bad = sum(any(True for _ in validator.iter_errors(event)) for event in checked)
    return {"sampled": len(checked), "bad": bad}


# -- perfguard -------------------------------------------------------------------------------------------------------


def perfguard_trace(path: Path, schema_name: str) -> dict[str, Any]:
    """Every event of a trace checked against its schema; per operator count, total and self time; steps."""
    import re

    import numpy as np

    from perfguard.artifacts.nesting import nest
    from perfguard.artifacts.readers.event_schema import compiled
    from perfguard.artifacts.readers.events import Events
    from perfguard.artifacts.readers.trace import stream_trace
    from perfguard.artifacts.schema import row_schema
    from perfguard.artifacts.table_definitions import NULL, TABLES
    from perfguard.artifacts.tables import batch
    from perfguard.documents import schema

    work_begins()
    rules = schema(schema_name)
    names: list[str] = []
    with batch() as tables:

        def consume(events: Events) -> None:
            complete = events.of("X")
            times, lasts = complete.times("ts"), complete.times("dur")
            known = np.flatnonzero(times.is_known & lasts.is_known)
            columns = dict.fromkeys(TABLES["spans"], np.full(len(known), NULL, np.int64)) | {
                "row": complete.rows[known], "name": complete.names[known].astype(np.int64),
                "thread": complete.threads[known].astype(np.int64),
                "start_ns": times.ns[known], "duration_ns": lasts.ns[known],
            }  # fmt: skip
            tables.add("spans", 0, **{name: column for name, column in columns.items() if name != "cycle"})
            names[:] = events.vocabulary.names

        found = stream_trace(path, compiled(row_schema(rules), rules, {}), consume)
        assert found.unreadable is None, found.unreadable
        tables.hand_over()
        nest(tables, "(select *, true as is_work from spans)", {0: ()})
        tables.hand_over()
        operators = tables.execute(
            "select name, count(*), sum(duration_ns)::bigint, sum(self_ns)::bigint from nesting group by name"
        )
    steps = [(calls, total) for name, calls, total, _ in operators if re.fullmatch(r"ProfilerStep#[0-9]+", names[name])]
    return {
        "rows": found.rows,
        "bad": found.broken,
        "worded": len({error.row for error in found.errors}),
        "operators": len(operators),
        "calls": sum(calls for _, calls, _, _ in operators),
        "total_ns": sum(total for _, _, total, _ in operators),
        "self_ns": sum(own for _, _, _, own in operators),
        "steps": len(steps),
        "steps_ns": sum(total for _, total in steps),
    }


def perfguard_table(path: Path, schema_name: str) -> dict[str, Any]:
    """Every row of a table checked against its schema."""
    return _streamed(path, schema_name)


def perfguard_table_metrics(path: Path, schema_name: str) -> dict[str, Any]:
    """Every row of a kernel_details.csv checked against its schema; count and time of every operator, time of every step."""
    from perfguard.artifacts.kernel_rows import KernelRows
    from perfguard.artifacts.tables import batch
    from perfguard.dialects.queries import definitions, named_texts

    with batch(definitions(frozenset({"pt-npu"})), named_texts(), size=path.stat().st_size) as tables:
        told = _streamed(path, schema_name, KernelRows(tables, 0))
        tables.hand_over()
        groups = tables.columns(
            "select type, number, sum(calls) as calls, sum(total_ns) as ns from fill_kernel_sums group by all"
        )
    return {
        **told,
        "operators": len(set(groups["type"].tolist())),
        "calls": int(groups["calls"].sum()),
        "total_ns": int(groups["ns"].sum()),
        "steps": len(set(groups["number"].tolist())),
    }


def _streamed(path: Path, schema_name: str, rows: Any = None) -> dict[str, Any]:
    """Let the rows go by, into `rows` as far as it wants their columns; returns how many there were."""
    from perfguard.artifacts.readers.csv_stream import read_header, stream_csv
    from perfguard.artifacts.schema import row_schema
    from perfguard.contract.conformity import rules_under

    rules = _rules(schema_name)
    work_begins()
    header = read_header(path)
    wanted = [name for name in header if rows is not None and rows.reads(name)]
    consume = rows.consume if rows is not None else lambda block: None
    found = stream_csv(path, rules_under(row_schema(rules), header), rules, wanted, consume)
    assert found.unreadable is None, found.unreadable
    return {"rows": found.rows, "bad": found.broken}


def perfguard_readers(path: Path, schema_name: str) -> dict[str, Any]:
    """The readers alone on every trace of a directory, one after the other: what checking them all must cost at least."""
    from perfguard.artifacts.readers.event_schema import compiled
    from perfguard.artifacts.readers.trace import stream_trace
    from perfguard.artifacts.schema import row_schema

    work_begins()
    rules = _rules(schema_name)
    events = compiled(row_schema(rules), rules, {})
    rows = bad = 0
    for file in sorted(path.iterdir()):
        found = stream_trace(file, events, lambda _: None)
        assert found.unreadable is None, found.unreadable
        bad += found.broken
        rows += found.rows
    return {"rows": rows, "bad": bad}


def _opener(path: Path) -> Callable[..., Any]:
    if path.suffix != ".gz":
        return open
    import gzip

    return gzip.open


def _count(document: Any) -> int:
    return len(document["traceEvents"] if isinstance(document, dict) else document)


def _rules(schema_name: str) -> dict[str, Any]:
    schemas = Path(__file__).parents[2] / "schemas"
    found: dict[str, Any] = json.loads((schemas / f"{schema_name}.schema.json").read_text(encoding="utf-8"))
    return found


def _header(path: Path) -> list[str]:
    import csv

    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def _value(cell: str) -> Any:
    """Return a number where the text of a cell is one."""
    text = cell.rstrip("\t")
    if not text:
        return None if not cell else text
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return cell


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    one.__name__: one
    for one in (
        plain_json,
        orjson_loads,
        polars_columns,
        polars_text,
        jsonschema_rows,
        jsonschema_events,
        perfguard_trace,
        perfguard_table,
        perfguard_table_metrics,
        perfguard_readers,
    )
}


if __name__ == "__main__":
    found = JOBS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
    print(json.dumps({"cpu_before_s": _cpu_before_s, **found}))
