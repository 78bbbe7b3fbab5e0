"""Events of Chrome traces as MindSpore and CANN write them: names of lanes, complete events, scopes of operators."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from perfguard.testing.formats import json_bytes, microseconds

Event = dict[str, object]


def metadata(kind: str, pid: int, tid: int, /, **args: object) -> Event:
    """Return an M event: a name, label or place of a process or thread."""
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def lane(pid: int, name: str, index: int, tid: int) -> list[Event]:
    """Return the M events of a process of the host with one thread, as MindSpore orders them."""
    return [
        metadata("process_name", pid, 0, name=name),
        metadata("process_sort_index", pid, 0, sort_index=index),
        metadata("process_labels", pid, 0, labels="CPU"),
        metadata("thread_name", pid, tid, name=f"Thread {tid}"),
        metadata("thread_sort_index", pid, tid, sort_index=tid),
    ]


def complete(name: str, pid: int, tid: int, ts: str, dur: str, args: Event | None = None) -> Event:
    """Return an X event of MindSpore: `ts` and `dur` are strings."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "cat": "", "args": args or {}}


def one_by_one(events: Iterable[Event]) -> bytes:
    """Write a list of events with a comma and no blank between them, as MindSpore up to 2.0 does."""
    return f"[{','.join(map(json.dumps, events))}]".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A scope that stays open while the runs inside it follow each other."""

    name: str
    depth: int
    start_ns: int
    end_ns: int


def scope_layers(runs: Iterable[tuple[str, int, int]]) -> list[Layer]:
    """Return the spans of the scopes of named runs (full name, start, end).

    A scope stays open as long as the runs that follow are inside it and inside all scopes around it.
    """
    done: list[Layer] = []
    open_layers: list[Layer] = []
    for full_name, start, end in sorted(runs, key=lambda run: run[1]):
        goes_on = True
        for depth, name in enumerate(full_name.split("/")[:-1]):
            layer = Layer(name=name, depth=depth, start_ns=start, end_ns=end)
            if depth >= len(open_layers):
                open_layers.append(layer)
                continue
            before = open_layers[depth]
            if goes_on and before.name == name:
                layer = Layer(name=name, depth=depth, start_ns=before.start_ns, end_ns=end)
            else:
                goes_on = False
                done.append(before)
            open_layers[depth] = layer
    return [*done, *open_layers]


def scope_lane(runs: Iterable[tuple[str, int, int]], time: Callable[[int], str]) -> tuple[list[Event], list[Event]]:
    """Return the M events and the X events of the lane "Scope Layer"; both are empty without runs."""
    layers = scope_layers(runs)
    if not layers:
        return [], []
    names = [metadata("process_name", 3, 0, name="Scope Layer"), metadata("process_sort_index", 3, 0, sort_index=12)]
    for depth in range(max(layer.depth for layer in layers) + 1):
        names.append(metadata("thread_name", 3, depth, name=f"Thread {depth}"))
        names.append(metadata("thread_sort_index", 3, depth, sort_index=depth))
    spans = [
        complete(one.name, 3, one.depth, time(one.start_ns), microseconds(one.end_ns - one.start_ns)) for one in layers
    ]
    return names, spans


def lane_labels(pid: str, label: str) -> list[Event]:
    """Return the M events that end a timeline of MindSpore 2.0; the rank's pid is a string in them."""
    labels: list[tuple[object, str, int]] = [
        (pid, label, 0),
        (9000, "AICPU OP", 10),
        (10000, "Communication Op", 20),
        (11000, "Host CPU OP", 30),
        (12000, "Op Overlap Analyse", 40),
        (13000, "Activity Op", 50),
    ]
    threads: list[tuple[object, int, str]] = [
        (11000, 100003, "Host CPU Op"),
        (12000, 7999, "Merged Computation Op"),
        (12000, 8000, "Pure Communication Op"),
        (12000, 8001, "Merged Communication Op"),
        (12000, 8002, "Free Time"),
        (pid, 100000, "Steps"),
        (pid, 0, "Ops"),
    ]

    def event(kind: str, lane: object, args: Event, **tid: int) -> Event:
        return {"name": kind, "ph": "M", "pid": lane, **tid, "args": args}

    return [
        *(event("process_labels", lane, {"labels": text}) for lane, text, _ in labels),
        *(event("process_sort_index", lane, {"sort_index": index}) for lane, _, index in labels[:-1]),
        *(event("thread_name", lane, {"name": text}, tid=tid) for lane, tid, text in threads),
        *(event("thread_sort_index", 12000, {"sort_index": tid}, tid=tid) for tid in range(7999, 8003)),
        event("thread_sort_index", pid, {"sort_index": -4}, tid=100000),
    ]


def timeline_summary(total: float, *, operators: int, runs: int, depth: int | None) -> bytes:
    """Write the summary of a timeline; 1.3 does not know the depth of the scopes."""
    summary = {"total_time": total, "num_of_streams": 1, "num_of_ops": operators, "op_exe_times": runs}
    return json_bytes(summary if depth is None else {**summary, "max_scope_name_num": depth})
