"""`--ledger` of `perfguard compare` and `perfguard baseline diff`: where the time went, whole."""

from __future__ import annotations

import json
import re

import pytest

from perfguard.judge.ledger import Cause
from perfguard.reports.reading import read_report
from perfguard.testing import generate
from perfguard.window import StepWindow
from tests.cli import RECORDINGS, TORCH, copied, report_file, run, stored

GRAPH = RECORDINGS / "mindspore-graph"
PART = re.compile(r"^ *([+−][0-9]+\.[0-9]) us  (.+)$")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def tenths(text: str) -> int:
    return int(text.replace("−", "-").replace(".", ""))


def told(stdout: str) -> tuple[str, dict[str, int]]:
    """Return the head of the ledger and its parts in tenths of a us; what is printed adds up."""
    lines = stdout.splitlines()
    parts = [(found[2], tenths(found[1])) for found in map(PART.match, lines) if found]
    assert parts, stdout
    head = lines[next(i for i, line in enumerate(lines) if PART.match(line)) - 1].strip()
    before, after, change = re.findall(r"[+−]?[0-9]+\.[0-9]", head)
    assert tenths(after) - tenths(before) == tenths(change) == sum(change for _, change in parts)
    assert parts[-1][0] == "residual"
    return head, dict(parts)


@pytest.mark.parametrize("recording", [TORCH, GRAPH])
@pytest.mark.variants(1)
def test_a_recording_has_lost_nothing_to_itself(recording):
    head, parts = told(run("compare", recording, recording, "--ledger").stdout)
    assert head.startswith("step ")
    assert head.endswith(", +0.0 us:")
    assert parts == {"residual": 0}


def test_nobody_asked():
    assert "residual" not in run("compare", TORCH, TORCH).stdout


def test_a_renamed_operator_is_shown_with_its_match(tmp_path):
    renamed = copied(TORCH, tmp_path / "renamed", replace=('"aten::addmm"', '"aten::baddbmm"'))
    _, parts = told(run("compare", TORCH, renamed, "--ledger").stdout)
    (line,) = [text for text in parts if "renamed" in text]
    assert line.startswith(
        "aten::addmm → aten::baddbmm: renamed (same calls and shapes, between aten::as_strided and aten::expand; 2 calls, "
    )
    assert parts[line] == 0


def test_one_operator_that_is_faster_is_told_with_what_came_of_it(tmp_path):
    """Two us less in every step, in the trace alone: what is around it has them now, and the step is as long as it was."""
    faster = copied(TORCH, tmp_path / "faster")
    (trace,) = (faster / "profiler").glob("*.json")
    document = json.loads(trace.read_text())
    for event in document["traceEvents"]:
        if event.get("name") == "aten::_log_softmax_backward_data" and event.get("ph") == "X":
            event["dur"] -= 2
    trace.write_text(json.dumps(document))
    _, parts = told(run("compare", TORCH, faster, "--ledger").stdout)
    changed = {text.partition(": ")[0]: part for text, part in parts.items() if part}
    assert changed == {"aten::_log_softmax_backward_data": -20, "LogSoftmaxBackward0": 20}


@pytest.mark.exhaustive
def test_reports_and_stored_baselines_tell_the_same(tmp_path):
    renamed = copied(TORCH, tmp_path / "renamed", replace=('"aten::addmm"', '"aten::baddbmm"'))
    reports = report_file(tmp_path / "a.json", mlp=TORCH), report_file(tmp_path / "b.json", mlp=renamed)
    of_recordings = told(run("compare", TORCH, renamed, "--ledger").stdout)
    assert told(run("compare", *reports, "--ledger").stdout) == of_recordings
    stored(tmp_path / "baselines", "mlp")
    assert told(run("baseline", "diff", reports[1], "--ledger").stdout) == of_recordings
    assert "residual" not in run("baseline", "diff", reports[1]).stdout


