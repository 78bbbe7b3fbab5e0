"""Communication: what collectives and links did, per rank, and how far the ranks are apart."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.schema import row_schema
from perfguard.documents import schema
from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, cycle_metric, ranked_metric, shown

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract import Cycle
    from perfguard.measure.taking import Taking

_TOTAL = "Total Op Info"
#: Databases that hold the same as communication.json and step_trace_time.csv.
_ANALYSES = ("analysis", "communication_analyzer")
_KIND = re.compile(r"^(?P<kind>.*?)(?:_{2}\d.*|@.*|-op\d+.*|\.\d+.*)?$")


@cycle_metric(
    Metric(
        name="communication_calls",
        unit="calls/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How often a collective or a send ran in a step.",
    ),
    needs=("communication", "hccl_raw", *_ANALYSES),
)
def communication_calls(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Calls of each kind, the mean of the steps (whole where they agree)."""
    steps = _steps(cycle)
    counts: dict[str, int] = defaultdict(int)
    for ops in steps:
        for name in ops:
            counts[kind_of(name)] += 1
    for kind, count in sorted(counts.items()):
        yield kind, count // len(steps) if count % len(steps) == 0 else count / len(steps)


@cycle_metric(
    shown("communication_time", "us/step", "Time of a kind of collective in a step, from its start to its end."),
    needs=("communication", "hccl_raw", *_ANALYSES),
)
def communication_time(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Elapsed time of all calls of a kind; a sample a step."""
    yield from _by_kind(cycle, "elapse_us")


@cycle_metric(
    shown("communication_wait", "us/step", "How much of it a rank waited for the others."),
    needs=("communication", "hccl_raw", *_ANALYSES),
)
def communication_wait(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Waiting time of all calls of a kind; a sample a step."""
    yield from _by_kind(cycle, "wait_us")


@cycle_metric(
    Metric(
        name="communication_size",
        unit="MB/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How much went over a kind of link (HCCS, RDMA, PCIE, SDMA) in a step.",
    ),
    needs=("communication", *_ANALYSES),
)
def communication_size(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Transit Size of all calls, the mean of the steps."""
    for link, (size, _, steps) in _links(cycle).items():
        if size:
            yield link, round(size / steps, 6)


@cycle_metric(
    shown("communication_bandwidth", "GB/s", "Size over time of a kind of link.", better=Better.HIGHER),
    needs=("communication", *_ANALYSES),
)
def communication_bandwidth(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """All sizes over all times of the window; MB/ms is GB/s."""
    for link, (size, time, _) in _links(cycle).items():
        if time:
            yield link, round(size / time, 4)


@cycle_metric(
    shown(
        "step_part_time", "us", "Parts of a step on the device: computing, communication, overlapped, free, bubble, ..."
    ),
    needs=("step_trace_time", "step_trace_raw", "cluster_step_trace_time", *_ANALYSES),
)
def step_part_time(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """A sample a step; of a cluster's file each rank is a subject of its own."""
    for subject, samples in sorted(_step_parts(cycle).items()):
        yield subject, tuple(samples)


@ranked_metric(
    shown("rank_spread", "ratio", "Slowest rank over fastest rank: of operators, computing and communication.")
)
def rank_spread(takings: Sequence[Taking]) -> Iterator[tuple[str, Measured]]:
    """Sums over the window. A large spread of communication is mostly waiting for the rank that computes longest."""
    sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for taking in takings:
        if taking.executions is not None:
            sums["operators"][taking.rank] += float(taking.executions.groups["self_ns"].sum())
        # Parts of the cluster's own file are subjects of other names.
        for part, samples in taking.values.get(step_part_time.__name__, ()):
            if part in ("computing", "communication"):
                sums[part][taking.rank] += sum(samples)
    for part, by_rank in sums.items():
        if len(by_rank) > 1 and min(by_rank.values()) > 0:
            yield part, round(max(by_rank.values()) / min(by_rank.values()), 4)


@ranked_metric(shown("collective_wait", "us/step", "How long a rank waited for the last one to come to a collective."))
def collective_wait(takings: Sequence[Taking]) -> Iterator[tuple[str, Measured]]:
    """What a rank's call lasted beyond the shortest of the same call on any rank, whose rank came last and waited for none."""
    for rank, kind, calls in _collectives(takings):
        yield f"rank{rank}:{kind}", round(sum(own - least for own, least in calls) / 1e3, 3)


@ranked_metric(shown("collective_transfer", "us/step", "How long a collective took once all ranks had come."))
def collective_transfer(takings: Sequence[Taking]) -> Iterator[tuple[str, Measured]]:
    """The shortest duration of each call on any rank. It is the same for every rank."""
    told = set()
    for _, kind, calls in _collectives(takings):
        if kind not in told:
            told.add(kind)
            yield kind, round(sum(least for _, least in calls) / 1e3, 3)


def _collectives(takings: Sequence[Taking]) -> Iterator[tuple[int, str, list[tuple[float, float]]]]:
    """Yield (rank, kind, [(own duration, shortest of the ranks)] in ns a step) where all ranks called it equally often."""
    calls: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    steps: dict[int, int] = defaultdict(int)
    for taking in takings:
        steps[taking.rank] += (taking.executions.steps if taking.executions is not None else None) or 0
        # In the order of their starts: the n-th of a kind is the same call on every rank.
        if taking.executions is not None:
            for kind, duration_ns in taking.executions.collectives.select("operator", "duration_ns").iter_rows():
                calls[kind][taking.rank].append(duration_ns)
    if len(set(steps.values())) != 1 or not min(steps.values(), default=0):
        return
    count = min(steps.values())
    for kind, by_rank in sorted(calls.items()):
        if by_rank.keys() != steps.keys() or len({len(durations) for durations in by_rank.values()}) > 1:
            continue
        least = [min(of_ranks) for of_ranks in zip(*by_rank.values(), strict=True)]
        for rank, durations in sorted(by_rank.items()):
            yield rank, kind, [(own / count, one / count) for own, one in zip(durations, least, strict=True)]


def kind_of(name: str) -> str:
    """Return `hcom_allReduce` of `hcom_allReduce__586_0_1@17522`, `AllReduce` of `AllReduce-op33`."""
    found = _KIND.match(name)
    return (found["kind"] if found else "") or name


def _by_kind(cycle: Cycle, part: str) -> Iterator[tuple[str, Measured]]:
    samples: dict[str, list[float]] = defaultdict(list)
    for ops in _steps(cycle):
        of_step: dict[str, float] = defaultdict(float)
        for name, times in ops.items():
            of_step[kind_of(name)] += times[part]
        for kind, total in of_step.items():
            samples[kind].append(round(total, 3))
    for kind in sorted(samples):
        yield kind, tuple(samples[kind])


def _steps(cycle: Cycle) -> list[dict[str, dict[str, float]]]:
    """Return for every step its operators with elapsed and waiting time in us."""
    content = cycle.content("communication")
    if content is not None:
        return [
            {
                name: {
                    "elapse_us": one["Communication Time Info"]["Elapse Time(ms)"] * 1e3,
                    "wait_us": one["Communication Time Info"]["Wait Time(ms)"] * 1e3,
                }
                for group in ("p2p", "collective")
                for name, one in step.get(group, {}).items()
                if name != _TOTAL
            }
            for step in content.document.values()
        ]
    if (table := _database_table(cycle, "CommAnalyzerTime")) is not None:
        return _steps_of_database(table)
    artifact = cycle.artifacts.get("hccl_raw")
    if artifact is None:
        return []
    # Milliseconds up to 2.0, microseconds from 2.1 on: the schema it keeps says which.
    cost = row_schema(schema(artifact.schema))["properties"]["communication_cost"] if artifact.schema else {}
    scale = 1.0 if cost.get("x-unit") == "us" else 1e3
    frame = artifact.content.frame
    return [
        {
            name: {"elapse_us": float(cost[1]) * scale, "wait_us": float(cost[2]) * scale}
            for name, cost in json.loads(text).items()
        }
        for number, text in zip(
            frame["step_num"].to_list(), frame["communication_operator_cost"].to_list(), strict=True
        )
        if number != "-"
    ]


def _database_table(cycle: Cycle, name: str) -> pl.DataFrame | None:
    """Return a table of the analysis databases, with its texts unquoted."""
    import polars as pl

    from perfguard.artifacts.table import unquoted

    for slot in _ANALYSES:
        content = cycle.content(slot)
        if content is not None and name in content.tables:
            frame = content.tables[name].frame
            texts = [c for c in ("step", "hccl_op_name", "group_name", "transport_type") if c in frame.columns]
            quoted = (
                pl.all().exclude(texts),
                *(
                    pl.when(pl.col(c).str.starts_with('"')).then(unquoted(c)).otherwise(pl.col(c)).alias(c)
                    for c in texts
                ),
            )
            return frame.select(*quoted)
    return None


def _steps_of_database(table: pl.DataFrame) -> list[dict[str, dict[str, float]]]:
    from perfguard.artifacts.table import as_float64

    steps: dict[str, dict[str, dict[str, float]]] = {}
    elapse, wait = as_float64(table["elapse_time"]).to_list(), as_float64(table["wait_time"]).to_list()
    names = zip(table["step"].to_list(), table["hccl_op_name"].to_list(), table["group_name"].to_list(), strict=True)
    for (step, name, group), elapsed_ms, waited_ms in zip(names, elapse, wait, strict=True):
        if name != _TOTAL:
            of_step = steps.setdefault(step, {})
            of_step[f"{name}@{group}"] = {"elapse_us": (elapsed_ms or 0) * 1e3, "wait_us": (waited_ms or 0) * 1e3}
    return list(steps.values())


def _links_of_database(table: pl.DataFrame) -> dict[str, tuple[float, float, int]]:
    """Sum sizes and times; a link of an operation has a row for each size of its packets, all with the same total."""
    import polars as pl

    from perfguard.artifacts.table import as_float64

    once = table.filter(pl.col("hccl_op_name") != _TOTAL).unique(
        ["step", "hccl_op_name", "group_name", "transport_type"], keep="first", maintain_order=True
    )
    sizes, times = as_float64(once["transit_size"]).to_list(), as_float64(once["transit_time"]).to_list()
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for link, size, time in zip(once["transport_type"].to_list(), sizes, times, strict=True):
        found[link][0] += size or 0
        found[link][1] += time or 0
    steps = table["step"].n_unique()
    return {link: (size, time, steps) for link, (size, time) in found.items()}


def _links(cycle: Cycle) -> dict[str, tuple[float, float, int]]:
    """Return size [MB], time [ms] and number of steps for every kind of link."""
    content = cycle.content("communication")
    if content is None:
        table = _database_table(cycle, "CommAnalyzerBandwidth")
        return {} if table is None else _links_of_database(table)
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    steps: list[dict[str, Any]] = list(content.document.values())
    for step in steps:
        for group in ("p2p", "collective"):
            for name, one in step.get(group, {}).items():
                for link, info in one.get("Communication Bandwidth Info", {}).items() if name != _TOTAL else ():
                    found[link][0] += info["Transit Size(MB)"]
                    found[link][1] += info["Transit Time(ms)"]
    return {link: (size, time, len(steps)) for link, (size, time) in found.items()}


_PARTS = {
    "Computing": "computing",
    "Communication": "communication",
    "Communication(Not Overlapped)": "communication_not_overlapped",
    "Overlapped": "overlapped",
    "Free": "free",
    "Stage": "stage",
    "Bubble": "bubble",
    "Preparing": "preparing",
}
_RAW_PARTS = ("total", "iteration_interval", "fp_and_bp", "tail")


def _step_parts(cycle: Cycle) -> dict[str, list[float]]:
    from perfguard.artifacts.table import as_float64

    found: dict[str, list[float]] = {}
    for slot in ("step_trace_time", "cluster_step_trace_time"):
        if (content := cycle.content(slot)) is None:
            continue
        frame = content.frame
        kinds = frame["Type"].to_list() if "Type" in frame.columns else [""] * frame.height
        indices = frame["Index"].to_list() if "Index" in frame.columns else [""] * frame.height
        for column, part in _PARTS.items():
            if column not in frame.columns:
                continue
            for kind, index, value in zip(kinds, indices, as_float64(frame[column]).to_list(), strict=True):
                if value is not None:
                    found.setdefault(f"{kind}{index}:{part}" if kind else part, []).append(round(value, 3))
    if not found and (table := _database_table(cycle, "StepTraceTime")) is not None:
        for part in _PARTS.values():
            if part in table.columns:
                found[part] = [round(value, 3) for value in as_float64(table[part]).to_list() if value is not None]
    if (content := cycle.content("step_trace_raw")) is not None:
        frame = content.frame
        # The last row is the average of the others; times are counts of 10 ns.
        rows = [index for index, number in enumerate(frame["step_num"].to_list()) if number not in ("-", "0")]
        for part in _RAW_PARTS:
            if part in frame.columns:
                values = as_float64(frame[part]).gather(rows).drop_nulls().to_list()
                if values:
                    found[part] = [round(value / 100, 3) for value in values]
    return found
