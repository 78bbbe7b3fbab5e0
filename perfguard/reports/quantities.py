"""Quantities for people: bytes, times and changes, with the unit that suits their size."""

from __future__ import annotations

import math

from perfguard.judge.compare import show
from perfguard.judge.step_time import milliseconds

_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB")


def quantity(value: object, unit: str) -> str:
    """Write a number with its unit: times of a second in ms, bytes in the largest unit that leaves a number above 1."""
    if not isinstance(value, (int, float)):
        return ""
    if not math.isfinite(value):
        return "no number"
    base, _, each = unit.partition("/")
    per = f"/{each}" if each else ""
    if base == "us":
        return time_us(value) + per
    if base == "bytes":
        return size_bytes(value) + per
    return f"{show(value)} {unit}".strip()


def time_us(us: float) -> str:
    """Write microseconds: `612 us`, `2.91 ms`, `1.20 s`."""
    for factor, name in ((1e6, "s"), (1e4, "ms")):
        if abs(us) >= factor:
            scaled = us / (1e6 if name == "s" else 1e3)
            return f"{scaled:.{_digits(scaled)}f} {name}"
    return f"{us:.{_digits(us)}f} us"


def signed_us(us: float) -> str:
    """Write a difference of microseconds: `+612 us`, `−2.91 ms`."""
    return f"{'+' if us >= 0 else '−'}{time_us(abs(us))}"


def signed_ms(change_ns: float) -> str:
    """Write a difference of nanoseconds in the unit that step times have: `+1.33 ms`."""
    return f"{'−' if change_ns < 0 else '+'}{milliseconds(abs(change_ns) / 1e6)} ms"


def size_bytes(count: float) -> str:
    """Write bytes: `512 bytes`, `7.50 KiB`, `1.25 GiB` (powers of 1024)."""
    power = 0
    while abs(count) >= 1024 and power < len(_BYTES) - 1:
        count, power = count / 1024, power + 1
    return f"{show(count)} bytes" if not power else f"{count:.{_digits(count)}f} {_BYTES[power]}"


def changed(before: object, now: object) -> str:
    """Write how much more or less: `+38.3 %`; of a zero, `+4`."""
    if not isinstance(before, (int, float)) or not isinstance(now, (int, float)):
        return ""
    if not (math.isfinite(before) and math.isfinite(now)):
        return ""
    if not before:
        return f"{'+' if now >= 0 else '−'}{show(abs(now))}"
    percent = 100 * (now - before) / abs(before)
    return f"{'+' if percent >= 0 else '−'}{abs(percent):.1f} %"


def _digits(value: float) -> int:
    size = abs(value)
    return 0 if size >= 1000 else 1 if size >= 100 else 1 if size >= 10 else 2
