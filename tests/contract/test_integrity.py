"""Negative cases: real recordings, corrupted one way each, and exactly the codes that must say so."""

from __future__ import annotations

import ast
import copy
import gzip
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from perfguard.contract import Contract, inspect
from perfguard.errors import StoreError
from perfguard.findings import INVALIDATING_FAMILIES, Code, Severity
from perfguard.recording import Recording, read_recording
from perfguard.testing.formats import scope_lane
from tests.conftest import CHECKOUT, RECORDINGS
from tests.contract.together import inspect_together, places, wanted

GRAPH, PYNATIVE, TORCH, REPEAT = "mindspore-graph", "mindspore-pynative", "torch-mlp", "torch-repeat2"
DETAIL, TYPES = "cpu_op_detail_info_0.csv", "cpu_op_type_info_0.csv"
STAMPS, FRAMEWORK = "cpu_op_execute_timestamp_0.txt", "cpu_framework_0.txt"
MEMORY, VIEW, LOG = "cpu_ms_memory_record_0.txt", "trace_view.json", "*.log"
TRACE, FACTS, STEPS = "*.pt.trace.json", "recording.json", "steps.json"

#: The process of MindSpore's timeline that draws the scopes of operators.
SCOPES = 3

Corruption = Callable[[Path], object]


def the(directory: Path, pattern: str) -> Path:
    return sorted(directory.rglob(pattern))[0]


# -- ways to corrupt -------------------------------------------------------------------------------------------------


def drop(pattern: str) -> Corruption:
    return lambda directory: the(directory, pattern).unlink()


def write(pattern: str, raw: bytes) -> Corruption:
    return lambda directory: the(directory, pattern).write_bytes(raw)


def in_bytes(pattern: str, change: Callable[[bytes], bytes]) -> Corruption:
    def corrupt(directory: Path) -> None:
        path = the(directory, pattern)
        before = path.read_bytes()
        after = change(before)
        assert after != before
        path.write_bytes(after)

    return corrupt


def replace(pattern: str, old: str, new: str) -> Corruption:
    return in_bytes(pattern, lambda raw: raw.replace(old.encode(), new.encode(), 1))


def cut(pattern: str) -> Corruption:
    return in_bytes(pattern, lambda raw: raw[: len(raw) // 2])


def cut_last_bytes(pattern: str, count: int) -> Corruption:
    return in_bytes(pattern, lambda raw: raw[:-count])


def drop_line(pattern: str, number: int) -> Corruption:
    def change(raw: bytes) -> bytes:
        lines = raw.splitlines(keepends=True)
        del lines[number]
        return b"".join(lines)

    return in_bytes(pattern, change)


def repeat_last_line(pattern: str) -> Corruption:
    return in_bytes(pattern, lambda raw: raw + raw.splitlines(keepends=True)[-1])


def in_cells(pattern: str, change: Callable[[list[str]], list[str]]) -> Corruption:
    """Change every row of a CSV without quotes, header included."""
    return in_bytes(
        pattern,
        lambda raw: "".join(",".join(change(line.split(","))) + "\n" for line in raw.decode().splitlines()).encode(),
    )


def in_json(pattern: str, change: Callable[[Any], Any]) -> Corruption:
    """Change a JSON document; `change` edits in place or returns another one."""

    def corrupt(directory: Path) -> None:
        path = the(directory, pattern)
        document = json.loads(path.read_bytes())
        changed = change(document)
        path.write_text(json.dumps(document if changed is None else changed), encoding="utf-8")

    return corrupt


def in_events(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None]) -> Corruption:
    """Change the events of a torch trace."""

    def change_document(document: dict[str, Any]) -> None:
        changed = change(document["traceEvents"])
        if changed is not None:
            document["traceEvents"] = changed

    return in_json(TRACE, change_document)


def in_window(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None]) -> Corruption:
    """Change the events of a torch trace, and number them through again: torch itself recorded another window."""

    def renumbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        changed = change(events)
        changed = [copy.deepcopy(event) for event in (events if changed is None else changed)]
        numbered = [event["args"] for event in changed if "Ev Idx" in event.get("args", {})]
        first = min((arguments["External id"] for arguments in numbered if arguments.get("External id")), default=0)
        for number, arguments in enumerate(sorted(numbered, key=lambda arguments: arguments["Ev Idx"])):
            arguments["Ev Idx"] = number
            if arguments.get("External id"):
                arguments["External id"] = first + number
        return changed

    return in_events(renumbered)


def operator(events: list[dict[str, Any]], number: int = 0) -> dict[str, Any]:
    return [event for event in events if event.get("cat") == "cpu_op"][number]


def set_operator(**keys: Any) -> Corruption:
    return in_events(lambda events: operator(events).update(keys))


def marks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["name"].startswith("ProfilerStep#")]


def lies_in(event: dict[str, Any], mark: dict[str, Any]) -> bool:
    return event["ph"] == "X" and mark["ts"] <= event["ts"] <= mark["ts"] + mark["dur"]


def host_event(view: list[dict[str, Any]]) -> dict[str, Any]:
    return next(event for event in view if event["args"].get("type") == "HostCpuOps")


