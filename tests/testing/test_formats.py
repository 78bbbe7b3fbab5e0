"""Generated files are printed as the real writers print: the same headers, quotes, line ends, and keys in their order."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from pathlib import Path

import pytest

from perfguard.testing import Tree, generate
from perfguard.testing.ascend_operators import DEFAULT, METRICS, counters
from tests.conftest import recorded


def file_of(tree: Tree, ending: str) -> bytes:
    [content] = [content for name, content in tree.files.items() if name.endswith(ending)]
    return content


def test_cpu_tables_print_six_digits_and_never_quote():
    tree = generate("ms-2.5+cpu", steps=3)
    detail = file_of(tree, "cpu_op_detail_info_0.csv").decode()
    assert "\r" not in detail
    assert '"' not in detail
    for row in csv.DictReader(io.StringIO(detail)):
        assert all(
            len(re.sub(r"e-\d+|[.-]|^0\.0*", "", row[name])) <= 6 for name in ("op_total_time(ms)", "total_proportion")
        )


def test_executions_end_in_a_blank():
    lines = file_of(generate("ms-2.5+cpu"), "cpu_op_execute_timestamp_0.txt").decode().splitlines()
    assert all(re.fullmatch(r"[^;]+;HostCpuOps;(\d{19},[0-9.e-]+,0 ){3}", line) for line in lines)


def test_pynative_leaves_types_blank():
    lines = file_of(generate("ms-2.5+cpu", conditions={"graph": False}), "cpu_framework_0.txt").decode().splitlines()
    assert sum(line.startswith(";;") for line in lines) == 9


def test_mindspore_times_are_a_little_late():
    events = json.loads(file_of(generate("ms-2.5+cpu"), "trace_view.json"))
    starts = re.findall(rb"(\d{19}),", file_of(generate("ms-2.5+cpu"), "cpu_op_execute_timestamp_0.txt"))
    printed = [event["ts"] for event in events if event.get("args") == {"type": "HostCpuOps"}]
    late = [int(text.replace(".", "")) - int(start) for text, start in zip(printed, starts, strict=True)]
    assert set(late) <= {36, 37}


def test_call_stacks_have_line_ends_of_their_own():
    raw = file_of(generate("pt-npu"), "operator_details.csv")
    rows = list(csv.DictReader(io.StringIO(raw.decode(), newline="")))
    assert any(";\r\n" in row["Call Stack"] for row in rows)


def test_cann_times_end_in_a_tab():
    raw = file_of(generate("pt-npu", ranks=1), "kernel_details.csv").decode()
    assert re.search(r",\d{16}\.\d{3}\t,", raw)
    assert raw.count("\r\n") == len(raw.splitlines())


def test_collectives_have_no_counters():
    tree = generate("pt-npu", ranks=2)
    name = next(name for name in tree.files if name.endswith("kernel_details.csv"))
    rows = list(csv.DictReader(io.StringIO(tree.files[name].decode(), newline="")))
    assert {row["aicore_time(us)"] for row in rows if row["Accelerator Core"] == "HCCL"} == {"N/A"}


def test_a_compressed_trace_names_itself():
    [(name, content)] = generate("pt-torch", conditions={"gzip": True}).files.items()
    assert name.removesuffix(".gz").encode() in content[:80]
    assert json.loads(gzip.decompress(content))["traceName"].startswith("/tmp/")


def test_flops_of_2_0_are_parted_by_comma_and_blank():
    header = file_of(generate("ms-2.0"), "flops_0.txt").decode().splitlines()[0]
    assert header.endswith("FLOPS utilization(% vec) ")
    assert ", " in header


@pytest.mark.parametrize(
    "version, column",
    [("ms-1.x", "full_op_name,execution_time"), ("ms-2.0", "execution_time"), ("ms-2.1", "task_duration")],
)
def test_columns_are_those_of_the_version(version, column):
    assert column in file_of(generate(version), "aicore_intermediate_0_detail.csv").decode().splitlines()[0]


def header_of(tree: Tree, ending: str) -> list[str]:
    return file_of(tree, ending).decode().splitlines()[0].split(",")


@pytest.mark.parametrize(
    "layout, variant, step, blocks",
    [
        ("pt-npu", "", "Step Id", "Block Dim"),
        ("pt-npu", "block-num", "Step Id", "Block Num"),
        ("ms-2.5+", "", "Step ID", "Block Num"),
        ("ms-2.5+", "block-dim", "Step ID", "Block Dim"),
    ],
)
def test_kernels_have_the_columns_of_framework_and_cann(layout, variant, step, blocks):
    for level1 in (False, True):
        tree = generate(layout, conditions={"level1": level1}, variant=variant)
        header = header_of(tree, "kernel_details.csv")
        assert header[0] == step
        assert [name for name in header if name.startswith("Block")] == [blocks]
        unscheduled = generate(layout, conditions={"level1": level1, "scheduled": False}, variant=variant)
        assert header_of(unscheduled, "kernel_details.csv") == header[1:]


@pytest.mark.parametrize("name", [name for name in METRICS if name != DEFAULT])
def test_kernels_end_in_the_counters_asked_for(name):
    tree = generate("pt-npu", variant=name)
    rows = list(csv.DictReader(io.StringIO(file_of(tree, "kernel_details.csv").decode(), newline="")))
    columns = list(rows[0])
    assert columns[columns.index("Context ID") + 1 :] == list(counters(name))
    asked = json.loads(file_of(tree, "profiler_info.json"))["config"]["experimental_config"]["_aic_metrics"]
    assert asked == f"ACL_AICORE_{METRICS[name][0]}"
    cubes = [row for row in rows if row["Accelerator Core"] == "AI_CORE"]
    assert all(float(row["aicore_time(us)"]) > 0 == float(row["aiv_time(us)"]) for row in cubes)


@pytest.mark.exhaustive
def test_stages_send_and_receive():
    tree = generate("pt-npu", ranks=3, variant="pipeline")
    found = {}
    for name, content in tree.files.items():
        if name.endswith("communication.json"):
            steps = json.loads(content)
            found[name] = {operation.split("__")[0] for step in steps.values() for operation in step["p2p"]}
    kinds = sorted(tuple(sorted(one - {"Total Op Info"})) for one in found.values())
    assert kinds == [(), ("hcom_receive",), ("hcom_send",)]
    tables = [content.decode() for name, content in tree.files.items() if name.endswith("step_trace_time.csv")]
    bubbles = [float(row["Bubble"]) for table in tables for row in csv.DictReader(io.StringIO(table, newline=""))]
    assert sum(bubble > 0 for bubble in bubbles) == 3


def test_over_a_network_there_is_rdma_and_no_hccs():
    document = json.loads(
        next(
            content
            for name, content in generate("pt-npu", ranks=2, variant="rdma").files.items()
            if name.endswith("communication.json")
        )
    )
    [links] = [one["Total Op Info"]["Communication Bandwidth Info"] for one in (document["step1"]["collective"],)]
    assert links["RDMA"]["Transit Size(MB)"] > 0 == links["HCCS"]["Transit Size(MB)"]


# -- beside real files ---------------------------------------------------------------------------------------------------

REAL = [
    ("pt-npu", {}, "msinsight/torch_npu-level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT", "*.csv"),
    ("ms-2.5+cpu", {"memory": True}, "mindspore-2.10-cpu-dynamic/*/*/FRAMEWORK", "*.csv"),
    ("ms-2.0", {"cpu_device": True}, "mindspore-2.0-cpu-graph-env/profiler", "*.csv"),
    ("minddata", {}, "mindspore-2.10-minddata", "minddata_pipeline_raw_0.csv"),
]


def outside_or_inside(request: pytest.FixtureRequest, pattern: str) -> list[Path]:
    """Return the real directories or files of a pattern: those of the corpus if a device wrote them, else also those inside."""
    if pattern.startswith("msinsight/"):
        return sorted(request.getfixturevalue("corpus").parent.glob(pattern))
    name, _, rest = pattern.partition("/")
    return [path for place in recorded(name) for path in (sorted(place.glob(rest)) if rest else [place])]


@pytest.mark.parametrize("layout, conditions, folder, pattern", REAL, ids=lambda value: str(value)[:12])
def test_headers_are_those_of_real_files(request, layout, conditions, folder, pattern):
    tree = generate(layout, ranks=2 if layout == "pt-npu" else 1, conditions=conditions)
    real = sorted(path for place in outside_or_inside(request, folder) for path in place.glob(pattern))
    assert real
    for path in real:
        ours = [content for name, content in tree.files.items() if name.rpartition("/")[2] == path.name]
        assert ours, path.name
        # The line ends of one real file were changed on its way into the collection.
        assert ours[0].splitlines()[0] == path.read_bytes().splitlines()[0], path.name


def kinds(events: list[dict]) -> set[tuple]:
    """Return how events are built: phase, types of what may be a string or a number, keys in their order."""
    return {(one["ph"], one.get("cat"), type(one.get("ts")), type(one.get("dur")) is str, tuple(one)) for one in events}


def test_headers_of_1_x_are_those_of_real_files(corpus: Path):
    folder = corpus.parent / "mindinsight" / "ascend-1.x-single" / "profiler"
    early, late = (
        generate("ms-1.x", ranks=2, conditions={"data_process": True, "sink": True}, variant=variant)
        for variant in ("1.3", "")
    )
    checked = 0
    for path in sorted([*folder.glob("*.csv"), *folder.glob("output_*.txt")]):
        real = path.read_bytes().splitlines()[:2]
        ours = [
            content.splitlines()[:2]
            for tree in (early, late)
            for name, content in tree.files.items()
            if re.sub(r"_2_1\.csv$", "_1_1.csv", name) == f"rank_1/profiler/{path.name}"
        ]
        assert ours, path.name
        # The title of a report is above its header.
        lines = 2 if path.name.startswith(("output_op", "output_format")) else 1
        # The real run has one rank, and so no communication.
        printed = [
            [line.partition(b",stream_10_")[0].partition(b",stream_48_")[0].split() for line in one[:lines]]
            for one in ours
        ]
        assert [line.split() for line in real[:lines]] in printed, path.name
        checked += 1
    assert checked > 10


def test_headers_of_2023_are_those_of_real_files(corpus: Path):
    [folder] = corpus.parent.glob("msinsight/torch_npu-2023/*/ASCEND_PROFILER_OUTPUT")
    tree = generate("pt-npu", ranks=2, variant="2023")
    for path in folder.glob("*.csv"):
        ours = next(content for name, content in tree.files.items() if name.endswith(path.name)).splitlines()[0]
        real = path.read_bytes().splitlines()[0]
        # The sample was taken with other counters.
        assert ours.partition(b",aic")[0] == real.partition(b",aic")[0], path.name


def test_counters_of_memory_l0_are_those_of_a_real_file(corpus: Path):
    [path] = corpus.parent.glob("msinsight/torch_npu-2023/*/ASCEND_PROFILER_OUTPUT/kernel_details.csv")
    header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
    assert header[header.index("Context ID") + 1 :] == list(counters("MemoryL0"))


@pytest.mark.parametrize(
    "layout, real",
    [
        ("pt-npu", "msinsight/torch_npu-level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"),
        ("ms-2.5+cpu", "mindspore-2.10-cpu-graph-steps2to4/*/ASCEND_PROFILER_OUTPUT/trace_view.json"),
        ("pt-torch", "torch-2.13-cpu-torchrun-2ranks/rank0.*.pt.trace.json"),
    ],
)
def test_events_are_built_like_real_ones(request, layout, real):
    tree = generate(layout, ranks=2)
    ours = next(content for name, content in tree.files.items() if name.endswith((".pt.trace.json", "trace_view.json")))
    for path in outside_or_inside(request, real):
        found, theirs = json.loads(ours), json.loads(path.read_bytes())
        if layout == "pt-torch":
            assert set(found) == set(theirs) - {"with_flops"}
            found, theirs = found["traceEvents"], theirs["traceEvents"]
        assert kinds(found) <= kinds(theirs), path
