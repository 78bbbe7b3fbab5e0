"""What must agree across MindData's files: the pipeline, its analysis, and the times of the batches.

Each held on real output of MindSpore 2.0 and 2.10 on CPU; the formulas are those of minddata_analyzer.py (2.0) and
ms_minddata_viewer.py (2.10). Numbers the writers round to two or three decimals are compared to one unit of the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_int64, json_value, number_of
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle

#: Half a unit of the second and the third decimal, and a little for the float itself.
_HUNDREDTH = 0.0051
_THOUSANDTH = 0.00051

#: Lists of the summary that have one entry an operator.
_LISTS_BY_OPERATOR = (
    "op_names",
    "pipeline_ops",
    "num_workers",
    "queue_average_size",
    "queue_utilization_pct",
    "queue_empty_freq_pct",
    "children_ids",
    "parent_id",
)


# -- the pipeline --------------------------------------------------------------------------------------------------------


@invariant(needs=("pipeline_profiling", "minddata_pipeline_raw"))
def the_raw_table_is_the_pipeline(cycle: Cycle) -> Iterator[Finding]:
    """Every row repeats type, workers, samples, length and interval; there is a row for the root and every queue. Exact."""
    artifact, other = cycle.artifacts["minddata_pipeline_raw"], cycle.artifacts["pipeline_profiling"]
    document, frame = other.content.document, artifact.content.frame
    operators = {one["op_id"]: one for one in document["op_info"]}
    types = {number_of(number): kind for number, kind in frame.select("op_id", "op_type").iter_rows()}
    if types and all(operators.get(number, {}).get("op_type") != kind for number, kind in types.items()):
        message = f"no operator has the type it has in {other.path.name}: the two are not of one run"
        yield Finding(code=Code.I113, place=artifact.place, message=message)
        return
    wrong = []
    for row, cells in enumerate(frame.iter_rows(named=True)):
        operator = operators.get(number_of(cells["op_id"]))
        if operator is None:
            wrong.append((_at(artifact, row), f"operator {cells['op_id']} is not in {other.path.name}"))
            continue
        queue = _queue(operator)
        pairs = {
            "op_type": (cells["op_type"], operator["op_type"]),
            "num_workers": (number_of(cells["num_workers"]), operator["num_workers"]),
            "sample_interval": (number_of(cells["sample_interval"]), document["sampling_interval"]),
            "output_queue_size": (_numbers(cells["output_queue_size"]), queue.get("size", [])),
            "output_queue_length": (number_of(cells["output_queue_length"]), queue.get("length")),
        }
        wrong += [
            (
                _at(artifact, row),
                f"operator {cells['op_id']}: {key} {_short(here)} here, {_short(there)} in {other.path.name}",
            )
            for key, (here, there) in pairs.items()
            if here != there
        ]
    rows = {number_of(text) for text in frame["op_id"].to_list()}
    wrong += [
        (artifact.place, f"operator {one} of {other.path.name} has a queue and no row here")
        for one in sorted(_below_root(operators) - rows)
    ]
    yield from disagreements(Code.I111, wrong)


# -- the summary ---------------------------------------------------------------------------------------------------------


@invariant(needs=("minddata_pipeline_summary_json",))
def the_summary_agrees_with_itself(cycle: Cycle) -> Iterator[Finding]:
    """One entry an operator in every list, `Name(id=N)`, parents are those that name the child, CPU per worker. Exact.

    Lists of CPU use may speak of fewer operators; avg_cpu_pct_per_worker is written only where they do not.
    """
    yield from _summary_findings(cycle.artifacts["minddata_pipeline_summary_json"])


@invariant(needs=("minddata_pipeline_summary_csv",))
def the_summary_table_agrees_with_itself(cycle: Cycle) -> Iterator[Finding]:
    """The same of the CSV form."""
    yield from _summary_findings(cycle.artifacts["minddata_pipeline_summary_csv"])


@invariant(needs=("minddata_pipeline_summary_json", "minddata_pipeline_summary_csv"))
def both_summaries_say_the_same(cycle: Cycle) -> Iterator[Finding]:
    """The CSV and the JSON summary hold the same keys and values; only the order of keys may differ. Exact."""
    artifact, other = (cycle.artifacts[f"minddata_pipeline_summary_{form}"] for form in ("csv", "json"))
    here, there = artifact.content.document, other.content.document
    wrong = [
        (artifact.place, f"{key}: {_short(here.get(key))} here, {_short(there.get(key))} in {other.path.name}")
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
    ]
    yield from disagreements(Code.I111, wrong)


@invariant(needs=("pipeline_profiling", "minddata_pipeline_summary_json"))
def the_summary_follows_from_the_pipeline(cycle: Cycle) -> Iterator[Finding]:
    """Operators, workers and queues of the summary are those sampled.

    Average = mean, rounded; utilisation = 100 * that / length; empty = share of samples that are 0; all to two decimals.
    """
    artifact, other = cycle.artifacts["minddata_pipeline_summary_json"], cycle.artifacts["pipeline_profiling"]
    summary = artifact.content.document
    operators = sorted(other.content.document["op_info"], key=lambda one: one["op_id"])
    ids = [one["op_id"] for one in operators]
    if summary["op_ids"] != ids:
        message = f"op_ids {_short(summary['op_ids'])} here, {_short(ids)} in {other.path.name}"
        yield Finding(code=Code.I111, place=f"{artifact.place} $.op_ids", message=message)
        return
    wrong: list[tuple[Code, str, int, Any, Any]] = []
    for index, one in enumerate(operators):
        for key, expected in (("op_names", one["op_type"][:-2]), ("num_workers", one["num_workers"])):
            if (here := _entry(summary, key, index)) != expected:
                wrong.append((Code.I111, key, index, here, expected))
        for key, value in _queue_numbers(_queue(one)).items():
            here = _entry(summary, key, index)
            if here is not None and abs(here - value) > _HUNDREDTH:
                wrong.append((Code.I105, key, index, here, value))
    for code, key, index, here, value in wrong:
        message = f"operator {ids[index]}: {key} {here} here, {value} follows from {other.path.name}"
        yield Finding(code=code, place=f"{artifact.place} $.{key}[{index}]", message=message)


@invariant(needs=("minddata_pipeline_summary_json", "dataset_iterator_profiling"))
def the_mean_times_follow_from_the_batches(cycle: Cycle) -> Iterator[Finding]:
    """per_*_time = mean over all batches but the first, to three decimals.

    Without data sink per_batch_time is the mean of two series together, the times of the batches and the differences of
    their time stamps: so both versions of the writer compute it.
    """
    if "device_queue_profiling" not in cycle.artifacts:
        yield from _mean_times(cycle, "dataset_iterator_profiling", sink=False)


@invariant(needs=("minddata_pipeline_summary_json", "device_queue_profiling"))
def the_mean_times_follow_from_the_device_queue(cycle: Cycle) -> Iterator[Finding]:
    """The same in data sink mode, where per_batch_time is the mean of the batches' own times."""
    yield from _mean_times(cycle, "device_queue_profiling", sink=True)