def without_step(number: int, *, with_mark: bool) -> Corruption:
    def change(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        mark = marks(events)[number]
        return [
            event
            for event in events
            if (event is mark and not with_mark) or (event is not mark and not lies_in(event, mark))
        ]

    return in_window(change)


def leak(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    before = min(mark["ts"] for mark in marks(events))
    tail = [{**again(events, i), "ts": before - 100 + i} for i in range(4)]
    return [*tail, *events]


def again(events: list[dict[str, Any]], number: int = 0) -> dict[str, Any]:
    """Return an operator once more, with an External id of its own."""
    other = copy.deepcopy(operator(events, number))
    ids = [event["args"]["External id"] for event in events if "External id" in event.get("args", {})]
    other["args"]["External id"] = max(ids) + 1 + number
    return other


def once_more(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*events, again(events)]


def in_executions(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Corruption:
    """Change MindSpore's executions in all of its files at once, so that they keep agreeing with each other."""

    def corrupt(directory: Path) -> None:
        view = json.loads(the(directory, VIEW).read_bytes())
        events = iter([event for event in view if event["ph"] == "X" and event["args"].get("type") == "HostCpuOps"])
        stamps = [line.rsplit(";", 2) for line in the(directory, STAMPS).read_text().splitlines()]
        executions = [
            {"name": name, "cells": cells.split(","), "event": next(events)}
            for name, _, all_of_them in stamps
            for cells in all_of_them.split()
        ]
        assert all(one["name"] == one["event"]["name"] for one in executions)
        executions.sort(key=start_of)
        for one, line in zip(executions, the(directory, FRAMEWORK).read_text().splitlines(), strict=True):
            one["line"] = line
        executions = change(executions)
        counts = Counter(one["name"] for one in executions)
        header, *rows = [line.split(",") for line in the(directory, DETAIL).read_text().splitlines()]
        rows = [row for row in rows if counts[row[3]]]
        for row in rows:
            row[4:8] = measured(executions, lambda one, name=row[3]: one["name"] == name)
        write_rows(the(directory, DETAIL), [header, *rows])
        type_of = {row[3]: row[1] for row in rows}
        header, *rows = [line.split(",") for line in the(directory, TYPES).read_text().splitlines()]
        rows = [row for row in rows if row[0] in type_of.values()]
        for row in rows:
            row[1], row[3], row[4], row[5] = measured(executions, lambda one, kind=row[0]: type_of[one["name"]] == kind)
            one_of_them = min(counts[name] for name, kind in type_of.items() if kind == row[0])
            row[2] = str(int(row[1]) // one_of_them)
        write_rows(the(directory, TYPES), [header, *rows])
        the(directory, STAMPS).write_text(
            "".join(
                f"{name};HostCpuOps;"
                + "".join(",".join(o["cells"]) + " " for o in executions if o["name"] == name)
                + "\n"
                for name in counts
            )
        )
        the(directory, FRAMEWORK).write_text("".join(one["line"] + "\n" for one in executions))
        others = [event for event in view if event["ph"] == "M" and event["pid"] != SCOPES]
        runs = [(one["name"], *drawn(one["event"])) for one in executions if "/" in one["name"]]
        names, spans = scope_lane(runs, lambda ns: f"{ns // 1000}.{ns % 1000:03d}")
        the(directory, VIEW).write_text(json.dumps([*others, *(one["event"] for one in executions), *names, *spans]))

    return corrupt


def measured(executions: list[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]) -> list[str]:
    """Return count, total, average and share of the wanted executions, as MindSpore prints them."""
    all_of_them = sum(float(one["cells"][1]) for one in executions)
    durations = [float(one["cells"][1]) for one in executions if wanted(one)]
    total = sum(durations)
    return [str(len(durations)), f"{total:.6g}", f"{total / len(durations):.6g}", f"{total / all_of_them:.6g}"]


def write_rows(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join(",".join(row) + "\n" for row in rows))


def start_of(execution: dict[str, Any]) -> int:
    return int(execution["cells"][0])


def drawn(event: dict[str, Any]) -> tuple[int, int]:
    """Return where an event begins and ends, in ns: a time and a duration are texts of three decimals."""
    start, duration = (int(event[key].replace(".", "")) for key in ("ts", "dur"))
    return start, start + duration


def moved(execution: dict[str, Any], start: int) -> dict[str, Any]:
    cells = [str(start), *execution["cells"][1:]]
    return {**execution, "cells": cells, "event": {**execution["event"], "ts": f"{start / 1000:.3f}"}}


def lose_second_step(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    third = len(executions) // 3
    return executions[:third] + executions[2 * third :]


def leak_a_tail(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first = start_of(executions[0])
    return [moved(one, first - 1_000_000 + i) for i, one in enumerate(executions[5:9])] + executions


def run_the_last_once_more(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*executions, moved(executions[-1], start_of(executions[-1]) + 1)]


def to_gzip(change: Callable[[bytes], bytes] = lambda raw: raw, *, plain: bytes | None = None) -> Corruption:
    def corrupt(directory: Path) -> None:
        path = the(directory, TRACE)
        packed = gzip.compress(path.read_bytes() if plain is None else plain)
        path.with_name(path.name + ".gz").write_bytes(change(packed))
        path.unlink()

    return corrupt


def instead_of(pattern: str, make: Callable[[Path], object]) -> Corruption:
    def corrupt(directory: Path) -> None:
        path = the(directory, pattern)
        path.unlink()
        make(path)

    return corrupt


def second_rank(*names: str) -> Corruption:
    def corrupt(directory: Path) -> None:
        for name in names:
            path = the(directory, name)
            shutil.copy(path, path.with_name(name.replace("_0.", "_1.")))

    return corrupt


def beside(pattern: str, name: str, raw: bytes = b"") -> Corruption:
    return lambda directory: the(directory, pattern).with_name(name).write_bytes(raw)


def empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One way to corrupt one recording, and the codes of the findings that must be found: no other."""

    name: str
    recording: str
    corrupt: Corruption
    errors: frozenset[str] = field(default_factory=frozenset)
    notes: frozenset[str] = field(default_factory=frozenset)
    warnings: frozenset[str] = field(default_factory=frozenset)


def case(
    name: str, recording: str, corrupt: Corruption, errors: str = "", notes: str = "", *, warnings: str = ""
) -> Case:
    return Case(name, recording, corrupt, *(frozenset(text.split()) for text in (errors, notes, warnings)))


CASES = [
    # A: what is there
    case("empty directory", GRAPH, empty, "A101"),
    case("empty profiler directory", TORCH, lambda d: empty(d / "profiler"), "A101"),
    case("no profiler directory", TORCH, lambda d: shutil.rmtree(d / "profiler"), "A101"),
    case("only facts and a stranger", TORCH, lambda d: the(d, TRACE).rename(d / "profiler" / "x.txt"), "A101"),
    *(
        case(f"no {name}", recording, drop(name), "A102")
        for recording in (GRAPH, PYNATIVE)
        for name in (DETAIL, TYPES, STAMPS, FRAMEWORK, MEMORY)
    ),
    case("a directory in the place of a file", GRAPH, instead_of(TYPES, Path.mkdir), "A102"),
    case("no timeline", GRAPH, drop(VIEW), "A104"),
    case("no log", GRAPH, drop(LOG)),
    case("a stranger", GRAPH, beside(TYPES, "core.1234"), notes="A103"),
    case("a stranger with a name that is not UTF-8", GRAPH, beside(TYPES, os.fsdecode(b"\xff")), notes="A103"),
    case("an editor's copy", GRAPH, beside(TYPES, TYPES + "~"), notes="A103"),
    # S101: what cannot be read
    *(
        case(f"{name} cut in the middle", GRAPH, cut(name), "S101")
        for name in (DETAIL, TYPES, STAMPS, FRAMEWORK, MEMORY)
    ),
    *(
        case(f"{name} cut near its end", GRAPH, cut_last_bytes(name, 2), "S101")
        for name in (DETAIL, TYPES, STAMPS, FRAMEWORK, MEMORY)
    ),
    case("timeline cut in the middle", GRAPH, cut(VIEW), "S101"),
    case("timeline cut near its end", GRAPH, cut_last_bytes(VIEW, 1), "S101"),
    case("trace cut in the middle", TORCH, cut(TRACE), "S101"),
    case("one of two traces cut in the middle", REPEAT, cut(TRACE), "S101"),
    case("log cut in the middle", GRAPH, cut(LOG)),
    *(
        case(f"{name} is empty", GRAPH, write(name, b""), "S101")
        for name in (DETAIL, TYPES, STAMPS, FRAMEWORK, MEMORY, VIEW)
    ),
    case("trace is empty", TORCH, write(TRACE, b""), "S101"),
    *(
        case(
            f"broken UTF-8 in {name}",
            GRAPH,
            in_bytes(name, lambda raw: raw.replace(b"MatMul", b"Mat\xfful", 1)),
            "S101",
        )
        for name in (DETAIL, TYPES, STAMPS, FRAMEWORK, VIEW)
    ),
    case("broken UTF-8 in a trace", TORCH, in_bytes(TRACE, lambda raw: raw.replace(b"aten", b"at\xffn", 1)), "S101"),
    case("broken UTF-8 in an optional file", GRAPH, lambda d: beside(LOG, "profiler_0.log", b"\xff")(d), "S101"),
    case(
        "broken UTF-8 in profiler_info",
        GRAPH,
        lambda d: (the(d, "FRAMEWORK").parent / "profiler_info_0.json").write_bytes(b'{"profiler_parameters": "\xff"}'),
        "S101",
    ),
    case("a repeated column", GRAPH, in_cells(TYPES, lambda row: [*row, row[0]]), "S101"),
    case("a row with a cell more", GRAPH, replace(TYPES, "MatMul,", "MatMul,,"), "S101"),
    case("a row with a cell less", GRAPH, replace(DETAIL, ",Default,6289", ",6289"), "S101"),
    case("an empty line in a table", GRAPH, replace(TYPES, "\nMatMul", "\n\nMatMul"), "S101"),
    case("an open quote", GRAPH, replace(TYPES, "MatMul,", '"MatMul,'), "S101"),
    case("an execution with a field less", GRAPH, replace(STAMPS, "0.010616,0 ", "0.010616 "), "S101"),
    case("NaN in a trace", TORCH, replace(TRACE, '"dur": ', '"dur": NaN, "id": '), "S101"),
    case("Infinity in a timeline", GRAPH, replace(VIEW, '"dur": "21.462"', '"dur": Infinity'), "S101"),
    case("two documents in a trace", TORCH, in_bytes(TRACE, lambda raw: raw + raw), "S101"),
    case("a NUL behind a trace", TORCH, in_bytes(TRACE, lambda raw: raw + b"\0"), "S101"),
    case("a trace of no events", TORCH, write(TRACE, b'{"schemaVersion": 1}'), "S101"),
    case("a trace of a number", TORCH, write(TRACE, b"5"), "S101"),
    case("an event that is no object", TORCH, in_events(lambda events: [5, *events]), "S101"),
    case("gzip cut off", TORCH, to_gzip(lambda raw: raw[: len(raw) // 2]), "S101"),
    case("gzip without its last bytes", TORCH, to_gzip(lambda raw: raw[:-1]), "S101"),
    case(
        "gzip with a flipped byte", TORCH, to_gzip(lambda raw: raw[:5000] + bytes([raw[5000] ^ 1]) + raw[5001:]), "S101"
    ),
    case("gzip with a wrong checksum", TORCH, to_gzip(lambda raw: raw[:-8] + b"\0\0\0\0" + raw[-4:]), "S101"),
    case("gzip bomb", TORCH, to_gzip(plain=b" " * 50_000_000), "S101"),
    case("gzip by name only", TORCH, lambda d: the(d, TRACE).rename(d / "profiler" / "w.pt.trace.json.gz"), "S101"),
    case("gzip of nothing", TORCH, to_gzip(lambda raw: b""), "S101"),
    case("whole gzip", TORCH, to_gzip()),
    case("a FIFO in the place of a trace", TORCH, instead_of(TRACE, os.mkfifo), "S101"),
    case("a FIFO in the place of a table", GRAPH, instead_of(TYPES, os.mkfifo), "S101"),
    case("a FIFO as a stranger", GRAPH, lambda d: os.mkfifo(the(d, "FRAMEWORK") / "pipe"), notes="A103"),
    case("a file that links to itself", TORCH, instead_of(TRACE, lambda path: path.symlink_to(path.name)), "A101 A109"),
    case("a file that links to nowhere", GRAPH, instead_of(VIEW, lambda path: path.symlink_to("nowhere")), "A104 A109"),
    case("a loop of directories", GRAPH, lambda d: (the(d, "FRAMEWORK") / "loop").symlink_to(".."), notes="A109"),
    case("a loop above the cycle", TORCH, lambda d: (d / "profiler" / "loop").symlink_to(d), notes="A109"),
    case("a link out of the directory", GRAPH, lambda d: (the(d, "FRAMEWORK") / "x").symlink_to("/etc/passwd"), "A109"),
    case(
        "a folder deeper than is looked at",
        GRAPH,
        lambda d: the(d, "FRAMEWORK").joinpath(*"d" * 20).mkdir(parents=True),
        "A108",
    ),
    case("two ranks' files in one cycle", GRAPH, second_rank(DETAIL, TYPES, STAMPS, FRAMEWORK, MEMORY), "A105"),
    case("one file of another rank besides", GRAPH, second_rank(TYPES), "A105"),
    case(
        "one file of another rank instead",
        GRAPH,
        lambda d: the(d, TYPES).rename(the(d, TYPES).with_name("cpu_op_type_info_1.csv")),
        "A105",
    ),
    # S102: columns
    *(
        case(f"the last column of {name} dropped", GRAPH, in_cells(name, lambda row: row[:-1]), "S102")
        for name in (DETAIL, TYPES, MEMORY)
    ),
    case("a column renamed", GRAPH, replace(TYPES, "percent", "share"), "S102", "S102"),
    case("a column in other letters", GRAPH, replace(TYPES, "percent", "Percent"), "S102", "S102"),
    case("a column of another unit", GRAPH, replace(MEMORY, "Timestamp(ns)", "Timestamp(us)"), "S102", "S102"),
    case("columns reordered", GRAPH, in_cells(MEMORY, lambda row: [row[0], row[2], row[1], row[3]]), "S102"),
    case("a column more", GRAPH, in_cells(DETAIL, lambda row: [*row, "x"]), notes="S102"),
    # No column is missing: what is decided by the text of a message would refuse the file.
    case(
        "a column more, whose name reads like a message",
        GRAPH,
        in_cells(DETAIL, lambda row: [*row, "column 'x' is missing"]),
        notes="S102",
    ),
    case("a header lost", GRAPH, drop_line(DETAIL, 0), "S102", "S102"),
    # S103: values
    case("a text for a number", GRAPH, replace(DETAIL, "op1,3,", "op1,three,"), "S103"),
    case("a fraction for a count", GRAPH, replace(DETAIL, "op1,3,", "op1,3.5,"), "S103"),
    case("nothing for a number", GRAPH, replace(DETAIL, "op1,3,", "op1,,"), "S103"),
    case("a count of 0", GRAPH, replace(DETAIL, "op1,3,", "op1,0,"), "S103"),
    case("nan in a table", GRAPH, replace(TYPES, "0.0549051", "nan"), "S103"),
    case("inf in a table", GRAPH, replace(TYPES, "0.0549051", "inf"), "S103"),
    case("-nan in a table", GRAPH, replace(DETAIL, "0.0549051", "-nan"), "S103"),
    case("a share above 1", GRAPH, replace(TYPES, "0.0549051", "1.5"), "S103"),
    case("a share in percent", GRAPH, replace(DETAIL, "0.411193", "41.1193"), "S103"),
    case("a negative share", GRAPH, replace(TYPES, "0.0549051", "-0.0549051"), "S103"),
    case("an operator without a type", GRAPH, replace(DETAIL, "Host,AssignAdd", "Host,"), "S103"),
    case(
        "an operator of the device in a host table",
        GRAPH,
        replace(DETAIL, "Host,AssignAdd", "Device,AssignAdd"),
        "S103",
    ),
    case("a negative duration of an execution", GRAPH, replace(STAMPS, "0.010616", "-0.010616"), "S103"),
    case("a negative start of an execution", GRAPH, replace(STAMPS, "1795261968310666118", "-1"), "S103"),
    case("negative memory", GRAPH, replace(MEMORY, ",2048,", ",-2048,"), "S103"),
    case("a broken shape", GRAPH, replace(FRAMEWORK, "input_1:[2, 8];", "input_1:[2, 8;"), "S103"),
    case("a negative graph id", GRAPH, replace(FRAMEWORK, "803155351", "-1"), "S103"),
    case("a negative duration in a timeline", GRAPH, replace(VIEW, '"dur": "21.462"', '"dur": "-21.462"'), "S103"),
    case("a number for a text in a timeline", GRAPH, replace(VIEW, '"dur": "21.462"', '"dur": 21.462'), "S103"),
    case("an event of a timeline without a time", GRAPH, replace(VIEW, '"dur": "21.462", ', ""), "S103"),
    case("a negative duration in a trace", TORCH, set_operator(dur=-1), "S103"),
    case("a text for a time in a trace", TORCH, set_operator(ts="1"), "S103"),
    case("null for a time in a trace", TORCH, set_operator(ts=None), "S103"),
    case("true for a time in a trace", TORCH, set_operator(ts=True), "S103"),
    case("a nested time in a trace", TORCH, set_operator(ts=[[[1]]]), "S103"),
    case("an event without a duration", TORCH, in_events(lambda events: operator(events).pop("dur") and None), "S103"),
    case("an event with an unknown key", TORCH, set_operator(new=1), notes="S102"),
    case("an event of an unknown kind", TORCH, set_operator(ph="Q"), "S103"),
    case("shapes that are no list", TORCH, set_operator(args={"Input Dims": None}), "S103"),
    case("arguments that are no object", TORCH, set_operator(args=[]), "S103"),
    case("a bare array for a trace", TORCH, in_json(TRACE, lambda trace: trace["traceEvents"]), "S103"),
    case("an object for a timeline", GRAPH, in_json(VIEW, lambda view: {"traceEvents": view}), "S103"),
    case("a trace of a future format", TORCH, in_json(TRACE, lambda trace: trace.update(schemaVersion=2)), "S103"),
    case(
        "profiler_info without its parameters",
        GRAPH,
        lambda d: (the(d, "FRAMEWORK").parent / "profiler_info_0.json").write_bytes(b"{}"),
        "S103",
    ),
    case("a time beyond 64 bits in a trace", TORCH, replace(TRACE, '"ts": 4404939053375.137', '"ts": 1e999'), "S103"),
    case("a duration beyond 64 bits in a trace", TORCH, set_operator(dur=1e18), "S103"),
    case("a time of 16 digits in a trace", TORCH, set_operator(ts=9_999_999_999_999_999), "S103"),
    case("a start beyond 64 bits", GRAPH, replace(STAMPS, "1795261968310666118", "99999999999999999999"), "S103"),
    case("a duration of 1e400 ms", GRAPH, replace(STAMPS, "0.010616", "1e400"), "S103"),
    case("a duration of 1e300 ms", GRAPH, replace(STAMPS, "0.010616", "1e300"), "S103"),
    case("a count beyond 64 bits", GRAPH, replace(DETAIL, "op1,3,", "op1,99999999999999999999,"), "S103"),
    # I: files that disagree
    case("a deleted row of the types", GRAPH, drop_line(TYPES, 2), "I101 I105"),
    case("a repeated row of the types", GRAPH, repeat_last_line(TYPES), "I101 I105 I114"),
    case("another count in the types", GRAPH, replace(TYPES, "MatMul,6", "MatMul,7"), "I101 I105"),
    case("a lost line of the framework file", GRAPH, drop_line(FRAMEWORK, 3), "I101"),
    case("a repeated line of the framework file", PYNATIVE, repeat_last_line(FRAMEWORK), "I101"),
    case("a deleted row of the details", GRAPH, drop_line(DETAIL, 3), "I101 I102 I103 I105"),
    case("a repeated row of the details", GRAPH, repeat_last_line(DETAIL), "I101 I102 I103 I105 I114"),
    case("another count in the details", GRAPH, replace(DETAIL, "op1,3,", "op1,4,"), "I101 I102 I103 I105"),
    case("no rows in the types", GRAPH, in_bytes(TYPES, lambda raw: raw.splitlines(keepends=True)[0]), "I101"),
    case("a deleted execution", GRAPH, replace(STAMPS, "1795261968310666118,0.010616,0 ", ""), "C102 I102"),
    case("a deleted operator of the timestamps", GRAPH, drop_line(STAMPS, 2), "I102"),
    case("a deleted event of a timeline", GRAPH, in_json(VIEW, lambda view: view.remove(host_event(view))), "I103"),
    case("a repeated event of a timeline", PYNATIVE, in_json(VIEW, lambda view: [*view, host_event(view)]), "I103"),
    case("an empty timeline", GRAPH, write(VIEW, b"[]"), "I103"),
    case("a timeline without operators", GRAPH, in_json(VIEW, lambda v: [e for e in v if e["ph"] == "M"]), "I103"),
    # C: the window
    case("a lost step", GRAPH, in_executions(lose_second_step), "C101"),
    case("a lost step, PyNative", PYNATIVE, in_executions(lose_second_step), "C101"),
    case("a leaked step", GRAPH, in_executions(leak_a_tail), "C101"),
    case("a leaked step, PyNative", PYNATIVE, in_executions(leak_a_tail), "C101"),
    case("an operator once more in one step", GRAPH, in_executions(run_the_last_once_more), "C102"),
    case("nothing lost, nothing leaked", GRAPH, in_executions(lambda executions: executions)),
    case("a lost step of torch, its mark kept", TORCH, without_step(1, with_mark=False), "C101 I110"),
    case("a lost step of torch, with its mark", TORCH, without_step(1, with_mark=True), "C101 I110"),
    case("a lost last step of torch", TORCH, without_step(2, with_mark=True), "C101 I110"),
    case("a leaked step of torch", TORCH, in_window(leak), "C101 I106 I112"),
    case("a missing mark", TORCH, in_window(lambda events: events.remove(marks(events)[1])), "C101"),
    case("no mark at all", TORCH, in_window(lambda events: [e for e in events if e not in marks(events)]), "C101"),
    case("a mark twice", TORCH, in_window(lambda events: [*events, marks(events)[0]]), "C101"),
    case("marks not in a row", TORCH, in_events(lambda e: marks(e)[2].update(name="ProfilerStep#9")), "C101"),
    case(
        "a mark beyond 64 bits", TORCH, in_events(lambda e: marks(e)[2].update(name="ProfilerStep#" + "9" * 30)), "C101"
    ),
    case("an operator of torch less in one step", TORCH, in_window(lambda e: e.remove(operator(e))), warnings="C102"),
    case("a deleted event of a trace", TORCH, in_events(lambda e: e.remove(operator(e))), "C102 I102"),
    case("a repeated event of a trace", TORCH, in_events(lambda e: [*e, operator(e)]), "C102 I114"),
    case("an operator of torch once more in one step", TORCH, in_window(once_more), warnings="C102"),
    case("another operator in one step", TORCH, set_operator(name="aten::other"), warnings="C102"),
    case("a missing cycle", REPEAT, drop(TRACE), "C101"),
    case(
        "a cycle too many", TORCH, lambda d: shutil.copy(the(d, TRACE), d / "profiler" / "x.pt.trace.json"), "C101 I113"
    ),
    case("no events in a trace", TORCH, in_events(lambda events: []), "C103"),
    case(
        "marks and no operator",
        TORCH,
        in_window(lambda events: [e for e in events if e.get("cat") != "cpu_op"]),
        "C103 I110",
    ),
    case("no execution in any file", GRAPH, in_executions(lambda executions: []), "S101"),
    case("an event without a time", TORCH, set_operator(ts=0, dur=0), "C101 C104 I106 I112 I113", warnings="C102"),
    case(
        "an execution without a time",
        GRAPH,
        replace(STAMPS, "1795261968310666118,0.010616", "0,0"),
        "C101 C102 C104 I103 I104 I106",
    ),
    case("a step raised", GRAPH, in_json(FACTS, lambda facts: facts.update(ending="step-raised", reason="x")), "C105"),
    case(
        "the script failed",
        TORCH,
        in_json(FACTS, lambda facts: facts.update(ending="script-failed", reason="x")),
        "C113",
    ),
    case(
        "two profilers", TORCH, in_json(FACTS, lambda facts: facts.update(ending="two-profilers", reason="x")), "C115"
    ),
    case(
        "the loader ended", TORCH, in_json(FACTS, lambda facts: facts.update(ending="loader-ended", reason="x")), "C106"
    ),
    case(
        "the profiler failed", GRAPH, in_json(FACTS, lambda f: f.update(ending="profiler-failed", reason="x")), "C109"
    ),
    case("interrupted", GRAPH, in_json(FACTS, lambda facts: facts.update(ending="interrupted", reason="x")), "C108"),
    case("a timed step of 0 ns", GRAPH, in_json(STEPS, lambda plain: plain["steps"][3].update(wall_ns=0)), "C107"),
    case("a timed step missing", TORCH, in_json(STEPS, lambda plain: plain["steps"].pop(3) and None), "C107"),
    case("a timed step too many", TORCH, in_json(FACTS, lambda facts: facts.update(timed_steps=2)), "C107"),
    case("no steps at all", TORCH, in_json(STEPS, lambda plain: plain.update(steps=[])), "C107"),
]


def codes(contract: Contract, severity: Severity) -> frozenset[str]:
    return frozenset(finding.code.name for finding in contract.findings if finding.severity is severity)


@pytest.fixture(scope="module")
def corrupted(tmp_path_factory, request) -> dict[int, Contract]:
    """Return what is said of the recording of each case. (None of them must hang: see `test_nothing_odd_raises_or_hangs`.)"""
    numbers = wanted(request, "number")
    directories = places(tmp_path_factory.mktemp("corrupted"), len(numbers))
    for number, directory in zip(numbers, directories, strict=True):
        shutil.copytree(RECORDINGS / CASES[number].recording, directory, dirs_exist_ok=True)
        CASES[number].corrupt(directory)
    found = inspect_together([read_recording(directory) for directory in directories])
    return dict(zip(numbers, found, strict=True))


@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=lambda number: f"{CASES[number].recording}: {CASES[number].name}"
)
@pytest.mark.variants(37)
def test_a_corrupted_recording_is_found_out_by_exactly_these_codes(number, corrupted):
    given_case, contract = CASES[number], corrupted[number]
    assert codes(contract, Severity.ERROR) == given_case.errors, contract.findings
    assert codes(contract, Severity.NOTE) == given_case.notes
    assert codes(contract, Severity.WARNING) == given_case.warnings
    assert contract.is_whole is not bool(given_case.errors)
    for finding in contract.findings:
        assert finding.message
        assert finding.place


def test_every_code_that_invalidates_has_a_negative_case():
    wanted = {code.name for code in Code if code.family in INVALIDATING_FAMILIES}
    expected = {code for path in CHECKED for code in expected_codes(path.read_text(encoding="utf-8"))}
    assert wanted - expected == set()


#: The test modules whose cases count.
CHECKED = sorted(
    path for room in ("artifacts", "dialects", "contract") for path in (CHECKOUT / "tests" / room).rglob("test_*.py")
)


def expected_codes(source: str) -> set[str]:
    """Return the codes that tests of a module expect: in a table, in what a test is given, or in what it asserts.

    A code is a text of nothing but codes (`"I104 I105"`) or `Code.I104`; one that is asserted not to be there, or that
    only helpers and fixtures mention, does not count.
    """
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, (ast.List, ast.Tuple, ast.Dict)):
            found |= codes_in(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for mark in node.decorator_list:
                found |= codes_in(mark) if "parametrize" in ast.unparse(mark) else set()
            for statement in ast.walk(node):
                if isinstance(statement, ast.Assert) and is_claim(statement.test):
                    found |= codes_in(statement.test)
    return found


def is_claim(test: ast.expr) -> bool:
    """Whether a comparison claims that something is there."""
    operators = test.ops if isinstance(test, ast.Compare) else []
    return bool(operators) and all(isinstance(one, (ast.Eq, ast.Is, ast.In, ast.GtE)) for one in operators)


def codes_in(node: ast.AST) -> set[str]:
    texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    named = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "Code"}
    worded = {code for text in texts if re.fullmatch(r"[ASIC]\d{3}( [ASIC]\d{3})*", text) for code in text.split()}
    return named | worded


@pytest.mark.parametrize(
    ("source", "codes_expected"),
    [
        ('CASES = [case("x", corrupt, "I104 I105")]', {"I104", "I105"}),
        ('CASES: dict[str, str] = {"x": "I104"}', {"I104"}),
        ("CASES = ((corrupt, Code.A107),)", {"A107"}),
        ('@pytest.mark.parametrize("code", ["C110"])\ndef test_x(code): pass', {"C110"}),
        ('def test_x():\n    assert codes(found) == ["C110"]', {"C110"}),
        ("def test_x():\n    for f in found:\n        assert f.code is Code.C110", {"C110"}),
        ('def test_x():\n    assert "C110" in codes(found)', {"C110"}),
        ('def test_x():\n    assert "C110" not in codes(found)', set()),
        ('def test_x():\n    assert codes(found) != ["C110"]', set()),
        ('def test_x():\n    assert codes(found) <= {"C110"}', set()),
        ('def test_x():\n    codes = ["C110"]', set()),
        ('def helper():\n    assert codes(found) == ["C110"]', set()),
        ('NAME = "C110"', set()),
        ('CASES = ["C110 is what must be found"]', set()),
        ("# C110", set()),
    ],
)
def test_a_code_counts_only_where_a_test_expects_it(source, codes_expected):
    assert expected_codes(source) == codes_expected


def test_the_names_of_the_negative_cases_are_unique():
    assert [name for name, count in Counter((c.recording, c.name) for c in CASES).items() if count > 1] == []


# -- a foreign directory: nobody wrote down the steps ----------------------------------------------------------------


def surplus_in_the_middle(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted([*executions, moved(executions[12], start_of(executions[12]) + 50_000)], key=start_of)


def lack_at_the_end(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return executions[:-2]


def lack_at_the_head(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return executions[2:]


def runs_once_at_the_start_of_two(executions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first, *others = lose_second_step(executions)
    return [first, *(one for one in others if one["name"] != first["name"])]


@pytest.mark.parametrize(
    ("change", "errors", "warnings"),
    [
        (lambda executions: executions, "", ""),
        (leak_a_tail, "C101", ""),
        (lack_at_the_end, "C101", ""),
        (lack_at_the_head, "C101", ""),
        (surplus_in_the_middle, "", "C102"),
        (lose_second_step, "", ""),
        (runs_once_at_the_start_of_two, "", "C102"),
    ],
    ids=[
        "whole",
        "leaked tail",
        "cut off at the end",
        "cut off at the head",
        "surplus in the middle",
        "two whole steps",
        "an operator that runs once, in two steps",
    ],
)
@pytest.mark.variants(2)
def test_a_leak_is_found_where_nobody_wrote_down_the_steps(copy_recording, change, errors, warnings):
    directory = copy_recording(GRAPH)
    in_executions(change)(directory)
    contract = inspect(Recording(directory=directory / "profiler"))
    assert codes(contract, Severity.ERROR) == frozenset(errors.split())
    assert codes(contract, Severity.WARNING) == frozenset(warnings.split())


def test_the_leaked_operators_are_named(copy_recording):
    directory = copy_recording(GRAPH)
    in_executions(leak_a_tail)(directory)
    (finding,) = inspect(read_recording(directory)).findings
    assert sorted(re.findall(r"[A-Za-z/_-]+-op\d \(\d x\)", finding.message)) == [
        "Default/optimizer-Momentum/ApplyMomentum-op0 (1 x)",
        "Default/optimizer-Momentum/ApplyMomentum-op1 (1 x)",
        "Default/optimizer-Momentum/AssignAdd-op0 (1 x)",
        "Gradients/Default/network-WithLossCell/_backbone-Dense/Grad_MatMul/MatMul-op0 (1 x)",
    ]


def test_the_lost_step_is_named(copy_recording):
    directory = copy_recording(GRAPH)
    in_executions(lose_second_step)(directory)
    (finding,) = inspect(read_recording(directory)).findings
    assert "no operator ran in step 2 of the window" in finding.message


# -- odd, and perhaps even valid: whatever is said, nothing is raised and nothing hangs ------------------------------

ODD: dict[str, tuple[str, Corruption]] = {
    "a start written as a float": (GRAPH, replace(STAMPS, "1795261968310666118", "1795261968310666118.0")),
    "a start with an exponent": (GRAPH, replace(STAMPS, "1795261968310666118", "1e18")),
    "a start with CANN's TAB": (GRAPH, replace(STAMPS, "1795261968310666118", "1795261968310666118\t")),
    "a duration with CANN's TAB": (GRAPH, replace(STAMPS, "0.010616", "0.010616\t")),
    "a count written as a float": (GRAPH, replace(DETAIL, "op1,3,", "op1,3.0,")),
    "a count with a blank": (GRAPH, replace(DETAIL, "op1,3,", "op1, 3,")),
    "a count of a type written as a float": (GRAPH, replace(TYPES, "MatMul,6", "MatMul,6.0")),
    "the largest count": (GRAPH, replace(DETAIL, "op1,3,", f"op1,{2**63 - 1},")),
    "a number of 5000 digits": (GRAPH, replace(DETAIL, "op1,3,", f"op1,{'9' * 5000},")),
    "a quote inside a cell": (GRAPH, replace(DETAIL, "AssignAdd-op0", 'Assign"Add-op0')),
    "a lone carriage return": (GRAPH, replace(TYPES, "MatMul,", "Mat\rMul,")),
    "a NUL inside a cell": (GRAPH, replace(DETAIL, "AssignAdd-op0", "Assign\0Add-op0")),
    "a huge quoted cell": (GRAPH, replace(DETAIL, ",AssignAdd-op0,", f',"{"x" * 200_000}",')),
    "a huge column name": (GRAPH, replace(DETAIL, "pid", "p" * 200_000)),
    "a shape of 1e999": (TORCH, replace(TRACE, '"Input Dims": [', '"Input Dims": [1e999, ')),
    "a shape named twice": (TORCH, replace(TRACE, '"Input Dims": [', '"Input Dims": 5, "Input Dims": [')),
    "events named twice": (TORCH, in_bytes(TRACE, lambda raw: raw.rstrip()[:-1] + b', "traceEvents": []}')),
    "an unpaired surrogate": (TORCH, replace(TRACE, '"aten::linear"', '"\\ud800"')),
    "a time of 1e999999999": (TORCH, replace(TRACE, '"ts": 4404939053375.137', '"ts": 1e999999999')),
    "a mark without a time": (TORCH, in_events(lambda events: marks(events)[0].update(ts=0, dur=0))),
    "a name of a megabyte": (TORCH, set_operator(name="x" * 1_000_000)),
    "a rank beyond 64 bits": (
        TORCH,
        in_json(TRACE, lambda trace: trace.update(distributedInfo={"rank": 10**30, "world_size": 1})),
    ),
    "a window of a million million timed steps": (GRAPH, in_json(FACTS, lambda f: f.update(timed_steps=10**12))),
    "a window of a million million steps": (
        GRAPH,
        in_json(FACTS, lambda facts: facts["fingerprint"]["window"].update(active=10**12)),
    ),
    "a step of astronomic length": (GRAPH, in_json(STEPS, lambda plain: plain["steps"][6].update(wall_ns=10**140))),
    "a file name of a newline": (TORCH, lambda d: the(d, TRACE).rename(d / "profiler" / "a\n.pt.trace.json")),
    "a file name that is not UTF-8": (
        TORCH,
        lambda d: the(d, TRACE).rename(d / "profiler" / os.fsdecode(b"\xff.pt.trace.json")),
    ),
    "arguments 100000 deep": (TORCH, replace(TRACE, '"args": {', f'"args": {{"x": {nested(100_000)},')),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.usefixtures("must_not_hang")
@pytest.mark.variants(1)
def test_nothing_odd_raises_or_hangs(name, copy_recording):
    recording, corrupt = ODD[name]
    directory = copy_recording(recording)
    corrupt(directory)
    for finding in inspect(read_recording(directory)).findings:
        assert finding.message


@pytest.mark.parametrize(
    "keys",
    [
        '"ts": 1, "dur": 1, "args": {{"x": {deep}}}',
        '"ts": 1, "dur": 1, "args": {{"Input Dims": {deep}}}',
        '"ts": {deep}, "dur": 1',
    ],
    ids=["argument", "shape", "time"],
)
@pytest.mark.variants(1)
def test_no_depth_of_nesting_raises(tmp_path, keys):
    depths = range(800, 1000, 4)
    directories = places(tmp_path, len(depths))
    for directory, depth in zip(directories, depths, strict=True):
        event = '{"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, ' + keys.format(deep=nested(depth)) + "}"
        text = f'{{"schemaVersion": 1, "traceEvents": [{event}]}}'
        (directory / "w.pt.trace.json").write_text(text, encoding="utf-8")
    inspect_together([Recording(directory=directory) for directory in directories])


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(drop(STEPS), id="no steps"),
        pytest.param(cut(STEPS), id="steps cut off"),
        pytest.param(cut(FACTS), id="facts cut off"),
        pytest.param(write(FACTS, b'{"a": "\xff"}'), id="broken UTF-8"),
        pytest.param(write(FACTS, b"[" * 100_000), id="deep nesting"),
        pytest.param(in_json(FACTS, lambda facts: facts.update(ending="well")), id="an unknown ending"),
        pytest.param(in_json(FACTS, lambda facts: facts["fingerprint"]["window"].update(active=0)), id="no window"),
        pytest.param(instead_of(STEPS, os.mkfifo), id="a FIFO in the place of the steps"),
        pytest.param(instead_of(STEPS, Path.mkdir), id="a directory in the place of the steps"),
    ],
)
@pytest.mark.usefixtures("must_not_hang")
def test_damaged_facts_are_refused_in_one_sentence_with_the_next_command(copy_recording, corrupt):
    directory = copy_recording(GRAPH)
    corrupt(directory)
    with pytest.raises(StoreError, match=r"(recording|steps)\.json .*Record it again"):
        read_recording(directory)


# -- any bytes at all ------------------------------------------------------------------------------------------------

TOKENS = [b"", b"\n", b",", b";", b'"', b"\\", b"[", b"{", b"}", b"\xff", b"\0", b"-1", b"1e999", b"null", b"nan", b" "]


@pytest.mark.parametrize(
    "recording", [GRAPH, TORCH, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in (PYNATIVE, REPEAT))]
)
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
@pytest.mark.exhaustive
def test_no_bytes_in_any_file_make_the_inspection_raise(recording, data):
    source = RECORDINGS / recording / "profiler"
    files = sorted(path.relative_to(source) for path in source.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory() as folder:
        directories = places(Path(folder), 8)
        for directory in directories:
            shutil.copytree(RECORDINGS / recording, directory, dirs_exist_ok=True)
            for _ in range(data.draw(st.integers(1, 2))):
                path = directory / "profiler" / data.draw(st.sampled_from(files))
                raw = path.read_bytes()
                start = data.draw(st.integers(0, len(raw)))
                end = min(len(raw), start + data.draw(st.sampled_from([0, 1, 2, 5, 40, 1000])))
                path.write_bytes(raw[:start] + data.draw(st.sampled_from(TOKENS)) + raw[end:])
        for contract in inspect_together([read_recording(directory) for directory in directories]):
            for finding in contract.findings:
                assert finding.message
