"""trace_view.json of Ascend and MindSpore that goes by in chunks: the same is said and measured as of one chunk."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perfguard.testing import generate
from tests.contract.test_damage import CASES as DAMAGED
from tests.contract.test_damage import document
from tests.dialects.streaming import Judged, the_same

LAYOUTS = ("pt-npu", "ms-2.5+", "ms-2.3", "ms-2.5+cpu")
Events = list[dict[str, Any]]


def said(directory: Path, *, of_a_trace: bool = True, in_a_file: bool = False) -> Judged:
    """Return what is said of a directory, however it is cut. Sums and spreads of floats are added up in another order."""
    found = the_same(directory, digits=6, in_a_file=in_a_file)
    assert bool(found.streamed) == of_a_trace
    return found


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_what_is_right_nothing_is_said(tmp_path, layout, ranks):
    generate(layout, seed=ranks, ranks=ranks, operators=12, steps=2).write(tmp_path)
    assert not said(tmp_path).findings


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [case for case in DAMAGED if case.layout in LAYOUTS], ids=lambda case: case.name)
def test_what_is_wrong_beside_the_trace_is_said_alike(tmp_path, case):
    generate(case.layout, seed=3, ranks=case.ranks, operators=12, conditions=case.conditions).write(tmp_path)
    case.damage(tmp_path)
    said(tmp_path)


# -- damage of the trace itself ---------------------------------------------------------------------------------------


def processes(events: Events, name: str) -> set[int]:
    return {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == name}


def of(events: Events, process: str) -> Events:
    return [event for event in events if event["ph"] == "X" and event["pid"] in processes(events, process)]


def where(events: Events, **keys: Any) -> Events:
    return [event for event in events if all(event.get(key) == value for key, value in keys.items())]


def later(event: dict[str, Any], microseconds: str, key: str = "ts") -> None:
    moved = Decimal(str(event[key])) + Decimal(microseconds)
    event[key] = str(moved) if isinstance(event[key], str) else float(moved)


def kernel(events: Events) -> dict[str, Any]:
    return of(events, "Ascend Hardware")[0]


def lanes(events: Events, name: str) -> Events:
    return [event for event in of(events, "Overlap Analysis") if event["name"] == name]


def operator(events: Events) -> dict[str, Any]:
    return next(event for event in events if event.get("args", {}).get("type") == "HostCpuOps")


def steps(events: Events) -> Events:
    return [event for event in events if event["name"].startswith("ProfilerStep#")]


def without(events: Events, *others: dict[str, Any]) -> None:
    events[:] = [event for event in events if not any(event is other for other in others)]


def all_lanes_later(events: Events) -> None:
    for event in lanes(events, "Free"):
        later(event, "3")


def text_ids(events: Events) -> None:
    """Give the flows to the device ids that are no numbers, and take one end away."""
    flows = where(events, cat="async_npu")
    for event in flows:
        event["id"] = f"flow {event['id']}"
    without(events, next(event for event in flows if event["ph"] == "f"))


def queue_in_texts(events: Events) -> None:
    """Write the ids of what ends as texts of the same numbers, and take one begin away."""
    flows = where(events, cat="async_task_queue")
    for event in flows:
        event["id"] = str(event["id"]) if event["ph"] == "f" else event["id"]
    without(events, [event for event in flows if event["ph"] == "s"][2])


def twice(events: Events, event: dict[str, Any]) -> None:
    events.insert(len(events) // 2, dict(event))


def twice_with_a_long_id(events: Events) -> None:
    event = where(events, cat="async_npu", ph="s")[0]
    event["id"] = str(10**30)
    twice(events, event)


def as_kernel(events: Events) -> None:
    events.append({**kernel(events), "name": "Another", "args": {"Task Type": "AI_CORE"}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is done to the events of a trace, and what is said of it."""

    name: str
    damage: Callable[[Events], Any]
    says: str
    layouts: tuple[str, ...] = ("pt-npu", "ms-2.5+", "ms-2.3")


