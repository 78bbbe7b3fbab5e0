"""MindData: readers, schemas and invariants, on directories written here and on the real ones of the corpus."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts.readers.comma import read_ragged
from perfguard.artifacts.readers.whitespace import read_columns
from perfguard.artifacts.table import Unreadable
from perfguard.contract import Contract, inspect
from perfguard.documents import schema
from perfguard.findings import Severity
from perfguard.recording import read_recording
from tests.conftest import recorded
from tests.contract.together import inspect_together, places

RAW, ITERATOR = "minddata_pipeline_raw_0.csv", "dataset_iterator_profiling_0.txt"
SIZES = {0: [0, 0, 3, 1], 1: [2, 0, 4, 0], 2: [0, 1, 0, 0]}
PUSH = [0, 1, 2, 1]
PIPELINE = [5, 16, 8, 12]
STAMPS = [1000, 1021, 1030, 1047]


Error = tuple[str, str]


def errors(place: Path, severity: Severity = Severity.ERROR) -> list[Error]:
    return errors_of(inspect(read_recording(place)), severity)


def errors_of(contract: Contract, severity: Severity = Severity.ERROR) -> list[Error]:
    found = contract.findings
    return [(f.code.name, f.place.split(" ")[0].split(":")[0]) for f in found if f.severity is severity]


def codes(place: Path) -> set[str]:
    return {code for code, _ in errors(place)}


def judged(place: Path, changes: Sequence[Callable[[Path], object]]) -> list[Contract]:
    """Return what is said of directories that keep every rule but for one change each."""
    directories = places(place, len(changes))
    for directory, edit in zip(directories, changes, strict=True):
        write_directory(directory)
        edit(directory)
    return inspect_together([read_recording(one) for one in directories])


def refuse_missed(place: Path, cases: Sequence[tuple[Any, ...]], edit: Callable[..., object]) -> None:
    """Make each change (`edit` is given the directory, and the case but for its end), and look for the code at its end."""
    found = judged(place, [lambda directory, case=case: edit(directory, *case[:-1]) for case in cases])
    missed = [
        (number, case[-1], errors_of(one))
        for number, (case, one) in enumerate(zip(cases, found, strict=True))
        if case[-1] not in {code for code, _ in errors_of(one)}
    ]
    assert missed == []


def pipeline() -> dict[str, Any]:
    types = {0: "BatchOp", 1: "MapOp", 2: "GeneratorOp"}
    operators = []
    for one, sizes in SIZES.items():
        queue = {"output_queue": {"length": 16, "size": sizes}}
        operator = {"op_id": one, "op_type": types[one], "num_workers": 2, "metrics": queue}
        operators.append({**operator, "children": [one + 1]} if one < 2 else operator)
    return {"op_info": operators, "sampling_interval": 10}


def cpu_use() -> dict[str, Any]:
    machine = {
        key: [0] * 8 for key in ("context_switch_count", "idle_utilization", "io_utilization", "runnable_process")
    }
    each = {"sys_utilization": [1, 2, 3, 4], "user_utilization": [0, 0, 1, 2]}
    return {
        "cpu_processor_num": 2,
        "sampling_interval": 10,
        "time_stamp": [10, 20, 30, 40],
        "device_info": {**machine, **each},
        "op_info": [{"op_id": one, "metrics": each} for one in (-1, *SIZES)],
        "process_info": {key: values[1:] for key, values in each.items()},
        "process_memory_info": {f"{kind}_mbytes": [1.5] * 4 for kind in ("pss", "rss", "vss")},
        "system_memory_info": {
            f"{kind}_sys_memory_mbytes": [size] * 4
            for kind, size in (("available", 3.0), ("used", 1.5), ("total", 4.5))
        },
    }


def summary() -> dict[str, list[Any]]:
    averages = [round(sum(sizes) / 4, 2) for sizes in SIZES.values()]
    names = ["Batch", "Map", "Generator"]
    later, ends = slice(1, None), pairwise(STAMPS)
    batch = [a + b for a, b in zip(PIPELINE, PUSH, strict=True)][later] + [b - a for a, b in ends]
    return {
        "op_ids": list(SIZES),
        "op_names": names,
        "pipeline_ops": [f"{name}(id={one})" for one, name in enumerate(names)],
        "num_workers": [2, 2, 2],
        "queue_average_size": averages,
        "queue_utilization_pct": [round(100 * average / 16, 2) for average in averages],
        "queue_empty_freq_pct": [100 * sizes.count(0) / 4 for sizes in SIZES.values()],
        "children_ids": [[1], [2], []],
        "parent_id": [-1, 0, 1],
        "avg_cpu_pct": [3.25] * 3,
        "per_pipeline_time": [round(sum(PIPELINE[later]) / 3, 3)],
        "per_push_queue_time": [round(sum(PUSH[later]) / 3, 3)],
        "per_batch_time": [round(sum(batch) / len(batch), 3)],
        "avg_cpu_pct_per_worker": [1.62] * 3,
        "cpu_analysis_details": ["Batch(id=0) is using 3.25% CPU, which is little."],
    }


def batches() -> list[str]:
    lines = []
    for number, (pipeline_ms, push, stamp) in enumerate(zip(PIPELINE, PUSH, STAMPS, strict=True), start=1):
        lines += [f"0 1 {number} {push} {stamp}", f"0 2 {number} {pipeline_ms + push} {stamp}"]
        lines += [f"0 0 {number} {pipeline_ms} {stamp}", f"1 16 {number} 2 {stamp}"]
    return lines


def write_summary(place: Path, document: dict[str, list[Any]], form: str = "both") -> None:
    if form in ("both", "json"):
        (place / "minddata_pipeline_summary_0.json").write_text(json.dumps(document))
    if form in ("both", "csv"):
        with (place / "minddata_pipeline_summary_0.csv").open("w", newline="") as file:
            csv.writer(file).writerows([key, *values] for key, values in document.items())


@pytest.fixture
def minddata(tmp_path: Path) -> Path:
    """Return a directory that keeps every rule."""
    place = tmp_path / "minddata"
    place.mkdir()
    write_directory(place)
    return place


def write_directory(place: Path) -> None:
    """Write what keeps every rule, in the writers' formatting."""
    (place / "pipeline_profiling_0.json").write_text(json.dumps(pipeline()))
    (place / "minddata_cpu_utilization_0.json").write_text(json.dumps(cpu_use()))
    (place / "dataset_iterator_profiling_0.txt").write_text("\n".join(batches()) + "\n")
    write_summary(place, summary())
    with (place / "minddata_pipeline_raw_0.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(schema("minddata_pipeline_raw")["items"]["properties"])
        for one in pipeline()["op_info"]:
            sizes, number = SIZES[one["op_id"]], one["op_id"]
            mean = sum(sizes) / 4
            parent, children = "" if number == 0 else number - 1, one.get("children", "")
            writer.writerow([number, one["op_type"], 2, sizes, mean, 16, mean / 16, 10, parent, children])


def change(place: Path, name: str, edit: Callable[[Any], Any]) -> None:
    document = json.loads((place / name).read_text())
    edit(document)
    (place / name).write_text(json.dumps(document))


def replace(place: Path, name: str, old: str, new: str, count: int = 1) -> None:
    text = (place / name).read_bytes().decode()
    assert old in text
    (place / name).write_bytes(text.replace(old, new, count).encode())


def test_a_directory_that_keeps_every_rule_is_clean(minddata):
    contract = inspect(read_recording(minddata))
    assert [finding for finding in contract.findings if finding.severity is not Severity.NOTE] == []
    assert contract.layouts == ("minddata",)
    assert len(contract.cycles[0].artifacts) == 6


@pytest.mark.parametrize("version", ["2.0", "2.10"])
@pytest.mark.variants(1)
def test_real_output_is_clean(version):
    for place in recorded(f"mindspore-{version}-minddata"):
        assert errors(place) == [], place


def test_real_output_of_1_x_keeps_its_own_versions_of_the_schemas(corpus, tmp_path):
    source = corpus.parent / "mindinsight" / "ascend-1.x-single" / "profiler"
    for path in source.glob("*"):
        if "minddata" in path.name or path.name.startswith(("pipeline_profiling", "device_queue", "dataset_iterator")):
            shutil.copy(path, tmp_path)
    (cycle,) = inspect(read_recording(tmp_path)).cycles
    versions = {slot: artifact.schema for slot, artifact in cycle.artifacts.items()}
    assert versions["minddata_cpu_utilization"] == "minddata_cpu_utilization.1.x"
    assert versions["dataset_iterator_profiling"] == "dataset_iterator_profiling.1.x"
    assert versions["device_queue_profiling"] == "device_queue_profiling"
    assert "minddata_aicpu" in versions
    assert codes(tmp_path) <= {"A102", "A106"}  # two kinds of run in one directory, and no summary


def test_many_ranks_lie_in_one_directory(minddata):
    for path in list(minddata.iterdir()):
        shutil.copy(path, minddata / path.name.replace("_0.", "_3."))
    assert [cycle.rank for cycle in inspect(read_recording(minddata)).cycles] == [0, 3]
    assert errors(minddata) == []


# -- one thing wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["pipeline_profiling_0.json", "minddata_cpu_utilization_0.json", "minddata_pipeline_raw_0.csv"]
)
def test_a_file_that_is_gone_is_missed(minddata, name):
    (minddata / name).unlink()
    assert errors(minddata) == [("A102", name)]