def test_a_written_comparison_holds_the_ledger(tmp_path):
    run("compare", TORCH, TORCH, "--report", "out.json")
    (verdict,) = read_report(tmp_path / "out.json")
    assert verdict.ledger is not None
    assert verdict.ledger.metric == "step_time"
    assert [entry.cause for entry in verdict.ledger.entries] == [Cause.RESIDUAL]


def test_without_a_comparison_it_says_that_there_is_none():
    found = run("compare", TORCH, GRAPH, "--ledger")
    assert found.exit_code == 4
    assert "  no ledger: it needs a comparison, and the times of operators on both sides\n" in found.stdout


@pytest.mark.parametrize(
    ("layout", "conditions", "ranks"),
    [
        ("pt-npu", {}, 2),
        pytest.param("pt-npu", {"db": True, "text": False}, 1, marks=pytest.mark.exhaustive),
        pytest.param("ms-2.5+", {}, 1, marks=pytest.mark.exhaustive),
        ("ms-2.5+cpu", {}, 1),
        pytest.param("ms-2.0", {}, 1, marks=pytest.mark.exhaustive),
        ("pt-torch", {}, 2),
    ],
)
@pytest.mark.variants(1)
def test_every_dialect_has_one(tmp_path, layout, conditions, ranks):
    for name, seed in (("base", 1), ("current", 2)):
        (tmp_path / name).mkdir()
        generate(layout, ranks=ranks, seed=seed, steps=2, operators=3, conditions=conditions).write(tmp_path / name)
    found = run("compare", "base", "current", "--ledger")
    head, parts = told(found.stdout)
    assert ("the slowest" in head) == (ranks > 1)
    assert len(parts) > 1


# -- for real --------------------------------------------------------------------------------------------------------


def record(directory, *, hidden=128, products=0):
    """Record a training step of an MLP, with so many products of matrices that nobody needs."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    from perfguard.capture import backend
    from perfguard.capture.driver import Driver

    torch.manual_seed(0)
    first, last = torch.nn.Linear(128, hidden), torch.nn.Linear(hidden, 10)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
    inputs, labels, planted = torch.randn(64, 128), torch.arange(64) % 10, torch.ones(512, 512)

    def step():
        optimizer.zero_grad()
        for _ in range(products):
            torch.mm(planted, planted)
        torch.nn.functional.cross_entropy(last(torch.relu(first(inputs))), labels).backward()
        optimizer.step()

    used = backend("torch")
    used.prepare(1)
    try:
        window = StepWindow(skip_first=2, warmup=1, active=5)
        Driver(used, workload="mlp", directory=directory, window=window, timed_steps=10).run(step)
    finally:
        used.restore()
    return directory


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return record(tmp_path_factory.mktemp("ledger") / "base")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_planted_product_is_where_the_time_went(base, tmp_path):
    head, parts = told(run("compare", base, record(tmp_path / "more", products=2), "--ledger").stdout)
    change = tenths(re.findall(r"[+−][0-9]+\.[0-9]", head)[-1])
    of_products = {text: part for text, part in parts.items() if text.startswith("aten::mm: ")}
    assert any("more calls (3 → 5" in text for text in of_products)
    assert any("float[512, 512];float[512, 512] 0 → 2" in text for text in of_products)
    # Two products of 512 x 512 are milliseconds, beside a step of some hundred microseconds; what else moved is the machine's.
    assert sum(of_products.values()) > 0
    assert "residual" in parts
    assert sum(parts.values()) == change


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_wider_layer_is_told_by_its_shapes(base, tmp_path):
    found = run("compare", base, record(tmp_path / "wide", hidden=1024), "--ledger")
    head, parts = told(found.stdout)
    change = tenths(re.findall(r"[+−][0-9]+\.[0-9]", head)[-1])
    of_shapes = {text: part for text, part in parts.items() if "changed shapes" in text}
    assert {"aten::mm", "aten::addmm"} <= {text.partition(": ")[0] for text in of_shapes}
    assert sum(of_shapes.values()) > 0
    assert sum(parts.values()) == change
    assert found.exit_code == 1
