"""Summary files, the memory tracker, configurations of dynamic profilers, and directories that only say a rank."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from perfguard.artifacts.readers.summary import masked_crc32c, read_records
from perfguard.artifacts.table import Unreadable
from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import generate
from tests.conftest import recorded

NAME = "events.out.events.summary.893.0.host.example_MS"
LINEAGE = NAME.removesuffix("MS") + "lineage"
RECORDINGS = Path(__file__).resolve().parents[1] / "data" / "recordings"


def findings(place: Path, severity: Severity = Severity.ERROR) -> list[tuple[str, str]]:
    found = inspect(read_recording(place)).findings
    return [(f.code.name, f.place) for f in found if f.severity is severity]


def codes(place: Path, severity: Severity = Severity.ERROR) -> set[str]:
    return {code for code, _ in findings(place, severity)}


# -- protobuf by hand: the tests must not read with what they wrote with -------------------------------------------------


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(wall_time: float | None, what: bytes, step: int | None = None) -> bytes:
    clock = b"" if wall_time is None else b"\x09" + struct.pack("<d", wall_time)
    return clock + (b"" if step is None else b"\x10" + varint(step)) + what


def scalar(tag: str, value: float) -> bytes:
    return part(1, part(1, tag.encode()) + b"\x1d" + struct.pack("<f", value))


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    sums = (struct.pack("<I", masked_crc32c(one)) for one in (length, payload))
    return length + next(sums) + payload + next(sums)


VERSION = event(100.5, part(3, b"MindSpore.Event:1"))
GRAPH = event(100.25, part(4, b""))


def values(step: int, wall_time: float) -> bytes:
    return event(wall_time, part(5, scalar("loss/auto", float("nan")) + scalar("fc.weight/auto", 1.0)), step)


EVENTS = [VERSION, GRAPH, values(1, 100.0), values(2, 101.0), values(2, 101.0)]
LINEAGE_EVENTS = [event(103.0, part(6, b"")), event(102.0, part(7, b""))]


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    """Write a summary directory that keeps every rule."""
    place = tmp_path / "summary"
    place.mkdir()
    write(place, EVENTS)
    write(place, LINEAGE_EVENTS, LINEAGE)
    return place


def write(place: Path, events: list[bytes], name: str = NAME) -> None:
    (place / name).write_bytes(b"".join(record(one) for one in events))


def test_the_checksum_is_that_of_tfrecord():
    assert masked_crc32c(b"") == 0xA282EAD8
    # CRC-32C of "123456789" is 0xE3069283 (RFC 3720, B.4); rotated by 15 bits, plus the constant.
    assert masked_crc32c(b"123456789") == (0x2507C60D + 0xA282EAD8) % 2**32


def test_records_are_read(summary):
    frame = read_records(summary / NAME, {}).frame
    assert frame["kind"].to_list() == ["version", "graph_def", "summary", "summary", "summary"]
    assert frame["step"].to_list() == ["", "", "1", "2", "2"]
    assert frame["tags"][2] == "loss/auto|fc.weight/auto"
    assert frame["version"][0] == "MindSpore.Event:1"
    assert frame["wall_time"][0] == "100.5"
    assert frame["offset"][1] == str(len(record(VERSION)))
    assert read_records(summary / LINEAGE, {}).frame["kind"].to_list() == ["train_lineage", "evaluation_lineage"]


def test_a_directory_that_keeps_every_rule_is_clean(summary):
    contract = inspect(read_recording(summary))
    assert contract.layouts == ("summary",)
    assert contract.findings == ()


@pytest.mark.parametrize("version", ["2.0", "2.10"])
def test_real_output_is_clean(version):
    for place in recorded(f"mindspore-{version}-summary"):
        contract = inspect(read_recording(place))
        assert [f for f in contract.findings if f.severity is not Severity.NOTE] == []
        (cycle,) = contract.cycles
        kinds = cycle.artifacts["summary_events"].content.frame["kind"].to_list()
        assert kinds == ["version", "graph_def", *["summary"] * 7]
        assert "train_metadata" in cycle.artifacts


def test_a_file_with_the_version_alone_is_a_warning(summary):
    write(summary, EVENTS[:1])
    found = [f for f in inspect(read_recording(summary)).findings if f.check == "a_summary_file_has_a_record"]
    assert [(one.code.name, one.severity, one.place) for one in found] == [("C103", Severity.WARNING, NAME)]


def image(tag: str) -> bytes:
    return part(1, part(1, tag.encode()) + part(4, b""))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([scalar("loss/auto", 1.0), scalar("loss/auto", 2.0), image("loss/auto")], {"S103"}),
        # A summary operator of the user's may have the name of another.
        ([scalar("x", 1.0), scalar("x", 2.0), image("x")], set()),
        # A parameter may be called like the loss.
        ([scalar("loss/auto", 1.0) + image("loss/auto")] * 2 + [image("loss/auto")], set()),
    ],
)
def test_a_value_is_of_one_kind_in_all_steps(summary, records, said):
    events = [event(100.0 + step, part(5, one), step) for step, one in enumerate(records, 1)]
    write(summary, [VERSION, GRAPH, *events])
    found = inspect(read_recording(summary)).findings
    assert {one.code.name for one in found if one.check == "a_value_of_a_summary_is_of_its_kind"} == said


def test_every_flipped_bit_of_a_file_is_found(summary):
    whole = (summary / NAME).read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        (summary / NAME).write_bytes(changed)
        with pytest.raises(Unreadable):
            read_records(summary / NAME, {})


@pytest.mark.parametrize(
    "cut, words",
    [
        (-1, "record 5 at byte"),
        (-20, "cut off: it has"),
        (len(record(VERSION)) + 5, "cut off inside its length"),
        (0, "empty"),
    ],
)
def test_a_file_that_was_cut_off_is_refused_with_the_record(summary, cut, words):
    (summary / NAME).write_bytes((summary / NAME).read_bytes()[:cut])
    with pytest.raises(Unreadable, match=words):
        read_records(summary / NAME, {})
    assert codes(summary) == {"S101"}


NOT_UTF_8 = [event(1.0, part(3, b"\xff")), event(1.0, part(5, part(1, part(1, b"\xff") + b"\x1d\0\0\0\0")), 1)]


@pytest.mark.parametrize("payload", [b"\x0a\xff", event(None, part(3, b"x")), event(1.0, b""), b"\xff" * 9, *NOT_UTF_8])
def test_a_record_that_is_no_event_is_refused(summary, payload):
    write(summary, [VERSION, payload])
    assert findings(summary) == [("S101", f"{NAME}:2")]


@pytest.mark.parametrize(
    "events, found",
    [
        (EVENTS[1:], [("I111", f"{NAME}:1")]),
        ([VERSION, *EVENTS], [("I114", f"{NAME}:2")]),
        ([VERSION, values(2, 101.0), values(1, 102.0)], [("I106", f"{NAME}:3")]),
        ([VERSION, GRAPH, values(1, 101.0), values(2, 100.0)], [("I106", f"{NAME}:4")]),
        ([VERSION, values(1, 100.0), GRAPH, values(2, 101.0)], [("I106", f"{NAME}:3")]),
        ([VERSION, values(1, -5.0)], [("S103", f"{NAME}:2 $.wall_time")]),
        ([VERSION, values(2**63, 101.0)], [("S103", f"{NAME}:2 $.step")]),
        ([VERSION, values(2**63 - 1, 101.0)], []),
        ([event(1.0, part(3, b"TensorBoard"))], [("S103", f"{NAME}:1 $.version")]),
    ],
)
@pytest.mark.variants(1)
def test_records_out_of_order_are_found(summary, events, found):
    write(summary, events)
    assert findings(summary) == found


def test_a_lineage_is_missed_where_a_graph_was_collected(summary, tmp_path):
    (summary / LINEAGE).unlink()
    assert findings(summary) == []
    tree = generate("summary", seed=1)
    collected = tree.write(tmp_path / "collected")
    next(collected.rglob("*_lineage")).unlink()
    assert codes(collected) == set()  # it is not collected with every option
    assert codes(collected, Severity.WARNING) == {"A102"}


def test_a_lineage_alone_is_noted(tmp_path):
    collected = generate("summary", seed=1).write(tmp_path / "collected")
    next(collected.rglob("*_MS")).unlink()
    assert codes(collected) == set()
    assert "A102" in codes(collected, Severity.NOTE)


def test_of_several_files_each_wants_its_lineage(summary):
    second = NAME.replace("893", "894")
    write(summary, EVENTS, second)
    assert findings(summary) == []
    assert findings(summary, Severity.WARNING) == [("A102", second)]


def write_landscape(place: Path, **changes: object) -> None:
    document = {
        "epoch_group": {"0": [1, 2, 3]},
        "model_params_file_map": {"1": "/tmp/Net_1_step.ckpt"},
        "step_per_epoch": 6,
        "unit": "step",
        "num_samples": 2048,
        "landscape_size": 40,
        "create_landscape": {"train": True, "result": True},
    }
    (place / "ckpt_dir").mkdir(exist_ok=True)
    (place / "ckpt_dir" / "train_metadata.json").write_text(json.dumps(document | changes))


def test_changed_metadata_of_a_landscape_are_found(summary):
    for change, found in (({}, set()), ({"landscape_size": 2}, {"S103"}), ({"unit": "batch"}, {"S103"})):
        write_landscape(summary, **change)
        assert codes(summary) == found


@pytest.mark.parametrize(
    "saved, found",
    [
        ([1, 2, 3], set()),
        ([1, 3, 5], set()),
        ([2, 4, 6], set()),
        ([1, 2, 4], {"I115"}),
        ([1, 2, 3, 9], {"I115"}),
        ([1, 2, 6, 7], set()),
        ([1, 2, 3, 2**63 - 1], set()),
        ([1, 2, 3, 2**64], {"I115"}),
    ],
)
@pytest.mark.variants(2)
def test_the_parameters_of_every_step_of_an_interval_are_saved(summary, saved, found):
    """A sunk data set shows only the last step of an epoch, and a second training begins anew."""
    write_landscape(
        summary,
        epoch_group={"0": [1, 2, 3, 4], "1": [5, 6, 7, 2**63 - 1]},
        model_params_file_map={str(number): f"/tmp/Net_{number}_step.ckpt" for number in saved},
    )
    assert codes(summary) == found


PIPELINE, CUSTOM, TRAINED = event(100.5, part(9, b"")), event(100.75, part(10, b"")), event(103.0, part(6, b""))


@pytest.mark.parametrize(
    "lineage, found",
    [
        ([PIPELINE, CUSTOM, TRAINED, event(104.0, part(6, b""))], set()),
        ([event(99.0, part(7, b"")), PIPELINE, TRAINED], set()),
        ([TRAINED, PIPELINE], {"I106"}),
        ([CUSTOM, PIPELINE, TRAINED], {"I106"}),
        ([PIPELINE, TRAINED, CUSTOM], {"I106"}),
        ([PIPELINE, event(101.0, part(9, b"")), TRAINED], {"I114"}),
        ([event(9100.5, part(9, b"")), event(9103.0, part(6, b""))], {"I113"}),
    ],
)
def test_a_lineage_is_in_order_and_of_its_summary(summary, lineage, found):
    write(summary, lineage, LINEAGE)
    assert codes(summary) == found


def test_a_summary_is_not_older_than_its_name(summary):
    for path in list(summary.iterdir()):
        path.rename(path.with_name(path.name.replace("893", "3700")))
    assert codes(summary) == set()
    for path in list(summary.iterdir()):
        path.rename(path.with_name(path.name.replace("3700", "3800")))
    assert codes(summary) == {"I113"}


# -- the memory tracker ------------------------------------------------------------------------------------------------

BLOCKS = (
    "start_time_stamp,end_time_stamp,device_addr,stream_id,pool_type,size,actual_used_memory,actual_peak_memory,file_name,"
    "line_num,type,producer_task,task_name,node_name,graph_name,user_tasks,last_user_task,python_stack,is_persistent,is_small,\n"
)
ROWS = (
    "1,9223372036854775807,0x12c041200000,0,Ascend,1024,1024,1024,device.cc,10,Weight,0,Load,Load,g0,{2-},2,,1,0,\n"
    "3,5,0x12c041200400,0,Ascend,512,1536,1536,device.cc,10,WorkSpace,2,MatMul,MatMul-op0,g0,{},,,0,1,\n"
    "-1,-1,0x12c041200400,0,,512,0,0,,,,,,,,,,,,,\n"
)
OLD = "start_time_stamp,end_time_stamp,device_addr,stream_id,pool_type,size,actual_peak_memory,file_name,line_num,type,"
OLD += "producer_task,task_name,node_name,graph_name,user_tasks,\n"
OLD += "1,4,0x12c041200000,0,Ascend,1024,1024,device.cc,10,Weight,0,Load,Load,g0,{2-},\n"
TASKS = "time_stamp,task_name,node_name,graph_name,file_name,line_num,python_stack,\n"
TASK_ROWS = "0,Load,Load,g0,device.cc,10,,\n2,MatMul,MatMul-op0,g0,device.cc,10,File:a.py;Line:1;Function:f|,\n"
TRACKED = (
    "() = Load(), task_info: 0, attrs {stream_id=0} \n    () <- ()\n    # \n"
    "() = MatMul-op0(), task_info: 2, attrs {stream_id=0} \n    () <- ()\n    # File:a.py;Line:1;Function:f|\n"
)


@pytest.fixture
def tracked(tmp_path: Path) -> Path:
    """Write the memory tracker's files."""
    place = tmp_path / "tracked"
    place.mkdir()
    (place / "memory_block.csv").write_text(BLOCKS + ROWS)
    (place / "task.csv").write_text(TASKS + TASK_ROWS)
    (place / "tracker_graph.ir").write_text(TRACKED)
    return place