def test_without_analysis_nothing_of_it_is_asked_for(minddata):
    for path in [*minddata.glob("minddata_pipeline_*")]:
        path.unlink()
    assert errors(minddata) == []


def operator(index: int, key: str, value: Any) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        document["op_info"][index][key] = value

    return edit


PIPELINES = [
    (operator(2, "op_id", 1), "I114"),
    (operator(0, "op_id", 7), "I111"),
    (operator(0, "children", [1, 2]), "I111"),
    (operator(0, "children", [9]), "I111"),
    (operator(0, "num_workers", 3), "I111"),
    (operator(1, "op_type", "ShuffleOp"), "I111"),
    (operator(0, "metrics", None), "I111"),
    (lambda d: d["op_info"][0]["metrics"]["output_queue"]["size"].append(0), "I111"),
    (lambda d: d["op_info"][0]["metrics"]["output_queue"].update(size=[0, 0, 3, 9]), "I105"),
    (lambda d: d["op_info"][0]["metrics"]["output_queue"].update(length=8), "I105"),
    (lambda d: d["op_info"].pop(), "I111"),
    (lambda d: d.update(sampling_interval=100), "I111"),
    (lambda d: d.pop("sampling_interval"), "S103"),
    (operator(0, "num_workers", -1), "S103"),
]


