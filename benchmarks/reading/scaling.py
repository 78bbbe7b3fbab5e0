"""Make a recording of any size from a small real one: its events or rows again and again, each time later and with new ids.

The writer's own text is kept, byte for byte but for the numbers that must change, so that spacing, the order of keys and the
spelling of numbers stay those of the profiler. What is said once (names of processes, the profiler's own span) is said once.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

#: The numbers of an event that change from one repetition to the next. Text inside a JSON string has its quotes escaped.
_NUMBER = re.compile(
    r'("(?:ts|id|External id|Ev Idx|Record function id|Sequence number|correlation|connection_id|correlation_id'
    r'|Python id|Python parent id|Total Allocated)": ?"?|"name": ?"(?:ProfilerStep#|HostToDevice))(\d+)'
)
#: Ids that speak of each other share one range: a flow has the id of the launch it begins at.
_JOINED = frozenset(("id", "External id", "correlation", "connection_id", "correlation_id", "HostToDevice"))
_PYTHON = frozenset(("Python id", "Python parent id"))
#: 0 stands for none.
_NONE = frozenset(("External id", "Record function id", "correlation"))
_FORWARD = "fwdbwd"
#: An id as long as this is a time in nanoseconds.
_TIME_NS = 10**15
#: Between two repetitions.
_GAP_US = 100
#: Of so many events or rows one is broken.
BAD_EVERY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What was written. `rows` counts events of a trace, data rows of a table; `bad` those of them that were broken."""

    path: Path
    bytes: int
    rows: int
    bad: int
    repetitions: int

    def as_dict(self) -> dict[str, Any]:
        """Plain form, without the directory it lies in."""
        return {
            "file": self.path.name,
            "bytes": self.bytes,
            "rows": self.rows,
            "bad": self.bad,
            "repetitions": self.repetitions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    """One number of an event: where it stands between the constant parts, and by how much it rises a repetition."""

    value: int
    rise: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """One event: constant text with a place for every number."""

    parts: tuple[str, ...]
    numbers: tuple[_Number, ...]

    def text(self, repetition: int) -> str:
        """Return the event as it stands in that repetition."""
        written = [self.parts[0]]
        for number, part in zip(self.numbers, self.parts[1:], strict=True):
            written += (str(number.value + number.rise * repetition), part)
        return "".join(written)


class Trace:
    """A Chrome trace, taken apart: what is said once before and after the events, and the events that are repeated."""

    def __init__(self, text: str) -> None:
        """Take a trace apart: a bare array, or an object with `traceEvents`. Raises `ValueError` for anything else."""
        start = text.index("[", text.index('"traceEvents"') if text.lstrip().startswith("{") else 0) + 1
        self.head = text[:start]
        events, end = _split(text, start)
        self.foot = text[end:]
        between = [text[stop:begin] for (_, _, stop), (_, begin, _) in pairwise(events)]
        self.lead_in = text[start : events[0][1]]
        self.separator = max(set(between), key=between.count)
        self.lead_out = text[events[-1][2] : end]
        once = [_is_said_once(event) for event, _, _ in events]
        first = once.index(False)
        parsed = [(event, text[begin:stop]) for event, begin, stop in events]
        self._before = [one for one, alone in zip(parsed[:first], once, strict=False) if alone]
        self._after = [one for one, alone in zip(parsed[first:], once[first:], strict=True) if alone]
        self._body = [one for one, alone in zip(parsed, once, strict=True) if not alone]
        times = [(_whole_us(event["ts"]), event) for event, _ in self._body if "ts" in event]
        ends = [begin + int(float(event.get("dur", 0))) + 1 for begin, event in times]
        #: How much later each repetition is, in whole microseconds.
        self.period_us = max(ends) - min(begin for begin, _ in times) + _GAP_US
        self._rises = self._rises_of_ids()

    @property
    def said_once(self) -> int:
        """How many events are not repeated."""
        return len(self._before) + len(self._after)

    @property
    def repeated(self) -> int:
        """How many events are in every repetition."""
        return len(self._body)

    def _rises_of_ids(self) -> dict[str, int]:
        largest: dict[str, int] = {}
        smallest_step = None
        for _, text in self._body:
            for key, value in _numbers_of(text):
                if value < _TIME_NS:
                    largest[key] = max(largest.get(key, 0), value)
                if key == "ProfilerStep#":
                    smallest_step = value if smallest_step is None else min(smallest_step, value)
        rises = {key: value + 1 for key, value in largest.items()}
        for family in (_JOINED, _PYTHON):
            common = max((rises[key] for key in family if key in rises), default=0)
            rises |= {key: common for key in family if key in rises}
        if "Ev Idx" in rises and "External id" in rises:
            # torch gives both to an event at a time.
            rises["External id"] = rises["Ev Idx"]
        # The flows from forward to backward are numbered from one.
        rises[_FORWARD] = max((int(event["id"]) for event, _ in self._body if event.get("cat") == _FORWARD), default=0)
        if smallest_step is not None:
            rises["ProfilerStep#"] = largest["ProfilerStep#"] - smallest_step + 1
        return rises

    def _template(self, event: dict[str, Any], text: str, memory: dict[Any, int], last: int, lead: int) -> _Event:
        """Return an event whose numbers can be raised; `last` is the number of the last repetition."""
        parts, numbers, end = [], [], 0
        for match in _NUMBER.finditer(text):
            key, value = _key(match[1]), int(match[2])
            if key in _NONE and value == 0:
                continue
            rise = self._rises.get(_FORWARD if key == "id" and event.get("cat") == _FORWARD else key, 0)
            if key == "ts":
                value, rise = value + lead, self.period_us
            elif value >= _TIME_NS:
                value, rise = value + 1000 * lead, 1000 * self.period_us
            elif key == "Total Allocated":
                rise = memory[_device(event)]
                # A total that falls from one repetition to the next begins so high that the last is that of the source.
                value -= min(rise, 0) * last
            parts.append(text[end : match.start(2)])
            numbers.append(_Number(value=value, rise=rise))
            end = match.end(2)
        return _Event(parts=(*parts, text[end:]), numbers=tuple(numbers))

    def _memory_rises(self) -> dict[Any, int]:
        """Return by how much the allocated bytes of each device rise over one repetition."""
        rises: dict[Any, int] = {}
        for event, _ in self._body:
            if event.get("name") == "[memory]" and "Bytes" in (arguments := event["args"]):
                rises[_device(event)] = rises.get(_device(event), 0) + arguments["Bytes"]
        return rises

    def repetitions_of(self, size: int) -> int:
        """Return how many repetitions come to about that many bytes, at least one."""
        body = sum(len(text) + len(self.separator) for _, text in self._body)
        return max(1, round((size - len(self.head) - len(self.foot)) / body))

    def write(
        self, path: Path, *, repetitions: int, bad: bool = False, lead: int = 0, compress: bool = False
    ) -> Scaled:
        """Write the events so many times over; with `bad` every thousandth event is broken, in turn in several ways.

        `lead` is how many microseconds later it begins than the source.
        """
        rises = self._memory_rises()
        templates = [self._template(event, text, rises, repetitions - 1, lead) for event, text in self._body]
        count = broken = 0
        owed = 0
        with _opened(path, compress) as file:

            def put(text: str) -> None:
                nonlocal count
                file.write(self.separator if count else self.lead_in)
                file.write(text)
                count += 1

            file.write(self.head)
            for _, text in self._before:
                put(_moved(text, lead))
            for repetition in range(repetitions):
                for (event, _), template in zip(self._body, templates, strict=True):
                    text = template.text(repetition)
                    owed += bad and count % BAD_EVERY == BAD_EVERY // 2
                    # Only what lasts can be broken in every way, and counters stand in long rows.
                    if owed and event["ph"] == "X":
                        text = _BREAKS[broken % len(_BREAKS)](text)
                        broken, owed = broken + 1, owed - 1
                    put(text)
            longer = self.period_us * (repetitions - 1)
            for event, text in self._after:
                put(_at_the_end(event, _moved(text, lead), longer))
            file.write(self.lead_out)
            file.write(_named_as(self.foot, path))
        return Scaled(path=path, bytes=path.stat().st_size, rows=count, bad=broken, repetitions=repetitions)


def _named_as(foot: str, path: Path) -> str:
    """Return the end of a trace with the time of its file's name in its own (`traceName`), where both have one."""
    said = re.search(r"\.(\d{16,})\.pt\.trace\.json", path.name)
    return foot if said is None else re.sub(r"\.\d{16,}(?=\.pt\.trace\.json)", f".{said[1]}", foot)


def scale_trace(source: Path, target: Path, size: int, *, bad: bool = False) -> Scaled:
    """Scale a trace to about `size` bytes; a target that ends in .gz is compressed and has that size unpacked."""
    trace = Trace(source.read_text(encoding="utf-8"))
    compress = target.suffix == ".gz"
    return trace.write(target, repetitions=trace.repetitions_of(size), bad=bad, compress=compress)


def named_after_its_end(name: str, trace: Trace, repetitions: int, lead: int = 0) -> str:
    """Return `<worker>.<ns>.pt.trace.json` with the time at which the scaled trace would have been written."""
    worker, _, rest = name.partition(".")
    stamp, _, suffix = rest.partition(".")
    return f"{worker}.{int(stamp) + 1000 * (trace.period_us * (repetitions - 1) + lead)}.{suffix}"


# -- traces ----------------------------------------------------------------------------------------------------------


def _split(text: str, start: int) -> tuple[list[tuple[dict[str, Any], int, int]], int]:
    """Return every event with where its text begins and ends, and where the array ends."""
    decode = json.JSONDecoder().raw_decode
    blank = re.compile(r"[\s,]*")
    found = []
    position = start
    while True:
        match = blank.match(text, position)
        assert match is not None
        begin = match.end()
        if text[begin] == "]":
            return found, found[-1][2] + len(text[found[-1][2] : begin])
        event, position = decode(text, begin)
        found.append((event, begin, position))


def _is_said_once(event: dict[str, Any]) -> bool:
    # Names of processes and threads; and what kineto draws of itself, whose process is a text.
    return event["ph"] == "M" or isinstance(event["pid"], str)


def _key(before: str) -> str:
    """Return which number stands behind `before`: the key, or the beginning of a name that is numbered."""
    quoted = before.split('"')
    return quoted[3] if quoted[1] == "name" else quoted[1]


def _numbers_of(text: str) -> Iterator[tuple[str, int]]:
    for match in _NUMBER.finditer(text):
        yield _key(match[1]), int(match[2])


def _whole_us(ts: str | float) -> int:
    return int(str(ts).partition(".")[0]) if isinstance(ts, str) else int(ts)


def _device(event: dict[str, Any]) -> tuple[Any, Any]:
    return event["args"].get("Device Type"), event["args"].get("Device Id")


def _moved(text: str, by_us: int) -> str:
    return re.sub(r'("ts": ?"?)(\d+)', lambda found: f"{found[1]}{int(found[2]) + by_us}", text) if by_us else text


def _at_the_end(event: dict[str, Any], text: str, longer_us: int) -> str:
    """Stretch the span of the whole window over all repetitions, and put the mark of its end there."""
    if event["ph"] == "X":
        return re.sub(r'("dur": ?)(\d+)', lambda found: f"{found[1]}{int(found[2]) + longer_us}", text)
    return _moved(text, longer_us) if event["name"] == "Record Window End" else text


def _opened(path: Path, compress: bool) -> Any:
    if compress:
        import gzip

        return gzip.open(path, "wt", compresslevel=6, encoding="utf-8", newline="")
    return path.open("w", encoding="utf-8", newline="", buffering=1 << 20)


#: What breaks an event, one after the other: each leaves JSON, and no event of a profiler. They hold for the schemas of torch
#: and of torch_npu alike.
_BREAKS = (
    lambda text: re.sub(r'"dur": ?', r'"dur": -1', text, count=1),
    lambda text: re.sub(r'"ph": ?"X"', '"ph": "Q"', text, count=1),
    lambda text: re.sub(r'"ts": ?"?[0-9.]+"?', '"ts": "soon"', text, count=1),
    lambda text: re.sub(r'"ph": ?"X"', '"ph": "X", "colour": 7', text, count=1),
    lambda text: re.sub(r'"pid": ?\d+', '"pid": null', text, count=1),
    lambda text: re.sub(r'"dur": ?[0-9.]+\s*,', "", text, count=1),
)


# -- tables ----------------------------------------------------------------------------------------------------------

_STEP, _TASK, _START, _DURATION = ("Step Id", "Step ID"), ("Task ID",), ("Start Time(us)",), ("Duration(us)",)


#: A window has about so many steps, however large it is.
_STEPS = 10


def scale_kernels(source: Path, target: Path, rows: int, *, bad: bool = False) -> Scaled:
    """Scale a kernel_details.csv to that many rows: the whole file again and again, the last time cut off.

    Task ids and start times rise from one repetition to the next, steps so often that the window has ten at least and twenty
    at most where the file repeats that often; what else a kernel says of itself stays.
    """
    text = source.read_bytes().decode()
    line_break = "\r\n" if "\r\n" in text else "\n"
    header, *lines = text.removesuffix(line_break).split(line_break)
    columns = next(csv.reader([header]))
    place = {kind[0]: next((columns.index(name) for name in kind if name in columns), None) for kind in
             (_STEP, _TASK, _START, _DURATION)}  # fmt: skip
    start, lasts = place["Start Time(us)"], place["Duration(us)"]
    assert start is not None
    assert lasts is not None
    cells = [line.split(",", lasts + 1) for line in lines]
    # Names come before, and no name of a kernel has a comma.
    assert [row[: lasts + 1] for row in cells] == [row[: lasts + 1] for row in csv.reader(lines)]
    moving = {start: _span(cells, start) + _GAP_US}
    for kind in ("Step Id", "Task ID"):
        if (at := place[kind]) is not None:
            moving[at] = _span(cells, at) + 1
    together = max(1, rows // len(cells) // _STEPS)
    broken = written = 0
    with target.open("w", encoding="utf-8", newline="", buffering=1 << 20) as file:
        file.write(header + line_break)
        for number in range(rows):
            repetition, of = divmod(number, len(cells))
            row = cells[of].copy()
            for at, rise in moving.items():
                row[at] = _risen(row[at], rise * (repetition // together if at == place["Step Id"] else repetition))
            if bad and number % BAD_EVERY == BAD_EVERY // 2:
                at, text = _bad_cell(columns, broken)
                if at <= lasts:
                    row[at] = text
                    broken += 1
            file.write(",".join(row) + line_break)
            written += 1
    return Scaled(
        path=target,
        bytes=target.stat().st_size,
        rows=written,
        bad=broken,
        repetitions=-(-rows // len(cells)),
    )


def _span(rows: list[list[str]], at: int) -> int:
    values = [int(row[at].partition(".")[0]) for row in rows if row[at][:1].isdigit()]
    return max(values) - min(values) if values else 0


def _risen(cell: str, by: int) -> str:
    """Return a number with its whole part raised; N/A and blanks stay."""
    whole = re.match(r"\d+", cell)
    return f"{int(whole[0]) + by}{cell[whole.end() :]}" if whole else cell


def _bad_cell(columns: list[str], broken: int) -> tuple[int, str]:
    """Return which cell is broken next, and what stands in it: each time in another way."""
    ways = (
        ("Duration(us)", "-1.5"),
        ("Duration(us)", "soon"),
        ("Name", ""),
        ("Start Time(us)", "N/A"),
        ("Stream ID", "2.5"),
        ("Type", ""),
        ("OP State", "liquid"),
    )
    ways = tuple(way for way in ways if way[0] in columns)
    name, text = ways[broken % len(ways)]
    return columns.index(name), text
