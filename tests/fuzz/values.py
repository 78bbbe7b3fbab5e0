"""Values that no writer writes, for cells, JSON, names and numbers."""

from __future__ import annotations

import random
from typing import Any

#: Texts in place of a cell, a name or a line.
TEXTS = (
    "", " ", "0", "-1", "1", "-0.0", "nan", "NaN", "inf", "-Infinity", "1e308", "-1.7e308", "1e999", "9" * 19, "9" * 400,
    "0." + "0" * 400 + "1", "1_000", "0x10", "٣", "null", "true", "N/A", "None", '"', '""', "'", "\\", ",", ";", "\t", "\r",
    "\0",
    "\x1b[31mred", "\u202eabc", "\x9b", "::error::x", "##[group]x", "=cmd()", "@team", "[a](http://x.example)", "<b>",
    "{n:>999}",
    "{0.__class__}", "%s%n", "../../x", "/etc/passwd", "\U0001f525" * 3, "é" * 300,
    "x" * 70_000, "[" * 3_000, "{}", "[]", "$.a[0]",
    "aten::add", "ProfilerStep#1", "MatMul", "2026-01-01", "rank_99999999999999999999",
)  # fmt: skip
NUMBERS = (
    "0", "-1", "1", "2", "255", "256", "65536", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1e308", "-1e308", "1e-320", "0.1", "1.5", "1e5", "1E400", "9" * 320, "007", "--1", "1.2.3", "",
)  # fmt: skip


def json_value(rng: random.Random) -> Any:
    """Return a value of JSON that is not expected where it comes."""
    deep: Any = 1
    for _ in range(rng.choice((3, 90, 600))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return rng.choice(
        (None, True, False, 0, -1, 2**63, -(2**64), 1e308, 0.1, "", rng.choice(TEXTS), [], {}, [[]], [None] * 50, deep,
         {rng.choice(TEXTS): rng.choice(TEXTS)}, [rng.choice(TEXTS)] * 20)
    )  # fmt: skip