def test_a_changed_pipeline_is_found(tmp_path):
    refuse_missed(tmp_path, PIPELINES, lambda place, edit: change(place, "pipeline_profiling_0.json", edit))


RAW_TABLES = [
    ("1,MapOp", "2,MapOp", "I114"),
    ("1.0,16,0.0625", "1.5,16,0.09375", "I105"),
    ("1.0,16,0.0625", "1.0,16,6.25", "S103"),
    ("1.0,16,0.0625", "1.0,16,0.5", "I105"),
    ("1.0,16,0.0625", "1.0,8,0.125", "I111"),
    ("1.0,16,0.0625", ",16,0.0625", "I105"),
    ("[2]", "[0]", "I111"),
    ("[2]", "[2", "S103"),
    ("[0, 0, 3, 1]", "[0, 0, 3]", "I111"),
    ("[0, 0, 3, 1]", "[0, 0, 3, true]", "S103"),
    ("sample_interval", "sampling_interval", "S102"),
    (",1,\r\n", ",,\r\n", "I111"),
    ("op_id,op_type", "op_type,op_id", "S102"),
]


def test_a_changed_raw_table_is_found(tmp_path):
    refuse_missed(tmp_path, RAW_TABLES, lambda place, old, new: replace(place, RAW, old, new))


