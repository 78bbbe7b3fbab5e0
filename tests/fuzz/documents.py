"""Documents that perfguard reads back: reports, baselines, facts of recordings, histories, settings of projects."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.values import NUMBERS, TEXTS, json_value

TOP = Path(__file__).resolve().parents[2]
RECORDING = TOP / "tests" / "data" / "recordings" / "torch-mlp"
_NUMBER = re.compile(r"(?<=[:\[ ])-?[0-9][0-9.eE+-]*")
_SETTINGS = """\
[tool.perfguard]
baselines = "baselines"
changed = "fail"
ignore = ["R104"]
runs = 3
checks = ["checks.sql"]

[tool.perfguard.tolerances]
step_time = { relative = 0.3, absolute = 50 }
"operator_time[MatMul]" = "off"

[tool.pytest.ini_options]
addopts = "-q"
"""


def damaged(rng: random.Random, folder: Path) -> list[Sequence[str]]:
    """Write a document that is right but for some places, and return what reads it."""
    name, commands = rng.choice(_READ)
    shutil.copytree(RECORDING, folder / "run")
    (folder / "baselines").mkdir()
    for right, place in (
        (_right(), folder / "right.json"),
        (_right("baseline"), folder / "baselines" / "t--test_a.json"),
    ):
        place.write_text(right, encoding="utf-8")
    path = folder / name
    path.write_bytes(_damaged(rng, path.read_text(encoding="utf-8") if path.exists() else _right(name)))
    return [rng.choice(commands)]


#: The documents by their place, and the commands that read one.
_READ: tuple[tuple[str, Sequence[Sequence[str]]], ...] = (
    (
        "report.json",
        (
            ["report", "report.json", "--html", "../tmp/page.html"],
            ["report", "report.json", "--markdown", "../tmp/page.md"],
            ["report", "report.json", "--json", "../tmp/joined.json"],
            ["report", "report.json", "--metrics", "../tmp/metrics"],
            ["compare", "right.json", "report.json"],
            ["compare", "report.json", "right.json"],
            ["baseline", "diff", "report.json"],
            ["history", "add", "report.json", "--history", "../tmp/h.sqlite"],
        ),
    ),
    ("baselines/t--test_a.json", (["baseline", "show"], ["baseline", "diff", "right.json"])),
    ("baselines/calibration.json", (["baseline", "show"], ["baseline", "diff", "right.json"])),
    (
        "run/recording.json",
        (["check", "run"], ["check", "run", "--explain"], ["report", "run", "--html", "../tmp/p.html"]),
    ),
    ("run/steps.json", (["check", "run"], ["check", "run", "--metrics"], ["ops", "run"])),
    ("history.json", (["history", "add", "history.json", "--history", "../tmp/h.sqlite"],)),
    ("pyproject.toml", (["check", "run"], ["baseline", "show"], ["report", "run", "--html", "../tmp/p.html"])),
)

KINDS = {"documents": damaged}


@cache
def _right(name: str = "report.json") -> str:
    """Return a right document; those that commands write are written once."""
    if name == "pyproject.toml":
        return _SETTINGS
    if name == "baselines/calibration.json":
        found = {"cpu_model": "a", "cpu_count": 2, "device_name": "a"}
        return json.dumps({"format": 1, "runs": 3, "machine": found, "error_rate": None, "metrics": []})
    if name == "baseline":
        return min((TOP / "baselines").glob("*.json"), key=lambda one: one.stat().st_size).read_text(encoding="utf-8")
    place = Path(tempfile.mkdtemp(prefix="fuzz-right-"))
    report, history, export = (str(place / one) for one in ("report.json", "h.sqlite", "history.json"))
    commands = [["report", str(RECORDING), "--json", report]]
    if name == "history.json":
        commands += [["history", "add", report, "--history", history]]
        commands += [["history", "export", "--format", "json", export, "--history", history]]
    for command in commands:
        subprocess.run([sys.executable, "-m", "perfguard", *command], cwd=TOP, stdout=subprocess.DEVNULL, check=True)
    return (place / name).read_text(encoding="utf-8")


def _damaged(rng: random.Random, text: str) -> bytes:
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(_DAMAGES)(rng, text)
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.2 and raw:
        at = rng.randrange(len(raw))
        raw[at : at + rng.choice((0, 1, 40))] = rng.randbytes(rng.choice((1, 3)))
    return bytes(raw)


def _value(rng: random.Random, text: str) -> str:
    """Replace a value anywhere in a JSON document, or take it away, or repeat it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return _text(rng, text)
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        places += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    if not places:
        return text
    holder, key = rng.choice(places)
    how = rng.randrange(5)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder += [holder[key]] * rng.choice((1, 3000))
    elif how == 2 and isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = holder.pop(key)
    else:
        holder[key] = json_value(rng)
    return json.dumps(document)


def _number(rng: random.Random, text: str) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start()] + rng.choice(NUMBERS) + text[one.end() :]


def _text(rng: random.Random, text: str) -> str:
    """Put a text into it, or cut it, or write a line of it twice."""
    at = rng.randrange(len(text) + 1)
    lines = text.splitlines(keepends=True) or [""]
    return rng.choice(
        (text[:at], text[:at] + rng.choice(TEXTS) + text[at:], text + text, "".join((*lines, rng.choice(lines))))
    )


def _key_twice(rng: random.Random, text: str) -> str:
    keys = list(re.finditer(r'"[^"\\]*":', text))
    if not keys:
        return text
    one = rng.choice(keys)
    return f"{text[: one.start()]}{one[0]} {rng.choice(('1', '[]', 'null'))}, {text[one.start() :]}"


_DAMAGES = (_value, _value, _value, _number, _text, _key_twice)
