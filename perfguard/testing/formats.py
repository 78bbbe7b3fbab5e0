"""Numbers, tables, documents and trace events as the profilers print them (C++ streams, Python's csv and json)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Files by their path, with `/` between folders.
Files = dict[str, bytes]
#: An event of a Chrome trace.
Event = dict[str, object]
#: The cells of a table's row.
Row = Sequence[object]


def below(folder: str, files: Mapping[str, bytes]) -> Files:
    """Put files into a folder; an empty name is no folder."""
    return {f"{folder}/{name}" if folder else name: content for name, content in files.items()}


@cache
def _data(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name(file).read_bytes())
    return found


def template(name: str, **values: object) -> dict[str, Any]:
    """Return a document of templates.json with some of its values replaced; keys keep their places."""
    return {**_data("templates.json")[name], **values}


def columns(table: str, *forms: str) -> str:
    """Return the header of a table in columns.json: that of the first of these forms (variants, versions) that has one."""
    found: str | dict[str, str] = _data("columns.json")[table]
    return (
        found if isinstance(found, str) else next(found[form] for form in (*filter(None, forms), "") if form in found)
    )


# --- numbers and times


def six_digits(value: float) -> str:
    """Print a number as a C++ stream does: six significant digits, `2.5e-05` where that is shorter."""
    return f"{value:g}"


def milliseconds(ns: int) -> str:
    """Print nanoseconds as milliseconds with six significant digits; exact for the durations of `truth`."""
    return six_digits(ns / 1_000_000)


def microseconds(ns: int) -> str:
    """Print nanoseconds as microseconds with three decimals: `1736408883704643.212`."""
    whole, rest = divmod(ns, 1000)
    return f"{whole}.{rest:03d}"


def tabbed_microseconds(ns: int) -> str:
    """Print nanoseconds as microseconds with three decimals and the TAB that CANN puts behind a time."""
    return f"{microseconds(ns)}\t"


def rounded_microseconds(ns: int) -> str:
    """Print nanoseconds as a float of microseconds, as files of 2023 do; a UNIX time is rounded to a quarter of one."""
    return repr(ns / 1000).removesuffix(".0")


def us(ns: int) -> float:
    """Return nanoseconds as a float of microseconds; for durations, not for UNIX times."""
    return ns / 1000


def lossy_microseconds(text: str, per_microsecond: float) -> str:
    """Print the product of a Decimal and a binary float, as MindSpore converts to microseconds.

    The float 0.001 is a little more than a thousandth, so UNIX times come out some 0.04 us late (MindSpore 2.10
    source: cpu_op_event.py).
    """
    return str((Decimal(text) * Decimal(per_microsecond)).quantize(Decimal("0.000")))


def utc(ns: int) -> datetime:
    """Return UNIX nanoseconds as a date and time in UTC, to the microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)


def date_and_time(ns: int) -> str:
    """Print UNIX nanoseconds as `2025-01-09 07:48:03`, in UTC."""
    return f"{utc(ns):%Y-%m-%d %H:%M:%S}"


def stamp(ns: int) -> str:
    """Return the 17 digits in the name of a directory: year to millisecond."""
    at = utc(ns)
    return f"{at:%Y%m%d%H%M%S}{at.microsecond // 1000:03d}"


# --- files


def csv_bytes(header: str | Row, rows: Iterable[Row], *, newline: str = "\r\n") -> bytes:
    """Print a table with Python's csv module; `\\r\\n` is its default, CANN's own files have `\\n`."""
    text = io.StringIO(newline="")
    names = header.split(",") if isinstance(header, str) else header
    csv.writer(text, lineterminator=newline).writerows([names, *rows])
    return text.getvalue().encode()


def plain_csv(header: str, rows: Iterable[Row], *, separator: str = ",") -> bytes:
    """Print a table as the C++ writers do: without any quotes."""
    return lines_bytes([header, *(separator.join(map(str, row)) for row in rows)])


def json_bytes(document: object, *, indent: int | None = None) -> bytes:
    """Print a document as Python's json module does, in the order of its keys."""
    return json.dumps(document, indent=indent).encode()


