"""Flat files of MindSpore: silent on right ones, and what is found, and where, when one thing is changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perfguard.contract import Contract
from perfguard.contract.checks import checks_of
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import generate
from tests.contract.together import inspect_together, places, wanted

NAMES = {check.name for check in checks_of("mindspore_flat")}
STEPS, CLUSTER = "step_trace_raw_0_detail_time.csv", "ascend_cluster_analyse_data-parallel_1_1_0.csv"
AICPU, SAME = "aicpu_intermediate_0.csv", "output_data_preprocess_aicpu_0.txt"
TIMELINE, HWTS, COMPUTE = "output_timeline_data_0.txt", "output_format_data_hwts_0.txt", "output_op_compute_time_0.txt"
OPERATORS, TYPES, RUNS = "gpu_op_detail_info_0.csv", "gpu_op_type_info_0.csv", "gpu_op_execute_timestamp_0.txt"
ACTIVITIES, LAUNCHES = "gpu_activity_data_0.csv", "activity_execute_timestamp_0.txt"
DISPLAY, FIGURES = "gpu_timeline_display_0.json", "gpu_timeline_summary_0.json"
FRAMEWORK, POINTS = "gpu_framework_0.txt", "step_trace_profiling_0.txt"
SCOPES = "flops_scope_0.json"
#: The steps of step_trace_raw in the form of data parallel training, which is not generated.
PARALLEL = "iteration_interval, fp_and_bp, tail\n0, 78780, 0\n13866, 84788, 0\n19572, 91828, 0\n"

#: A directory (see `written`), a file in it, what is replaced by what, and what is found, `{}` being the file.
DAMAGED = {
    "a step is missing": (
        "ms-1.x",
        STEPS,
        r"\n2,.*",
        "",
        "I105 step_averages_follow {}:4|I108 steps_follow_each_other {}:3",
    ),
    "a step has no number": ("ms-1.x", STEPS, r"\n2,", "\n-,", "I108 steps_follow_each_other {}:3"),
    "a step starts early": (
        "ms-1.x",
        STEPS,
        r"\n2,154907896",
        "\n2,154907895",
        "I105 step_averages_follow {}:5|I106 steps_follow_each_other {}:3|I108 step_parts_add_up {}:3",
    ),
    "there is only the average": ("ms-1.x", STEPS, r"\n[1-3],.*", "", "I108 steps_follow_each_other {}"),
    "waiting in a step": ("ms-1.x", CLUSTER, "13866", "13867", "I108 parts_of_a_step_are_those_of_the_trace {}:3"),
    "passes of a step": ("ms-1.x", CLUSTER, "91828", "9182", "I108 parts_of_a_step_are_those_of_the_trace {}:4"),
    "the end of a step": (
        "ms-1.x",
        CLUSTER,
        "78780, 0",
        "78780, 7",
        "I108 parts_of_a_step_are_those_of_the_trace {}:2",
    ),
    "the order of executions": (
        "ms-2.1",
        TIMELINE,
        r"154907896070\.76",
        "154907899070.76",
        "I106 warning device_timeline_is_in_order {}:3",
    ),
    "a number twice": (
        "ms-1.x",
        SAME,
        r"\n3 ",
        "\n2 ",
        "I114 aicpu_files_say_the_same {}:4|I101 aicpu_files_say_the_same {}|I101 aicpu_files_say_the_same {}:4",
    ),
    "a lost number": (
        "ms-1.x",
        SAME,
        r"\n3 .*",
        "",
        "I101 aicpu_files_say_the_same {}|I104 aicpu_files_say_the_same {}:4",
    ),
    "a total of AI CPU": ("ms-1.x", SAME, r"1 GetNext 0\.888", "1 GetNext 0.889", "I101 aicpu_files_say_the_same {}:2"),
    "a dispatch": ("ms-1.x", SAME, r"0\.15 154907896000", "0.14 154907896000", "I101 aicpu_files_say_the_same {}:2"),
    "an execution": ("ms-2.0", SAME, r"0\.22 154907896000", "0.21 154907896000", "I101 aicpu_files_say_the_same {}:2"),
    "a start": ("ms-1.x", SAME, "154907896000", "154907896001", "I101 aicpu_files_say_the_same {}:2"),
    "an end": ("ms-1.x", SAME, "154907896370", "154907896371", "I101 aicpu_files_say_the_same {}:2"),
    "computing of another run": (
        "ms-1.x",
        COMPUTE,
        "0.084  519",
        "0.085  519",
        "I113 compute_times_are_the_details {}|I104 executed_operators_have_their_mean {}:8",
    ),
    "a time of computing": (
        "many",
        COMPUTE,
        "0.05529333333333333 ",
        "0.0453 ",
        "I101 compute_times_are_the_details {}:15|I104 executed_operators_have_their_mean {}:16",
    ),
    "an operator twice": (
        "ms-1.x",
        COMPUTE,
        r"\n(.* 0.084  519)\n",
        "\n\\1\n\\1\n",
        "I114 compute_times_are_the_details {}:6|I104 executed_operators_have_their_mean {}:9",
    ),
    "steps of another run": ("ms-1.x", STEPS, "15490789", "9549078", "I113 flat_files_share_a_clock {}"),
    "a counter of another run": (
        "ms-1.x",
        HWTS,
        "15490789",
        "9549078",
        "I113 flat_files_share_a_clock {}|"
        + "|".join(f"I103 executions_are_of_the_hardware_log {TIMELINE}:{line}" for line in range(2, 14)),
    ),
    "AI CPU of another run": (
        "ms-1.x",
        AICPU,
        r"(?<=,)154907(?=89)",
        "104907",
        f"I113 flat_files_share_a_clock {{}}|{'|'.join(f'I101 aicpu_files_say_the_same {SAME}:{row}' for row in (2, 3, 4))}",
    ),
    "an average": ("gpu", OPERATORS, "22.9667", "23.9667", "I105 gpu_averages_follow {}:2"),
    "an average of a type": ("gpu", TYPES, "22.9667", "23.9667", "I105 gpu_averages_follow {}:2"),
    "an average of an activity": ("gpu", ACTIVITIES, "15.7133", "15.8133", "I105 gpu_averages_follow {}:2"),
    "the shortest is longer": (
        "gpu",
        ACTIVITIES,
        r"12\.74\n",
        "17.74\n",
        "I105 gpu_averages_follow {}:2|I104 gpu_activities_are_their_executions {}",
    ),
    "the total of an activity": (
        "gpu",
        ACTIVITIES,
        r"3,47\.14",
        "3,48.14",
        "I105 gpu_averages_follow {}:2|I104 gpu_activities_are_their_executions {}",
    ),
    "how often a type occurs": (
        "gpu",
        TYPES,
        "MatMul,3",
        "MatMul,4",
        "I105 gpu_averages_follow {}:2|I101 gpu_types_are_the_sum_of_details {}",
    ),
    "the total of a type": (
        "gpu",
        TYPES,
        r"3,68\.9,0.0302729,22.9667",
        "3,68.905,0.0302751,22.9683",
        "I104 gpu_types_are_the_sum_of_details {}",
    ),
    "a type of no operator": (
        "gpu",
        TYPES,
        "MatMul,",
        "MatMuls,",
        "I101 gpu_types_are_the_sum_of_details {}|I104 gpu_types_are_the_sum_of_details {}",
    ),
    "an unknown operator": (
        "gpu",
        RUNS,
        "fc-Dense/MatMul-op0;",
        "fc-Dense/MatMul-op9;",
        f"I102 gpu_timestamps_are_occurrences {{}}|I103 gpu_timeline_draws_what_ran {DISPLAY}",
    ),
    "an execution of an operator": (
        "gpu",
        RUNS,
        r",23\.643",
        ",24.643",
        f"I104 gpu_timestamps_are_occurrences {{}}|I103 gpu_timeline_draws_what_ran {DISPLAY} $[1]"
        f"|I104 gpu_timeline_summary_counts_operators {FIGURES} $.total_time",
    ),
    "an execution on another day": (
        "gpu",
        RUNS,
        "1781064436344239296",
        "1781264436344239296",
        f"I113 gpu_executions_lie_together {{}}:1|I108 gpu_points_are_those_of_the_operators {POINTS}:1"
        f"|I103 gpu_timeline_draws_what_ran {DISPLAY} $[1]|I103 gpu_timeline_draws_what_ran {DISPLAY} $[10]"
        f"|I103 gpu_timeline_draws_what_ran {DISPLAY} $[19]",
    ),
    "a share of an operator": ("gpu", OPERATORS, r"0\.0302729", "0.0303729", "I105 gpu_shares_follow {}:2"),
    "a launch": (
        "gpu",
        LAUNCHES,
        r"^(MatMul.*)\n",
        "\\1\n\\1\n",
        f"I102 gpu_activities_are_their_executions {{}}|I103 gpu_timeline_draws_what_ran {DISPLAY}"
        "|I104 gpu_operators_have_their_activities gpu_op_detail_info_0.csv"
        "|I106 warning executions_of_a_stream_follow_each_other {}:2",
    ),
    "a point of a step of a GPU": (
        "gpu",
        POINTS,
        r"\A(\S+,\d{15})\d{4}",
        r"\g<1>9999",
        f"I108 gpu_points_are_those_of_the_operators {{}}:1|I103 gpu_timeline_draws_what_ran {DISPLAY} $[0]"
        "|I108 gpu_steps_are_those_of_the_trace step_trace_raw_0_detail_time.csv:2",
    ),
    "a step of a GPU": (
        "gpu",
        "step_trace_raw_0_detail_time.csv",
        r"\n3,.*",
        "",
        "I105 step_averages_follow {}:4|I108 gpu_steps_are_those_of_the_trace {}",
    ),
    "a step that a GPU did not run": (
        "gpu",
        "step_trace_raw_0_detail_time.csv",
        r"\n3,",
        "\n4,",
        "I108 gpu_steps_are_those_of_the_trace {}|I108 gpu_steps_are_those_of_the_trace {}:4|I108 steps_follow_each_other {}:4",
    ),
    "a GPU that ran before its start": (
        "gpu",
        "start_time_0.txt",
        r"gpu_start_time\(ns\): \d",
        "gpu_start_time(ns): 2",
        "|".join(
            f"I106 a_gpu_runs_behind_its_start {name}:{line}"
            for name, lines in ((RUNS, 4), (LAUNCHES, 12))
            for line in range(1, lines + 1)
        ),
    ),
    "a type of a GPU twice": (
        "gpu",
        TYPES,
        r"\n(MatMul.*)",
        r"\n\1\n\1",
        "I114 gpu_operators_are_listed_once {}:3|"
        + "|".join(f"I105 gpu_shares_follow {{}}:{line}" for line in range(2, 7)),
    ),
    "one clock": ("gpu", "start_time_0.txt", r"\ngpu.*", "", "S103 start_time_has_both_clocks {}"),
    "inputs of an execution": ("gpu", FRAMEWORK, r"\A.*\n", "", "I101 gpu_framework_has_every_execution {}"),
    "another graph": ("gpu", FRAMEWORK, r"\A(.*?);\d+;", r"\g<1>;12;", "I113 gpu_framework_is_of_the_graphs {}"),
    "an activity twice": (
        "gpu",
        ACTIVITIES,
        r'\n("MatMul.*)',
        r"\n\1\n\1",
        f"I102 gpu_activities_are_their_executions {LAUNCHES}|I114 gpu_activities_are_listed_once {{}}:3",
    ),
    "an operator drawn as another": (
        "gpu",
        DISPLAY,
        r'\A(.*?)"name": "MatMul-op0"',
        r'\1"name": "MatMul-op7"',
        "I103 gpu_timeline_draws_what_ran {}",
    ),
    "a drawn duration": (
        "gpu",
        DISPLAY,
        r'\A(.*?)"dur": \d',
        r'\1"dur": 99',
        "I103 gpu_timeline_draws_what_ran {} $[0]",
    ),
    "a drawn stream": ("gpu", DISPLAY, r'\A(.*?)"tid": 17', r'\1"tid": 18', "I103 gpu_timeline_draws_what_ran {}"),
    "a drawn operator": (
        "gpu",
        DISPLAY,
        r'\A(.*?)"op_full_name": "',
        r'\1"op_full_name": "x',
        "I103 gpu_timeline_draws_what_ran {} $[2]",
    ),
    "the timeline of another device": (
        "gpu",
        DISPLAY,
        r'\A(.*?)"pid": 0',
        r'\1"pid": 3',
        "I113 gpu_timeline_is_of_the_device {} $[0].pid",
    ),
    "operators of a GPU in the summary": (
        "gpu",
        FIGURES,
        r'"num_of_ops": \d',
        '"num_of_ops": 9',
        "I101 gpu_timeline_summary_counts_operators {} $.num_of_ops",
    ),
    "the depth of scopes": (
        "gpu",
        FIGURES,
        r'"max_scope_name_num": \d',
        '"max_scope_name_num": 9',
        "I101 gpu_timeline_summary_counts_operators {} $.max_scope_name_num",
    ),
    "the time of a GPU in the summary": (
        "gpu",
        FIGURES,
        '"total_time": ',
        '"total_time": 1',
        "I104 gpu_timeline_summary_counts_operators {} $.total_time",
    ),
    "activities of an operator": ("gpu", OPERATORS, r",3\n", ",2\n", "I104 gpu_operators_have_their_activities {}"),
    "parts of a name": (
        "gpu",
        OPERATORS,
        "MatMul-op0,Def",
        "MatMul-op9,Def",
        f"I101 gpu_framework_has_every_execution {FRAMEWORK}|I114 gpu_names_are_parts_of_the_full_name {{}}:2",
    ),
    "the average is lost": ("ms-1.x", STEPS, r"\n-,.*", "", "I108 steps_have_their_average {}:4"),
    "no step at all": ("ms-1.x", STEPS, r"\n(.|\n)*", "\n", "I108 steps_have_their_average {}"),
    "steps of a cluster": ("ms-1.x", CLUSTER, r"\n13866.*", "", "I108 parts_of_a_step_are_those_of_the_trace {}"),
    "a start in the log": (
        "ms-1.x",
        HWTS,
        r"\nStart of task  0 .*",
        "",
        f"I103 executions_are_of_the_hardware_log {TIMELINE}:10|I103 executions_are_of_the_hardware_log {TIMELINE}:2",
    ),
    "an end in the log": (
        "ms-1.x",
        HWTS,
        r"\nEnd of task    1 .*",
        "",
        f"I103 executions_are_of_the_hardware_log {TIMELINE}:10|I103 executions_are_of_the_hardware_log {TIMELINE}:2",
    ),
    "a record of the log twice": (
        "ms-1.x",
        HWTS,
        r"\n(Start of task  2 .*)",
        r"\n\1\n\1",
        "I114 a_record_of_the_hardware_is_written_once {}:23|I114 a_record_of_the_hardware_is_written_once {}:6",
    ),
    "operators without a mean": ("ms-1.x", COMPUTE, r"\nDefault/.*", "", "I101 executed_operators_have_their_mean {}"),
    "the total of the means": (
        "ms-1.x",
        COMPUTE,
        r"\ntotal op  (\d)",
        r"\ntotal op  1\1",
        "I104 executed_operators_have_their_mean {}:8",
    ),
    "a type of the details": (
        "ms-1.x",
        "aicore_intermediate_0_type.csv",
        r"\nReLU,.*",
        "",
        "I101 types_have_all_details {}|I105 device_shares_follow {}|I105 device_shares_follow {}:2"
        "|I105 device_shares_follow {}:3|I105 device_shares_follow {}:4",
    ),
    "a type of AI CPU": (
        "ms-1.x",
        AICPU,
        r"\n2,GetNext",
        "\n2,InitData",
        f"I101 aicpu_files_say_the_same {SAME}:3",
    ),
    "an execution of AI CPU": ("ms-1.x", AICPU, r"\n3,.*", "", "I101 aicpu_files_say_the_same {}"),
    "all of AI CPU": (
        "ms-1.x",
        SAME,
        r"(Total Time\(ms\):) ",
        r"\1 9",
        "I104 aicpu_files_say_the_same {}:5",
    ),
    "the mean share of the peak": (
        "ms-1.x",
        "flops_summary_0.json",
        '"FLOPS_Utilization": ',
        '"FLOPS_Utilization": 1',
        "I105 flops_add_up {} $.FLOPS_Utilization",
    ),
    "a rate": (
        "ms-1.x",
        "flops_0.txt",
        r"(MatMul-op0, \S+) \d",
        r"\1 9",
        "I104 flops_add_up flops_summary_0.json $.FLOPS|I105 rates_follow_from_operations {}:2",
    ),
    "a share of the peak": (
        "ms-1.x",
        "flops_0.txt",
        r"(MatMul-op0, \S+ \S+) 0.",
        r"\1 7.",
        "I105 flops_add_up flops_summary_0.json $.FLOPS_Utilization|I105 rates_follow_from_operations {}:2"
        "|I105 rates_follow_from_operations {}:3|I105 rates_follow_from_operations {}:5",
    ),
    "operations of a scope": (
        "ms-1.x",
        SCOPES,
        r'\A(.*?)"value": 0',
        r'\1"value": 1',
        "I104 scopes_have_the_operations_of_their_operators {}",
    ),
    "a node of the scopes": (
        "ms-1.x",
        SCOPES,
        r'\A(.*?)\{"name": "Default"\}, ',
        r"\1",
        "I101 scopes_have_the_operations_of_their_operators {}",
    ),
    "the deepest scope": (
        "ms-1.x",
        SCOPES,
        '"max_scope_num": ',
        '"max_scope_num": 1',
        "I101 scopes_have_the_operations_of_their_operators {} $.max_scope_num",
    ),
    "the average of the steps": (
        "ms-1.x",
        STEPS,
        r"\n-,(\d+)\d{3},",
        r"\n-,\g<1>999,",
        "I105 step_averages_follow {}:5",
    ),
}


def written(place: Path, kind: str) -> Path:
    """Write the directory of a layout, of `many` operators, or of a GPU."""
    layout, operators = {"gpu": ("ms-2.0", 4), "many": ("ms-1.x", 12)}.get(kind, (kind, 4))
    generate(layout, seed=3, operators=operators, conditions={"gpu": True} if kind == "gpu" else {}).write(place)
    if kind == "ms-1.x":
        (place / "profiler" / CLUSTER).write_text(PARALLEL)
    return place


def found(contract: Contract) -> set[str]:
    findings = [one for one in contract.findings if one.check in NAMES]
    return {
        f"{one.code.name} {'' if one.severity is Severity.ERROR else f'{one.severity.value} '}{one.check} "
        f"{one.place.rpartition('/')[2]}"
        for one in findings
    }


RIGHT = ("ms-1.x", "many", "ms-2.0", "gpu", "ms-2.1", "ms-2.3")


@pytest.fixture(scope="module")
def inspected(tmp_path_factory, request) -> dict[str, Contract]:
    """Return what is said of what is right, and of what is damaged in one way each."""
    right, names = wanted(request, "kind"), wanted(request, "name")
    kinds = [*right, *(DAMAGED[name][0] for name in names)]
    above = places(tmp_path_factory.mktemp("flat"), len(kinds))
    directories = [written(place, kind) for place, kind in zip(above, kinds, strict=True)]
    for name, directory in zip(names, directories[len(right) :], strict=True):
        _, file, old, new, _ = DAMAGED[name]
        path = directory / "profiler" / file
        text = path.read_text()
        path.write_text(re.sub(old, new, text))
        assert path.read_text() != text
    contracts = inspect_together([read_recording(one) for one in directories])
    return dict(zip([*right, *names], contracts, strict=True))


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.variants(3)
def test_nothing_is_found_in_what_is_right(inspected, kind):
    assert found(inspected[kind]) == set()


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.variants(18)
def test_what_is_changed_is_found_where_it_is(inspected, name):
    _, file, _, _, said = DAMAGED[name]
    assert found(inspected[name]) == set(said.replace("{}", file).split("|"))


def test_the_steps_of_a_gpu_have_their_trace(tmp_path):
    written(tmp_path, "gpu")
    (tmp_path / "profiler" / "step_trace_raw_0_detail_time.csv").unlink()
    (contract,) = inspect_together([read_recording(tmp_path)])
    assert found(contract) == {f"I108 gpu_steps_have_their_trace {POINTS}"}
    info = tmp_path / "profiler" / "profiler_info_0.json"
    info.write_text(info.read_text().replace('"graph_ids": [', '"graph_ids": [7, '))
    # Of several graphs MindSpore makes none.
    (contract,) = inspect_together([read_recording(tmp_path)])
    assert found(contract) == {f"I113 gpu_framework_is_of_the_graphs {FRAMEWORK}"}


@pytest.mark.parametrize(("streams", "changed", "row"), [(1, 1, 3), (2, 1, None), (1, 5, None)])
@pytest.mark.parametrize(
    ("kind", "file", "header", "mark", "factor", "more"),
    [("many", TIMELINE, 1, ",", 1, 0.02), ("gpu", LAUNCHES, 0, ";", 1e-3, 20)],
)
@pytest.mark.variants(2)
def test_executions_of_a_stream_follow_each_other(
    tmp_path, kind, file, header, mark, factor, more, streams, changed, row
):
    written(tmp_path, kind)
    path = tmp_path / "profiler" / file
    lines = path.read_text().splitlines()
    rows = sorted((line.rsplit(mark, 3) for line in lines[header:]), key=lambda cells: float(cells[2]))
    for at in range(1, 2 * changed, 2):
        # It lasts 20 us longer than until the next begins.
        rows[at][3] = f"{(float(rows[at + 1][2]) - float(rows[at][2])) * factor + more:.6g}"
        rows[at][1] = str(int(rows[at][1]) + streams - 1)
    path.write_text("\n".join([*lines[:header], *map(mark.join, rows)]) + "\n")
    (contract,) = inspect_together([read_recording(tmp_path)])
    check = "I106 warning executions_of_a_stream_follow_each_other"
    said = {one for one in found(contract) if one.startswith(check)}
    assert said == (set() if row is None else {f"{check} {file}:{row + header}"})


def test_a_timeline_that_was_cut_off_is_not_compared(tmp_path):
    written(tmp_path, "gpu")
    display = tmp_path / "profiler" / DISPLAY
    events = json.loads(display.read_text())
    drawn = [one for one in events if one["ph"] == "X"]
    lanes = [one for one in events if one["ph"] == "M"]
    display.write_text(json.dumps([*drawn[:-5], {**drawn[0], "name": "x" * 2**20, "tid": 99, "args": {}}, *lanes]))
    (contract,) = inspect_together([read_recording(tmp_path)])
    assert found(contract) == set()


def test_a_point_without_asynchronous_launch_has_counts_of_ten_ns(tmp_path):
    written(tmp_path, "gpu")
    runs = (tmp_path / "profiler" / RUNS).read_text().splitlines()
    lines = []
    for line in runs[:3]:
        name, _, times = line.split(";")
        spans = [one.split(",") for one in times.split()]
        ends = [(int(start), int(start) + int(float(lasts) * 1000)) for start, lasts in spans]
        lines.append(f"{name} " + " ".join(f"{start // 10},{end // 10}" for start, end in ends) + " \n")
    (tmp_path / "profiler" / POINTS).write_text("".join(lines))
    (contract,) = inspect_together([read_recording(tmp_path)])
    # The steps of the timeline and of step_trace_raw are not compared with such points.
    assert found(contract) == set()


def test_the_average_of_a_cluster_follows(tmp_path):
    generate("ms-2.0", seed=3, ranks=2, operators=4).write(tmp_path)
    (contract,) = inspect_together([read_recording(tmp_path)])
    assert found(contract) == set()
    table = next(tmp_path.rglob("ascend_cluster_analyse_*_0.csv"))
    lines = table.read_text().splitlines()
    assert len(lines) == 5
    table.write_text("\n".join([*lines[:2], *lines[3:]]) + "\n")
    (contract,) = inspect_together([read_recording(tmp_path)])
    assert {one.split(" ")[1] for one in found(contract)} == {"averages_of_a_cluster_follow"}