SUMMARIES = [
    ("op_ids", [0, 1, 1], "I114"),
    ("op_ids", [0, 1, 3], "I111"),
    ("op_names", ["Batch", "Map", "Reader"], "I111"),
    ("pipeline_ops", ["Batch(id=0)", "Map(id=2)", "Generator(id=2)"], "I111"),
    ("num_workers", [2, 2], "I111"),
    ("num_workers", [2, 4, 2], "I111"),
    ("queue_average_size", [1.0, 1.5, 0.35], "I105"),
    ("queue_utilization_pct", [6.25, 0.09, 1.56], "I105"),
    ("queue_utilization_pct", [6.25, 101, 1.56], "S103"),
    ("queue_empty_freq_pct", [50, 25, 75], "I105"),
    ("children_ids", [[1], [0], []], "I111"),
    ("parent_id", [-1, 2, 1], "I111"),
    ("avg_cpu_pct", [3.25, 3.25, 6.5], "I105"),
    ("avg_cpu_pct_per_worker", [1.62, 3.25, 1.62], "I105"),
    ("per_pipeline_time", [13.0], "I105"),
    ("per_push_queue_time", [1.4], "I105"),
    ("per_batch_time", [13.333], "I105"),
    ("per_batch_time", [], "S103"),
    ("per_batch_time", None, "S103"),
]


def test_a_changed_summary_is_found(tmp_path):
    def edit(place: Path, key: str, value: Any) -> None:
        document = {**summary(), key: value}
        write_summary(place, {k: v for k, v in document.items() if v is not None})

    refuse_missed(tmp_path, SUMMARIES, edit)


@pytest.mark.parametrize("value", ["x", "-", "\0", "1.5", "-1"])
@pytest.mark.variants(1)
def test_a_value_is_not_left_to_the_schema_of_an_older_version(minddata, value):
    """Lines of 1.x have four numbers, and the fifth is a column that their schema does not know."""
    iterator = minddata / "dataset_iterator_profiling_0.txt"
    lines = iterator.read_text().splitlines()
    lines[3] = " ".join([*lines[3].split()[:4], value])
    iterator.write_text("\n".join(lines) + "\n")
    assert errors(minddata) == [("S103", "dataset_iterator_profiling_0.txt")]


def test_a_document_is_not_left_to_the_schema_of_an_older_version(minddata):
    change(minddata, "minddata_cpu_utilization_0.json", lambda found: found.update(process_memory_info="much"))
    assert errors(minddata) == [("S103", "minddata_cpu_utilization_0.json")]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.variants(1)
def test_summaries_that_differ_are_found(minddata, form):
    write_summary(minddata, {**summary(), "bottleneck_warning": ["Map(id=1)"]}, form)
    assert errors(minddata) == [("I111", "minddata_pipeline_summary_0.csv")]


def test_the_mean_time_of_a_batch_is_another_one_in_sink_mode(minddata):
    iterator = minddata / "dataset_iterator_profiling_0.txt"
    iterator.rename(minddata / "device_queue_profiling_0.txt")
    assert errors(minddata) == [("I105", "minddata_pipeline_summary_0.json")]
    own = [a + b for a, b in zip(PIPELINE[1:], PUSH[1:], strict=True)]
    write_summary(minddata, {**summary(), "per_batch_time": [round(sum(own) / 3, 3)]})
    assert errors(minddata) == []


def drop(*numbers: int) -> Callable[[list[str]], list[str]]:
    return lambda lines: [line for number, line in enumerate(lines) if number not in numbers]


