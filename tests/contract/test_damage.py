"""One thing wrong in a right directory: what is said of it, and that nothing is said of the right one."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perfguard.findings import Finding, Severity
from perfguard.recording import read_recording
from perfguard.testing import generate
from tests.contract.together import inspect_together, places, wanted

Damage = Callable[[Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A generated directory, what is done to it, and the finding that must come of it."""

    name: str
    layout: str
    damage: Damage
    says: tuple[str, str]
    severity: Severity = Severity.ERROR
    conditions: Mapping[str, bool] = field(default_factory=dict)
    ranks: int = 1


def one(place: Path, pattern: str) -> Path:
    return sorted(place.rglob(pattern))[0]


def cells(pattern: str, column: str, change: Callable[[str], str], *, row: int | None = None) -> Damage:
    """Change the cells of a column, or the one of a row (counted from 0)."""

    def damage(place: Path) -> None:
        path = one(place, pattern)
        rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
        number = rows[0].index(column)
        for index, found in enumerate(rows[1:]):
            if row in (None, index) and found[number].strip() not in ("", "N/A"):
                found[number] = change(found[number])
        path.write_text(written(rows))

    return damage


def written(rows: list[list[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def header(pattern: str, old: str, new: str) -> Damage:
    def damage(place: Path) -> None:
        path = one(place, pattern)
        first, _, rest = path.read_text().partition("\n")
        assert old in first
        path.write_text(f"{first.replace(old, new, 1)}\n{rest}")

    return damage


def with_column(pattern: str, name: str, cell: str) -> Damage:
    """Add a column to a CSV file, as a later version of its writer may."""

    def damage(place: Path) -> None:
        path = one(place, pattern)
        head, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
        path.write_text(written([[*head, name], *([*row, cell] for row in rows)]), encoding="utf-8")

    return damage


def lines(pattern: str, keep: Callable[[list[str]], list[str]]) -> Damage:
    def damage(place: Path) -> None:
        path = one(place, pattern)
        path.write_text("".join(keep(path.read_text().splitlines(keepends=True))))

    return damage


def document(pattern: str, edit: Callable[[Any], None]) -> Damage:
    def damage(place: Path) -> None:
        path = one(place, pattern)
        found = json.loads(path.read_text())
        edit(found)
        path.write_text(json.dumps(found))

    return damage


def key_renamed(pattern: str, old: str, new: str) -> Damage:
    """Rename a key everywhere in a document."""

    def damage(place: Path) -> None:
        path = one(place, pattern)
        text = path.read_text(encoding="utf-8")
        assert f'"{old}":' in text
        path.write_text(text.replace(f'"{old}":', f'"{new}":'), encoding="utf-8")

    return damage


def statement(pattern: str, sql: str) -> Damage:
    def damage(place: Path) -> None:
        with closing(sqlite3.connect(one(place, pattern))) as made, made:
            made.execute(sql)

    return damage


def times(factor: float) -> Callable[[str], str]:
    return lambda text: repr(float(text) * factor)


def renamed(old: str, new: str) -> Damage:
    def damage(place: Path) -> None:
        one(place, old).rename(one(place, old).with_name(new))

    return damage


def over_each_other(pattern: str) -> Damage:
    """Copy what the first rank wrote over what the second did."""

    def damage(place: Path) -> None:
        first, second = sorted(place.rglob(pattern))[:2]
        shutil.copy(first, second)

    return damage


def a_first_operator(found: Any) -> Any:
    kind = next(key for key in found if key != "op_type")
    return next(iter(found[kind][0].values()))


def a_memory_event(found: Any) -> Any:
    return next(event for event in found["traceEvents"] if event["name"] == "[memory]")


def without_top(found: Any) -> None:
    for groups in found.values():
        for names in groups.values():
            for name in [name for name in names if "-top1@" in name]:
                del names[name]


def start_again(found: Any) -> None:
    """Set the first start of an operation to 0, in the form of cluster_communication.json."""
    for groups in found.values():
        for steps in groups.values():
            for name, ranks in steps.items():
                if name != "Total Op Info":
                    next(iter(ranks.values()))["Communication Time Info"]["Start Timestamp(us)"] = 0
                    return


def of_a_group(found: Any, name: str) -> None:
    """Put the totals of a group there once more, under another name."""
    for groups in found.values():
        for names in groups.values():
            names[name] = names["Total Op Info"]


def totals_of_groups(found: Any) -> None:
    """Name totals by their group, as msprof-analyze 2.0 does."""
    for groups in found.values():
        for names in groups.values():
            group = next(iter(names)).partition("@")[2]
            names[f"Total Op Info@{group}"] = names.pop("Total Op Info")


MEMORY = {"memory": True}
DYNAMIC = {"dynamic_shape": True}
SHAPES = "dynamic_shape_info_*.json"

CASES = (
    Case(
        name="a block of another size",
        layout="pt-npu",
        conditions=MEMORY,
        damage=cells("operator_memory.csv", "Size(KB)", times(2), row=5),
        says=("I107", "the total grew by"),
    ),
    Case(
        name="all blocks in bytes",
        layout="pt-npu",
        conditions=MEMORY,
        damage=cells("operator_memory.csv", "Size(KB)", times(1024)),
        says=("I107", "Size(KB) is 1024 times what the total grew by in all rows: another unit?"),
    ),
    Case(
        name="a total that the record does not have",
        layout="pt-npu",
        conditions=MEMORY,
        damage=cells("operator_memory.csv", "Allocation Total Reserved(MB)", times(1.5), row=0),
        says=("I107", "memory_record.csv has another at that moment"),
    ),
    Case(
        name="half a memory record",
        layout="pt-npu",
        conditions=MEMORY,
        damage=lines("memory_record.csv", lambda rows: rows[: 2 * len(rows) // 3]),
        says=("I107", "it ends before"),
    ),
    Case(
        name="the memory record of another device",
        layout="pt-npu",
        conditions=MEMORY,
        damage=cells("memory_record.csv", "Device Type", lambda _: "NPU:7"),
        says=("I113", "it is of NPU:7, operator_memory.csv of NPU:0"),
    ),
    Case(
        name="waits in ns",
        layout="pt-npu",
        damage=cells("kernel_details.csv", "Wait Time(us)", times(1000)),
        says=("I105", "Wait Time(us) is 1000 times the gap before the kernel in all rows"),
    ),
    Case(
        name="the time of a unit in ns",
        layout="pt-npu",
        damage=cells("kernel_details.csv", "aic_mac_time(us)", times(1000)),
        says=("I105", "times what aic_mac_ratio says in all rows: another unit?"),
    ),
    Case(
        name="a unit without its ratio",
        layout="pt-npu",
        damage=header("kernel_details.csv", "aic_mac_ratio", "aic_mac_share"),
        says=("S102", "column 'aic_mac_ratio' is missing: aic_mac_time(us) is there"),
    ),
    Case(
        name="kernels of no step",
        layout="pt-npu",
        damage=cells("kernel_details.csv", "Step Id", lambda _: ""),
        says=("I113", "no kernel has a Step Id"),
        severity=Severity.WARNING,
    ),
    Case(
        name="a task that ends elsewhere",
        layout="pt-npu",
        conditions={"level1": False},
        damage=cells("task_time*.csv", "task_time(us)", times(2), row=0),
        says=("I105", "from start to stop it is"),
    ),
    Case(
        name="a matrix without its slowest",
        layout="pt-npu",
        ranks=2,
        damage=document("communication_matrix.json", without_top),
        says=("I109", "-top1@"),
    ),
    Case(
        name="a rank of the other name",
        layout="pt-npu",
        ranks=2,
        damage=document("profiler_info*.json", lambda found: found.update(rank_id=-1)),
        says=("I113", "rank -1 inside the file, 0 in its name"),
    ),
    Case(
        name="a counter of an unnamed process",
        layout="pt-npu",
        damage=document("trace_view.json", lambda found: found.append({**COUNTER, "ts": found[-1]["ts"]})),
        says=("I103", "no process_name names process 99"),
    ),
    Case(
        name="a total of a collective of a group without its times",
        layout="cluster",
        ranks=3,
        damage=document("cluster_communication.json", lambda found: of_a_group(found, "hcom_allReduce_@1")),
        says=("S103", "'Start Timestamp(us)' is a required property"),
    ),
    Case(
        name="a communication operator without its end",
        layout="ms-2.0",
        ranks=2,
        damage=header("step_trace_raw_*", "_end_point,stream_", "_end_pointx,stream_"),
        says=("S102", "a communication operator has three"),
    ),
    Case(
        name="a type that is not said",
        layout="ms-2.0",
        conditions=DYNAMIC,
        damage=document(SHAPES, lambda found: found["op_type"].popitem()),
        says=("I101", "op_type and the operators have different types"),
    ),
    Case(
        name="a shape too few",
        layout="ms-2.0",
        conditions=DYNAMIC,
        damage=document(SHAPES, lambda found: a_first_operator(found)["op_shape"].pop()),
        says=("I101", "3 in op_exe_time, 2 in op_shape"),
    ),
    Case(
        name="an execution too few",
        layout="ms-2.0",
        conditions=DYNAMIC,
        damage=document(SHAPES, lambda found: a_first_operator(found).update(op_exe_occurrences=9)),
        says=("I101", "9 in op_exe_occurrences"),
    ),
    Case(
        name="an operator twice",
        layout="ms-2.0",
        conditions=DYNAMIC,
        damage=document(SHAPES, lambda found: found[next(iter(found))].append(found[next(iter(found))][0])),
        says=("I114", "is listed more than once"),
    ),
    Case(
        name="steps of collectives in another order",
        layout="ms-2.0",
        ranks=2,
        damage=lines("hccl_raw_*", lambda rows: [rows[0], rows[2], rows[1], *rows[3:]]),
        says=("I106", "step 1 follows step 2"),
    ),
    Case(
        name="an activity with a longer longest run",
        layout="ms-2.0",
        conditions={"gpu": True},
        damage=cells("gpu_activity_data_*", "max_duration(us)", times(1.1), row=0),
        says=("I104", "the longest time is "),
    ),
    Case(
        name="an activity that lost a run",
        layout="ms-2.0",
        conditions={"gpu": True},
        damage=lines("activity_execute_timestamp_*", lambda rows: rows[1:]),
        says=("I102", "executions here, 9 in gpu_activity_data"),
    ),
    Case(
        name="a type with another share",
        layout="ms-2.0",
        conditions={"gpu": True},
        damage=cells("gpu_op_type_info_*", "total_proportion", times(1.1), row=0),
        says=("I105", "total_proportion is"),
    ),
    Case(
        name="a session since 1970",
        layout="pt-npu",
        conditions={"db": True},
        damage=statement("ascend_pytorch_profiler*.db", "update SESSION_TIME_INFO set startTimeNs = 5"),
        says=("I113", "the session lasts"),
    ),
    Case(
        name="an execution in another year",
        layout="ms-2.0",
        conditions={"gpu": True},
        damage=lines("gpu_op_execute_timestamp_*", lambda rows: [rows[0].replace(";GpuOps;1", ";GpuOps;2"), *rows[1:]]),
        says=("I113", "most others about"),
    ),
    Case(
        name="a memory event without its total",
        layout="pt-torch",
        conditions={"memory": True},
        damage=document("*.json", lambda found: a_memory_event(found)["args"].pop("Total Allocated")),
        says=("I107", "it has no Total Allocated"),
    ),
    Case(
        name="a mean of nothing",
        layout="ms-2.1",
        conditions=DYNAMIC,
        damage=document(SHAPES, lambda found: found["op_type"].update({next(iter(found)): [9.0, 9.0, 9.0]})),
        says=("I105", "9.0 ms, its "),
    ),
    Case(
        name="an operator of another type",
        layout="ms-2.1",
        conditions=DYNAMIC,
        damage=document(
            SHAPES, lambda found: found[next(iter(found))][0].update({"Other-op7": a_first_operator(found)})
        ),
        says=("I101", "it is no operator of type"),
    ),
    Case(
        name="a time that the timeline does not have",
        layout="ms-2.0",
        conditions=DYNAMIC,
        damage=document(SHAPES, lambda found: a_first_operator(found)["op_exe_time"].__setitem__(0, 7.5)),
        says=("I101", "op_exe_time is not what output_timeline_data says of"),
    ),
    Case(
        name="a stage of a rank that is not there",
        layout="cluster",
        ranks=3,
        damage=lines("cluster_step_trace_time.csv", lambda rows: rows[:2] + rows[3:]),
        says=("I108", "has ranks without a row of their own: 1"),
    ),
    Case(
        name="a stage of the database that is not the slowest rank",
        layout="cluster",
        ranks=3,
        conditions={"db": True},
        damage=statement("*.db", "update ClusterStepTraceTime set computing = computing * 2 where type = 'stage'"),
        says=("I108", "the largest of its ranks is"),
    ),
    Case(
        name="a cluster's database without the column of its steps",
        layout="cluster",
        ranks=3,
        conditions={"db": True},
        damage=statement("*.db", "alter table ClusterStepTraceTime rename column step to steps"),
        says=("S102", "column 'step' is missing"),
    ),
    Case(
        name="a collective of the year 1970",
        layout="cluster",
        ranks=3,
        damage=document("cluster_communication.json", start_again),
        says=("I113", "it started at 0.000 us"),
    ),
    *(
        Case(
            name=f"a key of the wrong name in {pattern}: {old}",
            layout=layout,
            ranks=3,
            damage=key_renamed(pattern, old, new),
            says=("S103", says),
        )
        for layout, pattern, old, new, says in (
            ("pt-npu", "communication.json", "collective", "collectives", "'collective' is a required property"),
            ("pt-npu", "communication.json", "Elapse Time(ms)", "Elapsed Time(ms)", "is a required property"),
            ("pt-npu", "communication_matrix.json", "2-0", "2:0", "'2:0' does not match"),
            ("ms-2.5+", "communication_matrix.json", "p2p", "P2P", "'p2p' is a required property"),
            ("cluster", "cluster_communication.json", "Size Distribution", "Sizes", "is a required property"),
            ("pt-npu", "trace_view.json", "dur", "duration", "'dur' is a required property"),
            ("pt-torch", "*.pt.trace.json", "ts", "time", "'ts' is a required property"),
        )
    ),
    Case(
        name="a group with a rank twice",
        layout="cluster",
        ranks=3,
        damage=document(
            "communication_group.json", lambda found: found["collective"][0].append(found["collective"][0][0])
        ),
        says=("S103", "non-unique"),
    ),
    Case(
        name="a rank's trace over another's",
        layout="pt-torch",
        ranks=2,
        damage=over_each_other("*.json"),
        says=("I113", "one of the two is a copy"),
    ),
    Case(
        name="a rank of the world that was not copied",
        layout="pt-torch",
        ranks=2,
        damage=lambda place: one(place, "*.json").unlink(),
        says=("A107", "the trace says 2 ranks; only rank 1 is here"),
        severity=Severity.WARNING,
    ),
    Case(
        name="a rank's directory of another name",
        layout="ranks",
        ranks=2,
        damage=renamed("rank_1", "rank_5"),
        says=("I113", "its files are of rank 1, but its directory is of rank 5"),
        severity=Severity.WARNING,
    ),
    Case(
        name="no step but the average",
        layout="ms-2.0",
        damage=lines("step_trace_raw_*", lambda rows: [rows[0], rows[-1]]),
        says=("I108", "it has the average row, and no step"),
    ),
    Case(
        name="an operator without its compute time",
        layout="ms-2.0",
        damage=lines("output_op_compute_time_0.txt", lambda rows: rows[:3] + rows[4:]),
        says=("I101", "1 operators of aicore_intermediate_detail are not here"),
    ),
)


def with_key(pattern: str, *path: str) -> Damage:
    """Add a key to each object at a path (`*`: all keys, or all items) of a document, as a later version may."""

    def added(found: Any, names: tuple[str, ...]) -> None:
        if not names:
            found["Later Key"] = {"ts": [1]}
            return
        keys = found if names[0] == "*" else [names[0]]
        for inner in found if isinstance(found, list) else [found[key] for key in keys]:
            added(inner, names[1:])

    return document(pattern, lambda found: added(found, path))


COUNTER = {"ph": "C", "name": "AI Core Freq", "pid": 99, "tid": 0, "args": {"MHz": 800}}


Wrong = list[Finding]


def judged(directories: Sequence[Path]) -> list[Wrong]:
    """Return what is said of each, notes aside."""
    contracts = inspect_together([read_recording(one) for one in directories])
    return [[f for f in one.findings if f.severity is not Severity.NOTE] for one in contracts]


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory, request) -> dict[str, tuple[Wrong, Wrong]]:
    """Return what is said of the directory of each case as it is, and when it is damaged."""
    cases = wanted(request, "case")
    directories = places(tmp_path_factory.mktemp("damage"), len(cases))
    for case, place in zip(cases, directories, strict=True):
        generate(case.layout, seed=3, ranks=case.ranks, operators=12, conditions=case.conditions).write(place)
    # Many cases begin with the same directory.
    kinds = [(case.layout, case.ranks, *sorted(case.conditions.items())) for case in cases]
    firsts = dict(zip(reversed(kinds), reversed(directories), strict=True))
    before = dict(zip(firsts, judged([*firsts.values()]), strict=True))
    for case, place in zip(cases, directories, strict=True):
        case.damage(place)
    after = judged(directories)
    return {case.name: (before[kind], said) for case, kind, said in zip(cases, kinds, after, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.variants(9)
def test_what_is_wrong_is_said_and_nothing_of_what_is_right(before_and_after, case):
    before, after = before_and_after[case.name]
    assert before == []
    code, words = case.says
    found = [(f.code.name, f.message) for f in after if f.severity is case.severity]
    assert any(name == code and words in message for name, message in found), found


def test_rank_0_alone_is_a_note(tmp_path):
    """Many projects profile it alone, on purpose."""
    generate("pt-torch", seed=3, ranks=2, operators=12).write(tmp_path)
    max(tmp_path.rglob("*.json")).unlink()
    (contract,) = inspect_together([read_recording(tmp_path)])
    (found,) = (one for one in contract.findings if one.code.name == "A107")
    assert (found.severity, found.message.partition(" (")[0]) == (
        Severity.NOTE,
        "the trace says 2 ranks; only rank 0 is here",
    )


#: What a profiler writes that looks odd, and is right: the layout, the conditions, and what is done to a directory.
RIGHT = {
    "the totals of a group, which have no times": (
        "cluster", {}, document("cluster_communication.json", totals_of_groups)
    ),
    "Kineto's Buffer Flush": (
        "pt-torch", {}, document("*.pt.trace.json", lambda found: found["traceEvents"].append(
            {"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0, "dur": 1,
             "ts": found["traceEvents"][-1]["ts"]}
        ))
    ),
    "a name that level 0 leaves out": (
        "pt-npu", {"level1": False}, document("trace_view.json", lambda found: found.append({**COUNTER, "ts": found[-1]["ts"]}))
    ),
    "two communicators of the same ranks": (
        "cluster", {}, document(
            "communication_group.json", lambda found: found["collective"].append(list(found["collective"][0]))
        )
    ),
    "a column that a later version adds": ("pt-npu", {}, with_column("kernel_details.csv", "Core Id", "3")),
    **{
        f"a key that a later version adds to {layout}'s {pattern}: {'.'.join(path)}": (
            layout, {}, with_key(pattern, *path)
        )
        for layout, pattern, *path in (
            ("pt-npu", "trace_view.json", "*"),
            ("ms-2.5+", "trace_view.json", "*"),
            ("ms-2.5+cpu", "trace_view.json", "*"),
            ("pt-torch", "*.pt.trace.json"),
            ("pt-torch", "*.pt.trace.json", "traceEvents", "*"),
            ("pt-npu", "communication.json", "*"),
            ("pt-npu", "communication.json", "*", "collective", "*", "Communication Time Info"),
            ("ms-2.5+", "communication.json", "*"),
            ("pt-npu", "communication_matrix.json", "*"),
            ("minddata", "minddata_pipeline_summary_0.json"),
            ("minddata", "minddata_cpu_utilization_0.json"),
            ("minddata", "minddata_cpu_utilization_0.json", "process_info"),
            ("minddata", "pipeline_profiling_0.json"),
            ("minddata", "pipeline_profiling_0.json", "op_info", "*"),
            ("dynamic-config", "profiler_config.json"),
            ("ms-2.5+", "profiler_info_0.json"),
            ("pt-npu", "profiler_info.json"),
            ("ms-2.0", "ascend_timeline_display_0.json", "*"),
            ("ms-2.0", "ascend_timeline_summary_0.json"),
            ("ms-2.0", "flops_summary_0.json"),
            ("ms-2.1", "flops_summary_0.json"),
            ("ms-2.0", "step_trace_point_info_0.json"),
        )
    },
    "the end of an analysis": ("pt-npu", {}, lambda place: (one(place, "kernel_details.csv").parent / "analyse.done").touch()),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.variants(1)
def test_what_looks_odd_and_is_right_is_not_said(tmp_path, name):
    layout, conditions, change = RIGHT[name]
    ranks = 3 if layout == "cluster" else 1 + ("communication" in name)
    generate(layout, seed=3, ranks=ranks, operators=12, conditions=conditions).write(tmp_path)
    change(tmp_path)
    assert judged([tmp_path]) == [[]]
