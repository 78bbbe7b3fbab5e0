"""What the host asks of an Ascend device and waits for, in a trace and in a database: counted by other means."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.capture.replay import replay
from perfguard.gate import compare, examine
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports.overview import headline
from perfguard.testing import generate
from tests.contract.test_common_tables import asked
from tests.mutation.subjects import corpus_directory

CORPUS = corpus_directory()
MACROS = files("perfguard.dialects").joinpath("macros.sql").read_text(encoding="utf-8")
WAIT = "aclrtSynchronizeStreamWithTimeout"
Span = tuple[Decimal, Decimal, str]
REAL = CORPUS and sorted(
    path
    for name in ("trace_view.json", "ascend_pytorch_profiler_*.db")
    for path in (CORPUS / "msinsight").glob(f"*/*_ascend_pt/ASCEND_PROFILER_OUTPUT/{name}")
)
of_real_output = pytest.mark.parametrize(
    "path",
    REAL or [pytest.param(Path(), marks=pytest.mark.skip("there is no corpus of real output beside this checkout"))],
    ids=lambda path: path.parent.parent.name + path.suffix,
)


def examined(place: Path) -> Verdict:
    return examine(replay(place), workload="w", policy=Policy())


def measured(place: Path) -> dict[str, Any]:
    found = {one.metric: one.value for one in examined(place).measurements}
    return {name: found[name] for name in ("synchronisations", "waiting_operators") if name in found}


def around(calls: list[Span], operators: list[Span]) -> Counter[str]:
    """How often each operator is the shortest around a call, one after the other; without one the call itself."""
    found: Counter[str] = Counter()
    for begin, _, call in calls:
        outer = [(end - start, name) for start, end, name in operators if start <= begin <= end]
        found[min(outer)[1] if outer else call] += 1
    return found


def in_a_trace(path: Path) -> tuple[list[Span], list[Span]]:
    """The waits inside of a step and the operators of the host, of a trace of one thread that waits."""
    events = json.loads(path.read_text(), parse_float=Decimal)
    spans = [
        (Decimal(one["ts"]), Decimal(one["ts"]) + Decimal(one["dur"]), one) for one in events if one.get("ph") == "X"
    ]
    steps = [(start, end) for start, end, one in spans if one["name"].startswith("ProfilerStep#")]
    calls = [
        (start, end, one["name"].removeprefix("AscendCL@"))
        for start, end, one in spans
        if one["name"].startswith("AscendCL@aclrtSynchronize") and any(a <= start <= b for a, b in steps)
    ]
    (tid,) = {one["tid"] for _, _, one in spans if one["name"].startswith("AscendCL@aclrtSynchronize")}
    operators = [
        (start, end, one["name"])
        for start, end, one in spans
        if one.get("cat") == "cpu_op" and one["tid"] == tid and not one["name"].startswith("ProfilerStep#")
    ]
    return calls, operators


def in_a_database(path: Path) -> tuple[list[Span], list[Span]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        steps = base.execute("select startNs, endNs from STEP_TIME").fetchall()
        named = "select startNs, endNs, value, globalTid from {} join STRING_IDS on STRING_IDS.id = {}.name"
        waits = [
            one
            for one in base.execute(named.format("CANN_API", "CANN_API"))
            if one[2].startswith("aclrtSynchronize") and any(a <= one[0] <= b for a, b in steps)
        ]
        (tid,) = {one[3] for one in waits}
        operators = [
            (Decimal(start), Decimal(end), name)
            for start, end, name, thread in base.execute(
                named.format("PYTORCH_API", "PYTORCH_API") + " where type = 50001"
            )
            if thread == tid and not name.startswith("ProfilerStep#")
        ]
    return [(Decimal(start), Decimal(end), name) for start, end, name, _ in waits], operators


@of_real_output
def test_waits_of_real_output_are_those_that_a_walk_over_it_finds(path):
    calls, operators = (in_a_database if path.suffix == ".db" else in_a_trace)(path)
    assert calls
    # They have one step.
    assert measured(path.parents[1]) == {"synchronisations": len(calls), "waiting_operators": around(calls, operators)}


def askers_in_a_trace(path: Path) -> Counter[tuple[str, str]]:
    """By type and name of a kernel, which operator an arrow comes from."""
    events = json.loads(path.read_text(), parse_float=Decimal)
    at = {(one["pid"], one["tid"], Decimal(one["ts"])): one["name"] for one in events if one.get("cat") == "cpu_op"}
    begun, ended = (
        {one["id"]: one for one in events if one.get("cat") == "async_npu" and one["ph"] == ph} for ph in "sf"
    )
    asked = {
        Decimal(one["ts"]): at[begun[number]["pid"], begun[number]["tid"], Decimal(begun[number]["ts"])]
        for number, one in ended.items()
    }
    rows = csv.DictReader(path.with_name("kernel_details.csv").read_text().splitlines())
    return Counter((one["Type"], asked.get(Decimal(one["Start Time(us)"].strip()), "")) for one in rows)


def askers_in_a_database(path: Path) -> Counter[tuple[str, str]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        texts = dict(base.execute("select id, value from STRING_IDS"))
        lists = dict(base.execute("select connectionId, id from CONNECTION_IDS"))
        host = dict(base.execute("select connectionId, name from PYTORCH_API where type = 50001"))
        work = base.execute(
            "select opType, connectionId from TASK join COMPUTE_TASK_INFO using (globalTaskId) "
            "union all select opType, connectionId from COMMUNICATION_OP"
        )
        return Counter((texts[kind], texts[host[lists[connection]]]) for kind, connection in work)


@of_real_output
def test_kernels_are_of_the_operators_that_asked_for_them(path):
    ((*rows,),) = asked(path.parents[1], "select type, coalesce(operator, ''), count(*) from kernels group by all")
    counted = askers_in_a_database if path.suffix == ".db" else askers_in_a_trace
    assert {(kind, operator): count for kind, operator, count in rows} == counted(path)


# -- what is around a call ----------------------------------------------------------------------------------------------------


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Spans of which each lies in another one or beside it."""
    spans, places = [], [(0, draw(st.integers(1, 40)))]
    while places and len(spans) < 12:
        begin, end = places.pop()
        cuts = sorted(draw(st.lists(st.integers(begin, end), max_size=4, unique=True)))
        inside = list(zip(cuts[::2], cuts[1::2], strict=False))
        spans += inside
        places += inside
    return spans


