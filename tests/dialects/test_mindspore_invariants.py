"""MindSpore's files against each other: clean directories are silent, each one-cell corruption has exactly its codes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import Contract, inspect
from perfguard.findings import Severity
from perfguard.recording import Recording, read_recording
from tests import conftest
from tests.conftest import RECORDINGS, corpus_place
from tests.contract.together import inspect_together, places, wanted

GRAPH, PYNATIVE = "mindspore-graph", "mindspore-pynative"
DETAIL, TYPES = "cpu_op_detail_info_0.csv", "cpu_op_type_info_0.csv"
STAMPS, FRAMEWORK = "cpu_op_execute_timestamp_0.txt", "cpu_framework_0.txt"
MEMORY, VIEW = "cpu_ms_memory_record_0.txt", "trace_view.json"
DISPLAY, SUMMARY, INFO = "cpu_timeline_display_0.json", "cpu_timeline_summary_0.json", "profiler_info_0.json"

Corruption = Callable[[Path], object]


def the(directory: Path, name: str) -> Path:
    (found,) = directory.rglob(name)
    return found


def replace(name: str, old: str, new: str) -> Corruption:
    """Replace the first `old` in a file."""

    def corrupt(directory: Path) -> None:
        path = the(directory, name)
        text = path.read_text(encoding="utf-8")
        assert old in text, text[:2000]
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return corrupt


def in_lines(name: str, change: Callable[[list[str]], list[str]]) -> Corruption:
    def corrupt(directory: Path) -> None:
        path = the(directory, name)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        changed = change(list(lines))
        assert changed != lines
        path.write_text("".join(changed), encoding="utf-8")

    return corrupt


def in_json(name: str, change: Callable[[Any], object]) -> Corruption:
    def corrupt(directory: Path) -> None:
        path = the(directory, name)
        document = json.loads(path.read_bytes())
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    return corrupt


def host_events(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in trace if event.get("args", {}).get("type") == "HostCpuOps"]


def scopes(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in trace if event["ph"] == "X" and event["pid"] == 3]


def lane(trace: list[dict[str, Any]], thread: str | int) -> list[dict[str, Any]]:
    return [event for event in trace if event["ph"] == "X" and event["tid"] == thread]


def invariant_errors(contract: Contract) -> str:
    errors = {f.code.name for f in contract.findings if f.severity is Severity.ERROR and f.code.family == "I"}
    return " ".join(sorted(errors))


def shifted_by_an_hour(lines: list[str]) -> list[str]:
    hour = 3600 * 10**9
    rows = [line.split(",") for line in lines[1:]]
    return [lines[0], *(",".join([str(int(row[0]) + hour), *row[1:]]) for row in rows)]


def peak_of(lines: list[str]) -> int:
    """Return the last place at which memory has risen, and is recorded twice before it falls."""
    totals = [int(line.split(",")[1]) for line in lines[1:]]
    places = range(1, len(totals) - 2)
    return max(at + 1 for at in places if totals[at - 1] < totals[at] == totals[at + 1] > totals[at + 2])


def without(lines: list[str], place: int) -> list[str]:
    return [*lines[:place], *lines[place + 1 :]]


def swapped(lines: list[str], one: int, other: int) -> list[str]:
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def with_scope_twice(trace: list[dict[str, Any]]) -> None:
    scope = next(event for event in trace if event["ph"] == "X" and event not in host_events(trace))
    trace.append(dict(scope))


# -- 2.5 and later, real recordings ----------------------------------------------------------------------------------

RECORDED = {
    "a type's total x 10": (GRAPH, replace(TYPES, "0.054391,", "0.54391,"), "I104 I105"),
    "a type's total, its fifth digit": (GRAPH, replace(TYPES, "0.054391,", "0.054396,"), "I104 I105"),
    "a type's average x 10": (GRAPH, replace(TYPES, "0.00906517", "0.0906517"), "I105"),
    "a type's average in us": (GRAPH, replace(TYPES, "0.00906517", "9.06517"), "I105"),
    "a type's share / 10": (GRAPH, replace(TYPES, "0.54896", "0.054896"), "I105"),
    "a type's share, its fourth digit": (GRAPH, replace(TYPES, "0.54896", "0.54906"), "I105"),
    "a type's frequency": (GRAPH, replace(TYPES, "BiasAdd,3,1,", "BiasAdd,3,3,"), "I105"),
    "a frequency per step": (PYNATIVE, replace(TYPES, "MatMul,6,1,", "MatMul,6,2,"), "I105"),
    "a type twice": (GRAPH, in_lines(TYPES, lambda lines: [*lines, lines[-1]]), "I101 I105 I114"),
    "an operator's total x 10": (GRAPH, replace(DETAIL, ",3,0.005489,", ",3,0.05489,"), "I104 I105"),
    "an operator's average / 10": (GRAPH, replace(DETAIL, ",0.00182967,", ",0.000182967,"), "I105"),
    "an operator's share, its third digit": (GRAPH, replace(DETAIL, "0.0553997", "0.0554997"), "I105"),
    "an operator twice": (
        GRAPH,
        in_lines(DETAIL, lambda lines: [*lines, lines[-1]]),
        "I101 I102 I103 I105 I114",
    ),
    "another process": (GRAPH, replace(DETAIL, "Default,6289", "Default,6290"), "I113"),
    "an op_name of another operator": (GRAPH, replace(DETAIL, ",AssignAdd-op0,", ",AssignAdd-op1,"), "I101 I114"),
    "an op_type of another operator": (GRAPH, replace(DETAIL, "Host,AssignAdd,", "Host,Mul,"), "I101 I114"),
    "a duration in us": (GRAPH, replace(STAMPS, ",0.010616,", ",10.616,"), "I103 I104 I106"),
    "a duration, its third digit": (GRAPH, replace(STAMPS, ",0.010616,", ",0.010716,"), "I103 I104"),
    "a start 1 us later": (GRAPH, replace(STAMPS, "1795261968310666118", "1795261968310667118"), "I103"),
    "executions swapped": (
        GRAPH,
        replace(
            STAMPS,
            "1795261968310120869,0.021462,0 1795261968310666118,0.010616,0",
            "1795261968310666118,0.010616,0 1795261968310120869,0.021462,0",
        ),
        "I106",
    ),
    "executions overlap": (
        GRAPH,
        replace(STAMPS, "1795261968310666118,0.010616", "1795261968310130869,0.010616"),
        "I103 I106",
    ),
    "an operator on two lines": (
        GRAPH,
        in_lines(
            STAMPS,
            lambda lines: [
                *lines[:-1],
                lines[-1].rsplit(" ", 2)[0] + " \n",
                ";".join([*lines[-1].split(";")[:2], lines[-1].split(" ")[-2] + " \n"]),
            ],
        ),
        "I114",
    ),
    "a line of another type": (GRAPH, replace(FRAMEWORK, "MatMul;MatMul-op0;", "Mul;MatMul-op0;"), "I101"),
    "a line of another operator": (GRAPH, replace(FRAMEWORK, "MatMul;MatMul-op0;", "MatMul;MatMul-op7;"), "I101"),
    "an event x 10": (GRAPH, replace(VIEW, '"dur": "21.462"', '"dur": "214.620"'), "I103"),
    "an event in ms": (GRAPH, replace(VIEW, '"dur": "21.462"', '"dur": "0.021"'), "I103"),
    "an event 1 us later": (GRAPH, replace(VIEW, "1795261968310120.906", "1795261968310121.906"), "I103"),
    "a scope twice": (GRAPH, in_json(VIEW, with_scope_twice), "I103"),
    "a scope twice, PyNative": (PYNATIVE, in_json(VIEW, with_scope_twice), "I103"),
    "an operator in another thread": (GRAPH, replace(STAMPS, ",0.010616,0", ",0.010616,1"), "I103"),
    "a scope lost": (GRAPH, in_json(VIEW, lambda t: t.remove(scopes(t)[1])), "I103"),
    "a scope lost, PyNative": (PYNATIVE, in_json(VIEW, lambda t: t.remove(scopes(t)[0])), "I103"),
    "a scope of another name": (GRAPH, in_json(VIEW, lambda t: scopes(t)[0].update(name="Gradients")), "I103"),
    "every record twice": (
        GRAPH,
        in_lines(MEMORY, lambda lines: [lines[0], *(one for line in lines[1:] for one in (line, line))]),
        "I114",
    ),
    "a record twice": (GRAPH, in_lines(MEMORY, lambda lines: [*lines[:5], *lines[4:]]), "I114"),
    "a record at a peak lost": (GRAPH, in_lines(MEMORY, lambda lines: without(lines, peak_of(lines))), "I107"),
    "a record at a peak, PyNative": (PYNATIVE, in_lines(MEMORY, lambda lines: without(lines, peak_of(lines))), "I107"),
    "memory backwards": (GRAPH, in_lines(MEMORY, lambda lines: swapped(lines, 3, 4)), "I106"),
    "more memory than reserved": (GRAPH, replace(MEMORY, "2560,1073741824,2560", "2560,2048,2560"), "I107"),
    "memory beside the grain": (GRAPH, replace(MEMORY, "2560,1073741824,2560", "2561,1073741824,2561"), "I107"),
    "memory / 10": (GRAPH, replace(MEMORY, "2560,1073741824,2560", "256,1073741824,256"), "I107"),
    "memory active, not allocated": (GRAPH, replace(MEMORY, "2560,1073741824,2560", "2560,1073741824,3072"), "I107"),
    "memory of another run": (GRAPH, in_lines(MEMORY, shifted_by_an_hour), "I113"),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, request) -> dict[str, Contract]:
    names = wanted(request, "name")
    directories = places(tmp_path_factory.mktemp("recorded"), len(names))
    for name, directory in zip(names, directories, strict=True):
        recording, corrupt, _ = RECORDED[name]
        shutil.copytree(RECORDINGS / recording, directory, dirs_exist_ok=True)
        corrupt(directory)
    return dict(zip(names, inspect_together([read_recording(one) for one in directories]), strict=True))


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.variants(8)
def test_a_corrupted_recording_breaks_exactly_these_invariants(name, recorded):
    contract = recorded[name]
    assert invariant_errors(contract) == RECORDED[name][2], contract.findings
    assert not [f for f in contract.findings if f.code.family in "AS"]


@pytest.mark.parametrize("name", [GRAPH, PYNATIVE])
@pytest.mark.variants(1)
def test_a_clean_recording_breaks_none(name):
    assert inspect(read_recording(RECORDINGS / name)).findings == ()


def test_a_disagreement_is_said_with_both_numbers_and_the_other_file(copy_recording):
    directory = copy_recording(GRAPH)
    replace(TYPES, "0.054391,", "0.54391,")(directory)
    found = [f for f in inspect(read_recording(directory)).findings if f.code.name == "I104"]
    (finding,) = found
    assert finding.place.endswith(f"{TYPES}:5")
    assert finding.message == "MatMul: total 543910 ns here, its operators add up to 54391 ns in cpu_op_detail_info"


def test_records_of_earlier_sessions_are_no_other_run(copy_recording):
    directory = copy_recording(GRAPH)
    earlier = "1795161968310116743,2048,1073741824,2048\n"
    in_lines(MEMORY, lambda lines: [lines[0], earlier, *lines[1:]])(directory)
    assert inspect(read_recording(directory)).findings == ()


def on_a_coarse_clock(lines: list[str]) -> list[str]:
    rows = [line.split(",", 1) for line in lines[1:]]
    return [lines[0], *(f"{int(time) // 1000 * 1000},{rest}" for time, rest in rows)]


@pytest.mark.parametrize(("times", "codes"), [(1, set()), (9, {"I114"})])
@pytest.mark.variants(1)
def test_on_a_coarse_clock_two_events_may_be_of_one_tick(copy_recording, times, codes):
    directory = copy_recording(GRAPH)
    in_lines(MEMORY, on_a_coarse_clock)(directory)
    assert inspect(read_recording(directory)).findings == ()
    in_lines(MEMORY, lambda lines: [*lines[:4], *[lines[4]] * times, *lines[4:]])(directory)
    assert {one.code.name for one in inspect(read_recording(directory)).findings} == codes


@pytest.mark.parametrize(
    ("start", "stop", "codes"),
    [
        ("2026-11-21-11:52:48", "2026-11-21-11:52:48", set()),
        # In Kathmandu, and where summer time ends between the two.
        ("2026-11-21-17:37:48", "2026-11-21-17:37:48", set()),
        ("2026-11-21-17:37:48", "2026-11-21-16:37:48", set()),
        # Longer than what a time within 15 minutes can tell.
        ("2026-11-21-11:30:00", "2026-11-21-11:50:00", set()),
        ("2026-11-21-11:53:48", "2026-11-21-11:53:48", {"I113"}),
        ("2026-11-21-11:51:48", "2026-11-21-11:51:48", {"I113"}),
        ("2026-11-21-17:38:48", "2026-11-21-17:38:50", {"I113"}),
    ],
)
@pytest.mark.variants(2)
def test_operators_run_in_the_window_that_the_log_tells_of(copy_recording, start, stop, codes):
    directory = copy_recording(GRAPH)
    log = the(directory, "*.log")
    text = log.read_text(encoding="utf-8")
    for word, moment in (("start", start), ("stop", stop)):
        text = re.sub(rf"\[[0-9:-]+\](.*CpuProfiler {word}\.)", rf"[{moment}]\1", text)
    log.write_text(text, encoding="utf-8")
    findings = inspect(read_recording(directory)).findings
    assert {one.code.name for one in findings} == codes
    assert {one.check for one in findings} <= {"executions_lie_in_the_window_of_the_log"}


# -- 2.0 on a CPU: the same files, and the timeline made of them as 2.0 makes it -------------------------------------


def write_2_0(above: Path) -> Path:
    """Write the flat directory MindSpore 2.0 would have written of the graph recording."""
    directory = above / "profiler"
    directory.mkdir()
    for name in (DETAIL, TYPES, STAMPS, FRAMEWORK):
        shutil.copy(the(RECORDINGS / GRAPH, name), directory)
    executions = []
    for line in (directory / STAMPS).read_text().splitlines():
        name, _, cells = line.rsplit(";", 2)
        for start, duration, _ in (cell.split(",") for cell in cells.split()):
            executions.append((int(start) / 1e3, float(duration) / 1e-3, name.rpartition("/")[2]))
    executions.sort()

    def event(name: str, thread: str | int, start: float, duration: float, pid: int = 0) -> dict[str, Any]:
        return {"name": name, "ph": "X", "tid": thread, "ts": start, "dur": duration, "pid": pid}

    ends = [start + duration for start, duration, _ in executions]
    per_step = len(executions) // 3
    events = [event(name, "HostCpuOps0", start, duration) for start, duration, name in executions]
    for step in range(3):
        first, last = step * per_step, (step + 1) * per_step - 1
        events.append(event(str(step + 1), 100000, executions[first][0], ends[last] - executions[first][0]))
    events += [event("computation_op", "7999", start, duration, 12000) for start, duration, _ in executions]
    for end, (start, *_) in zip(ends, executions[1:], strict=False):
        events.append(event("free_time", "8002", end, start - end, 12000))
    (directory / DISPLAY).write_text(json.dumps(events))
    summary = {
        "total_time": sum(duration for _, duration, _ in executions) / 1e3,
        "num_of_streams": 1,
        "num_of_ops": len((directory / STAMPS).read_text().splitlines()),
        "op_exe_times": len(executions),
        "max_scope_name_num": max(line.count("/") for line in (directory / STAMPS).read_text().splitlines()),
    }
    (directory / SUMMARY).write_text(json.dumps(summary))
    info = {"context_mode": "graph", "rank_id": "0", "ms_version": "2.0.0", "rank_size": 1, "is_heterogeneous": False}
    times = dict.fromkeys(("profiling_start_time", "analyse_start_time", "analyse_end_time"), "2026-11-21 09:49:22")
    (directory / INFO).write_text(json.dumps(info | times))
    return directory


def test_a_clean_directory_of_2_0_breaks_none(tmp_path):
    contract = inspect(Recording(directory=write_2_0(tmp_path)))
    assert contract.layouts == ("ms-2.0",)
    assert contract.findings == ()


def a_scope(trace: list[dict[str, Any]], depth: int) -> dict[str, Any]:
    """Return the scope that all operators are in, as long as the first step."""
    step = lane(trace, 100000)[0]
    return {**step, "name": "Default", "tid": 100001, "scope_level": depth}


OF_2_0 = {
    "operators of the summary": (in_json(SUMMARY, lambda s: s.update(num_of_ops=8)), "I101"),
    "executions of the summary": (in_json(SUMMARY, lambda s: s.update(op_exe_times=28)), "I101"),
    "threads of the summary": (in_json(SUMMARY, lambda s: s.update(num_of_streams=2)), "I101"),
    "time of the summary in us": (in_json(SUMMARY, lambda s: s.update(total_time=s["total_time"] * 1e3)), "I104"),
    "another rank inside": (in_json(INFO, lambda info: info.update(rank_id="1")), "I113"),
    "a lost event": (in_json(DISPLAY, lambda t: t.remove(lane(t, "HostCpuOps0")[0])), "I103"),
    "an event of another operator": (in_json(DISPLAY, lambda t: lane(t, "HostCpuOps0")[0].update(name="x")), "I103"),
    "an event of another time": (in_json(DISPLAY, lambda t: lane(t, "HostCpuOps0")[0].update(ts=1e9)), "I103"),
    "an event in ms": (in_json(DISPLAY, lambda t: lane(t, "HostCpuOps0")[0].update(dur=0.021462)), "I103"),
    "an event of another rank": (in_json(DISPLAY, lambda t: lane(t, "HostCpuOps0")[0].update(pid=1)), "I113"),
    "the depth of scopes": (in_json(SUMMARY, lambda s: s.update(max_scope_name_num=9)), "I101"),
    "a step that begins later": (
        in_json(DISPLAY, lambda t: lane(t, 100000)[1].update(ts=lane(t, 100000)[1]["ts"] + 7.7)),
        "I103",
    ),
    "a gap that lasts longer": (in_json(DISPLAY, lambda t: lane(t, "8002")[0].update(dur=9.5e6)), "I103"),
    "computation in ms": (in_json(DISPLAY, lambda t: lane(t, "7999")[0].update(dur=0.021462)), "I103"),
    "a scope at another depth": (in_json(DISPLAY, lambda t: t.append(a_scope(t, 1))), "I103"),
    "a scope where it is": (in_json(DISPLAY, lambda t: t.append(a_scope(t, 0))), ""),
    "a lost step": (in_json(DISPLAY, lambda t: t.remove(lane(t, 100000)[0])), "I108"),
    "a lost gap": (in_json(DISPLAY, lambda t: t.remove(lane(t, "8002")[0])), "I103"),
    "lost computation": (in_json(DISPLAY, lambda t: t.remove(lane(t, "7999")[0])), "I103"),
    "a total x 10": (replace(DETAIL, ",3,0.005489,", ",3,0.05489,"), "I104 I105"),
    "executions swapped": (
        replace(
            STAMPS,
            "1795261968310120869,0.021462,0 1795261968310666118,0.010616,0",
            "1795261968310666118,0.010616,0 1795261968310120869,0.021462,0",
        ),
        "I106",
    ),
}


@pytest.fixture(scope="module")
def of_2_0(tmp_path_factory, request) -> dict[str, Contract]:
    names = wanted(request, "name")
    directories = [write_2_0(place) for place in places(tmp_path_factory.mktemp("2.0"), len(names))]
    for name, directory in zip(names, directories, strict=True):
        OF_2_0[name][0](directory)
    return dict(zip(names, inspect_together([Recording(directory=one) for one in directories]), strict=True))


@pytest.mark.parametrize("name", OF_2_0)
@pytest.mark.variants(4)
def test_a_corrupted_directory_of_2_0_breaks_exactly_these_invariants(name, of_2_0):
    assert invariant_errors(of_2_0[name]) == OF_2_0[name][1], of_2_0[name].findings


# -- flat files of a device ------------------------------------------------------------------------------------------

A, B = "Default/net/MatMul-op1", "Default/net/Add-op2"
FRAMEWORK_RAW = (
    "task_id,stream_id,block_dim,full_op_name,op_name,op_type,subgraph,op_info\n"
    f"1,0,32,{A},MatMul-op1,MatMul,Default,{{}}\n"
    f"2,0,1,{B},Add-op2,Add,Default,{{}}\n"
)
STEPS = (
    "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail,"
    "stream_1_0_AllReduce-op3,stream_1_0_AllReduce-op3_start_point,stream_1_0_AllReduce-op3_end_point\n"
    "1,1000,2000,1000,1000,1800,0,800,200,50,1100,1150\n"
    "2,2000,3000,1000,2100,2800,100,700,200,60,2200,2260\n"
    "-,1500,2500,1000,1550,2301,51,750,200,55,1650,1706\n"
)
CLUSTER = (
    "computation_time,communication_alone_time,stage_time,receive_alone_time,collective_communication_alone_time\n"
    "13.8202,164.476,121.8989,56.3973,108.0787\n"
)


def link(time: float, size: float) -> dict[str, dict[str, list[float]]]:
    return {"0-1": {"SDMA": [time, size, 1.0]}}


def hccl(*rows: tuple[str, float, float, dict[str, Any], dict[str, Any]]) -> str:
    def cell(value: object) -> str:
        return '"' + json.dumps(value).replace('"', '""') + '"'

    lines = [f"{step},{cost},{wait},{cell(links)},{cell(operators)}\n" for step, cost, wait, links, operators in rows]
    return "".join(["step_num,communication_cost,wait_cost,link_info,communication_operator_cost\n", *lines])


HCCL_2_0 = hccl(
    ("1", 3.0, 9.0, link(3.0, 12.0), {"a": ["1", 1.0, 4.0, link(1.0, 4.0)], "b": ["1", 2.0, 5.0, link(2.0, 8.0)]}),
    ("2", 1.0, 4.0, link(1.0, 4.0), {"a": ["2", 1.0, 4.0, link(1.0, 4.0)]}),
    ("-", 2.0, 6.5, link(2.0, 8.0), {"a": ["-", 1.0, 4.0, link(1.0, 4.0)]}),
)
#: us in the costs, ms on the links; part of the cost belongs to no operator; the last row is a copy.
HCCL_2_1 = hccl(
    ("1", 3000.0, 9.0, link(1.5, 12.0), {"a": ["1", 2900.0, 9.0, link(1.5, 12.0)]}),
    ("2", 1000.0, 4.0, link(0.5, 4.0), {"a": ["2", 900.0, 4.0, link(0.5, 4.0)]}),
    ("-", 1000.0, 4.0, link(0.5, 4.0), {"a": ["-", 900.0, 4.0, link(0.5, 4.0)]}),
)

FLAT: dict[str, dict[str, str]] = {
    "1.x": {
        "aicore_intermediate_0_detail.csv": f"full_op_name,execution_time\n{A},3.0\n{B},1.0\n",
        "aicore_intermediate_0_type.csv": "op_type,execution_time,execution_frequency,percent\n"
        "MatMul,3.0,1,75.00\nAdd,1.0,1,25.00\n",
        "framework_raw_0.csv": FRAMEWORK_RAW,
        "output_timeline_data_0.txt": "op_name, stream_id, start_time(ms), duration(ms)\n"
        f"{A},0,100.5,2.0\n{B},0,103.0,1.0\n{A},0,105.0,4.0\n",
        "step_trace_raw_0_detail_time.csv": STEPS,
        "ascend_cluster_analyse_pipeline-parallel_2_4_0.csv": CLUSTER,
        "hccl_raw_0.csv": HCCL_2_0,
        "flops_0.txt": f"op_full_name, MFLOPs(10^6), GFLOPS(10^9), FLOPS utilization(%) \n{A}, 30.0, 10.0, 5.0\n"
        f"{B}, 1.5, 1.0, 0.5\n",
        "flops_summary_0.json": '{"FLOPs": 31.5, "FLOPS": 5.5, "FLOPS_Utilization": 2.75}',
    },
    "2.0": {
        "aicore_intermediate_0_detail.csv": f"full_op_name,execution_time,execution_frequency\n{A},3.0,2\n{B},1.0,1\n",
        # The mean of every operator once more in what is divided by: 6 and 1 of 11.
        "aicore_intermediate_0_type.csv": "op_type,total_time,execution_frequency,percent\n"
        "MatMul,6.0,2,54.55\nAdd,1.0,1,9.09\n",
        "framework_raw_0.csv": FRAMEWORK_RAW.replace("op_info\n", "op_info,graph_id\n").replace("{}\n", "{},1\n"),
        "output_timeline_data_0.txt": "op_name, stream_id, start_time(ms), duration(ms)\n"
        f"{A},0,100.5,2.0\n{B},0,103.0,1.0\n{A},0,105.0,4.0\n",
        "aicpu_intermediate_0.csv": "serial_number,op_type,total_time,dispatch_time,execution_time,run_start,run_end\n"
        "1,InitData,7.906,0.15,0.22,1853050,1853210\n2,GetNext,0.888,0.132,0.22,7895189,7895707\n",
        "step_trace_raw_0_detail_time.csv": "step_num,start_point,end_point,total,fp_point,iteration_interval,fp\n"
        "1,1000,2000,1000,1000,0,1000\n2,2000,3000,1000,2100,100,900\n-,1500,2500,1000,1550,50,950\n",
        "hccl_raw_0.csv": HCCL_2_0,
    },
    "2.1": {
        "aicore_intermediate_0_detail.csv": "full_op_name,task_duration,execution_frequency,task_type\n"
        f"{A},3.0,2,AI_CORE\n{B},1.0,1,AI_CORE\n",
        "aicore_intermediate_0_type.csv": "op_type,total_time,execution_frequency,percent\n"
        f"MatMul,6.0,2,{6 / 7}\nAdd,1.0,1,{1 / 7}\n",
        "framework_raw_0.csv": FRAMEWORK_RAW.replace("op_info\n", "op_info,model_id,kernel_type\n").replace(
            "{}\n", "{},1,AI_CORE\n"
        ),
        "output_timeline_data_0.txt": "op_name,stream_id,start_time(us),duration(ms)\n"
        f"{A},0,100.5,2.0\n{B},0,103.0,1.0\n{A},0,105.0,4.0\n",
        "aicpu_intermediate_0.csv": "serial_number,op_type,total_time,dispatch_time,execution_time,run_start,run_end\n"
        "1,InitData,0.37,0.15,0.22,100.0,100.37\n",
        "ascend_timeline_summary_0.json": '{"total_time": 7.0, "num_of_streams": 1, "num_of_ops": 2, "op_exe_times": 3, '
        '"max_scope_name_num": 3}',
        # Every number cut off on its own: not one is exact.
        "step_trace_raw_0_detail_time.csv": STEPS.replace("1,1000,2000,1000,", "1,1000,2000,1001,"),
        "hccl_raw_0.csv": HCCL_2_1,
        "flops_0.txt": "op_full_name,MFLOPs(10^6 cube),GFLOPS(10^9 cube),MFLOPs(10^6 vector),GFLOPS(10^9 vector)\n"
        f"{A},30.0,10.0,0.0,0.0\n{B},0.0,0.0,1.5,1.5\n",
        "flops_summary_0.json": '{"cube_FLOPs": 30.0, "cube_FLOPS": 1.4286, "vec_FLOPs": 1.5, "vec_FLOPS": 0.2143}',
    },
}

CORE_DETAIL, CORE_TYPES = "aicore_intermediate_0_detail.csv", "aicore_intermediate_0_type.csv"
STEP, HCCL, TIMELINE = "step_trace_raw_0_detail_time.csv", "hccl_raw_0.csv", "output_timeline_data_0.txt"
AICPU, FLOPS, DEVICE = "aicpu_intermediate_0.csv", "flops_summary_0.json", "ascend_timeline_summary_0.json"
CLUSTER_FILE = "ascend_cluster_analyse_pipeline-parallel_2_4_0.csv"

CORRUPTED_FLAT = {
    "a step's total x 10": ("1.x", replace(STEP, ",3000,1000,", ",3000,10000,"), "I105 I108"),
    "a step's last tick": ("1.x", replace(STEP, ",3000,1000,", ",3000,1001,"), "I108"),
    "a step's tail in ns": ("1.x", replace(STEP, ",700,200,", ",700,2000,"), "I105 I108"),
    "a step's interval": ("1.x", replace(STEP, ",2800,100,", ",2800,0,"), "I105 I108"),
    "a step's end": ("1.x", replace(STEP, "2000,3000,", "2000,3100,"), "I105 I108"),
    "a step's communication": ("1.x", replace(STEP, ",60,2200,", ",600,2200,"), "I109"),
    "a step of 2.1": ("2.1", replace(STEP, ",3000,1000,", ",3000,1010,"), "I108"),
    "a step of inference": ("2.0", replace(STEP, ",100,900\n", ",100,90\n"), "I105 I108"),
    "time alone": ("1.x", replace(CLUSTER_FILE, "164.476", "164.576"), "I109"),
    "time of a stage": ("1.x", replace(CLUSTER_FILE, "121.8989", "12.18989"), "I109"),
    "a step's cost x 10": ("2.0", replace(HCCL, "1,3.0,9.0", "1,30.0,9.0"), "I105 I109"),
    "a step's wait": ("2.0", replace(HCCL, "1,3.0,9.0", "1,3.0,9.5"), "I105 I109"),
    "an average of costs": ("2.0", replace(HCCL, "-,2.0,6.5", "-,20.0,6.5"), "I105"),
    "an operator's cost": ("2.0", replace(HCCL, '""1"", 2.0, 5.0', '""1"", 2.5, 5.0'), "I109"),
    "a link's time": ("2.0", replace(HCCL, "[3.0, 12.0", "[30.0, 12.0"), "I109"),
    "a link's size": ("2.0", replace(HCCL, "[3.0, 12.0", "[3.0, 12000.0"), "I109"),
    "an operator of another step": ("2.0", replace(HCCL, '[""2""', '[""1""'), "I109"),
    "a cost of 2.1 in ms": ("2.1", replace(HCCL, "1,3000.0", "1,3.0"), "I109"),
    "a last row of 2.1": ("2.1", replace(HCCL, "-,1000.0", "-,2000.0"), "I105"),
    "a share x 10": ("1.x", replace(CORE_TYPES, ",25.00", ",2.50"), "I105"),
    "a share's last digit but one": ("1.x", replace(CORE_TYPES, ",25.00", ",25.10"), "I105"),
    "a share of 2.0": ("2.0", replace(CORE_TYPES, ",9.09", ",9.90"), "I105"),
    "a share of 2.1": ("2.1", replace(CORE_TYPES, str(1 / 7), "0.1528"), "I105"),
    "a type's time x 10": ("1.x", replace(CORE_TYPES, "Add,1.0", "Add,10.0"), "I104 I105"),
    "a type's time of 2.0": ("2.0", replace(CORE_TYPES, "Add,1.0", "Add,1.1"), "I104 I105"),
    "a type's frequency": ("2.0", replace(CORE_TYPES, "Add,1.0,1", "Add,1.0,2"), "I101"),
    "a type twice": ("1.x", in_lines(CORE_TYPES, lambda lines: [*lines, lines[-1]]), "I105 I114"),
    "an operator twice": ("1.x", in_lines(CORE_DETAIL, lambda lines: [*lines, lines[-1]]), "I101 I114"),
    "an operator of no graph": ("2.1", in_lines("framework_raw_0.csv", lambda lines: lines[:-1]), "I101"),
    "an operator's time": ("1.x", replace(CORE_DETAIL, f"{A},3.0", f"{A},3.1"), "I104 I105"),
    "an operator's frequency": ("2.0", replace(CORE_DETAIL, f"{A},3.0,2", f"{A},3.0,3"), "I101"),
    "a lost execution": ("2.0", in_lines(TIMELINE, lambda lines: lines[:-1]), "I101"),
    "an execution in us": ("1.x", replace(TIMELINE, "105.0,4.0", "105.0,4000.0"), "I105"),
    "an unknown execution": ("1.x", replace(TIMELINE, f"{B},0,103", "Default/x-op9,0,103"), "I101"),
    "executions out of order": ("1.x", in_lines(TIMELINE, lambda lines: swapped(lines, 1, 2)), "I106"),
    "a summary's operators": ("2.1", in_json(DEVICE, lambda s: s.update(num_of_ops=20)), "I101"),
    "a summary's executions": ("2.1", in_json(DEVICE, lambda s: s.update(op_exe_times=2)), "I101"),
    "a summary's time": ("2.1", in_json(DEVICE, lambda s: s.update(total_time=7000.0)), "I104"),
    "operations": ("1.x", in_json(FLOPS, lambda s: s.update(FLOPs=315.0)), "I104"),
    "rates": ("1.x", in_json(FLOPS, lambda s: s.update(FLOPS=55.0)), "I104"),
    "operations of cubes": ("2.1", in_json(FLOPS, lambda s: s.update(cube_FLOPs=300.0)), "I104"),
    "operations of vectors": ("2.1", in_json(FLOPS, lambda s: s.update(vec_FLOPs=0.0015)), "I104"),
    "a total of the AI CPU": ("2.1", replace(AICPU, "0.37,0.15", "3.7,0.15"), "I104"),
    "a serial number": ("2.0", replace(AICPU, "2,GetNext", "3,GetNext"), "I114"),
    "an end before its start": ("2.0", replace(AICPU, "7895707", "7895107"), "I106"),
}


def write_flat(above: Path, version: str) -> Path:
    directory = above / "profiler"
    directory.mkdir()
    for name, text in FLAT[version].items():
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize("version", FLAT)
@pytest.mark.variants(1)
def test_clean_flat_files_break_none(version, tmp_path):
    contract = inspect(Recording(directory=write_flat(tmp_path, version)))
    assert contract.layouts == (f"ms-{version}",)
    assert [f for f in contract.findings if f.code.family in "IS"] == []
    (cycle,) = contract.cycles
    assert {one.path.name for one in cycle.files} == set(FLAT[version])


@pytest.fixture(scope="module")
def corrupted_flat(tmp_path_factory, request) -> dict[str, Contract]:
    names = wanted(request, "name")
    above = places(tmp_path_factory.mktemp("flat"), len(names))
    directories = []
    for name, place in zip(names, above, strict=True):
        version, corrupt, _ = CORRUPTED_FLAT[name]
        directories.append(write_flat(place, version))
        corrupt(directories[-1])
    return dict(zip(names, inspect_together([Recording(directory=one) for one in directories]), strict=True))


@pytest.mark.parametrize("name", CORRUPTED_FLAT)
@pytest.mark.variants(9)
def test_corrupted_flat_files_break_exactly_these_invariants(name, corrupted_flat):
    contract = corrupted_flat[name]
    assert invariant_errors(contract) == CORRUPTED_FLAT[name][2], contract.findings
    assert not [f for f in contract.findings if f.code.family == "S"]


# -- the corpus ------------------------------------------------------------------------------------------------------


def test_real_output_breaks_no_invariant():
    named = [*conftest.recorded("mindspore-2.*-cpu-*"), corpus_place() / "mindinsight" / "ascend-1.x-single"]
    there = [place for place in named if place.is_dir()]
    contracts = inspect_together([read_recording(place) for place in there])
    found = {place: invariant_errors(one) for place, one in zip(there, contracts, strict=True)}
    assert len(found) >= 14
    assert {place: codes for place, codes in found.items() if codes} == {}


def test_real_communication_of_a_cluster_adds_up(corpus):
    cluster = corpus.parent / "mindinsight" / "cluster"
    if not cluster.is_dir():
        pytest.skip(f"no {cluster}")
    # Its steps were cut to five, and their average is still that of all.
    errors = [f for f in inspect(Recording(directory=cluster)).findings if f.severity is Severity.ERROR]
    assert {f.check for f in errors if f.code.family == "I"} == {
        "step_averages_follow",
        "averages_of_a_cluster_follow",
    }
