"""Runs that a page, a summary or a list is made of: real recordings, judged by the gate."""

from __future__ import annotations

import functools
import json
import math
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

from perfguard.capture.replay import replay
from perfguard.gate import compare, examine, judge, judge_again
from perfguard.judge.baseline import Baseline
from perfguard.judge.tolerance import Policy, Tolerance
from perfguard.judge.trend import Moment, Point, Series, Trend, trend
from perfguard.judge.verdict import Verdict
from perfguard.measure import METRICS, Measurement
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.testing import generate
from tests.facts import ELSEWHERE, RECORDINGS

POLICY = Policy()
TORCH = RECORDINGS / "torch-mlp"
HERE = Provenance(
    commit="0123456789abcdef0123456789abcdef01234567",
    branch="wider",
    committed_at="2026-11-20T10:00:00+00:00",
    finished_at="2026-11-20T10:05:00+00:00",
    ci_url="https://ci.example/7",
)

#: What a model may call its operators, and a page, a terminal or a spreadsheet must not obey.
HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=2">',
    "</script><script>window.pwned=3</script>",
    "<!--<script>",
    "]]>&lt;b&gt;&amp;",
    "a\u202eb\u200fc\u2066d",
    "bell\x07\x1b[31mred\x1b[0m",
    "`code` **bold** [link](javascript:alert(1)) @team #1 | cell",
    "::error file=x::injected%0A",
    "{{ 7*7 }}{% raw %}",
    "=HYPERLINK(\"http://x\")",
    "aten::" + "very_" * 60 + "long",
    "算子::卷积🔥",
)  # fmt: skip


#: What GitHub or GitLab make live in a text: addresses, mentions, references, images, HTML, footnotes, mathematics, emoji.
LINKS = (
    "https://evil.example/a",
    "HTTP://evil.example",
    "ftp://evil.example",
    "www.evil.example",
    "mailto:me@evil.example xmpp:me@evil.example",
    "me@evil.example",
    "<https://evil.example>",
    "[free](https://evil.example)",
    "[free][1] [1]: https://evil.example",
    "![image](https://evil.example/a.png)",
    '<a href="https://evil.example">free</a>',
    '<img src="https://evil.example/a.png">',
    "<details open><summary>free</summary>",
    "@owner and @owner/team",
    "fixes #12",
    "GH-12",
    "owner/project#12 owner#12 !12",
    "0123456789abcdef0123456789abcdef01234567",
    "see deadbee1 or DEADBEEF or defaced",
    "owner@0123456789abcdef0123456789abcdef01234567",
    "GHSA-aaaa-bbbb-cccc TICKET-12",
    "[^1]",
    "$`x`$ and $$x$$",
    ":tada:",
    "- [ ] a task",
    "1. a list",
    "# a heading",
    "`https://evil.example`https://evil.example",
    "https:&#47;&#47;evil.example https&colon;//evil.example",
    "\\@owner \\#12",
    '(https://evil.example) "@owner" ,#12;',
)
#: The same where Markdown has left it as text, outside of code.
_LIVE_TEXT = re.compile(r"@\w|#\d|\w-\d|![0-9]|://|\bwww\.|\b[0-9a-f]{7,40}\b|:\w+:|\$", re.IGNORECASE)