NPU, HOST = ("pt-npu",), ("ms-2.5+cpu",)
CASES = (
    Case(
        name="a kernel is gone",
        damage=lambda t: without(t, kernel(t)),
        says="no event of the trace with this name",
    ),
    Case(name="a kernel is longer", damage=lambda t: later(kernel(t), "7", "dur"), says="us here,"),
    Case(name="a kernel is later", damage=lambda t: later(kernel(t), "0.002"), says="no event of the trace"),
    Case(name="a kernel too many", damage=as_kernel, says="Another at", layouts=NPU),
    Case(
        name="a kernel has another name",
        damage=lambda t: kernel(t).update(name="x/y"),
        says="no event of the trace with this name",
    ),
    Case(name="no kernels", damage=lambda t: without(t, *of(t, "Ascend Hardware")), says="no event of the trace"),
    Case(
        name="a flow without its end",
        damage=lambda t: without(t, where(t, cat="fwdbwd", ph="f")[0]),
        says="of fwdbwd begins 1 times and ends 0 times",
        layouts=NPU,
    ),
    Case(name="a flow with a text for an id", damage=text_ids, says="of async_npu begins 1 times", layouts=NPU),
    Case(name="a flow with either id", damage=queue_in_texts, says="begins 0 times and ends 1 times", layouts=NPU),
    Case(
        name="a flow that ends elsewhere",
        damage=lambda t: later(where(t, cat="async_npu", ph="f")[1], "0.5"),
        says="has no event",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(
        name="a flow of a thread without events",
        damage=lambda t: where(t, cat="async_npu", ph="s")[3].update(tid=77),
        says="where thread 77 has no event",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(name="a lane is gone", damage=lambda t: without(t, lanes(t, "Computing")[0]), says="add up to"),
    Case(
        name="a lane too early", damage=lambda t: later(lanes(t, "Computing")[1], "-9"), says="before what is before it"
    ),
    Case(name="all lanes too late", damage=all_lanes_later, says="before what is before it ends"),
    Case(
        name="a kernel twice",
        damage=lambda t: twice(t, kernel(t)),
        says="there a second time",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(
        name="a counter twice", damage=lambda t: twice(t, where(t, ph="C")[0]), says="there a second time", layouts=NPU
    ),
    Case(name="a flow twice, its id is long", damage=twice_with_a_long_id, says="there a second time", layouts=NPU),
    Case(
        name="an instant without a time twice",
        damage=lambda t: t.extend({"ph": "i", "name": "mark", "pid": 1} for _ in range(2)),
        says='"mark" is there a second time',
        layouts=NPU,
    ),
    Case(name="a flow twice", damage=lambda t: twice(t, where(t, ph="s")[0]), says="there a second time", layouts=NPU),
    Case(
        name="a counter that is a text",
        damage=lambda t: where(t, ph="C")[0].update(args={"MHz": "fast"}),
        says='carries {"MHz": "fast"}',
        layouts=NPU,
    ),
    Case(
        name="a counter of nothing",
        damage=lambda t: where(t, ph="C")[0].update(args={}),
        says="carries {}",
        layouts=NPU,
    ),
    Case(
        name="a call is longer",
        damage=lambda t: later(of(t, "CANN")[0], "50", "dur"),
        says="events in trace_view.json",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(
        name="an operator is gone",
        damage=lambda t: without(t, where(t, cat="cpu_op")[0]),
        says="cpu_op events in trace_view.json",
        layouts=NPU,
    ),
    Case(name="a step is gone", damage=lambda t: without(t, steps(t)[1]), says="it has steps"),
    Case(
        name="a step of another number",
        damage=lambda t: steps(t)[2].update(name="ProfilerStep#77"),
        says="not consecutive",
    ),
    Case(name="no step", damage=lambda t: without(t, *steps(t)), says="it marks no step", layouts=NPU),
    Case(name="an event of another day", damage=lambda t: later(kernel(t), "86400e6"), says="its time is"),
    Case(
        name="a scope later",
        damage=lambda t: later(of(t, "Scope Layer")[0], "1"),
        says="where no operator",
        layouts=HOST,
    ),
    Case(name="an operator lost", damage=lambda t: without(t, operator(t)), says=" in cpu_op_", layouts=HOST),
    Case(name="an operator later", damage=lambda t: later(operator(t), "3"), says="it begins at", layouts=HOST),
    Case(name="an operator longer", damage=lambda t: later(operator(t), "3", "dur"), says="it lasts", layouts=HOST),
    Case(name="an operator twice", damage=lambda t: twice(t, operator(t)), says="there a second time", layouts=HOST),
)


@pytest.mark.parametrize(
    ("layout", "case"),
    [(layout, case) for case in CASES for layout in case.layouts],
    ids=lambda one: getattr(one, "name", one),
)
def test_what_is_wrong_in_the_trace_is_said_alike(tmp_path, layout, case):
    generate(layout, seed=3, operators=12, steps=4).write(tmp_path)
    document("trace_view.json", case.damage)(tmp_path)
    found = said(tmp_path)
    assert any(case.says in finding.message for finding in found.findings), found.reported


@pytest.mark.parametrize("key", ["pid", "tid", "id", "ts"])
@pytest.mark.parametrize("layout", ["pt-npu", "pt-torch"])
def test_a_number_of_more_digits_than_python_reads_breaks_the_schema(tmp_path, layout, key):
    generate(layout, seed=3, operators=6).write(tmp_path)
    (trace,) = (one for one in tmp_path.rglob("*.json") if one.name.endswith(("trace_view.json", ".pt.trace.json")))
    text, count = re.subn(rf'"{key}": *"?-?[0-9.]+"?', f'"{key}": {"9" * 5000}', trace.read_text(), count=1)
    assert count
    trace.write_text(text)
    assert "S103" in {finding.code.name for finding in said(tmp_path, of_a_trace=False).findings}


def test_events_alike_but_for_their_arguments_are_no_repeats(tmp_path):
    generate("pt-npu", seed=3, operators=12).write(tmp_path)
    document("trace_view.json", lambda t: t.append({**where(t, ph="C")[0], "args": {"MHz": 1799}}))(tmp_path)
    assert not any(finding.check == "device_events_are_there_once" for finding in said(tmp_path).findings)


def test_of_many_repeats_the_first_hundred_are_worded(tmp_path):
    generate("pt-npu", seed=3, operators=12, steps=4).write(tmp_path)
    document("trace_view.json", lambda t: t.extend([dict(event) for event in t]))(tmp_path)
    found = said(tmp_path)
    assert sum("there a second time" in finding.message for finding in found.findings) == 100


@pytest.mark.parametrize(
    "place",
    [
        "msinsight/torch_npu-level1",
        "recorded/mindspore-2.10-cpu-graph-steps2to4",
        "recorded/mindspore-2.10-cpu-graph-window3-raced",
        "recorded/mindspore-2.10-cpu-msrun-2ranks",
        "recorded/mindspore-2.10-cpu-pynative-steps2to4",
        "recorded/mindspore-2.10-cpu-schedule-repeat2",
    ],
)
def test_of_real_output_the_same_is_said(corpus, place):
    said(corpus.parent / place, in_a_file=True)


def test_of_a_real_trace_with_repeats_the_same_is_said(tmp_path, corpus):
    real = corpus.parent / "msinsight" / "torch_npu-level1" / "rank0_ascend_pt"
    place = Path(shutil.copytree(real, tmp_path / real.name, copy_function=shutil.copyfile))

    def damage(events: Events) -> None:
        for number in range(0, 9000, 900):
            twice(events, events[number])
            if "ts" in events[number + 3]:
                later(events[number + 3], "0.01")
            without(events, events[number + 7])

    document("trace_view.json", damage)(place)
    said(place)