@pytest.mark.parametrize("blocks", [BLOCKS + ROWS, BLOCKS, OLD])
def test_the_memory_tracker_is_clean(tracked, blocks):
    (tracked / "memory_block.csv").write_text(blocks)
    contract = inspect(read_recording(tracked))
    assert contract.layouts == ("memtrack",)
    assert contract.findings == ()
    assert set(contract.cycles[0].artifacts) == {"memory_block", "task", "tracker_graph"}


@pytest.mark.parametrize(
    "name, old, new, code",
    [
        ("memory_block.csv", "3,5,", "5,3,", "I106"),
        ("memory_block.csv", "1536,1536,device", "1536,512,device", "I107"),
        ("memory_block.csv", "0x12c041200000", "here", "S103"),
        ("memory_block.csv", "Ascend,512", "Ascend,-512", "S103"),
        ("memory_block.csv", "pool_type,size", "size,pool_type", "S102"),
        ("task.csv", "2,MatMul", "0,MatMul", "I106"),
        ("task.csv", "2,MatMul", "x,MatMul", "S103"),
        ("task.csv", "graph_name,", "", "S102"),
        ("task.csv", "2,MatMul,MatMul-op0", "3,MatMul,MatMul-op0", "I101"),
        ("task.csv", "2,MatMul,MatMul-op0", "2,MatMul,Add-op0", "I101"),
        ("task.csv", "0,Load,Load,g0,device.cc,10,,\n", "", "I101"),
        ("tracker_graph.ir", "() = Load(), task_info: 0, attrs {stream_id=0} \n", "", "S101"),
        ("tracker_graph.ir", "    () <- ()\n", "", "S101"),
        ("tracker_graph.ir", "    # \n", "", "S101"),
        ("tracker_graph.ir", TRACKED, "", "I101"),
        ("tracker_graph.ir", TRACKED, TRACKED + TRACKED, "I106"),
        ("tracker_graph.ir", "() = MatMul-op0()", "(%3) = MatMul-op0(%1, %2)", "I101"),
        ("memory_block.csv", "WorkSpace,2,", "WorkSpace,,", "I115"),
        (
            "memory_block.csv",
            "512,1536,1536,device.cc,10,WorkSpace,2,MatMul,MatMul-op0,g0,{},,,0,1",
            "512,1536,1536,device.cc,10,WorkSpace,2,MatMul,MatMul-op0,g0,{},,,2,1",
            "S103",
        ),
    ],
)
@pytest.mark.variants(2)
def test_a_changed_memory_tracker_is_found(tracked, name, old, new, code):
    text = (tracked / name).read_text()
    assert old in text
    (tracked / name).write_text(text.replace(old, new, 1))
    assert code in codes(tracked)


