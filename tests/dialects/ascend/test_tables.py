"""Tables of an Ascend device against each other and the trace: silent on a whole directory, and each damage is found."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import generate

Rows = list[dict[str, str]]
Damage = Callable[[Path], None]
COUNTERS = {"APP/DDR": 0, "APP/HBM": 1, "APP/Memory": 1}


def written(directory: Path) -> Path:
    """Write a whole directory with l2_cache and the samples of the process in the trace; return where its tables are."""
    generate("pt-npu", seed=1, conditions={"l2_cache": True}).write(directory)
    [trace] = directory.rglob("trace_view.json")
    table("memory_record.csv", sampled)(trace.parent)
    record = [row for row in read(trace.parent / "memory_record.csv") if row["Component"] == "APP"]
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "NPU MEM"}}
    ]
    events += [
        {"ph": "C", "name": name, "pid": 77, "tid": 0, "ts": row["Timestamp(us)"].strip(), "args": {"KB": size}}
        for row in record
        for name, size in COUNTERS.items()
    ]
    trace.write_text(json.dumps([*json.loads(trace.read_text()), *events]))
    return trace.parent


def read(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def sampled(rows: Rows) -> Rows:
    """Return the rows with ten samples of the process."""
    first = Decimal(rows[0]["Timestamp(us)"].strip())
    return [*({**rows[0], "Timestamp(us)": f"{first + 100 * number}\t"} for number in range(10)), *rows[1:]]


def table(name: str, change: Callable[[Rows], Rows]) -> Damage:
    def damage(output: Path) -> None:
        rows = read(output / name)
        with (output / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(change(rows))

    return damage


def cell(name: str, column: str, value: str, **where: str) -> Damage:
    """Give the last row that has some values another value in one column."""

    def change(rows: Rows) -> Rows:
        row = [row for row in rows if all(row[key] == wanted for key, wanted in where.items())][-1]
        assert row[column] != value
        row[column] = value
        return rows

    return table(name, change)


def column(name: str, column: str, value: str) -> Damage:
    return table(name, lambda rows: [{**row, column: value} for row in rows])


def events(keep: Callable[[dict[str, Any]], bool]) -> Damage:
    def damage(output: Path) -> None:
        trace = output / "trace_view.json"
        before = json.loads(trace.read_text())
        after = [event for event in before if keep(event)]
        assert after != before
        trace.write_text(json.dumps(after))

    return damage


def info(change: Callable[[Any], object]) -> Damage:
    def damage(output: Path) -> None:
        [path] = output.parent.glob("profiler_info*.json")
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return damage


def without_lanes_of(name: str) -> Damage:
    """Delete the events of a process, not its name."""

    def damage(output: Path) -> None:
        named = json.loads((output / "trace_view.json").read_text())
        pid = next(one["pid"] for one in named if one["name"] == "process_name" and one["args"]["name"] == name)
        events(lambda event: event["pid"] != pid or event["ph"] == "M")(output)

    return damage


def lasting(rows: Rows) -> Rows:
    """Let the first kernel last longer than the next one waits, which alone is of its stream too."""
    return [{**rows[0], "Duration(us)": "99999.0"}, rows[1], *({**row, "Stream ID": "3"} for row in rows[2:])]


def longer_units(rows: Rows) -> Rows:
    """Give two kernels in three of AI Core another time of one unit."""
    cubes = [row for row in rows if row["Accelerator Core"] == "AI_CORE"]
    for number, row in enumerate(cubes):
        if number % 3:
            row["aic_mac_time(us)"] = str(float(row["aic_mac_time(us)"]) * (1 + number / 10))
    return rows


def options(change: Callable[[Any], object]) -> Damage:
    return info(lambda document: change(document["config"]["common_config"]))


def without_the_first(name: str) -> Damage:
    """Delete the first event of a name."""

    def damage(output: Path) -> None:
        first = next(one for one in json.loads((output / "trace_view.json").read_text()) if one["name"] == name)
        events(lambda event: event != first)(output)

    return damage


def without_the_sum_of(component: str) -> Damage:
    """Delete the row that sums up the last row of a component."""

    def change(rows: Rows) -> Rows:
        at = max(number for number, row in enumerate(rows) if row["Component"] == component)
        return [*rows[: at + 1], *rows[at + 2 :]]

    return table("memory_record.csv", change)


def drawn_elsewhere(output: Path) -> None:
    """Draw one kernel in another lane of the device."""
    trace = output / "trace_view.json"
    events = json.loads(trace.read_text())
    kernel = read(output / "kernel_details.csv")[0]
    drawn = next(
        one for one in events if one["name"] == kernel["Name"] and one["ph"] == "X" and "Task Type" in one["args"]
    )
    drawn["tid"] += 1
    trace.write_text(json.dumps(events))


def without_one(column: str) -> Callable[[Rows], Rows]:
    """Leave out the block of the last growth of the allocator."""

    def change(rows: Rows) -> Rows:
        last = max(
            (row for row in rows if not row["Name"].startswith("cann::")), key=lambda row: Decimal(row[column].strip())
        )
        return [row for row in rows if row is not last]

    return change


RECORD, BLOCKS, MODULES, CACHE, CALLS, KERNELS = (
    "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv", "l2_cache.csv", "api_statistic.csv", "kernel_details.csv",
)  # fmt: skip

DAMAGES: list[tuple[str, Damage]] = [
    ("combined_memory_is_the_sum", table(RECORD, lambda rows: [*rows, rows[-1]])),
    ("allocators_are_summed_up", without_the_sum_of("PTA")),
    ("allocators_are_summed_up", table(RECORD, lambda rows: [row for row in rows if row["Component"] != "PTA+GE"])),
    ("allocators_are_summed_up", cell(RECORD, "Total Active(MB)", "1.0", Component="PTA+GE")),
    ("allocators_are_summed_up", cell(RECORD, "Total Reserved(MB)", "", Component="PTA")),
    ("allocators_are_summed_up", column(RECORD, "Stream Ptr", "")),
    ("the_process_is_sampled_at_the_times_of_the_trace", table(RECORD, lambda rows: rows[1:])),
    ("the_process_is_sampled_at_the_times_of_the_trace", cell(RECORD, "Component", "APPx", Component="APP")),
    ("blocks_are_of_operators_of_the_trace", cell(BLOCKS, "Name", "aten::other")),
    ("blocks_are_of_operators_of_the_trace", cell(BLOCKS, "Stream Ptr", "7")),
    ("calls_of_the_trace_are_in_api_statistic", table(CALLS, lambda rows: rows[:6])),
    ("kernels_list_their_tensors", cell(KERNELS, "Input Formats", "ND;ND;ND;ND;ND")),
    ("kernels_list_their_tensors", cell(KERNELS, "Output Shapes", '"1;2;3"')),
    ("ratios_of_a_kernel_follow_from_its_times", table(KERNELS, longer_units)),
    ("a_lane_shows_its_stream", drawn_elsewhere),
    ("growth_has_its_block", table(BLOCKS, without_one("Allocation Time(us)"))),
    ("counters_of_a_reading_come_together", without_the_first("APP/DDR")),
    ("overlap_is_drawn", without_lanes_of("Overlap Analysis")),
    ("profiler_info_says_what_was_recorded", info(lambda one: one["start_info"].update(start_cnt=0))),
    ("profiler_info_says_what_was_recorded", info(lambda one: one["start_info"].update(freq=17238197612056))),
    ("profiler_info_says_what_was_recorded", info(lambda one: one["start_info"].update(start_monotonic=1 << 62))),
    ("profiler_info_says_what_was_recorded", options(lambda one: one["activities"].append("ProfilerActivity.NPU"))),
    ("profiler_info_says_what_was_recorded", options(lambda one: one["activities"].remove("ProfilerActivity.CPU"))),
]  # fmt: skip


#: What is remarkable only: no public source promises it, or versions have a reason for it.
ODD: list[tuple[str, Damage]] = [
    ("modules_are_sampled_together", table(MODULES, lambda rows: rows[:-1])),
    ("modules_are_sampled_together", cell(MODULES, "Component", "OTHER", Component="GE")),
    ("kernels_are_cached_tasks", table(CACHE, lambda rows: rows[::2])),
    ("a_lane_shows_its_stream", cell(KERNELS, "Stream ID", "3")),
    ("kernels_of_a_lane_follow_each_other", table(KERNELS, lasting)),
    ("what_was_launched_ran", table(KERNELS, lambda rows: rows[:-1])),
]


def found(output: Path, severity: Severity) -> list[str]:
    findings = inspect(read_recording(output.parent.parent)).findings
    return [one.check for one in findings if one.severity is severity]


def errors(output: Path) -> list[str]:
    return found(output, Severity.ERROR)


def test_a_whole_directory_is_silent(tmp_path):
    assert errors(written(tmp_path)) == []


@pytest.mark.parametrize(("check", "damage"), DAMAGES, ids=[f"{n} {check}" for n, (check, _) in enumerate(DAMAGES)])
@pytest.mark.variants(1)
def test_damage_to_a_table_is_found(tmp_path, check, damage):
    output = written(tmp_path)
    damage(output)
    assert check in errors(output)


@pytest.mark.parametrize(("check", "damage"), ODD, ids=[f"{n} {check}" for n, (check, _) in enumerate(ODD)])
@pytest.mark.variants(1)
def test_what_no_writer_promises_is_remarkable(tmp_path, check, damage):
    output = written(tmp_path)
    damage(output)
    assert check in found(output, Severity.WARNING)
    assert check not in errors(output)


#: What right output may have.
RIGHT: list[Damage] = [
    # The timeline and the table print one reading with another number of digits.
    table(RECORD, lambda rows: [later(row) if row["Component"] == "APP" else row for row in rows]),
    # The clock of the start runs faster than that of the end, which NTP steers: 20 s in ten days.
    info(lambda one: one["start_info"].update(start_monotonic=one["end_info"]["MonotonicTimeEnd"] + 20 * 10**9)),
    # msprof knows no operator of the tasks.
    column(CACHE, "Op Name", "N/A"),
    # A task of a graph runs again in each step, with the same rates.
    lambda output: task_again(output),
    # Memory of CANN that was allocated before the recording is released without a row.
    table(RECORD, lambda rows: [*rows, *released(rows)]),
]  # fmt: skip


def later(row: dict[str, str]) -> dict[str, str]:
    return {**row, "Timestamp(us)": f"{Decimal(row['Timestamp(us)'].strip()) + Decimal('0.002')}\t"}


def task_again(output: Path) -> None:
    """Let one kernel be the task of another one of its name, and have its rates."""
    kernels = read(output / KERNELS)
    again = next(one for one in kernels[1:] if one["Name"] == kernels[0]["Name"])
    task, other = (one["Task ID"].strip() for one in (kernels[0], again))
    cached = next(one for one in read(output / CACHE) if one["Task Id"].strip() == task)
    table(CACHE, lambda rows: [cached if row["Task Id"].strip() == other else row for row in rows])(output)
    table(KERNELS, lambda rows: [{**row, "Task ID": task} if row["Task ID"].strip() == other else row for row in rows])(
        output
    )


def released(rows: Rows) -> Rows:
    """Return a record of GE that has given memory back, with its sum."""
    [*_, ge] = (row for row in rows if row["Component"] == "GE")
    [*_, pta] = (row for row in rows if row["Component"] == "PTA")
    last = {**ge, "Timestamp(us)": later(rows[-1])["Timestamp(us)"], "Total Allocated(MB)": "0.0"}
    total = {**last, "Component": "PTA+GE", "Total Active(MB)": pta["Total Active(MB)"]}
    for key in ("Total Allocated(MB)", "Total Reserved(MB)"):
        total[key] = str(float(last[key]) + float(pta[key]))
    return [last, total]


@pytest.mark.parametrize("change", RIGHT)
@pytest.mark.variants(1)
def test_right_output_has_no_error(tmp_path, change):
    output = written(tmp_path)
    change(output)
    assert errors(output) == []
