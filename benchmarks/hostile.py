"""What `perfguard check` costs on inputs that were made to exhaust it: CPU seconds, peak memory, exit status, first words.

Run: python -m benchmarks.hostile [--only WORD] [--grow]

Every input is checked in a fresh process with `--jobs 1`, which is stopped after 100 CPU seconds or above 3 GB. With `--grow`
a quarter of each input is checked as well, and the ratio of the CPU seconds beyond those of an empty directory is printed:
about 4 where the cost grows with the size.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from perfguard.testing import generate
from perfguard.testing.summary import _event, _field, _record

#: Writes an input into an empty folder, of this part of its size: 1 is all of it.
Maker = Callable[[Path, float], None]
CASES: dict[str, Maker] = {}

MB = 1024**2
#: What is stopped: seconds far above what any input takes, on a slow machine too. How many it takes is printed, not tested.
_SECONDS, _PEAK_KIB = 100, 3 * 1024**2

#: Runs in a process of its own: what a child used before it became another program counts as the child's.
_MEASURED = textwrap.dedent(
    """
    import os, resource, subprocess, sys, threading, time
    seconds, peak_kib, *arguments = sys.argv[1:]
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    command = [sys.executable, "-m", "perfguard", *arguments]
    child = subprocess.Popen(command, stdout=2, preexec_fn=limit)
    def watch():
        page = os.sysconf("SC_PAGE_SIZE") // 1024
        while child.returncode is None:
            try:
                with open(f"/proc/{child.pid}/statm") as file:
                    if int(file.read().split()[1]) * page > int(peak_kib):
                        child.kill()
            except (OSError, IndexError):
                return
            time.sleep(0.05)
    threading.Thread(target=watch, daemon=True).start()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    print(child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a check cost: `status` is negative where it was stopped."""

    status: int
    cpu_s: float
    peak_kib: int
    text: str

    @property
    def words(self) -> str:
        """The first line with a code, or the last line."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()] or [""]
        return next((line for line in lines if line[1:4].isdigit()), lines[-1])


def check(place: Path | str, *, seconds: int = _SECONDS, peak_kib: int = _PEAK_KIB) -> Cost:
    """Check a directory or URL as `perfguard_in` does."""
    return perfguard_in(None, "check", place, "--jobs", "1", seconds=seconds, peak_kib=peak_kib)


def perfguard_in(folder: Path | None, *arguments: object, seconds: int = _SECONDS, peak_kib: int = _PEAK_KIB) -> Cost:
    """Run a command in a fresh process, which is stopped after so many CPU seconds or above so much memory."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(seconds), str(peak_kib), *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    status, cpu_s, peak = done.stdout.split()
    return Cost(status=int(status), cpu_s=float(cpu_s), peak_kib=int(peak), text=done.stderr)


def case(make: Maker) -> Maker:
    """Register an input under the name of the function that writes it."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


# -- databases -------------------------------------------------------------------------------------------------------


def _database(place: Path, *statements: str | tuple[str, Iterable[tuple[object, ...]]]) -> None:
    generate("pt-npu", seed=1, conditions={"text": False, "db": True}).write(place)
    with closing(sqlite3.connect(next(place.rglob("ascend_pytorch_profiler*.db")))) as database:
        for one in statements:
            if isinstance(one, str):
                database.execute(one)
            else:
                database.executemany(*one)
        database.commit()


def _column_default(length: int) -> str:
    return f"alter table STRING_IDS add column extra text default '{'x' * length}'"


@case
def column_defaults_of_gigabytes(place: Path, part: float) -> None:
    rows = ((number, "") for number in range(1000, 1000 + int(100_000 * part)))
    _database(place, ("insert into STRING_IDS values (?, ?)", rows), _column_default(int(MB // 2 * part)))


@case
def column_defaults_in_few_rows(place: Path, part: float) -> None:
    _database(place, _column_default(int(9 * MB * part)))


@case
def many_columns_with_a_default(place: Path, part: float) -> None:
    rows = ((number, "") for number in range(1000, 1000 + int(100_000 * part)))
    more = (f"alter table STRING_IDS add column extra{number} text default 'xxxxxxxxxx'" for number in range(500))
    _database(place, ("insert into STRING_IDS values (?, ?)", rows), *more)


@case
def two_million_tasks(place: Path, part: float) -> None:
    rows = (
        (10**18 + 100 * number, 10**18 + 100 * number + 50, 0, number, 10**6 + number, 1, 1, 0, 0, number, 1)
        for number in range(int(2_000_000 * part))
    )
    _database(place, (f"insert into TASK values ({','.join('?' * 11)})", rows))


@case
def two_million_texts(place: Path, part: float) -> None:
    rows = ((10**6 + number, f"name {number}") for number in range(int(2_000_000 * part)))
    _database(place, ("insert into STRING_IDS values (?, ?)", rows))


@case
def two_million_calls(place: Path, part: float) -> None:
    rows = (
        (10**18 + 100 * number, 10**18 + 100 * number + 50, 20000, 1, 10**6 + number, 1)
        for number in range(int(2_000_000 * part))
    )
    _database(place, ("insert into CANN_API values (?, ?, ?, ?, ?, ?)", rows))


@case
def a_database_text_of_300_mb(place: Path, part: float) -> None:
    _database(place, ("insert into STRING_IDS values (?, ?)", [(10**6, "x" * int(300 * MB * part))]))


@case
def many_database_texts_of_a_megabyte(place: Path, part: float) -> None:
    rows = ((10**6 + number, "x" * MB) for number in range(int(300 * part)))
    _database(place, ("insert into STRING_IDS values (?, ?)", rows))


@case
def a_database_of_10_000_tables(place: Path, part: float) -> None:
    _database(place, *(f"create table extra{number} (a integer)" for number in range(int(10_000 * part))))


@case
def a_database_of_a_table_of_2_000_columns(place: Path, part: float) -> None:
    columns = ", ".join(f"c{number} text" for number in range(int(1_900 * part)))
    _database(place, f"create table extra ({columns})", *["insert into extra default values"] * 1000)


@case
def a_database_blob_of_100_mb(place: Path, part: float) -> None:
    _database(place, ("insert into STRING_IDS values (?, ?)", [(10**6, bytes(int(100 * MB * part)))]))


@case
def a_database_whose_schema_is_no_sql(place: Path, part: float) -> None:
    words = "create table STRING_IDS (" + "(" * int(100_000 * part)
    statement = ("update sqlite_master set sql = ? where name = 'STRING_IDS'", [(words,)])
    _database(place, "pragma writable_schema = on", statement)


@case
def a_database_of_which_a_page_is_its_own_child(place: Path, part: float) -> None:
    rows = ((number, "x" * 100) for number in range(10**6, 10**6 + int(100_000 * part)))
    _database(place, ("insert into STRING_IDS values (?, ?)", rows))
    path = next(place.rglob("ascend_pytorch_profiler*.db"))
    with closing(sqlite3.connect(path)) as database:
        ((root,),) = database.execute("select rootpage from sqlite_master where name = 'STRING_IDS'")
        ((size,),) = database.execute("pragma page_size")
    with path.open("r+b") as file:
        # The last child of an inner page (file format, 1.6).
        file.seek((root - 1) * size + 8)
        file.write(root.to_bytes(4, "big"))


# -- JSON ------------------------------------------------------------------------------------------------------------


def _text_output(place: Path) -> Path:
    """Write a right directory of torch_npu; return its cycle."""
    generate("pt-npu", seed=1).write(place)
    (cycle,) = place.iterdir()
    return cycle


def _info(place: Path, text: str) -> None:
    (_text_output(place) / "profiler_info.json").write_text(text)


@case
def one_key_many_times(place: Path, part: float) -> None:
    _info(place, "{" + '"a": 1, ' * int(3_000_000 * part) + '"a": 1}')


@case
def keys_of_which_the_last_is_repeated(place: Path, part: float) -> None:
    keys = ", ".join(f'"{number}": 1' for number in range(int(1_000_000 * part)))
    _info(place, f'{{{keys}, "z": 1, "z": 2}}')


@case
def a_json_list_of_20_mb(place: Path, part: float) -> None:
    generate("minddata", seed=1).write(place)
    summary = next(place.rglob("minddata_pipeline_summary_*.json"))
    document = json.loads(summary.read_text())
    document["cpu_analysis_details"] = ["a few words"] * int(1_400_000 * part)
    summary.write_text(json.dumps(document))


@case
def keys_around_the_events(place: Path, part: float) -> None:
    _around(place, {f"key {number}": "some text" * 400 for number in range(int(5_000 * part))})


@case
def events_within_keys(place: Path, part: float) -> None:
    _around(place, {f"key {number}": {"traceEvents": []} for number in range(int(40_000 * part))})


def _around(place: Path, document: dict[str, object]) -> None:
    generate("pt-torch", seed=1).write(place)
    trace = next(place.rglob("*.pt.trace.json"))
    trace.write_text(json.dumps(document | json.loads(trace.read_text())))


@case
def a_json_string_of_100_mb(place: Path, part: float) -> None:
    _info(place, f'{{"config": "{"x" * int(100 * MB * part)}"}}')


@case
def a_json_key_of_100_mb(place: Path, part: float) -> None:
    _info(place, f'{{"{"x" * int(100 * MB * part)}": 1}}')


@case
def a_json_array_of_numbers(place: Path, part: float) -> None:
    _info(place, f'{{"config": [{"1," * int(20_000_000 * part)}1]}}')


@case
def json_objects_in_an_array(place: Path, part: float) -> None:
    _info(place, f'{{"config": [{"{}," * int(5_000_000 * part)}1]}}')


# -- texts -----------------------------------------------------------------------------------------------------------


def _drawing(place: Path, body: str) -> None:
    generate("ir", seed=1, conditions={"dot": True}).write(place)
    next(place.rglob("*.dot")).write_text(f"digraph mindspore {{\n{body}\n}}\n")


@case
def a_drawn_line_of_one_word(place: Path, part: float) -> None:
    _drawing(place, "a" * int(1_000_000 * part))


@case
def a_drawn_line_of_ports(place: Path, part: float) -> None:
    _drawing(place, "a" + ":a" * int(1_000_000 * part))


@case
def a_drawing_that_begins_with_blanks(place: Path, part: float) -> None:
    _drawing(place, "")
    next(place.rglob("*.dot")).write_text("digraph" + " " * int(1_000_000 * part) + "\n")


@case
def quotes_of_which_none_is_closed(place: Path, part: float) -> None:
    _drawing(place, 'a [label="' + '\\"' * int(500_000 * part))


@case
def drawn_blanks(place: Path, part: float) -> None:
    _drawing(place, "a" + " " * int(1_000_000 * part))


@case
def blank_lines_of_a_drawing(place: Path, part: float) -> None:
    _drawing(place, "a\n" + (" " * 1000 + "\n") * int(10_000 * part))


@case
def edges_to_nowhere(place: Path, part: float) -> None:
    _drawing(place, "".join(f"a{number} -> b{number}\n" for number in range(int(500_000 * part))))


@case
def quotes_in_a_drawing(place: Path, part: float) -> None:
    _drawing(place, 'a [label="' + "\\" * int(2_000_001 * part))


@case
def an_ir_line_that_never_closes(place: Path, part: float) -> None:
    generate("ir", seed=1).write(place)
    graph = next(path for path in place.rglob("*.ir") if "IR entry" in path.read_text())
    graph.write_text(graph.read_text() + "  %0(" + ") " * int(1_000_000 * part) + "\n")


def _flat(place: Path, name: str, text: str) -> None:
    generate("ms-2.0", seed=1, conditions={"npu": True, "cpu_device": False}).write(place)
    (next(place.rglob("profiler_info_0.json")).parent / name).write_text(text)


@case
def a_table_of_a_million_columns(place: Path, part: float) -> None:
    header = ",".join(f"c{number}" for number in range(int(10**6 * part)))
    _flat(place, "aicpu_intermediate_0.csv", header + "\n")


@case
def a_whitespace_table_of_a_million_columns(place: Path, part: float) -> None:
    header = " ".join(f"c{number}" for number in range(int(10**6 * part)))
    _flat(place, "output_op_compute_time_0.txt", f"{header}\n{header}\n")


@case
def a_whitespace_header_with_a_repeated_column(place: Path, part: float) -> None:
    _flat(place, "output_op_compute_time_0.txt", "c " * int(10**6 * part) + "\n")


@case
def a_whitespace_line_of_500_000_cells(place: Path, part: float) -> None:
    cells = "1 " * int(500_000 * part)
    _flat(place, "output_op_compute_time_0.txt", f"op_name compute_time(ms) stream_id\n{cells}\n")


@case
def a_whitespace_line_of_500_000_cells_among_enums(place: Path, part: float) -> None:
    cells = "1 " * int(500_000 * part)
    header = "cpu_id execute_time"
    _flat(place, "output_format_data_hwts_0.txt", f"{header}\n{cells}\n")


@case
def a_spaced_table_of_20_000_columns(place: Path, part: float) -> None:
    header = ", ".join(f"c{number}" for number in range(int(20_000 * part)))
    _flat(place, "output_timeline_data_0.txt", f"{header}\n")


@case
def millions_of_blank_lines_in_a_whitespace_table(place: Path, part: float) -> None:
    _flat(place, "output_op_compute_time_0.txt", "a b\n" + "\n" * int(20_000_000 * part))


@case
def millions_of_blank_lines_in_a_columns_table(place: Path, part: float) -> None:
    generate("minddata", seed=1).write(place)
    next(place.rglob("dataset_iterator_profiling_*.txt")).write_text("\n" * int(20_000_000 * part))


@case
def millions_of_blank_lines_in_a_csv(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    table.write_text(table.read_text() + "\n" * int(20_000_000 * part))


@case
def millions_of_blank_lines_in_a_small_csv(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    table.write_text(table.read_text() + "\n" * int(15_000_000 * part))


@case
def millions_of_lines_in_a_log(place: Path, part: float) -> None:
    next((_text_output(place) / "logs").iterdir()).write_text("\n" * int(60_000_000 * part))


@case
def a_csv_cell_of_100_mb(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    header, *rows = table.read_text().splitlines()
    first = rows[0].split(",")
    first[1] = "x" * int(100 * MB * part)
    table.write_text("\n".join([header, ",".join(first), *rows[1:], ""]))


@case
def a_quoted_csv_cell_of_100_mb(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv"
    lines = 'stack "" of frames;\n' * int(5 * MB * part)
    table.write_text(f'{table.read_text()}aten::add,"{lines}",,1,1,0,0,0,0\n')


@case
def a_quote_that_is_never_closed(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    header, *rows = table.read_text().splitlines()
    body = "\n".join(rows) + "\n"
    table.write_text(f'{header}\n"{body * int(150 * MB * part / len(body))}')


@case
def one_quote_that_is_never_closed_in_a_small_table(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    header, *rows = table.read_text().splitlines()
    body = "\n".join(rows) + "\n"
    table.write_text(f'{header}\n"{body * int(15 * MB * part / len(body))}')


@case
def quotes_within_cells(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    table.write_text(table.read_text() + '"' * int(100 * MB * part) + "\n")


@case
def call_stacks_in_quotes(place: Path, part: float) -> None:
    _stacks(place, int(331 * MB * part))


@case
def call_stacks_of_63_mb(place: Path, part: float) -> None:
    _stacks(place, int(63 * MB * part))


def _stacks(place: Path, size: int) -> None:
    """Write a right table of operators, of whose stacks no line stands alone."""
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv"
    header, body = table.read_text().split("\n", 1)
    frames = "".join(f"/home/user/model/layer{number}.py({number}): forward;\n" for number in range(40))
    body = body.replace("/home/user/train.py(111): train;\n", frames)
    with table.open("w") as file:
        file.write(header + "\n")
        for _ in range(size // len(body)):
            file.write(body)


@case
def csv_rows_of_2_mb(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    header, *rows = table.read_text().splitlines()
    at = header.split(",").index("Input Shapes")
    with table.open("w") as file:
        print(header, file=file)
        for number, row in enumerate((rows * 200)[:200]):
            cells = next(csv.reader([row]))
            cells[at] = f"{number:03},7;" * int(2 * MB * part // 7)
            csv.writer(file, lineterminator="\n").writerow(cells)


@case
def a_csv_line_of_55_mb(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv"
    header, first, *rows = table.read_text().splitlines()
    table.write_text("\n".join([header, first + "x" * int(55 * MB * part), *rows, ""]))


# -- large tables ----------------------------------------------------------------------------------------------------


def _repeated(place: Path, name: str, rows: int) -> None:
    """Write the rows of a right table again and again: so many, at times that were there before."""
    repeat(_text_output(place) / "ASCEND_PROFILER_OUTPUT" / name, rows)


def repeat(table: Path, rows: int) -> None:
    """Write the rows of a table again and again: so many."""
    header, *lines = table.read_text().splitlines()
    body = "\n".join(lines) + "\n"
    with table.open("w") as file:
        file.write(header + "\n")
        for _ in range(rows // len(lines)):
            file.write(body)


def repeat_in_database(path: Path, rows: int) -> None:
    """Write the rows of each table of a database again and again: so many. Their keys are none any more."""
    with closing(sqlite3.connect(path)) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        for name in names:
            (count,) = database.execute(f'select count(*) from "{name}"').fetchone()
            columns = ", ".join(f'"{one[1]}" {one[2]}' for one in database.execute(f'pragma table_info("{name}")'))
            database.execute(f'alter table "{name}" rename to once')
            database.execute(f'create table "{name}" ({columns})')
            database.execute(
                f"with recursive times(n) as (select 1 union all select n + 1 from times where n < {rows // max(count, 1)}) "
                f'insert into "{name}" select once.* from once, times'
            )
            database.execute("drop table once")
        database.commit()


@case
def blocks_of_one_moment(place: Path, part: float) -> None:
    """All blocks of torch_npu are allocated and released at one time, at which the record has as many different totals."""
    generate("pt-npu", seed=1).write(place)
    for name in ("operator_memory.csv", "memory_record.csv"):
        table = next(place.rglob(name))
        header, first, *_ = table.read_text().splitlines()
        cells = dict(zip(header.split(","), first.split(","), strict=True))
        moment = {
            column: "1767030856454000.000" for column in cells if column.endswith("(us)") and "Duration" not in column
        }
        totals = [column for column in cells if "Total" in column]
        with table.open("w") as file:
            file.write(header + "\n")
            for number in range(int(100_000 * part)):
                row = cells | moment | dict.fromkeys(totals, f"{100 + number / 100:.2f}")
                file.write(",".join(row.values()) + "\n")


@case
def executions_of_the_host(place: Path, part: float) -> None:
    generate("ms-2.5+cpu", seed=1).write(place)
    repeat(next(place.rglob("cpu_op_execute_timestamp_*.txt")), int(200_000 * part))


@case
def steps_of_a_thousand_ranks(place: Path, part: float) -> None:
    """Each stage is as slow as its slowest rank; one step says otherwise."""
    generate("cluster", seed=1).write(place)
    table = next(place.rglob("cluster_step_trace_time.csv"))
    header = table.read_text().splitlines()[0]
    zeros = [0.0] * (len(header.split(",")) - 4)
    ranks, steps = 1024, int(200 * part)
    with table.open("w") as file:
        print(header, file=file)
        for step in range(steps):
            for rank in range(ranks):
                print(step, "rank", rank, float(rank), *zeros, sep=",", file=file)
            for first in range(0, ranks, 128):
                members = range(first, first + 128)
                slowest = float(members[-1]) + (step == steps - 1)
                print(step, "stage", f'"{tuple(members)}"', slowest, *zeros, sep=",", file=file)


@case
def a_million_rows_of_output_timeline_data(place: Path, part: float) -> None:
    generate("ms-1.x", seed=1).write(place)
    repeat(next(place.rglob("output_timeline_data_*.txt")), int(10**6 * part))


@case
def two_million_rows_of_operator_memory(place: Path, part: float) -> None:
    _repeated(place, "operator_memory.csv", int(2_000_000 * part))


@case
def two_million_rows_of_memory_record(place: Path, part: float) -> None:
    _repeated(place, "memory_record.csv", int(2_000_000 * part))


@case
def a_million_rows_of_one_allocator(place: Path, part: float) -> None:
    table = _text_output(place) / "ASCEND_PROFILER_OUTPUT" / "memory_record.csv"
    last = next(line for line in reversed(table.read_text().splitlines()) if line.startswith("PTA,"))
    with table.open("a") as file:
        file.writelines(f"{last}\n" for _ in range(int(1_000_000 * part)))


@case
def two_million_rows_of_l2_cache(place: Path, part: float) -> None:
    _repeated(place, "l2_cache.csv", int(2_000_000 * part))


@case
def two_million_rows_of_soc_pmu(place: Path, part: float) -> None:
    _repeated(place, "soc_pmu.csv", int(2_000_000 * part))


@case
def a_million_rows_of_kernel_details(place: Path, part: float) -> None:
    _repeated(place, "kernel_details.csv", int(1_000_000 * part))


@case
def a_million_rows_of_npu_module_mem(place: Path, part: float) -> None:
    _repeated(place, "npu_module_mem.csv", int(1_000_000 * part))


@case
def a_million_rows_of_step_trace_time(place: Path, part: float) -> None:
    _repeated(place, "step_trace_time.csv", int(1_000_000 * part))


@case
def a_million_rows_of_op_statistic(place: Path, part: float) -> None:
    _repeated(place, "op_statistic.csv", int(1_000_000 * part))


@case
def a_million_rows_of_api_statistic(place: Path, part: float) -> None:
    _repeated(place, "api_statistic.csv", int(1_000_000 * part))


@case
def batches_of_minddata(place: Path, part: float) -> None:
    """Write four lines a batch, of 100 000 batches."""
    generate("minddata", seed=1).write(place)
    path = next(place.rglob("dataset_iterator_profiling_*.txt"))
    *_, last = path.read_text().splitlines()
    number, end_ms = int(last.split()[2]), int(last.split()[-1])
    with path.open("a") as file:
        for at in range(1, int(100_000 * part) + 1):
            lines = ((0, 1, 1), (0, 2, 1), (0, 0, 2), (1, 16, 3))
            file.writelines(f"{kind} {extra} {number + at} {value} {end_ms + at}\n" for kind, extra, value in lines)


# -- recordings and summaries ----------------------------------------------------------------------------------------

RECORDING = Path(__file__).resolve().parent.parent / "tests" / "data" / "recordings" / "torch-mlp"


@case
def a_world_of_a_billion_ranks(place: Path, part: float) -> None:
    shutil.copytree(RECORDING, place, dirs_exist_ok=True)
    facts = json.loads((place / "recording.json").read_text())
    facts["fingerprint"]["world_size"] = int(10**9 * part)
    (place / "recording.json").write_text(json.dumps(facts))


@case
def a_world_of_a_billion_ranks_of_which_two_are_here(place: Path, part: float) -> None:
    a_world_of_a_billion_ranks(place, part)
    trace = next((place / "profiler").glob("*.json*"))
    for rank in (0, 7):
        folder = place / "profiler" / f"rank_{rank}"
        folder.mkdir()
        shutil.copy(trace, folder)
    trace.unlink()
    facts = json.loads((place / "recording.json").read_text())
    (place / "recording.json").write_text(json.dumps({**facts, "rank": None}))


def _summary(place: Path, records: Iterator[bytes]) -> None:
    generate("summary", seed=1).write(place)
    (path,) = place.rglob("*_MS")
    with path.open("ab") as file:
        for record in records:
            file.write(_record(record))


def _scalar(tag: str, number: float) -> bytes:
    return _field(1, 2, _field(1, 2, tag.encode()) + _field(3, 5, number))


def _collected(step: int, values: bytes) -> bytes:
    return _event(2e9 + step, step=step, summary=values)


@case
def a_million_records(place: Path, part: float) -> None:
    _summary(place, (_collected(step, _scalar("loss/auto", 1.0)) for step in range(4, int(10**6 * part))))


@case
def a_million_values_in_one_record(place: Path, part: float) -> None:
    values = b"".join(_scalar(f"tag{number}", 1.0) for number in range(int(10**6 * part)))
    _summary(place, iter([_collected(4, values)]))


@case
def a_million_values_of_one_tag(place: Path, part: float) -> None:
    _summary(place, iter([_collected(4, _scalar("loss/auto", 1.0) * int(10**6 * part))]))


@case
def a_million_empty_values(place: Path, part: float) -> None:
    _summary(place, iter([_collected(4, b"\x0a\x00" * int(10**6 * part))]))


@case
def thousand_tags_in_thousand_steps(place: Path, part: float) -> None:
    values = b"".join(_scalar(f"tag{number}/auto", 1.0) for number in range(1000))
    _summary(place, (_collected(step, values) for step in range(4, int(1000 * part))))


@case
def a_summary_tag_of_100_mb(place: Path, part: float) -> None:
    _summary(place, iter([_collected(4, _scalar("t" * int(100 * MB * part), 1.0))]))


@case
def a_version_of_100_mb(place: Path, part: float) -> None:
    _summary(place, iter([_event(2e9, version="v" * int(100 * MB * part))]))


# -- traces ----------------------------------------------------------------------------------------------------------


def _trace(place: Path, events: Iterator[str]) -> None:
    with (place / "host_1.1795261965060177130.pt.trace.json").open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        file.write(next(events))
        for event in events:
            file.write(",\n" + event)
        # What Kineto writes last.
        file.write(',\n{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 10000000.0}]}\n')


def _operators(count: int, said: str) -> Iterator[str]:
    """Yield operators one after the other; `said` is filled with the number of each."""
    for number in range(count):
        yield f'{{"ph": "X", "cat": "cpu_op", "ts": {number * 10}.0, "dur": 5.0, {said.replace("#", str(number))}}}'


@case
def a_million_names(place: Path, part: float) -> None:
    _trace(place, _operators(int(10**6 * part), '"name": "op #", "pid": 1, "tid": 1, "args": {}'))


@case
def a_million_threads(place: Path, part: float) -> None:
    _trace(place, _operators(int(10**6 * part), '"name": "op", "pid": 1, "tid": #, "args": {}'))


@case
def a_million_processes(place: Path, part: float) -> None:
    _trace(place, _operators(int(10**6 * part), '"name": "op", "pid": #, "tid": 1, "args": {}'))


@case
def a_million_argument_values(place: Path, part: float) -> None:
    said = '"name": "op", "pid": 1, "tid": 1, "args": {"External id": #, "Input Dims": [[#]]}'
    _trace(place, _operators(int(10**6 * part), said))


@case
def a_hundred_thousand_steps(place: Path, part: float) -> None:
    count = int(100_000 * part)
    said = '"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1'
    events = (f'{{{said}, "name": "ProfilerStep#{at}", "ts": {at * 10}.0, "dur": 9.0}}' for at in range(count))
    _trace(place, events)


@case
def steps_of_which_no_two_are_alike(place: Path, part: float) -> None:
    said = '"ph": "X", "pid": 1, "tid": 1'
    _trace(
        place,
        (
            event
            for at in range(int(100_000 * part))
            for event in (
                f'{{{said}, "cat": "user_annotation", "name": "ProfilerStep#{at}", "ts": {at * 10}.0, "dur": 9.0}}',
                f'{{{said}, "cat": "cpu_op", "name": "aten::op{at % 1000}", "ts": {at * 10}.0, "dur": 1.0}}',
                f'{{{said}, "cat": "cpu_op", "name": "aten::op{at // 1000}", "ts": {at * 10}.5, "dur": 1.0}}',
            )
        ),
    )


@case
def operators_nested_in_each_other(place: Path, part: float) -> None:
    count = int(300_000 * part)
    said = '"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "name": "op"'
    _trace(place, (f'{{{said}, "ts": {at}.0, "dur": {2 * count - 2 * at}.0}}' for at in range(count)))


@case
def operators_at_one_timestamp(place: Path, part: float) -> None:
    said = '{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "name": "op", "ts": 1.0, "dur": 1.0}'
    _trace(place, (said for _ in range(int(300_000 * part))))


@case
def a_million_process_names(place: Path, part: float) -> None:
    said = '"ph": "M", "name": "process_name", "ts": 0.0, "tid": 0'
    count = int(10**6 * part)
    _trace(place, (f'{{{said}, "pid": {at}, "args": {{"name": "process {at}"}}}}' for at in range(count)))


@case
def a_million_labels(place: Path, part: float) -> None:
    said = '"ph": "M", "name": "process_labels", "ts": 0.0, "tid": 0'
    count = int(10**6 * part)
    _trace(place, (f'{{{said}, "pid": {at}, "args": {{"labels": "GPU {at}"}}}}' for at in range(count)))


@case
def scalars_for_events(place: Path, part: float) -> None:
    _trace(place, ("1" for _ in range(int(2_000_000 * part))))


@case
def lists_for_events(place: Path, part: float) -> None:
    _trace(place, ("[]" for _ in range(int(2_000_000 * part))))


@case
def scalars_among_events(place: Path, part: float) -> None:
    event = next(_operators(1, '"name": "op", "pid": 1, "tid": 1, "args": {}'))
    _trace(place, (event if number % 100 else "1" for number in range(int(1_000_000 * part))))


@case
def an_argument_of_a_million_scalars(place: Path, part: float) -> None:
    _trace(
        place,
        _operators(20, f'"name": "op", "pid": 1, "tid": 1, "args": {{"Input Dims": [{"1," * int(10**6 * part)}1]}}'),
    )


@case
def event_names_of_7_mb(place: Path, part: float) -> None:
    _trace(place, _operators(50, f'"name": "op # {"x" * int(7 * MB * part)}", "pid": 1, "tid": 1, "args": {{}}'))


def _packed(place: Path, pack: Callable[[bytes], Iterable[bytes]]) -> None:
    generate("pt-torch", seed=1).write(place)
    trace = next(place.rglob("*.pt.trace.json"))
    raw = trace.read_bytes()
    trace.unlink()
    with trace.with_name(f"{trace.name}.gz").open("wb") as file:
        file.writelines(pack(raw))


@case
def a_gzip_header_of_12_mb(place: Path, part: float) -> None:
    """A name of the file, which may be as long as it likes (RFC 1952, FNAME)."""
    name = b"x" * int(12 * MB * part)
    _packed(place, lambda raw: [b"\x1f\x8b\x08\x08\0\0\0\0\0\xff", name, b"\0", gzip.compress(raw)[10:]])


@case
def a_million_empty_gzip_members(place: Path, part: float) -> None:
    _packed(place, lambda raw: [gzip.compress(raw), gzip.compress(b"") * int(10**6 * part)])


@case
def a_gzip_of_empty_blocks(place: Path, part: float) -> None:
    begin, block = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\0\0\0\xff\xff"
    _packed(place, lambda raw: [begin, *repeated(block, 300 * MB * part)])


# -- traces of an NPU --------------------------------------------------------------------------------------------------


def _view(place: Path, said: str, part: float, count: int = 10**6) -> None:
    """Add events to a right trace_view; `#` in them is the number of each."""
    generate("pt-npu", seed=1).write(place)
    path = next(place.rglob("trace_view.json"))
    events = json.loads(path.read_text())
    at_us = int(next(event["ts"] for event in events if event["ph"] == "X").partition(".")[0])
    text = path.read_text().rstrip().removesuffix("]")
    with path.open("w") as file:
        file.write(text)
        for number in range(int(count * part)):
            file.write(",\n{" + said.replace("#", str(number)).replace("@", f"{at_us + number}.000") + "}")
        file.write("]")


_VIEW_SPAN = '"ph": "X", "ts": "@", "dur": 0.5'


@case
def a_million_names_in_a_trace_view(place: Path, part: float) -> None:
    _view(place, f'{_VIEW_SPAN}, "name": "op #", "pid": 1, "tid": 1, "args": {{}}', part)


@case
def a_million_threads_in_a_trace_view(place: Path, part: float) -> None:
    _view(place, f'{_VIEW_SPAN}, "name": "op", "pid": 1, "tid": #, "args": {{}}', part)


@case
def a_million_processes_in_a_trace_view(place: Path, part: float) -> None:
    _view(place, f'{_VIEW_SPAN}, "name": "op", "pid": #, "tid": 1, "args": {{}}', part)


@case
def a_million_argument_values_in_a_trace_view(place: Path, part: float) -> None:
    said = f'{_VIEW_SPAN}, "name": "op", "pid": 1, "tid": 1, "args": {{"level": "l#", "Task Type": "t#", "connection_id": #}}'
    _view(place, said, part)


@case
def a_million_counters(place: Path, part: float) -> None:
    _view(place, '"ph": "C", "ts": "@", "name": "counter #", "pid": 1, "tid": 0, "args": {"value": #}', part)


@case
def a_million_odd_counters(place: Path, part: float) -> None:
    _view(place, '"ph": "C", "ts": "@", "name": "counter", "pid": 1, "tid": 0, "args": {"value": "v#"}', part)


@case
def a_million_text_ids(place: Path, part: float) -> None:
    said = '"ph": "s", "ts": "@", "name": "async_npu", "cat": "async_npu", "id": "x#", "pid": 1, "tid": 1'
    _view(place, said, part)


@case
def a_million_process_names_in_a_trace_view(place: Path, part: float) -> None:
    _view(place, '"ph": "M", "name": "process_name", "pid": #, "tid": 0, "args": {"name": "process #"}', part)


@case
def a_million_labels_in_a_trace_view(place: Path, part: float) -> None:
    _view(place, '"ph": "M", "name": "process_labels", "pid": #, "tid": 0, "args": {"labels": "NPU #"}', part)


# -- every reader ------------------------------------------------------------------------------------------------------

#: By format: a layout and conditions of the generator, and a file of that format in what they write.
FILES: dict[str, tuple[str, dict[str, bool], str]] = {
    "columns": ("minddata", {}, "dataset_iterator_profiling_*.txt"),
    "cpu-framework": ("ms-2.5+cpu", {}, "cpu_framework_*.txt"),
    "cpu-op-timestamps": ("ms-2.5+cpu", {}, "cpu_op_execute_timestamp_*.txt"),
    "csv": ("pt-npu", {}, "op_statistic.csv"),
    "csv-spaced": ("ms-1.x", {}, "output_timeline_data_*.txt"),
    "dot": ("ir", {"dot": True}, "*.dot"),
    "gpu-activity-timestamps": ("ms-2.0", {"gpu": True}, "activity_execute_timestamp_*.txt"),
    "gpu-op-timestamps": ("ms-2.0", {"gpu": True}, "gpu_op_execute_timestamp_*.txt"),
    "gpu-step-points": ("ms-2.0", {"gpu": True}, "step_trace_profiling_*.txt"),
    "ir": ("ir", {}, "*validate*.ir"),
    "json": ("pt-npu", {}, "profiler_info*.json"),
    "log": ("pt-npu", {}, "profiler_*.log"),
    "ragged": ("minddata", {}, "minddata_pipeline_summary_*.csv"),
    "snapshot": ("memory-snapshot", {}, "*.pickle"),
    "sqlite": ("pt-npu", {"text": False, "db": True}, "ascend_pytorch_profiler*.db"),
    "tfrecord": ("summary", {}, "*_MS"),
    "tracker-graph": ("memtrack", {}, "tracker_graph.ir"),
    "trace": ("pt-torch", {}, "*.pt.trace.json"),
    "whitespace": ("ms-2.0", {"npu": True, "cpu_device": False}, "output_op_compute_time_?.txt"),
}
_SEPARATORS = {"csv": b",", "csv-spaced": b", ", "ragged": b",", "json": b", ", "trace": b", ", "cpu-framework": b";"}
#: What is done to a right file: its format, its bytes and a part of the size -> the bytes in pieces.
Damage = Callable[[str, bytes, float], Iterable[bytes]]
DAMAGES: dict[str, Damage] = {}


def damage(make: Damage) -> Damage:
    """Register what is done to a file of every format under the name of the function."""
    DAMAGES[make.__name__.replace("_", " ")] = make
    return make


def _last_line(raw: bytes) -> tuple[bytes, bytes]:
    """Return what is before the last line that is not blank, and this line without its break."""
    body = raw.rstrip(b"\n")
    at = body.rfind(b"\n") + 1
    return body[:at], body[at:]


@damage
def a_token_of_60_mb(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    before, line = _last_line(raw)
    words = list(re.finditer(rb"[A-Za-z0-9]+", line)) or [re.match(b"", line)]
    at = words[len(words) // 2].end()
    yield before + line[:at]
    yield from repeated(b"x", 60 * MB * part)
    yield line[at:] + b"\n"


@damage
def a_line_of_60_mb_of_tokens(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    before, line = _last_line(raw)
    yield before + line
    yield from repeated(_SEPARATORS.get(form, b" ") + b"1", 60 * MB * part)
    yield b"\n"


@damage
def a_first_line_of_100_000_tokens(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    first, rest = raw.split(b"\n", 1) if b"\n" in raw else (raw, b"")
    separator = _SEPARATORS.get(form, b" ")
    yield first + b"".join(separator + b"c%d" % number for number in range(int(100_000 * part))) + b"\n" + rest


@damage
def a_last_line_a_million_times(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    yield raw
    yield from repeated(_last_line(raw)[1][:1000] + b"\n", min(100 * MB, 10**6 * len(_last_line(raw)[1])) * part)


@damage
def a_number_of_100_000_digits(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    numbers = list(re.finditer(rb"[0-9]+", raw)) or [re.match(b"", raw)]
    last = numbers[-1]
    yield raw[: last.start()] + b"9" * int(100_000 * part) + raw[last.end() :]


@damage
def zeros_of_300_mb(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    yield raw
    yield from repeated(b"\0", 300 * MB * part)


@damage
def null_bytes_between_all_characters(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    yield raw.decode("utf-8", "replace").encode("utf-16")


@damage
def line_breaks_of_100_mb(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    yield raw
    yield from repeated(b"\r", 100 * MB * part)
    yield b"\n"


@damage
def brackets_of_10_mb(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    before, line = _last_line(raw)
    yield before + line[: len(line) // 2]
    yield from repeated(b"[", 5 * MB * part)
    yield from repeated(b"]", 5 * MB * part)
    yield line[len(line) // 2 :] + b"\n"


@damage
def quotation_marks_of_60_mb(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    before, line = _last_line(raw)
    yield before + line[: len(line) // 2]
    yield from repeated(b'"', 60 * MB * part)
    yield line[len(line) // 2 :] + b"\n"


@damage
def texts_of_two_lines_in_quotation_marks(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    before, line = _last_line(raw)
    yield before + line + b"\n"
    yield from repeated(b'"' + line[:200].replace(b'"', b"") + b"\n" + b'"\n', 60 * MB * part)


@damage
def a_broken_character_behind_100_mb(form: str, raw: bytes, part: float) -> Iterator[bytes]:
    yield raw
    yield from repeated(b"x\n" * 8, 100 * MB * part)
    yield b"\xff\n"


def repeated(text: bytes, size: float) -> Iterator[bytes]:
    """Yield a text again and again, in pieces of a megabyte: about so many bytes."""
    piece = text * max(1, MB // len(text))
    left = int(size)
    while left > 0:
        yield piece[: max(len(text), min(left, len(piece)) // len(text) * len(text))]
        left -= len(piece)


def _damaged(form: str, made: Damage) -> Maker:
    def make(place: Path, part: float) -> None:
        layout, conditions, name = FILES[form]
        generate(layout, seed=1, conditions=conditions).write(place)
        path = sorted(place.rglob(name))[0]
        raw = path.read_bytes()
        with path.open("wb") as file:
            file.writelines(made(form, raw, part))

    return make


#: Every reader with every damage, as inputs of their own.
DAMAGED = {f"{form}: {name}": _damaged(form, made) for form in FILES for name, made in DAMAGES.items()}
CASES |= DAMAGED


# -- the table -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Measure the inputs and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("--only", default="", help="inputs whose name holds this")
    parser.add_argument("--grow", action="store_true", help="check a quarter of each input as well")
    options = parser.parse_args()
    rows = []
    idle_s = _cost(lambda place, part: None, 1).cpu_s
    for name, make in CASES.items():
        if options.only not in name:
            continue
        cost = _cost(make, 1)
        row = [name, cost.status, f"{cost.cpu_s:.1f}", round(cost.peak_kib / 1024)]
        if options.grow:
            quarter = _cost(make, 0.25)
            ratio = (cost.cpu_s - idle_s) / max(quarter.cpu_s - idle_s, 0.1)
            row += [f"{ratio:.1f}", round(quarter.peak_kib / 1024)]
        rows.append([*row, cost.words[:90]])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    grown = ["4 n / n", "MB at n"] if options.grow else []
    print(tabulate(rows, headers=["input", "exit", "CPU s", "MB", *grown, "said"], disable_numparse=True))


def _cost(make: Maker, part: float) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), part)
        return check(Path(folder))


if __name__ == "__main__":
    main()
