"""Kernels: rows of kernel_details go into tables, whatever their blocks are, and are added up there."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.columns import shapes_of
from perfguard.artifacts.kernel_rows import KernelRows
from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.readers import Content, csv_stream
from perfguard.artifacts.slot_rows import SlotRows
from perfguard.artifacts.table import Cells, Table
from perfguard.artifacts.table_definitions import TABLES
from perfguard.artifacts.tables import Batch, batch
from perfguard.contract.checks import broken_rules
from perfguard.dialects.ascend.kernels import kernels_by_cycle
from perfguard.dialects.cycle import Artifact, Cycle, Executions, Requested
from perfguard.dialects.queries import definitions, named_texts
from tests.dialects.counted import Covered, aggregated, covered_steps
from tests.dialects.summed import covered, groups


class Told(NamedTuple):
    """What a table says of what ran."""

    executions: Executions
    groups: pl.DataFrame
    covered: tuple[Covered, ...]


FIXED = {"Accelerator Core": "AI_CORE", "Wait Time(us)": "0"}


def said(place: Path, header: str, *rows: str, edges: dict[int, tuple[int, int]] | None = None) -> Told:
    """What a table says, cells divided by bars; `edges` are the steps that a trace beside it marks, by number."""
    names = [*header.split("|"), *FIXED]
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([names, *([*row.split("|"), *FIXED.values()] for row in rows)])
    (path := place / "kernel_details.csv").write_text(out.getvalue(), newline="")
    with batch(definitions(frozenset({"pt-npu"})), named_texts()) as tables:
        reader = KernelRows(tables, 4)
        csv_stream.stream_csv(path, {}, {}, [name for name in names if reader.reads(name)], reader.consume)
        for number, (start, end) in (edges or {}).items():
            _mark(tables, number, start, end)
        found = kernels_by_cycle(tables, [4])[4]
        return Told(found, groups(tables, 4), covered(tables, len(found.edges_ns), 4))


def _mark(tables: Batch, number: int, start: int, end: int) -> None:
    """Add the mark of a step to the trace."""
    numbers = {
        "row": number,
        "name": tables.word(f"ProfilerStep#{number}"),
        "start_ns": start,
        "duration_ns": end - start,
    }
    columns = {name: np.array([numbers.get(name, 0)]) for name in TABLES["view_spans"] if name != "cycle"}
    tables.add("view_spans", 4, **{**columns, "of_graph": np.array([False])})


KERNELS = "Step Id|Name|Type|Start Time(us)|Duration(us)|Input Shapes"
GROUP = ("operator", "name", "step", "shapes", "calls", "total_ns", "self_ns", "first_ns")


def test_kernels_are_executions_of_their_type_in_the_step_of_their_row(tmp_path):
    found = said(
        tmp_path,
        KERNELS,
        '11|aclnnAdd_2|Add|1795261968310121.500\t|2.25|"2,4;8"',
        "10|aclnnMul_1|Mul|1795261968310120.250\t|1.125|",
        "|aclnnMul_1|Mul|1795261968310125.250\t|1|N/A",
    )
    assert found.groups.select(GROUP).rows() == [
        ("Mul", "aclnnMul_1", None, None, 1, 1000, 1000, 1795261968310125250),
        ("Mul", "aclnnMul_1", 0, "", 1, 1125, 1125, 1795261968310120250),
        ("Add", "aclnnAdd_2", 1, "2,4;8", 1, 2250, 2250, 1795261968310121500),
    ]
    ran = found.executions
    assert (ran.steps, ran.by_step, ran.step_numbers, ran.marks_steps) == (2, False, (10, 11), True)


@pytest.mark.parametrize(
    ("header", "row", "operator"),
    [
        ("Name|Type|Start Time(us)|Duration(us)", "aclnnMul_12|N/A|1.5|2", "aclnnMul"),
        ("Name|Type|Start Time(us)|Duration(us)", "aclnnMul_12||1.5|2", "aclnnMul"),
        ("Name|Type|Start Time(us)|Duration(us)", "aclnnMul_12|Mul|1.5|2", "Mul"),
        ("Step ID|Name|Type|Start Time(us)|Duration(us)", "|aclnnMul_12|Mul|1.5|2", "Mul"),
    ],
)
def test_a_kernel_without_type_is_named_by_its_name(tmp_path, header, row, operator):
    found = said(tmp_path, header, row)
    assert found.groups.select(GROUP).rows() == [(operator, "aclnnMul_12", None, None, 1, 2000, 2000, 1500)]
    ran = found.executions
    assert (ran.steps, ran.by_step, ran.marks_steps) == (None, False, False)


def test_no_kernels_are_no_executions_but_a_source(tmp_path):
    found = said(tmp_path, KERNELS).executions
    assert (found.calls, found.on_device) == (0, True)


def test_collectives_are_counted_by_the_name_behind_what_launched_them(tmp_path):
    header = "Step ID|Name|Type|Accelerator Core|Start Time(us)|Duration(us)|Wait Time(us)"
    text = "\n".join(
        [
            header.replace("|", ","),
            "1,Default/hcom_allReduce__1,hcom_allReduce_,HCCL,1,2,0",
            ",hcom_allReduce__1,hcom_allReduce_,COMMUNICATION,5,2,0",
            "1,Default/Add,Add,AI_CORE,9,2,0",
            "",
        ]
    )
    (path := tmp_path / "x.csv").write_text(text)
    with batch(definitions(frozenset({"pt-npu"})), named_texts()) as tables:
        reader = KernelRows(tables, 0)
        csv_stream.stream_csv(path, {}, {}, header.split("|"), reader.consume)
        kernels_by_cycle(tables, [0])
        tables.keep_all()
        assert tables.execute("from kernel_collectives") == [(0, "hcom_allReduce__1", 2, 1, 5000)]
        assert tables.execute("from kernel_kinds") == [(0, None, "Add", "AI_CORE", 1, 2.0, 2.0, 2.0, 4)]


EDGES = {3: (10_000, 30_000), 5: (30_000, 40_000)}
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["3", "5", ""]),
        st.sampled_from(["Add_1", "Mul_2", "x"]),
        st.sampled_from(["Add", "N/A", "hcom_allReduce_"]),
        st.integers(0, 50),
        st.integers(0, 30),
        st.sampled_from(["2,4", "N/A", ""]),
    ),
    max_size=24,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, block=st.integers(20, 400))
@pytest.mark.exhaustive
def test_queries_add_up_as_counting_row_by_row_does(rows, block, monkeypatch, tmp_path):
    """Against `aggregated` and `covered_steps` on the same rows, in blocks of any size."""
    monkeypatch.setattr(csv_stream, "BLOCK_BYTES", block)
    found = said(tmp_path, KERNELS, *("|".join(map(str, row)) for row in rows), edges=EDGES)
    steps = sorted({int(row[0]) for row in rows if row[0]})
    expected = pl.DataFrame(
        [
            (
                {"N/A": {"Add_1": "Add", "Mul_2": "Mul", "x": "x"}[name]}.get(kind, kind),
                name,
                steps.index(int(step)) if step else None,
                start * 1000,
                lasts * 1000,
                lasts * 1000,
                None if shapes == "N/A" else shapes,
            )
            for step, name, kind, start, lasts, shapes in rows
        ],
        schema={
            **dict.fromkeys(("operator", "name"), pl.String),
            **dict.fromkeys(("step", "start_ns", "duration_ns", "self_ns"), pl.Int64),
            "shapes": pl.String,
        },
        orient="row",
    )
    keys = ("operator", "name", "step", "shapes")
    assert found.groups.select(GROUP).sort(keys).equals(aggregated(expected).select(GROUP).sort(keys))
    edges = tuple(EDGES.values()) if steps == sorted(EDGES) else ()
    assert found.executions.edges_ns == edges
    assert found.covered == covered_steps(expected, edges)


# -- what must hold ---------------------------------------------------------------------------------------------------

TIMES = "Name|Type|Start Time(us)|Duration(us)|Wait Time(us)|aic_mac_ratio|aic_mac_time(us)|aicore_time(us)|Stream ID|Task ID"


def kernel(number: int, **cells: object) -> str:
    """A kernel 10 us behind the one before, which lasted 4 us."""
    told = {
        "name": f"a{number}", "type": "A", "start": number * 10, "lasts": 4, "wait": 6 if number else 0, "ratio": 0.5,
        "part": 2, "whole": 4, "stream": 1, "task": number,
    }  # fmt: skip
    return "|".join(str(one) for one in {**told, **cells}.values())


def broken(place: Path, rows: list[str], tasks: list[str] | None = None) -> list[tuple[str, str, str, str]]:
    """Code, severity, place and check of what is wrong; `tasks` are the rows of l2_cache."""
    layout = layout_named("pt-npu")
    slots = {one.name: one for one in layout.slots}
    artifacts = {}
    with batch(definitions(frozenset({"pt-npu"})), named_texts()) as tables:
        (shape,) = shapes_of("l2_cache")
        tasks_of = SlotRows(tables, 0, 0, shape, "l2_cache")
        readers = {"kernel_details": KernelRows(tables, 0), "l2_cache": tasks_of}
        for slot, lines in (("kernel_details", [TIMES, *rows]), ("l2_cache", tasks and [TASKS, *tasks])):
            if lines:
                (path := place / f"{slot}.csv").write_text("\n".join(line.replace("|", ",") for line in [*lines, ""]))
                csv_stream.stream_csv(path, {}, {}, lines[0].split("|"), readers[slot].consume)
                table = Table(frame=pl.DataFrame(schema=lines[0].split("|")), cells=Cells.TEXT, streamed=1)
                artifacts[slot] = Artifact(slot=slots[slot], path=path, content=Content(table=table), place=slot)
        cycle = Cycle(layout=layout, place=place, rank=0, index=0, artifacts=artifacts, requested=Requested())
        kernels_by_cycle(tables, [0])
        found = broken_rules(tables, {0: cycle}).get(0, [])
    return [(one.code.name, one.severity.value, one.place, one.check or "") for one in found]


WAITS, RATIOS, SHOWN = (
    "kernels_wait_for_the_one_before",
    "ratios_of_a_kernel_follow_from_its_times",
    "pipeline_ratios_follow_from_times",
)
ALL = range(20)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param([kernel(i) for i in ALL], [], id="nothing"),
        pytest.param([kernel(i, wait=5) if i == 7 else kernel(i) for i in ALL], [("kernel_details:9", WAITS)], id="shorter"),
        pytest.param([kernel(i, wait=7) if i == 7 else kernel(i) for i in ALL], [("kernel_details:9", WAITS)], id="longer"),
        pytest.param([kernel(i, wait=5 if i % 2 else 6) for i in ALL], [], id="shorter in half of the rows"),
        pytest.param([kernel(i, wait=7 if i % 2 else 6) for i in ALL], [], id="longer in half of the rows"),
        pytest.param([kernel(i, wait=6000 if i else 0) for i in ALL], [("kernel_details", WAITS)], id="wait in ns"),
        pytest.param([kernel(i, wait="N/A") for i in ALL], [], id="no waits"),
        pytest.param(
            [kernel(i, part=2000) for i in ALL],
            [("kernel_details", RATIOS), *((f"kernel_details:{i + 2}", SHOWN) for i in ALL)],
            id="time in ns",
        ),
        pytest.param(
            [kernel(i, ratio=0.7) if i == 3 else kernel(i) for i in ALL],
            [("kernel_details:5", RATIOS), ("kernel_details:5", SHOWN)],
            id="a ratio",
        ),
        pytest.param([kernel(i, ratio="N/A") if i == 3 else kernel(i) for i in ALL], [], id="no ratio"),
        pytest.param([kernel(i, part=0, whole=0) if i == 3 else kernel(i) for i in ALL], [], id="no time"),
        pytest.param(
            [*(kernel(i) for i in ALL), kernel(19)],
            [("kernel_details:22", "no_kernel_is_written_twice"), ("kernel_details:22", WAITS)],
            id="twice",
        ),
        pytest.param([*(kernel(i) for i in ALL), kernel(19, name="b", wait=0)], [], id="another beside it"),
    ],
)  # fmt: skip
@pytest.mark.variants(3)
def test_what_must_hold_of_kernels(tmp_path, rows, found):
    assert sorted((place, check) for _, _, place, check in broken(tmp_path, rows)) == sorted(found)


TASKS = "Stream Id|Task Id|Hit Rate|Victim Rate|Op Name"


def task(number: int, **cells: object) -> str:
    return "|".join(
        str(one) for one in {"stream": 1, "task": number, "hit": 0, "victim": 0, "name": f"a{number}", **cells}.values()
    )


@pytest.mark.parametrize(
    ("change", "rows", "found"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({}, {"name": "net/a3"}, [], id="what launched it before the name"),
        pytest.param({"task": 77}, {}, [("I101", "error", "cached_tasks_are_kernels")], id="a task that is none"),
        pytest.param(
            {"name": "b"}, {},
            [("I101", "error", "cached_tasks_are_kernels"), ("I113", "warning", "l2_cache_names_the_kernels")],
            id="another name",
        ),
        pytest.param({}, {"stream": "N/A"}, [("I101", "error", "cached_tasks_are_kernels")], id="a kernel of no stream"),
    ],
)  # fmt: skip
def test_tasks_of_the_cache_are_kernels(tmp_path, change, rows, found):
    kernels = [kernel(i, **(rows if i == 3 else {})) for i in ALL]
    told = broken(tmp_path, kernels, [task(i, **(change if i == 3 else {})) for i in ALL])
    assert sorted((code, severity, check) for code, severity, _, check in told) == found
    assert {place for _, _, place, _ in told} <= {"l2_cache:5"}


@pytest.mark.parametrize("rows", [{"stream": "9"}, {"stream": "N/A"}], ids=["another stream", "no stream"])
def test_tasks_of_another_run_are_told_once(tmp_path, rows):
    told = broken(tmp_path, [kernel(i, **rows) for i in ALL], [*map(task, ALL)])
    assert told == [("I113", "error", "l2_cache", "cached_tasks_are_kernels")]
