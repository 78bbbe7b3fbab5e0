"""The common tables: one query means the same of every profiler, and says of a device what its trace says."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract.open_tables import open_tables
from perfguard.dialects.queries import common_tables
from perfguard.recording import Recording
from perfguard.testing import LAYOUTS, generate
from tests.conftest import gpu_traces
from tests.mutation.subjects import corpus_directory

QUESTIONS = Path(__file__).parents[2] / "docs" / "how-to" / "questions.sql"
CORPUS = corpus_directory()


class Silent:
    """Tells nobody what is read."""

    def begin(self, size: int) -> None: ...

    def report(self, read: int) -> None: ...


def questions() -> list[tuple[str, str]]:
    """The questions with their queries."""
    text = QUESTIONS.read_text(encoding="utf-8")
    return re.findall(r"^-- (\d+\. .*)\n((?:.+\n)+?)(?=\n|\Z)", text, re.MULTILINE)


def asked(directory: Path, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each query to a directory."""
    recording = Recording(directory=directory)
    with open_tables([("r", recording, None)], limit_s=60, remedy="", progress=Silent()) as found:
        return [list(found.tables.answer(query).rows) for query in queries]


def real() -> list[Path]:
    """The real directories that are at hand, each once."""
    if CORPUS is None:
        return []
    return sorted(one for above in CORPUS.iterdir() if above.is_dir() for one in above.iterdir() if one.is_dir())