@settings(max_examples=60, deadline=None)
@given(
    threads=st.lists(nested(), min_size=1, max_size=3),
    calls=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=6),
)
def test_the_operator_around_a_call_is_the_innermost_of_its_thread(threads, calls):
    """Or another one of the same times: of a call where one operator ends and another begins it is the later one."""
    spans = [(tid, begin, end) for tid, those in enumerate(threads) for begin, end in dict.fromkeys(those)]
    with duckdb.connect() as base:
        base.execute("create table words (number integer, text varchar)")
        base.execute("create table steps (cycle integer, step integer, start_ns bigint, end_ns bigint)")
        base.execute("create table windows (cycle integer, steps bigint)")
        base.execute("create table files (cycle integer, file integer, slot varchar, rank bigint)")
        base.execute(MACROS)
        base.execute("create table ops (cycle integer, tid integer, name varchar, start_ns bigint, end_ns bigint)")
        base.execute("create table calls (cycle integer, tid integer, row bigint, start_ns bigint)")
        for tid, begin, end in spans:
            base.execute("insert into ops values (0, ?, ?, ?, ?)", [tid, f"{begin}-{end}", begin, end])
        for row, (tid, at) in enumerate(calls):
            base.execute("insert into calls values (0, ?, ?, ?)", [tid, row, at])
        found = dict(base.execute("select row, operator from inside_of('calls', 'ops')").fetchall())
    for row, (tid, at) in enumerate(calls):
        outer = [(-begin, end) for one, begin, end in spans if one == tid and begin <= at < end]
        begun = min(outer, default=None)
        assert found[row] == (begun and f"{-begun[0]}-{begun[1]}")


# -- planted -----------------------------------------------------------------------------------------------------------------


def gap_of(begin: Decimal, operators: list[Decimal]) -> Decimal:
    """A tenth of the time from the begin of a step to its first operator."""
    return (min(start for start in operators if start > begin) - begin) / 10