BATCHES = [
    (drop(5), "I111"),
    (drop(15), "I111"),
    (drop(4, 5, 6, 7), "I111"),
    (lambda lines: [lines[1], lines[0], *lines[2:]], "I111"),
    (lambda lines: [*lines[:5], *lines[4:]], "I111"),
    (lambda lines: [*lines[:4], "0 1 2 1 900", *lines[5:]], "I106"),
    (lambda lines: [*lines[:5], "0 2 2 40 1021", *lines[6:]], "I104"),
    (lambda lines: [*lines[:7], "1 16 2 17 1021", *lines[8:]], "I111"),
    (lambda lines: [*lines[:7], "1 16 2 1021", *lines[8:]], "S101"),
    (lambda lines: [*lines[:4], "2 1 2 1 1021", *lines[5:]], "S103"),
    (lambda lines: [*lines[:4], "0 3 2 1 1021", *lines[5:]], "S103"),
    (lambda lines: [*lines[:4], "0 1 2 NaN 1021", *lines[5:]], "S103"),
]


@pytest.mark.exhaustive
def test_changed_batches_are_found(tmp_path):
    def write(place: Path, edit: Callable[[list[str]], list[str]]) -> None:
        (place / ITERATOR).write_text("\n".join(edit(batches())) + "\n")

    refuse_missed(tmp_path, BATCHES, write)


def test_a_batch_of_the_device_queue_that_the_window_cut_is_only_a_warning(minddata):
    (minddata / "dataset_iterator_profiling_0.txt").unlink()
    (minddata / "device_queue_profiling_0.txt").write_text("\n".join(batches()[:-1]) + "\n")
    assert ("I111", "device_queue_profiling_0.txt") in errors(minddata, Severity.WARNING)
    assert "I111" not in codes(minddata)


CPU_USES = [
    (lambda d: d["time_stamp"].append(50), "I111"),
    (lambda d: d.update(time_stamp=[10, 30, 20, 40]), "I106"),
    (lambda d: d["device_info"]["idle_utilization"].pop(), "I111"),
    (lambda d: d["process_info"]["sys_utilization"].pop(), "I111"),
    (lambda d: d["op_info"][1]["metrics"]["sys_utilization"].pop(), "I111"),
    (lambda d: d["process_memory_info"]["rss_mbytes"].pop(), "I111"),
    (lambda d: d["op_info"].append(d["op_info"][-1]), "I114"),
    (lambda d: d["system_memory_info"].update(used_sys_memory_mbytes=[1.5, 1.5, 1536, 1.5]), "I107"),
    (lambda d: d["device_info"].update(sys_utilization=[0, 0, 0, 101]), "S103"),
    (lambda d: d["device_info"].update(runable_processes=d["device_info"].pop("runnable_process")), "S103"),
    (lambda d: d.pop("process_memory_info"), "S103"),
]


def test_changed_use_of_the_cpu_is_found(tmp_path):
    refuse_missed(tmp_path, CPU_USES, lambda place, edit: change(place, "minddata_cpu_utilization_0.json", edit))


def test_a_sample_that_the_profiler_stopped_in_is_no_fault(minddata):
    """Lists of the machine are written twice a sample, and once more before its time stamp would be."""

    def edit(document):
        for key in ("context_switch_count", "idle_utilization", "io_utilization", "runnable_process"):
            document["device_info"][key] += [0, 0]

    change(minddata, "minddata_cpu_utilization_0.json", edit)
    assert codes(minddata) == set()


def test_an_operator_the_pipeline_does_not_have_is_a_warning(minddata):
    change(minddata, "minddata_cpu_utilization_0.json", lambda d: d["op_info"][-1].update(op_id=9))
    assert ("I113", "minddata_cpu_utilization_0.json") in errors(minddata, Severity.WARNING)


