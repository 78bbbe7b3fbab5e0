"""Quantities: numbers, changes, limits and lists of names as text."""

from __future__ import annotations

import math
from collections.abc import Iterable

from perfguard.errors import listed
from perfguard.judge.step_time import TimeUnit, percent, three_digits
from perfguard.judge.tolerance import Tolerance
from perfguard.measure.measurement import Better, Metric, Value, finite

#: From so many bytes on two numbers are compared in a larger unit.
_MANY_BYTES = 10 * 1024
_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB")
_SIGNS = {Better.LOWER: "+", Better.HIGHER: "−", Better.EQUAL: "±"}
_EXACT = {Better.LOWER: "any increase", Better.HIGHER: "any decrease", Better.EQUAL: "any change"}


#: No size and no time is as large; its digits would be a line.
_UNREADABLE = 1e21


def show(value: Value) -> str:
    """Return a value as text: integers without decimals, others with one decimal (more if small)."""
    if isinstance(value, dict):
        return ", ".join(f"{name} x {show(count)}" for name, count in value.items())
    if isinstance(value, list):
        return f"{len(value)} names"
    if abs(value) >= _UNREADABLE:
        return f"{value:.6g}"
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def with_unit(value: Value, metric: Metric) -> str:
    """Return `8200 us`, `1.25 GiB`, or `12 names`."""
    if isinstance(value, list):
        return show(value)
    if value == {}:
        return "none"
    in_bytes = metric.unit.partition("/")[0] == "bytes" and isinstance(value, (int, float))
    return quantity(value, metric.unit) if in_bytes else f"{show(value)} {metric.unit}"


def quantity(value: object, unit: str, *, beside: Iterable[object] = ()) -> str:
    """Return a number with its unit: times as `612 us`, `2.91 ms`, bytes as `size_bytes`; empty for anything but a number.

    A time has the unit that suits the largest of it and the numbers `beside` it, so that who reads them compares digits.
    """
    if not isinstance(value, (int, float)):
        return ""
    if not math.isfinite(value):
        return "no number"
    base, _, each = unit.partition("/")
    per = f"/{each}" if each else ""
    if base == "us":
        return TimeUnit.of([value, *(one for one in map(finite, beside) if one is not None)]).text(value) + per
    return size_bytes(value) + per if base == "bytes" else f"{show(value)} {unit}".strip()


def size_bytes(count: float) -> str:
    """Return bytes as `512 bytes`, `7.50 KiB` or `1.25 GiB` (powers of 1024)."""
    power = _power(count)
    return f"{three_digits(count / 1024**power)} {_BYTES[power]}" if power else f"{show(count)} bytes"


def sides_text(reference: Value, current: Value, unit: str) -> str:
    """Return `8200 → 11340 us`, `0.750 → 1.00 MiB`: many bytes in a larger unit, unless both would read the same."""
    base, _, each = unit.partition("/")
    if base == "bytes" and isinstance(reference, (int, float)) and isinstance(current, (int, float)):
        largest = max(abs(reference), abs(current))
        power = _power(largest) if largest >= _MANY_BYTES else 0
        before, now = (three_digits(side / 1024**power) for side in (reference, current))
        if power and (before != now or reference == current):
            return f"{before} → {now} {_BYTES[power]}{each and f'/{each}'}"
    return f"{show(reference)} → {show(current)} {unit}".rstrip()


def _power(count: float) -> int:
    """Return the power of 1024 that suits a number of bytes."""
    power = 0
    while abs(count) >= 1024 and power < len(_BYTES) - 1:
        count, power = count / 1024, power + 1
    return power


# -- changes ---------------------------------------------------------------------------------------------------------


def change_text(before: object, now: object) -> str:
    """Return `+38.3 %`, or the difference from zero: `+4`; empty unless both are finite numbers."""
    if not isinstance(before, (int, float)) or not isinstance(now, (int, float)):
        return ""
    if not (math.isfinite(before) and math.isfinite(now)):
        return ""
    return percent((now - before) / abs(before)) if before else signed(now)


def signed(value: float) -> str:
    """Return `+4`, `−0.5`."""
    return f"{'+' if value >= 0 else '−'}{show(abs(value))}"


def comparison_text(reference: float, current: float, unit: str) -> str:
    """Return `8200 → 11340 us, +38.3 %`: small counts as a difference, tiny changes with their unit."""
    difference = current - reference
    sides, change = sides_text(reference, current, unit), change_text(reference, current)
    is_scaled = not sides.endswith(unit)
    is_count = not is_scaled and isinstance(reference, int) and isinstance(current, int)
    if reference and is_count and abs(difference) < 100:
        change = signed(difference)
    elif reference and abs(difference) < 0.0005 * abs(reference):
        # It would be +0.0 %.
        change = f"{signed(difference)} {unit}"
    elif is_scaled and not reference:
        change = f"{'+' if difference > 0 else '−'}{quantity(abs(difference), unit)}"
    return f"{sides}, {change}"


def readable(unit: str, largest: float) -> tuple[float, str]:
    """Return a divisor for numbers of a unit, and the unit after the division: us become ms, bytes KiB or MiB."""
    if unit == "us" and largest >= 1000:
        return 1000.0, "ms"
    if unit.startswith("bytes") and (power := _power(largest)):
        return 1024.0**power, unit.replace("bytes", _BYTES[power])
    return 1.0, unit


def limit_text(limits: Tolerance, reference: float, *, better: Better, unit: str) -> str:
    """Return `allowed +25.0 %`, `allowed +1 ms`, or `exact: any increase fails`."""
    if limits.relative == limits.absolute == 0:
        return f"exact: {_EXACT[better]} fails"
    if abs(reference) * limits.relative >= limits.absolute:
        return f"allowed {_SIGNS[better]}{100 * limits.relative:.1f} %"
    factor, unit = readable(unit, limits.absolute)
    return f"allowed {_SIGNS[better]}{show(limits.absolute / factor)} {unit}"


def differences(before: Value, now: Value) -> str:
    """Return the differences of two lists of names, or of two censuses; at most four of them."""
    old, new = (_census(value) for value in (before, now))
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    if isinstance(now, list):
        parts = [f"{'+' if name in new else '−'} {name}" for name in names]
    else:
        parts = [f"{name} {show(old.get(name, 0))} → {show(new.get(name, 0))}" for name in names]
    return listed(parts, 4, separator="; ")


def _census(value: Value) -> dict[str, float]:
    if isinstance(value, dict):
        return value
    return dict.fromkeys(value if isinstance(value, list) else [show(value)], 1)
