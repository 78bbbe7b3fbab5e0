"""How the profilers' writers print: C++ streams, Python's csv and json, nlohmann::json, and their units of time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from decimal import Decimal


def six_digits(value: float) -> str:
    """Print as a C++ stream does by default: six significant digits, `2.5e-05` where that is shorter."""
    return f"{value:g}"


def milliseconds(ns: int) -> str:
    """Print nanoseconds as milliseconds with six significant digits; exact for what `truth` draws."""
    return six_digits(ns / 1_000_000)


def microseconds(ns: int) -> str:
    """Print nanoseconds as microseconds with three decimals: `1736408883704643.212`."""
    whole, rest = divmod(ns, 1000)
    return f"{whole}.{rest:03d}"


def rounded_microseconds(ns: int) -> str:
    """Print nanoseconds as a float of microseconds, as files of 2023 do; a UNIX time is rounded to a quarter of one."""
    return repr(ns / 1000).removesuffix(".0")


def us(ns: int) -> float:
    """Nanoseconds as a float of microseconds; for durations, not for UNIX times."""
    return ns / 1000


def lossy_microseconds(text: str, per_microsecond: float) -> str:
    """Print what MindSpore makes of a number when it multiplies the Decimal by a binary float.

    The float 0.001 is a little more than a thousandth, so UNIX times come out some 0.04 us late (MindSpore 2.10
    source: cpu_op_event.py).
    """
    return str((Decimal(text) * Decimal(per_microsecond)).quantize(Decimal("0.000")))


def csv_bytes(rows: Iterable[Sequence[object]], *, newline: str = "\r\n") -> bytes:
    """Print rows as Python's csv module does; `\\r\\n` is its default, CANN's own files have `\\n`."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=newline).writerows(rows)
    return text.getvalue().encode()


def plain_csv(rows: Iterable[Sequence[object]], *, separator: str = ",", end: str = "\n") -> bytes:
    """Print rows as the C++ writers do: nothing is ever quoted."""
    return "".join(separator.join(str(cell) for cell in row) + end for row in rows).encode()


def json_bytes(document: object, *, indent: int | None = None) -> bytes:
    """Print as Python's json module does, in the order of the keys."""
    return json.dumps(document, indent=indent).encode()


def compact_json(document: object) -> bytes:
    """Print as nlohmann::json does: keys sorted, no blanks."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