WAITS = [
    ("GetNext_dequeue_wait 15 16 3\nGetNext_dequeue_wait 18 18 2\n", None),
    ("node_name start_time end_time queue_size\nGetNext_dequeue_wait 15 16 3\n", None),
    ("GetNext_dequeue_wait 17 16 3\n", "I106"),
    ("GetNext_dequeue_wait 15 16 3\nGetNext_dequeue_wait 14 18 2\n", "I106"),
    ("GetNext_dequeue_wait 15 16 3\nGetNext_dequeue_wait 18 -2 2\n", "S103"),
    ("GetNext_dequeue_wait 15 16 3\nGetNext", "S101"),
]


def test_waits_of_the_device(tmp_path):
    def write(place: Path, text: str) -> None:
        (place / "minddata_aicpu_0.txt").write_text(text)
        (place / ITERATOR).rename(place / "device_queue_profiling_0.txt")

    found = judged(tmp_path, [partial(write, text=text) for text, _ in WAITS])
    said = [{code for code, place in errors_of(one) if "aicpu" in place} for one in found]
    assert said == [{code} if code else set() for _, code in WAITS]


USAGE, TREE = "the_usage_of_a_queue_follows_from_its_samples", "parents_and_children_of_a_pipeline_agree"
WHOLE = "every_batch_of_the_iterator_is_whole"


IN_TABLES = [
    (RAW, "1.0,16,0.0625", "1.5,16,0.09375", [f"I105 {USAGE} :2"]),
    (RAW, "1.5,16,0.09375", "1.5,16,0.09", [f"I105 {USAGE} :3"]),
    (RAW, '"[0, 1, 0, 0]",0.25,16,0.015625', ",,16,", [f"I105 {USAGE} :4"]),
    (RAW, "[0, 1, 0, 0]", "[0, 1, 0, 0, 0.0]", [f"I105 {USAGE} :4", f"I111 {USAGE} "]),
    (
        RAW,
        "2,GeneratorOp",
        "1,GeneratorOp",
        [f"I111 {TREE} :2", f"I111 {TREE} :3", f"I111 {TREE} :4", f"I114 {TREE} :4"],
    ),
    (RAW, "0,BatchOp", "7,BatchOp", [f"I111 {TREE} :2", f"I111 {TREE} :3"]),
    (RAW, "[1]", '"[1, 1]"', []),
    (RAW, "[1]", '"[1, 5]"', [f"I111 {TREE} :2"]),
    (RAW, "[2]", "", [f"I111 {TREE} :4"]),
    (ITERATOR, "0 1 3 2 1030\n", "", [f"I111 {WHOLE} :9"]),
    (ITERATOR, "1 16 4 2 1047\n", "", [f"I111 {WHOLE} :13"]),
    (ITERATOR, "1 16 2 2 1021", "1 16 2 17 1021", [f"I111 {WHOLE} :8"]),
    (ITERATOR, "0 2 3 10 1030", "0 2 3 12 1030", [f"I104 {WHOLE} :9"]),
    (ITERATOR, "0 2 3 10 1030", "0 2 3 11 1030", []),
    (ITERATOR, "0 1 3 2 1030", "0 1 3 2 1020", [f"I106 {WHOLE} :9"]),
    (ITERATOR, " 3 ", " 1 ", [f"I111 {WHOLE} :13"]),
    (ITERATOR, " 4 ", " 6 ", [f"I111 {WHOLE} :13"]),
]


def test_what_is_changed_in_a_table_is_found_where_it_is(tmp_path):
    """A new epoch may count from 1 again; two batches of one number behind each other are one."""

    def edit(place: Path, file: str, old: str, new: str) -> None:
        replace(place, file, old, new, -1 if file == ITERATOR else 1)

    found = judged(tmp_path, [partial(edit, file=file, old=old, new=new) for file, old, new, _ in IN_TABLES])
    named = [
        {f"{f.code.name} {f.check} {f.place[len(file) :]}" for f in one.findings if f.check in (USAGE, TREE, WHOLE)}
        for (file, *_), one in zip(IN_TABLES, found, strict=True)
    ]
    assert [sorted(one) for one in named] == [said for *_, said in IN_TABLES]


