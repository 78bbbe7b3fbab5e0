"""Metrics of devices, links and pipelines: small tables in, numbers counted by hand out."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from perfguard.artifacts.columns import shapes_of
from perfguard.artifacts.kernel_rows import KernelRows
from perfguard.artifacts.layout import Slot, layout_named
from perfguard.artifacts.readers import Content, csv_stream
from perfguard.artifacts.slot_rows import add_tables
from perfguard.artifacts.survey import FoundFile
from perfguard.artifacts.table import Cells, Table
from perfguard.artifacts.tables import batch
from perfguard.capture.replay import replay
from perfguard.contract import Artifact, Contract, Cycle, Requested, inspect
from perfguard.dialects.cycle import Counts, Executions
from perfguard.dialects.metric_queries import measured as measured_by
from perfguard.dialects.queries import all_definitions, named_texts
from perfguard.measure import METRICS, measure, operators_of
from perfguard.recording import Recording
from perfguard.testing import generate
from tests.conftest import gpu_traces


def a_table(header: str, *rows: str) -> Content:
    """A text table; cells are divided by semicolons, so that they can hold commas."""
    cells = [row.split(";") for row in rows]
    frame = pl.DataFrame(cells, schema=dict.fromkeys(header.split(";"), pl.String), orient="row")
    return Content(table=Table(frame=frame, cells=Cells.TEXT))


def artifact(slot: str, content: Content, schema: str = "") -> Artifact:
    """A file of a slot, in a version of its schema or in the first one."""
    shapes = shapes_of(slot)
    versions = (schema,) if schema else tuple(shapes[0].versions)[:1] if shapes else ()
    place = Slot(name=slot, path=slot, format="csv" if content.table else "json", schemas=versions)
    return Artifact(slot=place, path=Path(slot), content=content, place=slot)


def a_cycle(*artifacts: Artifact, rank: int = 0, index: int = 0, layout: str = "pt-npu") -> Cycle:
    return Cycle(
        layout=layout_named(layout),
        place=Path("c"),
        rank=rank,
        index=index,
        artifacts={one.slot.name: one for one in artifacts},
        requested=Requested(),
        files=artifacts,
    )


def a_summary(document: dict[str, Any], *, rank: int = 0, index: int = 0) -> Cycle:
    """A rank of MindSpore 2.0 with its floating point operations."""
    one = artifact("flops_summary", Content(document=document), "flops_summary.2.0")
    return a_cycle(one, rank=rank, index=index, layout="ms-2.0")


_ADD = {"operator": "Add", "name": "Add", "shapes": None}
#: What ran in one step; that what ran is known is all that is asked of it.
RAN = Executions(table="listed_sums", counts=Counts(by_name=pl.DataFrame()), steps=1, by_step=True, on_device=True)


def measured(*cycles: Cycle, ran: Sequence[Sequence[int]] = ()) -> dict[str, dict[str, Any]]:
    """Return metric -> subject -> value, or samples where there are such; `ran`: the times of kernels, by cycle, in ns."""
    cycles = tuple(dataclasses.replace(one, executions=RAN) for one in cycles) if ran else cycles
    with batch(all_definitions(), named_texts()) as tables:
        for number, cycle in enumerate(cycles):
            for one in cycle.files:
                file = FoundFile(slot=one.slot, path=one.path, rank=None)
                add_tables(tables, number, 0, file, next(iter(one.slot.schemas), ""), one.content)
        for number, self_ns in enumerate(ran):
            flags = {"by_step": True, "steps_differ": False, "is_timeline": True, "on_device": True}
            tables.add("windows", number, steps=np.array([1]), **{name: np.array([on]) for name, on in flags.items()})
            count = len(self_ns)
            texts = {name: np.array([text] * count, dtype=object) for name, text in _ADD.items()}
            numbers = {"place": range(count), "start_ns": range(count), "duration_ns": self_ns, "calls": [1] * count}
            columns = {name: np.array(column, np.int64) for name, column in numbers.items()}
            tables.add("listed", number, step=np.zeros(count, np.int64), **texts, **columns)
        tables.hand_over()
        values = measured_by(tables, dict(enumerate(cycles)))
    cycles = tuple(dataclasses.replace(one, measured=values.get(number, {})) for number, one in enumerate(cycles))
    found: dict[str, dict[str, Any]] = {}
    for one in measure(Contract(recording=Recording(directory=Path()), cycles=cycles, findings=())):
        found.setdefault(one.metric, {})[one.subject] = list(one.samples) if one.samples else one.value
    return found


# -- communication ---------------------------------------------------------------------------------------------------


def a_call(elapse_ms: float, wait_ms: float = 0.0, **links: tuple[float, float]) -> dict[str, Any]:
    return {
        "Communication Time Info": {"Elapse Time(ms)": elapse_ms, "Wait Time(ms)": wait_ms},
        "Communication Bandwidth Info": {
            link: {"Transit Size(MB)": size, "Transit Time(ms)": time} for link, (size, time) in links.items()
        },
    }


COMMUNICATION = {
    "step1": {
        "p2p": {"hcom_send__1_0_1@9": a_call(1.0, 0.25, HCCS=(10.0, 2.0))},
        "collective": {
            "hcom_allReduce__586_0_1@17522": a_call(2.0, 0.5, HCCS=(30.0, 2.0), RDMA=(0.0, 0.0)),
            "hcom_allReduce__586_1_1@17522": a_call(3.0, 1.0, SDMA=(5.0, 1.0)),
            "Total Op Info": a_call(5.0, 1.5, HCCS=(1000.0, 1.0)),
        },
    },
    "step2": {
        "p2p": {"hcom_send__1_1_1@9": a_call(1.5, 0.0, HCCS=(10.0, 1.0))},
        "collective": {
            "hcom_allReduce__586_2_1@17522": a_call(4.0, 0.5),
            "hcom_allReduce__586_3_1@17522": a_call(4.0, 0.5),
            "hcom_broadcast__586_0_1@17522": a_call(1.0, 0.0),
        },
    },
}


def test_collectives_are_counted_and_timed_by_kind():
    found = measured(a_cycle(artifact("communication", Content(document=COMMUNICATION))))
    assert found["communication_calls"] == {"hcom_allReduce": 2, "hcom_broadcast": 0.5, "hcom_send": 1}
    assert found["communication_time"] == {
        "hcom_allReduce": [5000.0, 8000.0],
        "hcom_broadcast": [1000.0],
        "hcom_send": [1000.0, 1500.0],
    }
    assert found["communication_wait"] == {
        "hcom_allReduce": [1500.0, 1000.0],
        "hcom_broadcast": [0.0],
        "hcom_send": [250.0, 0.0],
    }


def test_links_are_measured_by_size_and_bandwidth_and_the_total_is_not_counted_twice():
    found = measured(a_cycle(artifact("communication", Content(document=COMMUNICATION))))
    assert found["communication_size"] == {"HCCS": 25.0, "SDMA": 2.5}
    assert found["communication_bandwidth"] == {"HCCS": 10.0, "SDMA": 5.0}


@pytest.mark.parametrize("document", [{}, {"step1": {}}, {"step1": {"p2p": {}, "collective": {}}}])
def test_communication_without_calls_measures_nothing(document):
    assert measured(a_cycle(artifact("communication", Content(document=document)))) == {}


@pytest.mark.parametrize(("layout", "factor"), [("ms-1.x", 1e3), ("ms-2.0", 1e3), ("ms-2.1", 1.0), ("ms-2.3", 1.0)])
def test_costs_of_older_mindspore_are_read_in_the_unit_of_their_version(layout, factor):
    cost = {"AllReduce-op33": ["1", 2.0, 0.5, [[], []]], "AllReduce-op34": ["1", 1.0, 0.25, [[], []]]}
    content = a_table(
        "step_num;communication_operator_cost",
        f"1;{json.dumps(cost)}",
        f"2;{json.dumps(cost)}",
        f"-;{json.dumps(cost)}",
        "3;{}",
    )
    found = measured(a_cycle(artifact("hccl_raw", content), layout=layout))
    assert found["communication_calls"] == {"AllReduce": 4 / 3}
    assert found["communication_time"] == {"AllReduce": [3.0 * factor, 3.0 * factor]}
    assert found["communication_wait"] == {"AllReduce": [0.75 * factor, 0.75 * factor]}


@pytest.mark.parametrize(
    ("cell", "calls"),
    [
        ('{"A-op1": ["1", 1, 0, []], "A-op1": ["1", 2, 0, []]}', {"A": 2}),
        ('{"A-op1": ["1", 1e999, NaN, []]}', {"A": 1}),
        ('{"\\ud800": ["1", 1, 0, []]}', {}),
        ("no JSON", {}),
    ],
)
def test_a_cell_with_odd_json_is_measured_as_far_as_it_can_be_read(cell, calls):
    content = a_table("step_num;communication_operator_cost", f"1;{cell}")
    found = measured(a_cycle(artifact("hccl_raw", content), layout="ms-2.0"))
    assert found.get("communication_calls", {}) == calls


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("hcom_allReduce__586_0_1@17522", "hcom_allReduce"),
        ("hcom_allReduce__586_0_1", "hcom_allReduce"),
        ("hcom_reduceScatter__1@2", "hcom_reduceScatter"),
        ("hcom_batchSendRecv_@5", "hcom_batchSendRecv_"),
        ("AllReduce-op33", "AllReduce"),
        ("AllReduce.17", "AllReduce"),
        ("AllReduce", "AllReduce"),
        ("@5", "@5"),
        ("", ""),
    ],
)
def test_the_kind_of_a_collective_is_its_name_without_numbers(name, kind):
    document = {"step": {"p2p": {}, "collective": {name: a_call(1.0)}}}
    found = measured(a_cycle(artifact("communication", Content(document=document))))
    assert found["communication_calls"] == {kind: 1}


# -- parts of a step -------------------------------------------------------------------------------------------------


def test_parts_of_steps_are_samples():
    content = a_table("Device_id;Step;Computing;Communication;Free;Bubble", "0;1;10.5;2;3;0", "0;2;11.5;4;1;N/A")
    assert measured(a_cycle(artifact("step_trace_time", content)))["step_part_time"] == {
        "computing": [10.5, 11.5],
        "communication": [2.0, 4.0],
        "free": [3.0, 1.0],
        "bubble": [0.0],
    }


def test_parts_of_a_cluster_are_told_apart_by_rank_and_stage():
    content = a_table("Step;Type;Index;Computing;Stage", "1;rank;0;10;20", "1;rank;3;12;20", "1;stage;(0, 3);12;20")
    found = measured(a_cycle(artifact("cluster_step_trace_time", content), layout="cluster"))["step_part_time"]
    assert found == {
        "rank0:computing": [10.0],
        "rank0:stage": [20.0],
        "rank3:computing": [12.0],
        "rank3:stage": [20.0],
        "stage(0, 3):computing": [12.0],
        "stage(0, 3):stage": [20.0],
    }


def test_step_traces_of_older_mindspore_are_counts_of_10_ns_and_their_average_is_no_step():
    content = a_table("step_num;total;iteration_interval;tail", "1;1000;200;50", "2;3000;400;70", "-;2000;300;60")
    assert measured(a_cycle(artifact("step_trace_raw", content), layout="ms-2.0"))["step_part_time"] == {
        "total": [10.0, 30.0],
        "iteration_interval": [2.0, 4.0],
        "tail": [0.5, 0.7],
    }


# -- ranks -----------------------------------------------------------------------------------------------------------


def test_the_spread_of_ranks_is_the_slowest_over_the_fastest():
    def cycle(rank: int, computing: int, communication: int) -> Cycle:
        content = a_table("Step;Computing;Communication", f"1;{computing};{communication}")
        return a_cycle(artifact("step_trace_time", content), rank=rank)

    cycles = (cycle(0, 100, 30), cycle(1, 150, 10), cycle(2, 120, 20))
    found = measured(*cycles, ran=((600, 400), (1100, 400), (1200,)))
    assert found["rank_spread"] == {"operators": 1.5, "computing": 1.5, "communication": 3.0}


def test_one_rank_has_no_spread_however_many_cycles_it_has():
    assert "rank_spread" not in measured(a_cycle(), a_cycle(index=1), ran=((5,), (500,)))


def test_a_rank_that_did_nothing_leaves_no_ratio():
    contents = [a_table("Step;Computing;Communication", f"1;{n};0") for n in (0, 5)]
    cycles = [a_cycle(artifact("step_trace_time", one), rank=rank) for rank, one in enumerate(contents)]
    assert "rank_spread" not in measured(*cycles)


def test_subjects_are_named_by_rank_where_there_are_several():
    cycles = [a_summary({"FLOPs": rank + 1.0}, rank=rank) for rank in (0, 3)]
    assert measured(*cycles)["flops"] == {"rank0:FLOPs": 1.0, "rank3:FLOPs": 4.0}


def test_several_cycles_of_a_rank_are_samples_of_a_timed_metric():
    cycles = [a_summary({"FLOPs": index + 1.0}, index=index) for index in (0, 1)]
    assert measured(*cycles)["flops"] == {"FLOPs": [1.0, 2.0]}


def test_every_cycle_of_a_rank_counts_not_only_the_first():
    def cycle(index, calls, size):
        times = {"Elapse Time(ms)": 1.0 + index, "Wait Time(ms)": 0.0}
        link = {"HCCS": {"Transit Size(MB)": size, "Transit Time(ms)": 1.0}}
        operation = {"Communication Time Info": times, "Communication Bandwidth Info": link}
        step = {"collective": {f"hcom_allReduce__586_{number}_1@7": operation for number in range(calls)}}
        return a_cycle(artifact("communication", Content(document={"step1": step})), index=index)

    found = measured(cycle(0, 1, 4.0), cycle(1, 2, 8.0))
    assert found["communication_time"] == {"hcom_allReduce": [1000.0, 4000.0]}
    assert found["communication_calls"] == {"hcom_allReduce": 1.5}
    assert found["communication_size"] == {"HCCS": 10.0}
    # The best sample of what should be high is the highest.
    assert found["communication_bandwidth"] == {"HCCS": [4.0, 8.0]}


# -- the device ------------------------------------------------------------------------------------------------------


def test_utilisation_is_a_fraction_named_by_the_unit_and_weighted_by_the_kernels_durations(tmp_path):
    names = "Name;Type;Accelerator Core;Start Time(us);Duration(us);Wait Time(us)"
    units = "aic_mac_ratio;aiv_vec_ratio;cube_utilization(%);aic_fixpipe_ratio;aic_mte_ratio"
    kernels = [f"{names};{units}".replace(";", ",")]
    kernels += [
        "a,A,C,1,30,0,0.5,N/A,80,N/A,",
        "b,A,C,2,10,0,0.1,0.25,40,N/A,",
        "c,A,C,3,60,0,,N/A,,N/A,",
        "d,A,C,4,0,0,,0.5,,,1",
    ]
    with batch(all_definitions(), named_texts()) as tables:
        rows = KernelRows(tables, 0)
        (place := tmp_path / "kernel_details.csv").write_text("\n".join([*kernels, ""]))
        csv_stream.stream_csv(place, {}, {}, kernels[0].split(","), rows.consume)
        tables.hand_over()
        values = measured_by(tables, {0: a_cycle()})
    # No time is no mean.
    assert values[0]["device_utilisation"] == [("aic_mac", 0.4), ("aiv_vec", 0.25), ("cube", 0.7)]


def test_every_number_of_the_flops_is_a_subject():
    document = {"FLOPs": 3.5, "FLOPS": 7, "name": "x", "ok": True}
    assert measured(a_summary(document))["flops"] == {"FLOPS": 7, "FLOPs": 3.5}


@pytest.mark.parametrize("ran", [(), ((5,),)])
def test_calls_of_the_runtime_are_summed_by_name(ran):
    content = a_table("API Name;Time(us);Count", "Launch;10;1", "Wait;4.5;1", "Launch;2.5;3", "Free;;1")
    found = measured(a_cycle(artifact("api_statistic", content)), ran=ran)
    assert found["api_time"] == {"Free": 0.0, "Launch": 12.5, "Wait": 4.5}


# -- the data pipeline -----------------------------------------------------------------------------------------------


def test_queues_are_named_by_operator_and_number_and_the_root_has_none():
    content = a_table(
        "op_id;op_type;output_queue_usage_rate", "0;Batch;", "1;Map;0.5", "2;Map;0.015625", "3;TFReader;0"
    )
    assert measured(a_cycle(artifact("minddata_pipeline_raw", content), layout="minddata"))["pipeline_queue_usage"] == {
        "Map(id=1)": 0.5,
        "Map(id=2)": 0.015625,
        "TFReader(id=3)": 0.0,
    }


@pytest.mark.parametrize("slot", ["dataset_iterator_profiling", "device_queue_profiling"])
def test_batches_are_timed_by_part_and_sizes_are_no_times(slot):
    header = "type;extra;batch_num;value;ts"
    rows = ["0;0;1;3;100", "0;2;1;5;100", "1;64;1;7;100", "0;0;2;4;200", "0;1;2;1;200", "0;2;2;6;200"]
    rows.append("0;1;3;99999999999999999999;300")
    assert measured(a_cycle(artifact(slot, a_table(header, *rows)), layout="minddata"))["pipeline_batch_time"] == {
        "pipeline": [3000.0, 4000.0],
        "push": [1000.0],
        "batch": [5000.0, 6000.0],
    }


def test_a_cycle_without_such_files_measures_none_of_it():
    assert measured(a_cycle()) == {}


def test_all_metrics_of_files_are_tested_here():
    source = Path(__file__).read_text(encoding="utf-8")
    of_files = {"rank_spread", "step_part_time", "flops", "api_time", "device_utilisation"}
    of_files |= {name for name in METRICS if name.startswith(("communication_", "pipeline_"))}
    assert {name for name in of_files if f'["{name}"]' not in source} == set()


# -- calls of a device's runtime ---------------------------------------------------------------------------------------

RUNTIME_CALLS = {
    "launches": (
        *(
            "cudaLaunchKernel",
            "cudaLaunchKernelExC",
            "cuLaunchKernel",
            "cudaLaunchCooperativeKernel",
            "cudaGraphLaunch",
        ),
        *("hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "hipGraphLaunch"),
    ),
    "synchronisations": (
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "hipEventSynchronize",
        "cudaMemcpy",
        "hipMemcpyWithStream",
    ),
    "": (
        *("cudaMemcpyAsync", "cudaMemsetAsync", "hipMemcpyAsync", "cuMemcpyDtoHAsync_v2"),
        "cudaStreamWaitEvent",
        "cudaEventQuery",
        "cudaMalloc",
        "hipPointerGetAttribute",
        "cudaEventRecord",
    ),
}


def a_trace(directory: Path, *calls: tuple[str, float], steps: int = 3) -> Contract:
    """A trace of steps of 100 us, one after the other, with calls of the runtime at so many us."""
    host = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        {**host, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": 100 * step, "dur": 99}
        for step in range(steps)
    ]
    events += [{**host, "cat": "cpu_op", "name": "aten::mm", "ts": 100 * step + 1, "dur": 2} for step in range(3)]
    events += [
        {**host, "cat": "cuda_runtime", "name": name, "ts": ts, "dur": 1, "args": {"cbid": 1, "correlation": number}}
        for number, (name, ts) in enumerate(calls, start=1)
    ]
    document = {"schemaVersion": 1, "traceEvents": events, "traceName": "t"}
    (directory / "rank0.pt.trace.json").write_text(json.dumps(document))
    return inspect(replay(directory))


def counted(contract: Contract) -> dict[str, Any]:
    return {one.metric: one.value for one in measure(contract) if one.metric in ("launches", "synchronisations")}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in RUNTIME_CALLS.items() for name in names])
@pytest.mark.variants(1)
def test_calls_of_the_runtime_are_counted_by_what_they_do(tmp_path, kind, name):
    contract = a_trace(tmp_path, *((name, 100 * step + 10.0 + call) for step in range(3) for call in range(2)))
    none = dict.fromkeys((kind for kind in RUNTIME_CALLS if kind), 0)
    # Where no call says what it does nothing is counted, and that is no 0.
    does_nothing_known = not kind and not re.search("Mem(cpy|set)", name)
    assert counted(contract) == ({} if does_nothing_known else none | ({kind: 2} if kind else {}))


def test_one_step_that_does_more_and_calls_between_steps_count_for_nothing(tmp_path):
    usual = [("cudaLaunchKernel", 100.0 * step + 10) for step in range(3)]
    more = [("cudaLaunchKernel", 120.0 + call) for call in range(9)]
    outside = [("cudaDeviceSynchronize", 99.5), ("cudaDeviceSynchronize", 400.0)]
    found = counted(a_trace(tmp_path, *usual, *more, *outside))
    assert (found["launches"], found["synchronisations"]) == (1, 0)


def test_without_steps_the_window_is_counted_and_without_a_device_nothing(tmp_path):
    for name, calls, expected in (("device", [("cudaLaunchKernel", 5.0)] * 4, 4), ("host", [], None)):
        (tmp_path / name).mkdir()
        assert counted(a_trace(tmp_path / name, *calls, steps=0)).get("launches") == expected


def test_real_traces_of_devices_launch_as_often_in_every_step(corpus):
    found = {
        name: counted(inspect(replay(corpus.parent / "gpu" / name)))
        for name in ("hta-neg_queue", "tracelens-mi300_resnet_actckpt")
    }
    # As grep and a script of ten lines count them.
    assert found == {
        "hta-neg_queue": {"launches": 1062, "synchronisations": 15},
        "tracelens-mi300_resnet_actckpt": {"launches": 746, "synchronisations": 0},
    }


def events_of(place: Path) -> list[dict[str, Any]]:
    """The events of a trace, as json reads it."""
    (path,) = (one for one in place.iterdir() if ".json" in one.name)
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    document = json.loads(text.decode(), parse_float=Decimal, strict=False)
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def works(place: Path) -> list[dict[str, Any]]:
    """What ran on the devices of a trace."""
    return [one for one in events_of(place) if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


@pytest.mark.parametrize(
    "name", ["hta-amd_mi250", "tracelens-h100_bert", "tracelens-h100_nsfw", "tracelens-compile_triton"]
)
@pytest.mark.variants(1)
def test_what_a_device_did_is_counted_apart_from_the_host(corpus, name):
    place = corpus.parent / "gpu" / name
    work = works(place)
    found: dict[str, dict[str, Any]] = {}
    for one in measure(inspect(replay(place))):
        found.setdefault(one.metric, {})[one.subject] = one.value
    assert found["kernel_calls"] == Counter(one["name"] for one in work)
    shown = {one.operator: one.occurrences for one in operators_of(inspect(replay(place))) if one.on_device}
    assert shown == Counter(one["name"] for one in work)
    copied = [one for one in work if one["cat"] == "gpu_memcpy"]
    kinds = [re.sub(r"Mem\w+ (\w+).*", r"\1", one["name"]) for one in copied]
    assert found.get("copies", {}) == Counter(kinds)
    sizes = Counter[str]()
    for kind, one in zip(kinds, copied, strict=True):
        sizes[kind] += one["args"].get("bytes") or 0
    # ROCm does not say how many bytes it copies: that is unknown, and not 0.
    assert found.get("copied_bytes", {}) == {kind: size for kind, size in sizes.items() if size}


@pytest.mark.parametrize(
    ("readings", "mean"),
    [
        pytest.param([(0, 1800)], 1800.0, id="one reading"),
        pytest.param([(0, 1800), (10, 900), (40, 900)], 1125.0, id="each holds until the next"),
        pytest.param([(40, 900), (10, 900), (0, 1800)], 1125.0, id="in any order of the file"),
        pytest.param([(0, 1800), (0, 1000)], 1400.0, id="at once"),
        pytest.param([(0, 0), (10, 0)], None, id="no clock"),
        pytest.param([], None, id="none"),
    ],
)
@pytest.mark.variants(2)
def test_the_clock_is_the_mean_over_time(tmp_path, readings, mean):
    place = Path(generate("pt-npu", seed=1).write(tmp_path))
    (path,) = place.rglob("trace_view.json")
    events = json.loads(path.read_text())
    drawn = [one for one in events if one["name"] == "AI Core Freq"]
    start = Decimal(drawn[0]["ts"])
    clocks = [{**drawn[0], "ts": str(start + at), "args": {"MHz": mhz}} for at, mhz in readings]
    path.write_text(json.dumps([one for one in events if one["name"] != "AI Core Freq"] + clocks))
    found = [one.value for one in measure(inspect(replay(place))) if one.metric == "device_clock"]
    assert found == ([] if mean is None else [mean])


@pytest.mark.parametrize("name", ["torch_npu-level1", "torch_npu-level1-db"])
@pytest.mark.variants(1)
def test_the_clock_of_real_devices(corpus, name):
    found = {one.subject: one.value for one in measure(inspect(replay(corpus.parent / "msinsight" / name)))
             if one.metric == "device_clock"}  # fmt: skip
    # As json and sqlite3 read it: each of their readings says 1800.
    assert found == ({"npu:1": 1800.0} if name.endswith("db") else {"rank0:npu:0": 1800.0, "rank1:npu:1": 1800.0})


@pytest.mark.parametrize("place", gpu_traces())
@pytest.mark.variants(1)
def test_resident_memory_is_the_last_total_of_a_step(place):
    events = events_of(place)
    totals: dict[str, list[tuple[Decimal, int, int]]] = {}
    for one in events:
        args = one.get("args", {})
        if one.get("name") == "[memory]" and args["Device Type"] and args.get("Total Allocated") is not None:
            name = {1: "cuda", 6: "hip"}[args["Device Type"]] + f":{args['Device Id']}"
            totals.setdefault(name, []).append((one["ts"], args.get("Ev Idx", 0), args["Total Allocated"]))
    begun = sorted(
        one["ts"]
        for one in events
        if one.get("cat") == "user_annotation" and re.fullmatch(r"ProfilerStep#\d+", one["name"])
    )
    expected = {}
    for name, moments in totals.items():
        edges = [*zip(begun, [*begun[1:], Decimal("Infinity")], strict=True)] or [(Decimal(0), Decimal("Infinity"))]
        lasts = [max((one for one in moments if a <= one[0] < b), default=None) for a, b in edges]
        expected[name] = statistics.median_low([one[2] for one in lasts if one is not None])
    found = {one.subject: one.value for one in measure(inspect(replay(place))) if one.metric == "resident_memory_bytes"}
    assert found == expected


def test_a_kernel_that_has_the_name_of_an_operator_is_not_added_to_it(tmp_path):
    host = {"ph": "X", "pid": 1, "tid": 1}
    launch = {
        **host,
        "cat": "cuda_runtime",
        "name": "cuLaunchKernel",
        "ts": 2,
        "dur": 1,
        "args": {"cbid": 1, "correlation": 5},
    }
    kernel = {"device": 0, "stream": 7, "correlation": 5}
    events = [
        {**host, "cat": "cpu_op", "name": "triton_mul", "ts": 1, "dur": 5},
        launch,
        {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "triton_mul", "ts": 4, "dur": 9, "args": kernel},
    ]
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    found = {(one.metric, one.subject): one.value for one in measure(inspect(replay(tmp_path)))}
    assert (found["operator_calls", "triton_mul"], found["kernel_calls", "triton_mul"]) == (1, 1)
    assert (found["operator_time", "triton_mul"], found["kernel_time", "triton_mul"]) == (5.0, 9.0)


def test_the_rank_that_waits_least_on_its_device_is_the_one_that_comes_last(tmp_path):
    """A collective runs on a device until all ranks have come; the marks of the host say when it was asked for."""
    for rank, began, lasted in ((0, 10, 90), (1, 70, 30)):
        host = {"ph": "X", "pid": 1, "tid": 1}
        launch = {"cbid": 1, "correlation": 5}
        kernel = {"ph": "X", "pid": rank, "tid": 9, "cat": "kernel", "name": "ncclDevKernel_AllReduce"}
        args = {"device": rank, "stream": 9, "correlation": 5}
        events = [
            {**host, "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 200},
            {**host, "cat": "cpu_op", "name": "c10d::allreduce_", "ts": 1, "dur": 3},
            {**host, "cat": "user_annotation", "name": "nccl:all_reduce", "ts": 1, "dur": 2 + 50 * rank},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 1, "args": launch},
            {**kernel, "ts": began, "dur": lasted, "args": args},
        ]
        where = {"rank": rank, "world_size": 2, "backend": "nccl"}
        document = {"schemaVersion": 1, "distributedInfo": where, "traceEvents": events}
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(json.dumps(document))
    found: dict[str, dict[str, Any]] = {}
    for one in measure(inspect(replay(tmp_path))):
        found.setdefault(one.metric, {})[one.subject] = one.value
    assert found["collective_wait"] == {"rank0:ncclDevKernel_AllReduce": 60.0, "rank1:ncclDevKernel_AllReduce": 0.0}
    assert found["collective_transfer"] == {"ncclDevKernel_AllReduce": 30.0}
    assert found["straggler"] == {"rank0": 0.0, "rank1": 60.0}


def test_calls_of_groups_are_not_those_of_all_ranks(tmp_path):
    """The n-th call of one group is no call of another: nobody waits for a rank of another group."""
    for rank in range(4):
        host = {"ph": "X", "pid": 1, "tid": 1}
        launch = {"cbid": 1, "correlation": 5}
        args = {"device": rank, "stream": 9, "correlation": 5, "Collective name": "allreduce", "Group size": 2}
        events = [
            {**host, "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 200},
            {**host, "cat": "cpu_op", "name": "c10d::allreduce_", "ts": 1, "dur": 3},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2, "dur": 1, "args": launch},
            {"ph": "X", "pid": rank, "tid": 9, "cat": "kernel", "name": "ncclDevKernel", "ts": 9, "dur": 100 // (1 + rank // 2),
             "args": args},
        ]  # fmt: skip
        where = {"rank": rank, "world_size": 4, "backend": "nccl"}
        document = {"schemaVersion": 1, "distributedInfo": where, "traceEvents": events}
        (tmp_path / f"rank{rank}.pt.trace.json").write_text(json.dumps(document))
    found = {one.metric for one in measure(inspect(replay(tmp_path)))}
    assert "kernel_time" in found
    assert not found & {"straggler", "collective_wait", "collective_transfer"}


# -- what is of no step, what is unknown, and several cycles --------------------------------------------------------------


def launched(
    number: int | None, ts: float, start: float, name: str = "k", call: str = "cudaLaunchKernel"
) -> list[dict[str, Any]]:
    """A call at so many us, and the kernel that it launches; without a number nothing connects them."""
    numbered = {} if number is None else {"correlation": number}
    host = {"ph": "X", "pid": 1, "tid": 1, "cat": "cuda_runtime", "name": call, "ts": ts, "dur": 1}
    kernel = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": name, "ts": start, "dur": 5}
    return [
        {**host, "args": {"cbid": 1, **numbered}},
        {**kernel, "args": {"device": 0, "stream": 7, **numbered}},
    ]


def copied(number: int, ts: float, size: int | None) -> list[dict[str, Any]]:
    call, work = launched(number, ts, ts + 5, "Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync")
    return [call, {**work, "cat": "gpu_memcpy", "args": {**work["args"], **({} if size is None else {"bytes": size})}}]


def traced(
    place: Path, *windows: list[dict[str, Any]], steps: int = 2, ranks: bool = False
) -> dict[tuple[str, str], Any]:
    """Measure traces of one worker, each of steps of 100 us from 100 us on; `ranks`: each is of a rank of its own."""
    place.mkdir(exist_ok=True)
    host = {"ph": "X", "pid": 1, "tid": 1}
    for at, events in enumerate(windows):
        marks = [
            {**host, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": 100 * step, "dur": 90}
            for step in range(1, steps + 1)
        ]
        ran = [
            {**host, "cat": "cpu_op", "name": "aten::mm", "ts": 100 * step + 10, "dur": 20}
            for step in range(1, steps + 1)
        ]
        info = {"distributedInfo": {"rank": at, "world_size": len(windows), "backend": "nccl"}} if ranks else {}
        name = f"rank{at}.pt.trace.json" if ranks else f"w.{1_700_000_000_000_000_000 + at}.pt.trace.json"
        (place / name).write_text(json.dumps({"schemaVersion": 1, **info, "traceEvents": [*marks, *ran, *events]}))
    return {(one.metric, one.subject): one.value for one in measure(inspect(replay(place)))}


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        pytest.param([*launched(1, 112, 120), *launched(2, 212, 220)], 1, id="in each step"),
        pytest.param([*launched(1, 112, 120), *launched(None, 212, 220)], 1, id="one that nothing connects"),
        pytest.param([*launched(1, 112, 120), *launched(2, 310, 320)], 0.5, id="one behind the last step"),
        pytest.param([*launched(1, 112, 120), *launched(2, 195, 220)], 0.5, id="one between the steps"),
        pytest.param([*launched(1, 90, 89), *launched(2, 112, 120)], 0.5, id="one before, by a clock that is behind"),
        pytest.param([launched(1, 90, 50)[1], *launched(2, 112, 120)], 0.5, id="one that ran before, without a call"),
    ],
)
@pytest.mark.variants(2)
def test_a_kernel_is_of_the_step_that_launches_it_or_of_none(tmp_path, events, calls):
    assert traced(tmp_path / "t", events)["kernel_calls", "k"] == calls


def test_what_a_cycle_does_without_is_none_in_its_steps(tmp_path):
    with_copies = [*copied(1, 112, 100), *copied(2, 212, 100)]
    found = traced(tmp_path / "t", with_copies, [], [])
    # Of six steps two copy.
    assert (found["copies", "HtoD"], found["copied_bytes", "HtoD"]) == (0, 0)


def test_what_one_window_or_rank_does_not_know_is_no_zero(tmp_path):
    """Without calls of a runtime reads are counted, with them waits: each is unknown where the other is known."""
    calls = [*launched(1, 112, 120), *launched(2, 212, 220, call="cudaDeviceSynchronize")]
    names = ("host_reads", "launches", "synchronisations")
    cycles = traced(tmp_path / "cycles", calls, [])
    assert not cycles.keys() & {(name, "") for name in names}
    ranks = traced(tmp_path / "ranks", calls, [], ranks=True)
    assert not ranks.keys() & {(name, "ranks:") for name in names}
    assert {one for one in ranks if one[0] in names} == {
        ("launches", "rank0:"), ("synchronisations", "rank0:"), ("host_reads", "rank1:"),
    }  # fmt: skip
    assert {("launches", "ranks:"), ("synchronisations", "ranks:")} <= traced(
        tmp_path / "both", calls, calls, ranks=True
    ).keys()


def test_bytes_that_one_rank_does_not_tell_are_those_of_no_job(tmp_path):
    known, unknown = ([*copied(1, 112, size), *copied(2, 212, size)] for size in (100, None))
    found = traced(tmp_path / "ranks", known, unknown, ranks=True)
    assert (found["copies", "ranks:HtoD"], found["copied_bytes", "rank0:HtoD"]) == (2, 100)
    assert not {"ranks:HtoD", "rank1:HtoD"} & {subject for metric, subject in found if metric == "copied_bytes"}
    assert "copied_bytes" not in {metric for metric, _ in traced(tmp_path / "cycles", known, unknown)}


def test_calls_of_names_that_are_not_known_are_no_zeros(tmp_path):
    """SYCL's launches are known; of a runtime of which no call is nothing is said."""
    for name, expected in (("urEnqueueKernelLaunch", 1), ("mtiaStart", None)):
        events = [*launched(1, 112, 120, call=name), *launched(2, 212, 220, call=name)]
        assert traced(tmp_path / name, events).get(("launches", "")) == expected
    # Of two windows of which one is unknown it is unknown as well.
    assert ("launches", "") not in traced(
        tmp_path / "both", launched(1, 112, 120), launched(2, 112, 120, call="mtiaStart")
    )


def test_a_call_inside_of_one_that_does_the_same_is_no_second_launch(tmp_path):
    """SYCL launches by the driver of Level Zero, and Kineto draws both."""
    inner = {"ph": "X", "pid": 1, "tid": 1, "cat": "xpu_driver", "name": "zeCommandListAppendLaunchKernel", "dur": 0.4}
    events = [
        one
        for step in (1, 2)
        for one in (
            *launched(step, 100 * step + 12, 100 * step + 20, call="urEnqueueKernelLaunch"),
            {**inner, "ts": 100 * step + 12.2, "args": {"cbid": 1, "correlation": 10 + step}},
        )
    ]
    assert traced(tmp_path / "t", events)["launches", ""] == 1


def test_the_memory_of_rocm_is_named_as_torch_names_its_devices(tmp_path):
    args = {"Total Allocated": 64, "Total Reserved": 0, "Device Type": 6, "Device Id": 0, "Addr": 1, "Bytes": 64}
    event = {
        "ph": "i",
        "s": "t",
        "pid": 1,
        "tid": 1,
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "ts": 150,
        "args": args,
    }
    assert ("peak_memory_bytes", "hip:0") in traced(tmp_path / "t", [event])