def test_the_graph_of_the_memory_tracker_names_its_blocks(tracked):
    """A block inside another has no moment; what a tracker of no task writes is empty."""
    (tracked / "tracker_graph.ir").write_text(TRACKED.replace("() = MatMul-op0()", "(%3) = MatMul-op0(%1, %-1)"))
    assert findings(tracked) == []
    (tracked / "task.csv").write_text(TASKS)
    (tracked / "memory_block.csv").write_text(BLOCKS)
    (tracked / "tracker_graph.ir").write_text("")
    assert findings(tracked) == []


@pytest.mark.parametrize("name", ["memory_block.csv", "task.csv"])
def test_a_file_of_the_memory_tracker_that_is_gone_is_missed(tracked, name):
    (tracked / name).unlink()
    assert findings(tracked) == [("A102", name)]


# -- configurations ----------------------------------------------------------------------------------------------------

MS_2_10 = {
    "start_step": 2,
    "stop_step": 4,
    "aic_metrics": "AiCoreNone",
    "profiler_level": "Level0",
    "activities": ["CPU"],
}
MS_2_4 = {"start_step": -1, "stop_step": -1, "aicore_metrics": -1, "profiler_level": -1, "profile_communication": False}
NPU = {"activities": ["CPU", "NPU"], "prof_dir": "./", "active": 1, "warmup": 0, "start_step": 0, "is_rank": False}
NPU |= {"rank_list": [], "experimental_config": {"profiler_level": "Level0", "gc_detect_threshold": None}}


