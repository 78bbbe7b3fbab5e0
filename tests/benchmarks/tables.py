"""What reading a large CSV table costs: `python -m tests.benchmarks.tables FILE [--schema NAME] [--rounds 5]`.

Each job runs in a process of its own, the jobs take turns, and the medians of all rounds are shown: CPU seconds without imports
(user and system, all threads), peak RSS of the process, and the CPU seconds as a multiple of those of polars. The jobs:

- polars: reads the columns that the schema says something of, numbers as numbers, streaming
- polars, text: the same columns as texts
- validated: perfguard validates every row
- validated + metrics: and adds the executions up
- all checks: and makes every check of kernel_details alone
- jsonschema: row by row on the first rows, extrapolated to all of them
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

#: How many rows jsonschema is given; it takes as long for each of the rest.
SAMPLE = 2_000


def constrained(header: Sequence[str], rules: dict[str, Any]) -> list[str]:
    """Return the columns of which a schema says more than that they are texts."""
    from perfguard.contract.grammar import ANY_CELL, _cell
    from perfguard.contract.schema import RowSchema, row_schema

    rows = RowSchema(row_schema(rules), rules)
    return [name for name in header if _cell(name, rows) not in (ANY_CELL, f"(?:{ANY_CELL})")]


def polars(path: Path, rules: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    from perfguard.contract.readers.large_comma import read_header

    columns = constrained(read_header(path), rules)
    frame = (
        pl.scan_csv(path, null_values=["N/A"], infer_schema_length=10_000).select(columns).collect(engine="streaming")
    )
    return {"rows": frame.height, "columns": len(columns)}


def polars_text(path: Path, rules: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    from perfguard.contract.readers.large_comma import read_header

    columns = constrained(read_header(path), rules)
    frame = pl.scan_csv(path, infer_schema=False).select(columns).collect(engine="streaming")
    return {"rows": frame.height, "columns": len(columns)}


def _streamed(path: Path, rules: dict[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    from perfguard.contract.folds_of_tables import folds_of
    from perfguard.contract.inspection import _row_rules
    from perfguard.contract.readers.large_comma import Rows, read_header, stream_csv
    from perfguard.contract.schema import row_schema

    header = read_header(path)
    folds = {name: make() for name, make in folds_of("kernel_details").items() if name in names or "*" in names}

    def see(rows: Rows) -> None:
        for fold in folds.values():
            fold.see(rows)

    wanted = [name for name in header if any(fold.wants(name) for fold in folds.values())]
    found = stream_csv(path, _row_rules(row_schema(rules), header), rules, wanted, see)
    assert found.unreadable is None, found.unreadable
    return {"rows": found.rows, "broken": found.broken}, folds


def validated(path: Path, rules: dict[str, Any]) -> dict[str, Any]:
    return _streamed(path, rules, ())[0]


def with_metrics(path: Path, rules: dict[str, Any]) -> dict[str, Any]:
    told, folds = _streamed(path, rules, ("KernelWork",))
    if told["broken"]:
        return told
    work = folds["KernelWork"]
    groups = work.groups()
    return {**told, "groups": groups.height, "calls": groups["calls"].sum(), "total_ns": groups["total_ns"].sum()}


def all_checks(path: Path, rules: dict[str, Any]) -> dict[str, Any]:
    return _streamed(path, rules, ("*",))[0]


def jsonschema(path: Path, rules: dict[str, Any]) -> dict[str, Any]:
    from jsonschema import Draft202012Validator

    from perfguard.contract.schema import RowSchema, row_schema
    from perfguard.contract.table import Cells, cell_value

    rows = RowSchema(row_schema(rules), rules)
    validator = Draft202012Validator(row_schema(rules))
    with path.open(newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        sample = list(islice(reader, SAMPLE))
    began = time.process_time()
    for cells in sample:
        row = {n: cell_value(c, Cells.TEXT, rows.column_types(n)) for n, c in zip(header, cells, strict=True)}
        list(validator.iter_errors(row))
    spent = time.process_time() - began
    with path.open("rb") as raw:
        lines = sum(block.count(b"\n") for block in iter(lambda: raw.read(1 << 22), b"")) - 1
    return {"rows": lines, "cpu_s": spent * lines / len(sample)}


JOBS: dict[str, Callable[[Path, dict[str, Any]], dict[str, Any]]] = {
    "polars": polars,
    "polars, text": polars_text,
    "validated": validated,
    "validated + metrics": with_metrics,
    "all checks": all_checks,
    "jsonschema": jsonschema,
}


def run(job: str, path: Path, name: str) -> dict[str, Any]:
    """Do one job in this process and say what it took."""
    import polars as pl

    import perfguard.contract.folds_of_tables.kernel_checks
    import perfguard.contract.inspection  # noqa: F401
    from perfguard.documents import schema

    # What both import and set up once is not what is asked.
    pl.DataFrame({"a": ["1"]}).lazy().select(pl.col("a").str.contains("x")).collect()
    rules = schema(name)
    before = time.process_time()
    found = JOBS[job](path, rules)
    spent = time.process_time() - before
    return {"cpu_s": spent, **found, "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file", type=Path)
    asked.add_argument("--schema", default="kernel_details.level1")
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    asked.add_argument("--job", choices=list(JOBS), help="do one job in this process and print it as JSON")
    given = asked.parse_args()
    if given.job:
        print(json.dumps(run(given.job, given.file, given.schema)))
        return
    found: dict[str, list[dict[str, Any]]] = {job: [] for job in given.jobs}
    for _ in range(given.rounds):
        for job in given.jobs:
            command = [
                sys.executable,
                "-m",
                "tests.benchmarks.tables",
                str(given.file),
                "--schema",
                given.schema,
                "--job",
                job,
            ]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found[job].append(json.loads(said))
    reference = median(one["cpu_s"] for one in found[given.jobs[0]])
    print(f"{given.file} ({given.file.stat().st_size / 1e6:.0f} MB), {given.rounds} rounds, medians")
    print(f"{'job':22} {'CPU s':>9} {'least':>8} {'most':>8} {'RSS MB':>8} {'ratio':>8}")
    for job, rounds in found.items():
        spent = [one["cpu_s"] for one in rounds]
        rss = median(one["rss_mb"] for one in rounds)
        told = {key: one for key, one in rounds[0].items() if key not in ("cpu_s", "rss_mb")}
        print(
            f"{job:22} {median(spent):9.3f} {min(spent):8.3f} {max(spent):8.3f} {rss:8.0f} "
            f"{median(spent) / reference:8.2f}  {told}"
        )


if __name__ == "__main__":
    main()