def count_in_api_statistic(output: Path, name: str, times: int) -> None:
    path = output / "api_statistic.csv"
    if not path.is_file() or not times:
        return
    header = next(csv.reader([path.read_text().partition("\n")[0]]))
    known = {
        "Device_id": "host", "Level": "acl", "API Name": name, "Time(us)": 0.5 * times, "Count": times, "Avg(us)": 0.5,
        "Min(us)": 0.5, "Max(us)": 0.5, "Variance": 0.0,
    }  # fmt: skip
    append(path, [known[column.strip()] for column in header])


def append(path: Path, row: list[Any]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    path.write_text(path.read_text() + text.getvalue())


def plant_in_text(place: Path, waits: int, edge_us: int) -> None:
    """An item in each step that waits for the device so often, in every file that counts such things."""
    (output,) = place.rglob("ASCEND_PROFILER_OUTPUT")
    path = output / "trace_view.json"
    events = json.loads(path.read_text())
    steps = [one for one in events if one.get("name", "").startswith("ProfilerStep#")]
    starts = [Decimal(one["ts"]) for one in events if one.get("cat") == "cpu_op" and one not in steps]
    cann = next(one["pid"] for one in events if one.get("name", "").startswith("Node@"))
    for step in steps:
        begin, where = Decimal(step["ts"]), {"ph": "X", "tid": step["tid"]}
        gap = gap_of(begin, starts)
        for name, after, lasts in (("aten::item", 1, 8), ("aten::_local_scalar_dense", 2, 6)):
            args = {"Sequence number": -1, "Fwd thread id": 0}
            host = {**where, "pid": step["pid"], "cat": "cpu_op", "args": args}
            dur = float(round(gap * lasts, 3))
            events.append({**host, "name": name, "ts": f"{begin + after * gap:.3f}", "dur": dur})
            append(
                output / "operator_details.csv",
                [name, "", "", round(dur - (float(round(gap * 6, 3)) if lasts == 8 else 0), 3), dur, 0, 0, 0, 0],
            )
        for number in range(waits):
            args = {"Thread Id": step["tid"], "Mode": "ACL_RTS", "level": "acl", "id": WAIT, "connection_id": 7}
            called = {"name": f"AscendCL@{WAIT}", "ts": f"{begin + (3 + number) * gap:.3f}", "dur": 0.5}
            events.append({**where, "pid": cann, **called, "args": args})
    # The profiler's own, behind the last step; and one of another thread, at the edge of one.
    last = Decimal(steps[-1]["ts"]) + Decimal(str(steps[-1]["dur"]))
    for tid, at in ((steps[-1]["tid"], last + 50), (777, last + Decimal(edge_us))):
        name = "AscendCL@aclrtSynchronizeDevice"
        events.append({"ph": "X", "tid": tid, "pid": cann, "name": name, "ts": f"{at:.3f}", "dur": 0.5, "args": {}})
    path.write_text(json.dumps(events))
    count_in_api_statistic(output, WAIT, len(steps) * waits)
    count_in_api_statistic(output, "aclrtSynchronizeDevice", 2)


def plant_in_a_database(place: Path, waits: int, edge_us: int) -> None:
    (path,) = place.rglob("ascend_pytorch_profiler*.db")
    with closing(sqlite3.connect(path)) as base, base:
        strings = {}
        for name in ("aten::item", "aten::_local_scalar_dense", "aclrtSynchronizeDevice", *([WAIT] * bool(waits))):
            (known,) = base.execute("select max(id) from STRING_IDS").fetchone()
            strings[name] = known + 1
            base.execute("insert into STRING_IDS values (?, ?)", (known + 1, name))
        (tid,) = base.execute("select distinct globalTid from CANN_API").fetchone()
        columns = [one[1] for one in base.execute("pragma table_info(PYTORCH_API)")]
        # Times are texts there, and steps are marked among the operators.
        started = base.execute(
            "select startNs from PYTORCH_API join STRING_IDS on id = name where value not like 'ProfilerStep#%'"
        )
        starts = [Decimal(one) for (one,) in started]
        for (begin,) in base.execute("select startNs from STEP_TIME").fetchall():
            gap = int(gap_of(Decimal(begin), starts))
            for name, after, lasts in (("aten::item", 1, 8), ("aten::_local_scalar_dense", 2, 6)):
                known = {
                    "startNs": str(begin + after * gap), "endNs": str(begin + (after + lasts) * gap), "globalTid": tid,
                    "type": 50001, "name": strings[name],
                }  # fmt: skip
                row = [known.get(column) for column in columns]
                base.execute(f"insert into PYTORCH_API values ({', '.join('?' * len(row))})", row)
            for number in range(waits):
                start = begin + (3 + number) * gap
                call = (start, start + 500, 20000, tid, start % 10**9 + 10**9, strings[WAIT])
                base.execute("insert into CANN_API values (?, ?, ?, ?, ?, ?)", call)
        (last,) = base.execute("select max(endNs) from STEP_TIME").fetchone()
        for thread, start in ((tid, last + 50_000), (tid + 777, last + 1000 * edge_us)):
            call = (start, start + 500, 20000, thread, start % 10**9 + 10**9, strings["aclrtSynchronizeDevice"])
            base.execute("insert into CANN_API values (?, ?, ?, ?, ?, ?)", call)


@pytest.fixture(params=[("text", plant_in_text), ("database", plant_in_a_database)], ids=lambda one: one[0])
def planted(request: Any, tmp_path: Path) -> Any:
    """Return what writes a directory with so many waits a step."""
    form, plant = request.param

    def write(waits: int, *, edge_us: int = 1) -> Path:
        place = tmp_path / f"{waits} {edge_us}"
        generate("pt-npu", seed=1, steps=3, conditions={} if form == "text" else {"text": False, "db": True}).write(
            place
        )
        plant(place, waits, edge_us)
        return place

    return write


def test_a_hidden_wait_fails_and_its_operator_is_said_first(planted):
    base, now = (examined(planted(waits)) for waits in (0, 2))
    assert (base.outcome, now.outcome) == (Outcome.PASSED, Outcome.PASSED), [*base.findings, *now.findings]
    verdict = compare(base, now, policy=Policy())
    assert verdict.outcome is Outcome.FAILED
    assert headline(verdict) == (
        "A step waits for its device more often: 0 → 2 a step (aten::_local_scalar_dense 0 → 2)."
    )
    assert compare(now, base, policy=Policy()).outcome in (Outcome.PASSED, Outcome.CHANGED)


def test_a_wait_of_another_thread_is_of_no_step(planted):
    """torch_npu's queue calls when it comes to it: a little earlier or later is no other step."""
    before, behind = (examined(planted(1, edge_us=us)) for us in (-1, 1))
    verdict = compare(before, behind, policy=Policy())
    assert verdict.outcome is Outcome.PASSED
    assert {
        one.value for side in (before, behind) for one in side.measurements if one.metric == "synchronisations"
    } == {1}


@pytest.mark.parametrize("left", ["", "AscendCL@aclnn"])
def test_what_waits_is_unknown_where_no_call_of_the_runtime_was_recorded(tmp_path, left):
    """The text of level 0 has no call at all."""
    generate("pt-npu", seed=1, steps=3).write(tmp_path)
    (path,) = tmp_path.rglob("trace_view.json")
    events = json.loads(path.read_text())
    kept = ("AscendCL@aclnn",) if left else ()
    events = [one for one in events if "@" not in one.get("name", "") or one["name"].startswith(kept)]
    path.write_text(json.dumps(events))
    assert measured(tmp_path) == {}


@pytest.mark.parametrize("layout", ["ms-2.5+", "ms-2.3"])
def test_mindspore_has_waits_too(layout, tmp_path):
    generate(layout, seed=1, steps=3).write(tmp_path)
    (output,) = tmp_path.rglob("ASCEND_PROFILER_OUTPUT")
    events = json.loads((output / "trace_view.json").read_text())
    launches = [one for one in events if one.get("name", "").startswith("Node@")]
    for launch in launches:
        events.append({**launch, "name": "AscendCL@aclrtSynchronizeEvent", "dur": "0.5"})
    (output / "trace_view.json").write_text(json.dumps(events))
    count_in_api_statistic(output, "aclrtSynchronizeEvent", len(launches))
    # Each step has as many kernels.
    assert measured(tmp_path) == {
        "synchronisations": len(launches) / 3,
        "waiting_operators": {"aclrtSynchronizeEvent": len(launches) / 3},
    }