# -- parts ---------------------------------------------------------------------------------------------------------------


def _summary_findings(artifact: Artifact) -> Iterator[Finding]:
    summary = artifact.content.document
    ids = summary["op_ids"]
    if ids != sorted(set(ids)):
        message = f"{_short(ids)} is not ascending, or an operator is there twice"
        yield Finding(code=Code.I114, place=f"{artifact.place} $.op_ids", message=message)
    lists = [*_LISTS_BY_OPERATOR, *(("avg_cpu_pct",) if "avg_cpu_pct_per_worker" in summary else ())]
    lists += ["avg_cpu_pct_per_worker"] if "avg_cpu_pct_per_worker" in summary else []
    lengths = {key: len(summary[key]) for key in lists if key in summary}
    odd = [
        (f"{artifact.place} $.{key}", f"{length} entries for {len(ids)} operators")
        for key, length in lengths.items()
        if length != len(ids)
    ]
    yield from disagreements(Code.I111, odd)
    if odd:
        return
    wrong: list[tuple[str, int, str]] = []
    parents_of: dict[int, set[int]] = {}
    for one, children in zip(ids, summary["children_ids"], strict=True):
        for child in children:
            parents_of.setdefault(child, set()).add(one)
    for index, one in enumerate(ids):
        label = f"{summary['op_names'][index]}(id={one})"
        if summary["pipeline_ops"][index] != label:
            wrong.append(("pipeline_ops", index, f"{summary['pipeline_ops'][index]} here, {label} by name and number"))
        parent, named = summary["parent_id"][index], parents_of.get(one, {-1})
        if parent not in named:
            wrong.append(("parent_id", index, f"{label} has the parent {parent}, but is a child of {sorted(named)}"))
        wrong += [
            ("children_ids", index, f"{label} has the child {child}, which is not there")
            for child in summary["children_ids"][index]
            if child not in ids
        ]
    yield from disagreements(Code.I111, [(f"{artifact.place} $.{key}[{i}]", text) for key, i, text in wrong])
    shares = [
        (
            f"{artifact.place} $.avg_cpu_pct_per_worker[{index}]",
            f"{each} here, {whole} / {workers} workers gives {value}",
        )
        for index, (each, whole, workers) in enumerate(
            zip(summary.get("avg_cpu_pct_per_worker", ()), summary["avg_cpu_pct"], summary["num_workers"], strict=False)
        )
        if abs(each - (value := round(whole / workers, 2) if workers and whole >= 0 else -1)) > _HUNDREDTH
    ]
    yield from disagreements(Code.I105, shares)