def test_there_are_twenty_questions():
    assert [int(title.partition(".")[0]) for title, _ in questions()] == [*range(1, 21)]


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.variants(1)
def test_every_question_can_be_asked_of_every_profiler(layout, tmp_path):
    asked(Path(generate(layout, seed=2).write(tmp_path)), *(query.rstrip().rstrip(";") for _, query in questions()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", real(), ids=lambda one: f"{one.parent.name}-{one.name}")
def test_every_question_can_be_asked_of_real_output(place):
    asked(place, *(query.rstrip().rstrip(";") for _, query in questions()))


@pytest.mark.parametrize(
    ("layout", "filled"),
    [
        ("pt-torch", {"operators", "memory", "steps"}),
        ("pt-npu", {"operators", "launches", "kernels", "memory", "collectives", "steps"}),
        ("ms-2.5+", {"launches", "kernels", "memory", "collectives", "steps"}),
        ("ms-2.5+cpu", {"operators"}),
        ("ms-2.0", {"kernels"}),
        ("ms-1.x", {"kernels"}),
    ],
)
@pytest.mark.variants(2)
def test_what_each_profiler_knows_is_in_them(layout, filled, tmp_path):
    place = Path(generate(layout, seed=1, ranks=2).write(tmp_path))
    tables = [*common_tables(), "steps"]
    counts = asked(place, *(f"select count(*) from {name}" for name in tables))
    assert {name for name, ((count,),) in zip(tables, counts, strict=True) if count} >= filled


# -- what a trace of a device says, counted by hand ------------------------------------------------------------------------

_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
_CALLS = re.compile(r"_(runtime|driver)$|^Runtime$")


def events_of(place: Path) -> list[dict[str, Any]]:
    (path,) = (one for one in place.iterdir() if ".json" in one.name)
    text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode()
    # Controls in strings are in some real traces.
    document = json.loads(text, parse_float=Decimal, strict=False)
    return [one for one in document["traceEvents"] if one.get("ph") == "X"]


def ns(time: Any) -> int:
    return int((Decimal(time) * 1000).to_integral_value())


@pytest.mark.parametrize("place", gpu_traces())
@pytest.mark.variants(2)
def test_kernels_are_those_of_the_trace(place):
    events = events_of(place)
    device = [one for one in events if one.get("cat") in _DEVICE]
    names, copied, launches, hosts = asked(
        place,
        "select name, count(*), sum(duration_ns) from kernels group by name",
        "select kind, count(*), sum(bytes) from kernels where kind in ('copy', 'set') group by kind",
        "select kind, count(*) from launches group by kind",
        "select count(*) from operators",
    )
    times: Counter[str] = Counter()
    for one in device:
        times[one["name"]] += ns(one["dur"])
    assert {name: (count, total) for name, count, total in names} == {
        name: (count, times[name]) for name, count in Counter(one["name"] for one in device).items()
    }
    moved: dict[str, list[int | None]] = {}
    for one in device:
        kind = "copy" if "emcpy" in one["cat"] else "set" if "emset" in one["cat"] else ""
        if kind:
            moved.setdefault(kind, []).append(one["args"].get("bytes"))
    assert {kind: (count, total) for kind, count, total in copied} == {
        kind: (len(sizes), sum(size for size in sizes if size is not None) if any(sizes) or 0 in sizes else None)
        for kind, sizes in moved.items()
    }
    calls = [one for one in events if _CALLS.search(one.get("cat", ""))]
    assert sum(count for _, count in launches) == len(calls)
    told = dict(launches)
    assert told.get("kernel", 0) == sum("LaunchKernel" in one["name"] for one in calls)
    assert told.get("synchronise", 0) == sum("Synchronize" in one["name"] for one in calls)
    assert told.get("copy", 0) == sum("Memcpy" in one["name"] for one in calls)
    operators = [one for one in events if one.get("cat") in ("cpu_op", "Operator")]
    marks = sum(re.fullmatch(r"ProfilerStep#\d+", one["name"]) is not None for one in operators)
    assert hosts == [(len(operators) - marks,)]


@pytest.mark.parametrize("place", gpu_traces())
@pytest.mark.variants(2)
def test_idle_and_exposed_communication_are_those_of_the_trace(place):
    """Nanosecond by nanosecond where something begins or ends, of each device."""
    by_number = {title.partition(".")[0]: query.rstrip().rstrip(";") for title, query in questions()}
    idle, exposed = asked(place, by_number["15"], by_number["16"])
    found = {device: round(us * 1000) for _, _, device, us in idle if us is not None}
    alone = {device: round((us or 0) * 1000) for _, _, device, us in exposed}
    lanes: dict[int, list[tuple[int, int, str]]] = {}
    for one in events_of(place):
        if one.get("cat") in _DEVICE:
            begin = ns(one["ts"])
            moves = "nccl" in one["name"] and "emcpy" not in one["cat"]
            kind = "other" if "em" in one["cat"] else "moves" if moves else "computes"
            lanes.setdefault(one["args"]["device"], []).append((begin, begin + ns(one["dur"]), kind))
    for number, spans in lanes.items():
        (name,) = (one for one in found if one.endswith(f":{number}")) if len(spans) > 1 else ("",)
        whole = max(end for _, end, _ in spans) - min(begin for begin, _, _ in spans)
        if name:
            assert found[name] == whole - len_of(spans, {"other", "moves", "computes"})
        any_of, computing = len_of(spans, {"moves", "computes"}), len_of(spans, {"computes"})
        assert alone.get(name, 0) == (any_of - computing if name else alone.get(name, 0))


def len_of(spans: list[tuple[int, int, str]], kinds: set[str]) -> int:
    """How long any span of these kinds runs."""
    covered, reached = 0, None
    for begin, end, kind in sorted(spans):
        if kind in kinds:
            start = begin if reached is None else max(begin, reached)
            covered += max(0, end - start)
            reached = end if reached is None else max(reached, end)
    return covered


# -- at the edges ------------------------------------------------------------------------------------------------------------

_HOST = {"ph": "X", "pid": 1, "tid": 1}
TABLES_WITH_ROWS = ("kernels", "launches", "operators", "collectives")


def a_trace(place: Path, *events: dict[str, Any], steps: int = 2, **header: Any) -> Path:
    """A trace of steps of 100 us, one right behind the other from 100 us on, with an operator in each."""
    marks = [
        {**_HOST, "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 100 * n, "dur": 100}
        for n in range(1, steps + 1)
    ]
    ran = [{**_HOST, "cat": "cpu_op", "name": "aten::mm", "ts": 100 * n + 10, "dur": 20} for n in range(1, steps + 1)]
    document = {"schemaVersion": 1, **header, "traceEvents": [*marks, *ran, *events]}
    (place / "rank0.pt.trace.json").write_text(json.dumps(document))
    return place


def allocated(ts: float, size: int, total: int) -> dict[str, Any]:
    args = {
        "Bytes": size,
        "Total Allocated": total,
        "Total Reserved": 0,
        "Device Type": 0,
        "Device Id": -1,
        "Addr": int(ts),
    }
    return {
        "ph": "i",
        "s": "t",
        "pid": 1,
        "tid": 1,
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "ts": ts,
        "args": args,
    }


def test_what_is_at_the_edge_of_two_steps_is_of_the_later_one(tmp_path):
    events = [allocated(150, 64, 64), allocated(200, 32, 96), allocated(250, 16, 112)]
    events.append({**_HOST, "cat": "user_annotation", "name": "gloo:all_reduce", "ts": 200, "dur": 1})
    place = a_trace(tmp_path, *events, profile_memory=1)
    memory, collectives = asked(
        place, "select step, bytes from memory order by time_ns", "select step, name from collectives"
    )
    assert memory == [(0, 64), (1, 32), (1, 16)]
    assert collectives == [(1, "gloo:all_reduce")]


def test_the_operator_around_another_is_no_mark_of_a_step(tmp_path):
    inner = {**_HOST, "cat": "cpu_op", "name": "aten::inner", "ts": 112, "dur": 3}
    ((inside, outside),) = asked(
        a_trace(tmp_path, inner),
        "select count(*) filter (parent is not null), count(*) filter (parent is null) from operators",
    )[0]
    assert (inside, outside) == (1, 2)


@pytest.mark.parametrize("place", gpu_traces()[:3])
@pytest.mark.variants(1)
def test_one_query_may_join_all_of_them(place):
    parts = (
        f"select '{name}' as part, count(*), count(distinct row), count(step) from {name}" for name in TABLES_WITH_ROWS
    )
    assert len(asked(place, " union all ".join(parts))[0]) == len(TABLES_WITH_ROWS)
