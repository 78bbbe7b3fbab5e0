"""JAX from outside: the example's dialect on what `jax.profiler` wrote, and the whole example with JAX itself."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.documents import violations
from tests.distributions import JAX, add_distribution, python_path

TOP = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
PROFILE = Path("plugins/profile/2026_11_25_03_00_00")
TRACE = PROFILE / "host.trace.json.gz"
INSPECT = """
import json, sys
from pathlib import Path
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.measure import measure

found = {}
for place in sorted(Path(sys.argv[1]).iterdir()):
    contract = inspect(replay(place))
    found[place.name] = {
        "layouts": contract.layouts,
        "findings": [f"{one.code.name} {one.message}" for one in contract.findings],
        "measured": {f"{one.metric}[{one.subject}]": one.value for one in measure(contract)},
    }
print(json.dumps(found))
"""

Events = list[dict[str, Any]]


def of_operators(events: Events) -> Events:
    return [one for one in events if "hlo_op" in one.get("args", {})]


def steps(events: Events) -> Events:
    return sorted((one for one in events if one.get("name") == "train"), key=lambda one: one["ts"])


def lost_end(events: Events) -> None:
    events.remove(next(one for one in events if one.get("name", "").startswith("end: ")))


def late_operator(events: Events) -> None:
    one = of_operators(events)[0]
    one["ts"] = steps(events)[-1]["ts"] + steps(events)[-1]["dur"] - one["dur"] / 2


def wrong_operator(events: Events) -> None:
    of_operators(events)[0]["args"]["hlo_op"] = "convolution"


def long_step(events: Events) -> None:
    steps(events)[0]["dur"] = steps(events)[1]["ts"] - steps(events)[0]["ts"] + 5


def nameless(events: Events) -> None:
    del events[20]["name"]


#: What is done to the trace, and the findings that follow.
DAMAGE: dict[str, tuple[Callable[[Events], None] | None, list[str]]] = {
    "whole": (None, []),
    "without_the_empty_event": (list.pop, []),
    "lost_end": (lost_end, ["I102 "]),
    # ... and by what perfguard asks of every dialect.
    "late_operator": (late_operator, ["I112 ", "C102 ", "C102 "]),
    "wrong_operator": (wrong_operator, ["I103 "]),
    "long_step": (long_step, ["I113 "]),
    "nameless": (nameless, ["S103 "]),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> dict[str, Any]:
    """Return what perfguard says of each trace, with the example installed; of one process, since it starts slowly."""
    place = tmp_path_factory.mktemp("jax")
    add_distribution(place / "site", "perfguard-jax", {"dialects": {"jax": "perfguard_jax.dialect"}})
    for name, (damage, _) in DAMAGE.items():
        document = json.loads(gzip.decompress((DATA / "jax" / TRACE).read_bytes()))
        if damage is not None:
            damage(document["traceEvents"])
        (place / "traces" / name / PROFILE).mkdir(parents=True)
        (place / "traces" / name / TRACE).write_bytes(gzip.compress(json.dumps(document).encode()))
        (place / "traces" / name / PROFILE / "host.xplane.pb").write_bytes(b"\n")
    shutil.copytree(DATA / "recordings" / "torch-mlp", place / "traces" / "torch")
    (trace,) = (place / "traces" / "torch").rglob("*.pt.trace.json*")
    ending = json.loads(trace.read_text())
    ending["traceEvents"].append({})
    trace.write_text(json.dumps(ending))
    done = subprocess.run(
        [sys.executable, "-c", INSPECT, str(place / "traces")],
        env={"PATH": "/usr/bin:/bin", **python_path(place / "site", JAX)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.variants(3)
def test_what_holds_in_a_trace_is_checked_by_queries_from_outside(judged, name):
    found = judged[name]
    assert found["layouts"] == ["jax"]
    expected = DAMAGE[name][1]
    assert len(found["findings"]) == len(expected), found["findings"]
    assert all(one.startswith(code) for one, code in zip(found["findings"], expected, strict=True)), found["findings"]


def test_operators_are_counted_in_each_step(judged):
    """What a loop runs is counted, and the loop itself once."""
    measured = judged["whole"]["measured"]
    document = json.loads(gzip.decompress((DATA / "jax" / TRACE).read_bytes()))
    names = [one["name"] for one in of_operators(document["traceEvents"])]
    assert measured["steps[]"] == 3
    assert {name: measured[f"operator_calls[{name}]"] for name in names} == {
        name: names.count(name) / 3 for name in names
    }
    (loop,) = {name for name in names if name.startswith("while")}
    assert measured[f"operator_calls[{loop}]"] == 1


def test_an_empty_event_is_none_of_torch(judged):
    assert [one for one in judged["torch"]["findings"] if one.startswith("S103 ")] != []


def test_the_layout_keeps_the_meta_schema():
    (path,) = (JAX / "perfguard_jax" / "dialect" / "layouts").glob("*.json")
    assert violations(json.loads(path.read_text()), "layout") == []
    assert "jax" not in {one.id for one in layouts()}


@pytest.mark.exhaustive
def test_the_example_runs_and_an_added_operator_fails(tmp_path):
    """Installed as its README says, or with a JAX that is here already."""
    project = tmp_path / "perfguard-jax"
    shutil.copytree(JAX, project, ignore=shutil.ignore_patterns("__pycache__", "baselines", "*.egg-info"))
    python, env = _python_with_jax(tmp_path, project)

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "pytest", "-q", "--perfguard-time=off", *arguments]
        return subprocess.run(
            command, cwd=project, env={**env, **more}, capture_output=True, text=True, timeout=600, check=False
        )

    created = run("--perfguard-update")
    assert created.returncode == 0, created.stdout
    assert "baselines: 1 created" in created.stdout
    (baseline,) = (project / "baselines").glob("*.json")
    assert json.loads(baseline.read_text())["fingerprint"]["backend"] == "jax"
    again = run("--perfguard")
    assert again.returncode == 0, again.stdout
    assert "0 worse, 0 better, 0 changed" in again.stdout
    added = run("--perfguard", SORTS="1")
    assert added.returncode == 1, added.stdout
    assert "R104 operator_calls[sort" in added.stdout


def _python_with_jax(place: Path, project: Path) -> tuple[str, dict[str, str]]:
    """Return a Python that has the example installed, and its environment; skips where there can be none."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    if find_spec("jax") is not None:
        entries = {
            "backends": {"jax": "perfguard_jax.backend:JaxBackend"},
            "dialects": {"jax": "perfguard_jax.dialect"},
        }
        add_distribution(place / "site", "perfguard-jax", entries)
        return sys.executable, {**clean, **python_path(place / "site", project)}
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True, timeout=300)
    python = str(place / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "-e", str(TOP), str(project), "jax[cpu]==0.10.2"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        pytest.skip(f"JAX cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return python, clean
