"""Documents made to exhaust or to crash: each command ends in one sentence, within 512 MB, without being stopped."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hostile
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports import RunReport
from perfguard.reports.document import report_document

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "torch-mlp"
BASELINES = Path(__file__).parents[2] / "baselines"
STEP = {"index": 0, "phase": "active", "cycle": 0, "start_ns": 1, "wall_ns": 2, "thread_cpu_ns": 3}
MB = 1024**2
PEAK_KIB = 512 * 1024

Content = bytes | Callable[[Path], None]


def steps(*, more: dict[str, Any] | None = None, **changed: Any) -> bytes:
    return json.dumps({"format": 1, "steps": [{**STEP, **changed}], **(more or {})}).encode()


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


def of_blanks(size: int) -> Content:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.write(b"{")
            for _ in range(size // MB):
                file.write(b" " * MB)
            file.write(b"}")

    return write


#: What is wrong with a JSON document, by name: its content, and words of the sentence. The small ones run by default.
SMALL: dict[str, tuple[Content, str]] = {
    "half a million violations": (
        json.dumps({"format": 1, "steps": [[]] * 500_000}).encode(),
        "(and at least 19 more)",
    ),
    "a key twice": (b'{"format": 1, "steps": [], "steps": []}', "an object has the key 'steps' twice"),
    "nested": (b'{"format": 1, "steps": ' + b"[" * 900 + b"]" * 900 + b"}", "it is nested too deeply"),
    "digits": (steps(wall_ns=10**399), "has more than 150 digits"),
    "a number that is too large": (steps(wall_ns=1.7e308), "which is beyond ±1e+150"),
    "a hole": (sparse, "it is larger than 64 MiB"),
    "half a character": (b'{"format": 1, "steps": [{"phase": "\\ud800"}]}', "is damaged"),
    "another encoding": ('{"format": 1}'.encode("utf-16"), "it is not UTF-8"),
}
LARGE: dict[str, tuple[Content, str]] = {
    "millions of violations": (b'{"format": 1, "steps": [' + b"1," * 2_900_000 + b"1]}", "is damaged"),
    "millions of values": (b'{"format": 1, "steps": [' + b"1," * 20_000_000 + b"1]}", "values, more than the 3000000"),
    "the last of 400 000 is wrong": (
        json.dumps({"format": 1, "steps": [STEP] * 400_000 + [1]}).encode(),
        "$.steps[400000] 1 is not of type",
    ),
    "line breaks": (json.dumps({"format": 1, "steps": [{**STEP, "phase": "x\n"}] * 400_000}).encode(), "is damaged"),
    "a million keys": (steps(more={str(one): one for one in range(1_400_000)}), "is damaged"),
    "a long text": (steps(phase="x" * 60_000_000), "is damaged"),
    "a long key": (steps(more={"k" * 60_000_000: 1}), "is damaged"),
    "50 million digits": (b'{"steps": [' + b"9" * 50_000_000 + b"]}", "has more than 150 digits"),
    "50 million decimals": (b'{"steps": [0.' + b"9" * 50_000_000 + b"]}", "is damaged"),
    "a million brackets": (b"[" * 1_000_000, "it is nested too deeply"),
    "63 MB of blanks": (of_blanks(63 * MB), "is damaged"),
    "300 MB of blanks": (of_blanks(300 * MB), "it is larger than 64 MiB"),
}

#: What only a document of steps violates in this way.
SCHEMA_WORDS = ("(and at least 19 more)", "$.steps[400000] 1 is not of type")


def written(path: Path, content: Content) -> Path:
    path.unlink(missing_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content)
    return path


def refused(cost: hostile.Cost, code: str, statuses: tuple[int, ...], words: str) -> None:
    assert cost.status in statuses, (cost, cost.text[-2000:])
    assert "Traceback" not in cost.text
    assert code in cost.text, cost.text[-2000:]
    assert words in cost.text, cost.text[-2000:]
    assert len(cost.text) < 10_000


def run(folder: Path, *command: object) -> hostile.Cost:
    return hostile.perfguard_in(folder, *command, peak_kib=PEAK_KIB)


ALL = [
    *(pytest.param(*row, id=name) for name, row in SMALL.items()),
    *(pytest.param(*row, id=name, marks=pytest.mark.exhaustive) for name, row in LARGE.items()),
]


@pytest.mark.parametrize("name", ["steps.json", pytest.param("recording.json", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("content", "words"), ALL)
@pytest.mark.variants(2)
def test_of_a_recording_it_is_a_finding(tmp_path, name, content, words):
    place = tmp_path / "run"
    shutil.copytree(RECORDING, place)
    written(place / name, content)
    # Another document than the one that is expected has other violations.
    known = words if name == "steps.json" or words not in SCHEMA_WORDS else "is damaged"
    refused(run(tmp_path, "check", place, "--jobs", "1"), "S101", (3,), known)
    shutil.rmtree(place)


@pytest.mark.parametrize("number", ["1e17", "1e149", "99999999999999999999"])
@pytest.mark.variants(1)
def test_a_large_number_in_any_form_is_no_defect(tmp_path, number):
    place = tmp_path / "run"
    shutil.copytree(RECORDING, place)
    facts = (place / "recording.json").read_text()
    assert '"repeat": 1' in facts
    (place / "recording.json").write_text(facts.replace('"repeat": 1', f'"repeat": {number}'))
    cost = run(tmp_path, "check", place, "--jobs", "1")
    assert cost.status == 3, cost.text[-2000:]
    assert "Traceback" not in cost.text


@pytest.mark.parametrize(("content", "words"), ALL)
@pytest.mark.variants(2)
def test_of_a_report_it_is_one_sentence(tmp_path, content, words):
    written(tmp_path / "r.json", content)
    known = "is damaged" if words in SCHEMA_WORDS else words
    refused(run(tmp_path, "report", "r.json", "--html", "page.html"), "r.json", (2,), known)
    assert not (tmp_path / "page.html").exists()


#: How a right document is changed, by name: a pattern, what takes its place where it is first, and words of the sentence.
DAMAGES: dict[str, tuple[str, str, str]] = {
    "half a million violations": (r'"MEASURED": \[', '"MEASURED": [' + "[], " * 500_000, "(and at least 19 more)"),
    "400 digits": (r'("value": )[-0-9.e+]+', r"\g<1>" + "9" * 400, "has more than 150 digits"),
    "a number that is too large": (r'("value": )[-0-9.e+]+', r"\g<1>-1.7e308", "a number is -1.7e+308"),
    "a second list": (r"\A\{(.*)\}", r'{\1, "MEASURED": []}', "an object has the key 'MEASURED' twice"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("name", "measured", "command"),
    [
        ("r.json", "workloads", ["report", "r.json"]),
        ("baselines/t--test_a.json", "measurements", ["baseline", "show", "t/test_a"]),
    ],
    ids=["report", "baseline"],
)
@pytest.mark.variants(2)
def test_of_a_damaged_document_it_is_one_sentence(tmp_path, damage, name, measured, command):
    pattern, change, words = (text.replace("MEASURED", measured) for text in DAMAGES[damage])
    if name == "r.json":
        assert run(tmp_path, "report", RECORDING, "--json", name).status == 0
        right = (tmp_path / name).read_text()
    else:
        right = min(BASELINES.glob("*.json"), key=lambda one: one.stat().st_size).read_text()
        (tmp_path / "baselines").mkdir()
        (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n")
    damaged = re.sub(pattern, change, right, count=1, flags=re.DOTALL)
    assert damaged != right
    (tmp_path / name).write_text(damaged)
    refused(run(tmp_path, *command), name, (2,), words)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("content", "words"), [SMALL["a key twice"], LARGE["line breaks"]], ids=["small", "large"])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("t--test_a.json", ["baseline", "show"]),
        ("t--test_a.json", ["history", "add", "baselines/t--test_a.json", "--history", "h.sqlite"]),
        ("t--test_a.json", ["compare", "baselines/t--test_a.json", "baselines/t--test_a.json"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_of_other_documents_it_is_one_sentence(tmp_path, name, command, content, words):
    (tmp_path / "baselines").mkdir()
    written(tmp_path / "baselines" / name, content)
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n")
    refused(run(tmp_path, *command), name, (1, 2), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 5000, "it is nested too deeply"),
        ("a = " + "9" * 5000, "digits"),
        ("[tool.perfguard.tolerance]\nstep_time = " + "9" * 400, "a number has more than 150 digits"),
        (f"[tool.a]\nkey = '{'x' * 500_000}'\n[tool.perfguard]\nnothing = 1", "nothing"),
        (".".join("a" * 50_000) + " = 1", "a key has more than 64 parts"),
        ("#" * (2 * MB), "it is larger than 1 MiB"),
        ("[tool.perfguard]\nruns = 1\nruns = 2\n", "Cannot overwrite a value"),
    ],
    ids=["brackets", "digits", "400 digits", "a long word", "parts", "size", "twice"],
)
@pytest.mark.variants(2)
def test_of_the_settings_it_is_one_sentence(tmp_path, text, words):
    (tmp_path / "pyproject.toml").write_text(text)
    shutil.copytree(RECORDING, tmp_path / "run")
    refused(run(tmp_path, "check", "run"), "pyproject.toml", (2,), words)


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["html", "markdown", "json", "metrics"])
def test_a_report_of_20_000_workloads_is_shown(tmp_path, form):
    verdicts = (Verdict(workload=f"test_a.py::test_{n}", outcome=Outcome.PASSED, findings=()) for n in range(20_000))
    document = report_document(RunReport(verdicts=tuple(verdicts)))
    (tmp_path / "r.json").write_text(json.dumps(document))
    cost = run(tmp_path, "report", "r.json", f"--{form}", "out")
    assert cost.status == 0, (cost, cost.text[-500:])