def _mean_times(cycle: Cycle, slot: str, *, sink: bool) -> Iterator[Finding]:
    import polars as pl

    artifact, other = cycle.artifacts["minddata_pipeline_summary_json"], cycle.artifacts[slot]
    summary = artifact.content.document
    if "ts" not in other.content.frame.columns or "per_pipeline_time" not in summary:
        return
    frame = _batches(other)
    later = frame.filter(pl.col("batch_num") >= 2)
    times = later.filter(pl.col("type") == 0)
    batch = times.filter(pl.col("extra") == 2)["value"]
    if not sink:
        ends = frame.filter((pl.col("type") == 1) | (pl.col("batch_num") < 2))
        ends = ends.select("batch_num", "ts", since=pl.col("ts") - pl.col("ts").shift(1).fill_null(0))
        batch = pl.concat([batch, ends.filter(pl.col("batch_num") >= 2)["since"]])
    series = {
        "per_pipeline_time": times.filter(pl.col("extra") == 0)["value"],
        "per_push_queue_time": times.filter(pl.col("extra") == 1)["value"],
        "per_batch_time": batch,
    }
    for key, values in series.items():
        mean = values.sum() / len(values) if len(values) else -1
        if abs(summary[key][0] - mean) > _THOUSANDTH:
            message = f"{summary[key][0]} ms here, the batches in {other.path.name} give {mean:.3f} ms"
            yield Finding(code=Code.I105, place=f"{artifact.place} $.{key}[0]", message=message)


def _batches(artifact: Artifact) -> pl.DataFrame:
    """Return the lines as numbers, with the row, the time of the line before and the number of the batch's group."""
    import polars as pl

    frame = artifact.content.frame
    frame = frame.with_columns(as_int64(frame[name]) for name in frame.columns).with_row_index("row")
    begins = (pl.col("batch_num") != pl.col("batch_num").shift(1)).fill_null(True)
    frame = frame.with_columns(group=begins.cum_sum())
    return frame.with_columns(before=pl.col("ts").shift(1)) if "ts" in frame.columns else frame


def _queue(operator: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the output queue of an operator of pipeline_profiling, empty where it has none."""
    return (operator.get("metrics") or {}).get("output_queue") or {}


def _queue_numbers(queue: Mapping[str, Any]) -> dict[str, float]:
    sizes, length = queue.get("size"), queue.get("length")
    if not sizes:
        return dict.fromkeys(("queue_average_size", "queue_utilization_pct", "queue_empty_freq_pct"), -1)
    average = round(sum(sizes) / len(sizes), 2)
    return {
        "queue_average_size": average,
        "queue_utilization_pct": round(100 * average / length, 2) if length else -1,
        "queue_empty_freq_pct": round(100 * sizes.count(0) / len(sizes), 2),
    }


def _below_root(operators: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """Return the root and every operator with a queue that can be reached from it."""
    waiting, seen = [0] if 0 in operators else [], set[int]()
    while waiting:
        one = waiting.pop()
        if one not in seen and one in operators:
            seen.add(one)
            waiting += operators[one].get("children") or ()
    return {one for one in seen if one == 0 or _queue(operators[one])}


def _entry(summary: Mapping[str, Any], key: str, index: int) -> Any:
    values = summary[key]
    return values[index] if index < len(values) else None


def _numbers(text: str | None) -> list[Any]:
    """Return the list a cell holds; the schema has seen to it that it is one, or blank."""
    found: list[Any] = json_value(text) if text else []
    return found


def _at(artifact: Artifact, row: int) -> str:
    table = artifact.content.table
    assert table is not None
    return f"{artifact.place}{table.place(row)}"


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