def test_a_pipeline_of_another_run_is_found_as_one(minddata):
    def edit(document: Any) -> None:
        for one in document["op_info"]:
            one.update(op_type="ShuffleOp", num_workers=7)

    change(minddata, "pipeline_profiling_0.json", edit)
    assert [e for e in errors(minddata) if "raw" in e[1]] == [("I113", "minddata_pipeline_raw_0.csv")]


# -- readers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, message, place",
    [
        ("", "it is empty", ""),
        ("op_ids,0,1", "cut off", ":1"),
        ("op_ids,0\n\nop_names,a\n", "blank", ":2"),
        ("op_ids,0\nop_ids,1\n", "second time", ":2"),
        ('op_ids,"0\n', "not CSV", ":1"),
    ],
)
def test_what_is_no_ragged_table_is_refused_with_its_place(tmp_path, text, message, place):
    (tmp_path / "one.csv").write_text(text)
    with pytest.raises(Unreadable, match=message) as refused:
        read_ragged(tmp_path / "one.csv", schema("minddata_pipeline_summary_csv"))
    assert refused.value.place == place


def test_a_ragged_table_has_the_types_its_schema_names(tmp_path):
    (tmp_path / "one.csv").write_text('op_ids,0,x\r\nchildren_ids,"[1, 2]",[,[]\r\nop_names,7\r\nother,7\r\n')
    document = read_ragged(tmp_path / "one.csv", schema("minddata_pipeline_summary_csv")).document
    assert document == {"op_ids": [0, "x"], "children_ids": [[1, 2], "[", []], "op_names": ["7"], "other": ["7"]}


@pytest.mark.parametrize(
    "text, message, place",
    [
        ("", "it is empty", ""),
        ("0 1 1 0 5\n0 1", "cut off", ":2"),
        ("0 1 1 0 5\n\n", "0 cells", ":2"),
        ("\n", "0 cells", ":1"),
    ],
)
def test_what_is_no_table_of_columns_is_refused_with_its_place(tmp_path, text, message, place):
    (tmp_path / "one.txt").write_text(text)
    with pytest.raises(Unreadable, match=message) as refused:
        read_columns(tmp_path / "one.txt", schema("device_queue_profiling"))
    assert refused.value.place == place


def test_columns_are_named_by_the_schema(tmp_path):
    (tmp_path / "one.txt").write_text("0 1 1 0 5 6\n")
    table = read_columns(tmp_path / "one.txt", schema("device_queue_profiling")).table
    assert table.frame.columns == ["type", "extra", "batch_num", "value", "ts", "column 6"]
    assert table.place(0) == ":1"


def test_queues_and_cpu_are_sampled_at_one_interval(minddata):
    assert codes(minddata) == set()
    change(minddata, "minddata_cpu_utilization_0.json", lambda one: one.update(sampling_interval=1000))
    assert codes(minddata) == {"I113"}
    # A file of an earlier pipeline, which has other operators, may have another.
    change(minddata, "minddata_cpu_utilization_0.json", lambda one: one["op_info"][0].update(op_id=7))
    assert "I113" not in codes(minddata)


@pytest.mark.parametrize("block", ["process_memory_info", "system_memory_info"])
@pytest.mark.variants(1)
def test_memory_that_could_not_be_read_once_is_left_out(minddata, block):
    change(
        minddata, "minddata_cpu_utilization_0.json", lambda one: one.update({block: {key: [] for key in one[block]}})
    )
    assert codes(minddata) == set()
    first = "vss_mbytes" if block == "process_memory_info" else "total_sys_memory_mbytes"
    change(minddata, "minddata_cpu_utilization_0.json", lambda one: one[block].update({first: [7.0] * 4}))
    assert "I111" in codes(minddata)