@pytest.mark.parametrize(
    "document, version",
    [(MS_2_10, "profiler_config.ms-2.10"), (MS_2_4, "profiler_config.ms-2.4"), (NPU, "profiler_config.npu")],
)
def test_a_configuration_is_known_by_its_keys(tmp_path, document, version):
    (tmp_path / "profiler_config.json").write_text(json.dumps(document))
    contract = inspect(read_recording(tmp_path))
    assert contract.findings == ()
    assert contract.cycles[0].artifacts["profiler_config"].schema == version


def test_the_real_configuration_is_clean():
    for place in recorded("mindspore-2.10-dynamic-config"):
        assert inspect(read_recording(place)).findings == ()


@pytest.mark.parametrize(
    "document, severity, code",
    [
        ({**MS_2_10, "record_shape": True}, Severity.NOTE, "S102"),
        ({**MS_2_10, "profile_memory": "yes"}, Severity.ERROR, "S103"),
        ({**MS_2_10, "activities": ["TPU"]}, Severity.ERROR, "S103"),
        ({**NPU, "stop_step": 3}, Severity.NOTE, "S102"),
        ({**NPU, "active": 0}, Severity.ERROR, "S103"),
        ({**MS_2_10, "stop_step": 1}, Severity.WARNING, "C101"),
        ({**MS_2_10, "start_step": -1}, Severity.WARNING, "C101"),
    ],
)
def test_a_wrong_configuration_is_found(tmp_path, document, severity, code):
    (tmp_path / "profiler_config.json").write_text(json.dumps(document))
    assert codes(tmp_path, severity) == {code}


# -- directories that only say a rank ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder, parent, rank",
    [
        ("rank_5", "ranks", 5),
        ("output/profile/rank_3", "mf-profile", 3),
        ("rank2_start1_stop4", "ms-dyn", 2),
    ],
)
@pytest.mark.variants(1)
def test_a_directory_above_says_the_rank(tmp_path, folder, parent, rank):
    shutil.copytree(RECORDINGS / "torch-mlp" / "profiler", tmp_path / folder)
    contract = inspect(read_recording(tmp_path))
    assert contract.layouts == tuple(sorted((parent, "pt-torch")))
    assert [cycle.rank for cycle in contract.cycles] == [rank]


def test_the_window_a_directorys_name_says_must_have_been_profiled(tmp_path):
    for stop, found in ((4, set()), (6, {"C101"})):
        place = tmp_path / str(stop)
        shutil.copytree(RECORDINGS / "torch-mlp" / "profiler", place / f"rank0_start2_stop{stop}")
        assert codes(place) == found
