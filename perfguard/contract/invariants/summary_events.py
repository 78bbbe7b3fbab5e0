"""What must hold in MindSpore's summary files and in the configuration of a dynamic profiler."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from perfguard.contract.invariants import invariant
from perfguard.contract.invariants.disagreement import disagreeing_rows
from perfguard.contract.table import as_float64, as_int64
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.contract.inspection import Artifact, Cycle


@invariant(needs=("summary_events",))
def summary_files_are_in_order(cycle: Cycle) -> Iterator[Finding]:
    """The first record says the version, and only it; steps and wall times of collected values do not go back. Exact.

    Wall times of the version, the graph and of lineage are taken when a worker process packs them, so they may.
    Source: MindSpore 2.0 and 2.10, real output and train/summary/_writer_pool.py.
    """
    for artifact in _files(cycle, "summary_events"):
        frame = artifact.content.frame
        if frame["kind"][0] != "version":
            message = f"the first record is {frame['kind'][0]}, not the version"
            yield Finding(code=Code.I111, place=f"{artifact.place}:1", message=message)
        again = frame["kind"] == "version"
        again[0] = False
        yield from disagreeing_rows(artifact, again, Code.I114, lambda row: "the version is said a second time")
        collected = frame["kind"] == "summary"
        for column, numbers in (("step", as_int64(frame["step"])), ("wall_time", as_float64(frame["wall_time"]))):
            before = numbers.set(~collected, None).shift(1).fill_null(strategy="forward")
            yield from disagreeing_rows(
                artifact,
                collected & (numbers < before),
                Code.I106,
                partial(_went_back, column),
                frame=frame.with_columns(before=before),
            )


@invariant(needs=("summary_events",))
def every_summary_file_has_its_lineage(cycle: Cycle) -> Iterator[Finding]:
    """`events.out.events.summary.<time>.<id>.<host>_MS` and `..._lineage` come in pairs. A warning.

    SummaryRecord writes no lineage of its own, and SummaryCollector each of the two only when it collects something for it;
    so where no lineage is there at all, one is missed only beside a graph and values that SummaryCollector tagged `/auto`, as
    it collects them by default. Source: MindSpore 2.0, 2.8, 2.9 and 2.10, real output with all options of both.
    """
    frame = cycle.artifacts["summary_events"].content.frame
    by_default = (frame["kind"] == "graph_def").any() and frame["tags"].str.contains("/auto", literal=True).any()
    if not by_default and not _files(cycle, "summary_lineage"):
        return
    ends = {"summary_events": "_MS", "summary_lineage": "_lineage"}
    names = {slot: {a.path.name.removesuffix(end): a for a in _files(cycle, slot)} for slot, end in ends.items()}
    for stem in sorted(names["summary_events"].keys() ^ names["summary_lineage"].keys()):
        here = "summary_events" if stem in names["summary_events"] else "summary_lineage"
        other = ends["summary_lineage" if here == "summary_events" else "summary_events"]
        yield Finding(
            code=Code.A102,
            severity=Severity.WARNING,
            place=names[here][stem].place,
            message=f"there is no {stem}{other} beside it",
        )


@invariant(needs=("profiler_config",))
def a_window_ends_after_it_begins(cycle: Cycle) -> Iterator[Finding]:
    """0 <= start_step <= stop_step, or both -1 for none; another window is silently never profiled. A warning.

    Source: MindSpore 2.10 source: dynamic_profiler.py; stop_step is inclusive. torch_npu has `active` instead.
    """
    artifact = cycle.artifacts["profiler_config"]
    start, stop = (artifact.content.document.get(key) for key in ("start_step", "stop_step"))
    if start is None or stop is None or start == stop == -1 or 0 <= start <= stop:
        return
    yield Finding(
        code=Code.C101,
        severity=Severity.WARNING,
        place=f"{artifact.place} $.stop_step",
        message=f"the window from step {start} to step {stop} is never profiled",
    )


def _files(cycle: Cycle, slot: str) -> list[Artifact]:
    return [artifact for artifact in cycle.files if artifact.slot.name == slot]


def _went_back(column: str, row: dict[str, Any]) -> str:
    return f"{column} {row[column]} follows {column} {row['before']}"