def compact_json(document: object) -> bytes:
    """Print a document as nlohmann::json does: keys sorted, no blanks."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def lines_bytes(lines: Iterable[str]) -> bytes:
    """Print lines, each with its line end."""
    return "".join(f"{line}\n" for line in lines).encode()


# --- events of Chrome traces


def metadata(kind: str, pid: int, tid: int, /, **args: object) -> Event:
    """Return an M event: a name, label or place of a process or thread."""
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def thread_names(pid: int, tid: int, name: str) -> list[Event]:
    """Return the M events of a thread, which is ordered by its number."""
    return [metadata("thread_name", pid, tid, name=name), metadata("thread_sort_index", pid, tid, sort_index=tid)]


def lane(pid: int, name: str, index: int, tid: int) -> list[Event]:
    """Return the M events of a process of the host with one thread, as MindSpore orders them."""
    return [
        metadata("process_name", pid, 0, name=name),
        metadata("process_sort_index", pid, 0, sort_index=index),
        metadata("process_labels", pid, 0, labels="CPU"),
        *thread_names(pid, tid, f"Thread {tid}"),
    ]


def complete(name: str, pid: int, tid: int, ts: str, dur: str, args: Event | None = None) -> Event:
    """Return an X event of MindSpore 2.3 and later: `ts` and `dur` are strings."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "cat": "", "args": args or {}}


def timeline_event(name: str, tid: object, ts: float, dur: float, pid: int, **more: object) -> Event:
    """Return an X event of a timeline of MindSpore 2.0 and older."""
    return {"name": name, "ph": "X", "tid": tid, "ts": ts, "dur": dur, "pid": pid, **more}


def one_by_one(events: Iterable[Event]) -> bytes:
    """Print a list of events with a comma and no blank between them, as MindSpore up to 2.0 does."""
    return f"[{','.join(map(json.dumps, events))}]".encode()


class Layer(NamedTuple):
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
        continues = True
        for depth, name in enumerate(full_name.split("/")[:-1]):
            layer = Layer(name, depth, start, end)
            if depth >= len(open_layers):
                open_layers.append(layer)
                continue
            before = open_layers[depth]
            if continues and before.name == name:
                layer = before._replace(end_ns=end)
            else:
                continues = False
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
        names += thread_names(3, depth, f"Thread {depth}")
    spans = [
        complete(one.name, 3, one.depth, time(one.start_ns), microseconds(one.end_ns - one.start_ns)) for one in layers
    ]
    return names, spans


def lane_labels(pid: str, label: str) -> list[Event]:
    """Return the M events that end a timeline of MindSpore 2.0; the rank's pid is a string in them."""
    labels = template("timeline lanes")

    def event(kind: str, lane: object, args: Event, **tid: int) -> Event:
        return {"name": kind, "ph": "M", "pid": lane, **tid, "args": args}

    lanes = [(pid, label), *((int(lane), text) for lane, text in labels["processes"].items())]
    threads = [*labels["threads"], (pid, 100000, "Steps"), (pid, 0, "Ops")]
    return [
        *(event("process_labels", lane, {"labels": text}) for lane, text in lanes),
        *(event("process_sort_index", lane, {"sort_index": 10 * i}) for i, (lane, _) in enumerate(lanes[:-1])),
        *(event("thread_name", lane, {"name": text}, tid=tid) for lane, tid, text in threads),
        *(event("thread_sort_index", 12000, {"sort_index": tid}, tid=tid) for tid in range(7999, 8003)),
        event("thread_sort_index", pid, {"sort_index": -4}, tid=100000),
    ]


def timeline_summary(total: float, *, operators: int, runs: int, depth: int | None) -> bytes:
    """Write the summary of a timeline; 1.3 does not know the depth of the scopes."""
    summary = {"total_time": total, "num_of_streams": 1, "num_of_ops": operators, "op_exe_times": runs}
    return json_bytes(summary if depth is None else {**summary, "max_scope_name_num": depth})
