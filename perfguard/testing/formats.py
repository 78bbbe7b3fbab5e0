"""Number, time, CSV and JSON formats of the profilers: C++ streams, Python's csv and json, nlohmann::json."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

#: Files by their path, with `/` between folders.
Files = dict[str, bytes]


def below(folder: str, files: Mapping[str, bytes]) -> Files:
    """Put files into a folder; an empty name is no folder."""
    return {f"{folder}/{name}" if folder else name: content for name, content in files.items()}


def columns(header: str) -> tuple[str, ...]:
    """Split a header at its commas: `Name,Size(KB)`."""
    return tuple(header.split(","))


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


def csv_bytes(rows: Iterable[Sequence[object]], *, newline: str = "\r\n") -> bytes:
    """Print rows with Python's csv module; `\\r\\n` is its default, CANN's own files have `\\n`."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerows(rows)
    return text.getvalue().encode()


def plain_csv(rows: Iterable[Sequence[object]], *, separator: str = ",", end: str = "\n") -> bytes:
    """Print rows as the C++ writers do: without any quotes."""
    return "".join(separator.join(str(cell) for cell in row) + end for row in rows).encode()


def json_bytes(document: object, *, indent: int | None = None) -> bytes:
    """Print a document as Python's json module does, in the order of its keys."""
    return json.dumps(document, indent=indent).encode()


def compact_json(document: object) -> bytes:
    """Print a document as nlohmann::json does: keys sorted, no blanks."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def lines_bytes(lines: Iterable[str]) -> bytes:
    """Print lines, each with its line end."""
    return "".join(f"{line}\n" for line in lines).encode()