def live(markdown: str) -> list[str]:
    """Return what is live in a Markdown text as GitHub shows it: links, images, boxes, and texts that it makes a link of."""
    import cmarkgfm
    from cmarkgfm.cmark import Options

    # Raw HTML is let through, as GitHub does before it cleans it; texts in code are left alone.
    html = cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES)
    found = re.findall(r"<(?:a|img|input|script|iframe|h1|ol|ul|sup|math)\b[^>]*>", html)
    text = re.sub(r"<(pre|code)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return found + _LIVE_TEXT.findall(unescape(re.sub(r"<[^>]*>", "", text)))


@functools.cache
def measured(workload: str, recording: Path = TORCH) -> Verdict:
    """Return what a recording measured."""
    return examine(replay(recording), workload=workload, policy=POLICY)


def baseline_of(verdict: Verdict, measurements: tuple[Measurement, ...], **facts: object) -> Baseline:
    """Return a baseline that fits a verdict, with these numbers."""
    found = Baseline(
        workload=verdict.workload,
        fingerprint=verdict.fingerprint,
        environment=verdict.environment,
        measurements=measurements,
        commit="fedcba9876543210",
        reason="a first one",
    )
    return replace(found, **facts)


@functools.cache
def passing(workload: str = "tests/test_net.py::test_passes") -> Verdict:
    """Return a verdict that is compared with itself."""
    found = measured(workload)
    verdict = judge(replay(TORCH), baseline_of(found, found.measurements), workload=workload, policy=POLICY)
    return replace(verdict, source="tests/test_net.py:12")


@functools.cache
def failing(workload: str = "tests/test_net.py::test_fails") -> Verdict:
    """Return a verdict whose baseline was twice as quick, with less memory, no calls of aten::addmm and another torch."""
    found = measured(workload)
    cheaper = tuple(_cheaper(one) for one in found.measurements)
    assert found.environment is not None
    older = replace(found.environment, packages={**found.environment.packages, "torch": "2.4.0"})
    policy = Policy(settings=RULES)
    verdict = judge(replay(TORCH), baseline_of(found, cheaper, environment=older), workload=workload, policy=policy)
    return replace(verdict, source="tests/test_net.py:20")


def _cheaper(one: Measurement) -> Measurement:
    # All that the step is longer its operators are: 147 us of 195 us.
    factor = {"operator_time": 0.25, "step_time": 0.5, "profiled_step_time": 0.696}.get(one.metric)
    if factor is not None:
        return replace(one, value=one.value * factor, samples=tuple(factor * value for value in one.samples))
    if one.metric == "peak_memory_bytes":
        return replace(one, value=one.value // 2)
    if one.key == ("operator_calls", "aten::addmm"):
        return replace(one, value=0)
    return one


def _rules():
    from perfguard.settings import rules

    return rules({"step_time": 0.25, "operator_time[aten::addmm]": 0.5}, where="the test")


RULES = _rules()


def invalid(place: Path, workload: str = "tests/test_net.py::test_invalid") -> Verdict:
    """Return a verdict on a recording of MindSpore whose operator table has a cell that is no number."""
    shutil.copytree(RECORDINGS / "mindspore-graph", place)
    table = next(iter(sorted(place.rglob("*op_type_info*.csv")) or sorted(place.rglob("*.csv"))))
    lines = table.read_text().splitlines()
    cells = lines[2].split(",")
    cells[-1] = "<b>many</b>"
    lines[2] = ",".join(cells)
    table.write_text("\n".join(lines) + "\n")
    return replace(examine(replay(place), workload=workload, policy=POLICY), source="tests/test_net.py:30")


@functools.cache
def without_baseline(workload: str = "tests/test_net.py::test_new") -> Verdict:
    """Return a verdict that nothing could be compared with."""
    return replace(judge(replay(TORCH), None, workload=workload, policy=POLICY), source="tests/test_net.py:40")


@functools.cache
def on_another_machine(workload: str = "tests/test_net.py::test_elsewhere") -> Verdict:
    """Return a verdict whose baseline was measured on another machine."""
    found = measured(workload)
    stored = baseline_of(found, found.measurements, environment=ELSEWHERE)
    return judge(replay(TORCH), stored, workload=workload, policy=POLICY)


@functools.cache
def both_sides(workload: str = "tests/test_net.py::test_both") -> Verdict:
    """Return the comparison of two recordings, so that both have a timeline."""
    found = measured(workload)
    return compare(found, found, policy=POLICY)


def hostile(place: Path) -> Verdict:
    """Return a failing verdict of a trace whose operators, and whose workload, have names that want to be more than text."""
    shutil.copytree(TORCH, place)
    for path in (place / "profiler").rglob("*.json"):
        trace = json.loads(path.read_text())
        names = sorted({e["name"] for e in trace["traceEvents"] if e.get("cat") == "cpu_op"})
        called = dict(zip(names, HOSTILE, strict=False))
        for event in trace["traceEvents"]:
            event["name"] = called.get(event["name"], event["name"])
        path.write_text(json.dumps(trace))
    workload = f"tests/test_net.py::test_{HOSTILE[0]}_{HOSTILE[5]}"
    found = examine(replay(place), workload=workload, policy=POLICY)
    cheaper = tuple(_cheaper(one) if one.subject not in HOSTILE[:3] else replace_all(one) for one in found.measurements)
    stored = baseline_of(found, cheaper, reason=HOSTILE[1], commit=HOSTILE[2])
    verdict = judge_again(found, stored, policy=Policy(settings=RULES))
    return replace(verdict, source=f"tests/{HOSTILE[1]}.py:3")


#: Names of 400 characters: without a break, in words, right to left, of emoji.
LONG = ("x" * 400, "aten::" + "very_" * 79, "אבגד " * 80, "🔥" * 400, "a/b::c_" * 57, "W" * 400)


def long_names(place: Path) -> Verdict:
    """Return a failing verdict with names of 400 characters, in the recording, the baseline and the workload."""
    shutil.copytree(TORCH, place)
    for path in (place / "profiler").rglob("*.json"):
        trace = json.loads(path.read_text())
        names = sorted({e["name"] for e in trace["traceEvents"] if e.get("cat") == "cpu_op"})
        called = dict(zip(names, LONG, strict=False))
        for event in trace["traceEvents"]:
            event["name"] = called.get(event["name"], event["name"])
        path.write_text(json.dumps(trace))
    found = examine(replay(place), workload=f"tests/test_{LONG[0]}.py::test_{LONG[1]}", policy=POLICY)
    stored = baseline_of(found, tuple(map(_cheaper, found.measurements)), reason=LONG[2], commit=LONG[0])
    return replace(judge_again(found, stored, policy=Policy(settings=RULES)), source=f"tests/{LONG[5]}.py:3")


def replace_all(one: Measurement) -> Measurement:
    """Return a measurement of which there was less."""
    if one.metric in ("operator_calls", "operator_time"):
        return replace(one, value=one.value / 2, samples=tuple(value / 2 for value in one.samples))
    return one


@functools.cache
def many_operators(count: int = 10_000) -> Verdict:
    """Return a verdict with so many operators, some of which are called more often."""
    found = measured("tests/test_net.py::test_many")
    own = [one for one in found.measurements if not one.metric.startswith("operator_")]
    now, before = list(own), list(own)
    for number in range(count):
        name = f"op::{number:05d}"
        for metric, value in (("operator_calls", 1 + number % 7), ("operator_time", 1.5 + (number * 7919) % 1000)):
            now.append(Measurement(metric=metric, subject=name, value=value))
            before.append(Measurement(metric=metric, subject=name, value=value - (number % 100 == 3)))
    fresh = replace(found, measurements=tuple(now))
    return judge_again(fresh, baseline_of(found, tuple(before)), policy=POLICY)


def many_ranks(place: Path, count: int, *, quick: int) -> Verdict:
    """Return a verdict on a job of so many ranks, each a directory of its own; aten::empty is quick on one of them."""
    generate("pt-torch", seed=7, ranks=count, steps=2, operators=6).write(place)
    odd = sorted(place.rglob("*.json"))[quick]
    trace = json.loads(odd.read_text())
    for event in trace["traceEvents"]:
        if event["name"] == "aten::empty":
            event["dur"] *= 0.25
    odd.write_text(json.dumps(trace))
    return examine(replay(place), workload="a job", policy=POLICY)


def history_of(workload: str, *, metric: str = "step_time", since: int = 29, runs: int = 40) -> Trend:
    """Return the trend of a number that is a third more from one run on; the tenth run was a release."""
    points = tuple(
        Point(
            value=(100.0 if number < since else 133.0) * (1 + 0.01 * math.sin(7 * number)),
            moment=Moment(
                run=number + 1,
                at=datetime(2026, 1, 1 + number % 28, tzinfo=UTC),
                commit=f"{number:02d}{HOSTILE[0]}",
                release="v1.2" if number == 9 else None,
            ),
        )
        for number in range(runs)
    )
    series = Series(workload=workload, metric=metric, subject="", unit="us", machine="a", points=points)
    return trend(series, metric=METRICS[metric], tolerance=Tolerance(relative=0.25))


def run_of(*verdicts: Verdict, **more: object) -> RunReport:
    """Return the report of a run."""
    return RunReport(verdicts=verdicts, provenance=HERE, **more)  # type: ignore[arg-type]
