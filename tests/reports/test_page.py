"""The page as text: one file, nothing from elsewhere, nothing of a recording that is more than text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import statistics
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.capture.replay import replay
from perfguard.findings import Code, Finding, Severity
from perfguard.gate import examine
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.step_time import TimeUnit
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement, MemoryTrack, StepTimeline
from perfguard.recording import Step
from perfguard.reports import REPORTERS
from perfguard.reports.overview import history_lines
from perfguard.reports.page import hint, kept, page_html
from perfguard.reports.page.figure import Bars, Cells, Chart, Figure, Strips, number_axis
from perfguard.reports.page.figures import drawn_trend, figures_of, trends_in_order
from perfguard.reports.page.tables import MOST_FINDINGS, tables_of
from perfguard.reports.page.timeline import timeline_rows, timeline_sides
from perfguard.version import install_command
from perfguard.window import Phase
from tests.reports import runs_to_show as show


class Page(HTMLParser):
    """The elements of a page: (tag, attributes), texts by script element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    found = show.hostile(tmp_path_factory.mktemp("hostile") / "h")
    return page_html(show.run_of(found, unused=show.HOSTILE, not_run=show.HOSTILE, remarks=show.HOSTILE))


def test_a_page_refers_to_nothing_outside_of_it(hostile):
    for tag, attributes in Page(hostile).elements:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attributes.get(name)
            if name == "data" and tag != "object":
                continue
            # The one link that leads away is that to the CI run, and it is of the report.
            assert value is None or value.startswith(("#", "data:")) or value == show.HERE.ci_url, (tag, name, value)


def test_the_policy_lets_the_pages_own_scripts_run_and_no_others(hostile):
    page = Page(hostile)
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    types = [attributes.get("type") for tag, attributes in page.elements if tag == "script"]
    run = [text for text, kind in zip(page.scripts, types, strict=True) if kind is None]
    assert {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run} == allowed
    assert len(run) == 1
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_no_name_of_a_recording_becomes_an_element(hostile):
    tags = [tag for tag, _ in Page(hostile).elements]
    assert "img" not in tags
    assert tags.count("script") == 2
    for raw in (
        "window.pwned=1</script>",
        "</script><script>window.pwned",
        'onerror="window',
        "\u202e",
        "\x07",
        "\x1b",
    ):
        assert raw not in hostile, raw


@pytest.mark.parametrize(
    "url, is_linked", [("https://ci.example/7", True), ("javascript:alert(1)", False), (None, False)]
)
def test_only_a_web_address_is_a_link_to_the_run(url, is_linked):
    text = page_html(show.run_of().__class__(verdicts=(), provenance=replace(show.HERE, ci_url=url)))
    assert ('class="ci"' in text) == is_linked


def test_a_page_is_the_same_each_time():
    run = show.run_of(show.failing())
    assert page_html(run) == page_html(run) == REPORTERS["html"]().text(run)


def test_without_its_packages_one_sentence_says_what_to_install():
    code = (
        "import sys\nsys.modules['jinja2'] = None\n"
        "from perfguard.reports import REPORTERS, RunReport\n"
        "try: REPORTERS['html']().text(RunReport(verdicts=()))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == (
        f"UsageError the page is made with Jinja2, which is not installed; run: {install_command('html')}\n"
    ), done.stderr


def test_what_was_recorded_and_not_compared_is_not_green():
    alone = page_html(show.run_of(show.measured("tests/test_net.py::test_recorded")))
    assert '<section class="verdict PASSED uncompared">' in alone
    assert '<span class="badge PASSED uncompared">1 PASSED</span>' in alone
    assert "The recording is complete and valid; nothing was compared." in alone
    assert "judged:" not in alone
    compared = page_html(show.run_of(show.measured("tests/test_net.py::test_recorded"), show.passing()))
    assert '<span class="badge PASSED">2 PASSED</span>' in compared
    assert compared.count('<section class="verdict PASSED uncompared">') == 1
    assert re.search(r'<p class="coverage">\d+ numbers judged: \d+ as before', compared)


# -- figures ---------------------------------------------------------------------------------------------------------

#: What a path of a shape is made of: numbers in the square, or a little beyond it.
PATH = re.compile(r"(?:[MLHVhv]-?\d+(?:\.\d+)?(?: -?\d+(?:\.\d+)?)?|[Zz])*")
ROLES = re.compile(r"now|base|worse|better|faint|soft|limit|release|line[0-7]|phase-[a-z]+|(?:high|low)[1-3]|")


def is_valid(figure: Figure) -> None:
    """Check that a figure can be drawn: all its shapes are paths of known colours inside the figure, its table is complete."""
    head, *rows = figure.rows
    assert all(len(row) == len(head) and all(isinstance(cell, str) for cell in row) for row in rows)
    assert figure.title
    assert all(ROLES.fullmatch(role.removesuffix(" dash")) for role, _ in figure.legend)
    drawing = figure.drawing
    if isinstance(drawing, Chart):
        for shape in drawing.shapes:
            assert PATH.fullmatch(shape.path), shape.path
            assert ROLES.fullmatch(shape.role), shape.role
            # All of it is inside, except for half of the bars at the edges.
            assert all(-501 <= float(one) <= 1501 for one in re.findall(r"[-\d.]+", shape.path)), shape.path
        for place, text in (*drawing.x.ticks, *drawing.y.ticks, *drawing.hover):
            assert 0 <= place <= 1
            assert text
        assert len(drawing.x.ticks) <= 7
    elif isinstance(drawing, Bars):
        assert all(0 <= one <= 1 for bar in drawing.bars for one in (bar.start, bar.end))
        assert all(ROLES.fullmatch(bar.role) and bar.text for bar in drawing.bars)
    elif isinstance(drawing, Strips):
        assert all(PATH.fullmatch(path) for _, paths in drawing.strips for _, path in paths)
    elif isinstance(drawing, Cells):
        assert all(len(cells) == len(drawing.heads) - 1 for _, cells in drawing.lines)
        units = [re.findall(r" (s|ms|us)\b", text) for _, cells in drawing.lines for text, _ in cells]
        assert len({unit for found in units for unit in found}) <= 1


def kinds(verdict: Verdict) -> list[str]:
    return [figure.kind for figure in figures_of(verdict)]


@pytest.mark.exhaustive
def test_figures_of_real_runs_can_be_drawn(tmp_path):
    several = show.many_ranks(tmp_path / "r", 3, quick=1)
    for verdict in (show.passing(), show.failing(), show.without_baseline(), show.invalid(tmp_path / "i"), several):
        for figure in figures_of(verdict):
            is_valid(figure)
    assert kinds(show.failing()) == ["waterfall", "distribution", "memory", "steps"]
    assert kinds(several)[:2] == ["memory", "ranks"]
    # What is not whole has no numbers to draw.
    assert kinds(show.invalid(tmp_path / "j")) == ["steps"]


def test_the_waterfall_adds_up_from_the_baseline_to_now():
    verdict = show.failing()
    figure = next(one for one in figures_of(verdict) if one.kind == "waterfall")
    assert isinstance(figure.drawing, Bars)
    first, *parts, last = figure.drawing.bars
    longest_ns = max(verdict.ledger.base_ns, verdict.ledger.current_ns)
    assert (first.label, last.label, first.start, last.start) == ("baseline", "now", 0, 0)
    assert first.end / last.end == pytest.approx(verdict.ledger.base_ns / verdict.ledger.current_ns)
    assert max(first.end, last.end) * figure_high(figure) * 1e3 == pytest.approx(longest_ns, rel=5e-3)
    # Every part begins where the one before it ended, and all parts together reach the step now but for the corrections,
    # which are a number: the bar of all other parts among them.
    assert [part.start for part in parts] == pytest.approx([first.end, *(part.end for part in parts[:-1])])
    rows = [row[0] for row in figure.rows[1:]]
    assert rows == [*(bar.label for bar in figure.drawing.bars[:-1]), "corrections, and what no part explains", "now"]
    assert (parts[-1].label, parts[-1].text) == ("38 other parts", "+87.2 us")
    undrawn_ns = sum(e.change_ns for e in verdict.ledger.entries if e.cause in (Cause.PROFILER, Cause.RESIDUAL))
    assert parts[-1].end == pytest.approx(last.end - undrawn_ns / 1e3 / figure_high(figure), rel=5e-3)
    assert figure.drawing.note == "Corrections, and what no part explains: +0.707 us."
    assert {part.role for part in parts} == {"worse"}


def figure_high(figure: Figure) -> float:
    """Return the time in us at the right end of the bars, by the bar of the baseline and its text."""
    first = figure.drawing.bars[0]
    return float(first.text.split()[0]) / first.end


def test_a_ledger_that_names_no_cause_is_in_the_details_alone():
    """No bars of noise beside "nothing got worse"; who asks for the parts finds all of them, and why they say nothing."""
    verdict = show.passing()
    assert "waterfall" not in kinds(verdict)
    tables = tables_of(verdict)
    assert len(tables["ledger"]) == len(verdict.ledger.entries)
    assert (
        tables["unattributed"]
        == "Which operator took the time is not known: the step changed by +0 us, which is shown, not judged."
    )
    assert tables_of(show.failing())["unattributed"] == ""
    page = page_html(show.run_of(verdict))
    assert '<details class="ledger"><summary>' in page


def test_the_memory_of_the_figure_is_that_of_the_trace():
    verdict = show.failing()
    figure = next(one for one in figures_of(verdict) if one.kind == "memory")
    peak = next(one.value for one in verdict.measurements if one.metric == "peak_memory_bytes")
    chart = figure.drawing
    assert isinstance(chart, Chart)
    assert chart.y.title == "KiB"
    assert chart.x.title == "profiled step"
    curve = next(one.path for one in chart.shapes if one.style == "line")
    top = min(float(one) for one in re.findall(r"V([\d.]+)", curve))
    assert (1 - top / 1000) * chart.y.high == pytest.approx(peak / 1024, rel=2e-3)
    # The baseline had half of it.
    (before,) = (one for one in chart.shapes if one.style == "dash")
    level = float(re.fullmatch(r"M0 ([\d.]+)H1000", before.path)[1])
    assert (1 - level / 1000) * chart.y.high == pytest.approx(peak / 2048, rel=2e-3)


@pytest.mark.parametrize(
    "steps, parts, numbers",
    [(1, 4, "1"), (3, 100, "1 2 3"), (6, 2, "1 2 3 4 5 6"), (7, 2, "1 3 5 7"), (50, 100, "1 10 19 28 37 46")],
)
def test_the_number_of_a_profiled_step_is_in_the_middle_of_its_span_and_no_other_is_there(steps, parts, numbers):
    track = MemoryTrack(rank=0, device="cpu", parts=parts, curve_bytes=tuple(range(1, steps * parts + 1)))
    (figure,) = figures_of(Verdict(workload="a", outcome=Outcome.PASSED, findings=(), memory=(track,)))
    ticks = figure.drawing.x.ticks
    assert [text for _, text in ticks] == numbers.split()
    assert [at for at, _ in ticks] == pytest.approx([(int(text) - 0.5) / steps for _, text in ticks], abs=1e-4)
    named = [int(text.split(":")[0].removeprefix("step ")) for _, text in figure.drawing.hover]
    assert (min(named), max(named)) == (1, steps)
    # The curve ends where the last step ends.
    line = next(one.path for one in figure.drawing.shapes if one.style == "line")
    assert max(float(one) for one in re.findall(r"H([\d.]+)", line)) == 1000


@pytest.mark.parametrize(
    "times_us, texts",
    [
        ([25_200.0, 40_200.0], ["25.2 ms", "40.2 ms"]),
        ([847.0, 1_200.0], ["0.847 ms", "1.20 ms"]),
        ([3.0, 512.0], ["3.00 us", "512 us"]),
        ([900_000.0, 2_500_000.0], ["0.900 s", "2.50 s"]),
        ([0.0], ["0 us"]),
    ],
)
def test_a_figure_has_one_unit(times_us, texts):
    unit = TimeUnit.of(times_us)
    assert [unit.text(one) for one in times_us] == texts


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.booleans())
@settings(max_examples=60)
def test_labels_of_an_axis_are_few_in_order_and_on_it(low, length, is_log):
    axis = number_axis(abs(low) + 1e-3 if is_log else low, (abs(low) if is_log else low) + length, is_log=is_log)
    places = [place for place, _ in axis.ticks]
    assert places == sorted(places)
    assert len(places) <= 7
    assert all(0 <= place <= 1 for place in places)


def test_a_few_slow_steps_leave_room_for_the_others():
    samples = (*(100.0 + number / 10 for number in range(28)), 9_000.0, 14_000.0)
    measured = Measurement(metric="step_time", subject="", value=100.0, samples=samples)
    verdict = Verdict(workload="a", outcome=Outcome.PASSED, findings=(), measurements=(measured,))
    (figure,) = figures_of(verdict)
    assert "2 slower than" in figure.caption
    # All but these are in at least a quarter of the width.
    assert (102.7 - 100) / (figure.drawing.x.high - figure.drawing.x.low) > 0.25


#: Reports have no number that is none; a verdict that was never written may.
TIMES = st.one_of(st.floats(0, 1e9), st.floats(0, 1e300), st.sampled_from([math.nan, math.inf]))
NAMES = st.text(max_size=8)
ENTRIES = st.builds(
    Entry,
    cause=st.sampled_from(Cause),
    subject=NAMES,
    base_ns=st.integers(-(10**12), 10**12),
    current_ns=st.integers(-(10**12), 10**12),
)
VERDICTS = st.builds(
    Verdict,
    workload=NAMES,
    outcome=st.sampled_from(Outcome),
    findings=st.just(()),
    measurements=st.lists(
        st.builds(
            Measurement,
            metric=st.sampled_from(["step_time", "operator_time", "peak_memory_bytes", "step_cost", "x"]),
            subject=st.one_of(st.just(""), NAMES, st.sampled_from(["rank0:a", "rank1:a", "rank1:", "ranks:a"])),
            value=TIMES,
            samples=st.lists(TIMES, max_size=30).map(tuple),
        ),
        max_size=6,
    ).map(tuple),
    comparisons=st.lists(
        st.builds(
            Comparison,
            metric=st.sampled_from(["step_time", "operator_time", "peak_memory_bytes", "step_cost", "x"]),
            subject=st.sampled_from(["", "cpu", "a"]),
            state=st.sampled_from(State),
            judged=st.booleans(),
            reference=st.one_of(st.none(), TIMES, st.just(["a"]), st.just({"a": 1.0})),
            current=st.one_of(st.none(), TIMES, st.just(["a"]), st.just({"a": 1.0})),
            allowed=st.one_of(st.none(), TIMES),
            reference_samples=st.lists(TIMES, max_size=30).map(tuple),
        ),
        max_size=4,
    ).map(tuple),
    ledger=st.one_of(
        st.none(),
        st.builds(
            Ledger,
            metric=st.sampled_from(["step_time", "operator_time"]),
            base_ns=st.integers(0, 10**12),
            current_ns=st.integers(0, 10**12),
            entries=st.lists(ENTRIES, min_size=1, max_size=12).map(tuple),
        ),
    ),
    steps=st.lists(
        st.builds(
            Step,
            index=st.integers(0, 100),
            phase=st.sampled_from(Phase),
            cycle=st.just(0),
            start_ns=st.just(0),
            wall_ns=st.integers(0, 10**12),
            thread_cpu_ns=st.just(0),
        ),
        max_size=6,
    ).map(tuple),
    memory=st.lists(
        st.builds(
            MemoryTrack,
            rank=st.integers(0, 3),
            device=NAMES,
            parts=st.integers(0, 4),
            curve_bytes=st.lists(st.integers(0, 2**60), max_size=6).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
)


@given(VERDICTS)
@settings(max_examples=60)
def test_any_verdict_can_be_drawn_and_listed(verdict):
    for figure in figures_of(verdict):
        is_valid(figure)
    found = tables_of(verdict)
    json.dumps([found["operators"], found["metrics"]], allow_nan=False)


# -- history ---------------------------------------------------------------------------------------------------------


def test_a_history_says_since_which_commit_and_is_drawn():
    verdict = show.failing()
    found = show.history_of(verdict.workload)
    is_valid(drawn_trend(found))
    lines = list(history_lines(verdict, [found]))
    (line,) = lines
    assert line.startswith("step_time since 29<script>")
    text = page_html(show.run_of(verdict, show.passing(), trends=(found,)))
    assert text.count('<p class="since">history: ') == 1
    assert '<figure data-kind="history">' in text
    assert "<script>window" not in text


def test_a_history_of_an_exact_number_is_drawn_as_steps_and_that_of_a_time_as_a_line():
    verdict = show.failing()
    exact, timed = (show.history_of(verdict.workload, metric=name) for name in ("peak_memory_bytes", "step_time"))
    paths = [next(one.path for one in drawn_trend(one).drawing.shapes if one.style == "line") for one in (exact, timed)]
    assert [("H" in path, "L" in path) for path in paths] == [(True, False), (False, True)]
    # It opens on the time, whatever the order of the history.
    assert [one.series.metric for one in trends_in_order([exact, timed])] == ["step_time", "peak_memory_bytes"]


@pytest.mark.parametrize(
    "unit", ['<a href="https://evil.example">us</a>', "<b style=color:red>us", "</script>", "u" * 400]
)
@pytest.mark.variants(2)
def test_the_unit_of_a_history_is_text(unit):
    verdict = show.failing()
    trend = show.history_of(verdict.workload)
    trend = replace(trend, series=replace(trend.series, unit=unit))
    page = Page(page_html(show.run_of(verdict, trends=(trend,))))
    plain = Page(page_html(show.run_of(verdict, trends=(show.history_of(verdict.workload),))))
    # A unit adds no element but places for a line to break.
    tags = [[tag for tag, _ in one.elements if tag != "wbr"] for one in (page, plain)]
    assert tags[0] == tags[1]


def test_a_change_of_a_history_that_is_no_worse_is_not_red():
    verdict = show.failing()
    steady = show.history_of(verdict.workload, metric="profiler_overhead")
    roles = {
        one.role
        for one in drawn_trend(
            replace(steady, changes=tuple(replace(c, beyond=False) for c in steady.changes))
        ).drawing.shapes
    }
    assert "worse" not in roles


def test_of_what_did_not_get_worse_a_history_says_nothing_on_the_first_screen():
    verdict = show.failing()
    other = show.history_of(verdict.workload, metric="profiler_overhead")
    assert list(history_lines(verdict, [other])) == []
    steady = show.history_of(verdict.workload, since=99)
    assert list(history_lines(show.passing(), [steady])) == []


# -- the timeline ----------------------------------------------------------------------------------------------------


def test_both_sides_of_a_comparison_have_a_timeline_and_a_stored_baseline_has_none():
    assert [side["label"] for side in timeline_sides(show.both_sides())] == ["baseline", "now"]
    assert [side["label"] for side in timeline_sides(show.failing())] == ["now"]
    assert timeline_sides(Verdict(workload="a", outcome=Outcome.PASSED, findings=())) == []
    page = page_html(show.run_of(show.failing()))
    assert "A stored baseline has numbers and no timeline" in page
    assert "A stored baseline has numbers and no timeline" not in page_html(show.run_of(show.both_sides()))
    # Without a baseline there is none to speak of.
    alone = page_html(show.run_of(show.measured("a")))
    assert '<section class="step-timeline">' in alone
    assert "A stored baseline has numbers and no timeline" not in alone
    assert '<section class="step-timeline">' not in page_html(show.run_of())


def test_what_a_timeline_leaves_out_is_said():
    lanes = tuple(f"stream {number}" for number in range(40))
    spans = tuple((number, 0, 10 * number, 5 + number) for number in range(40))
    found = StepTimeline(rank=3, step=1, duration_ns=440, count=90, lanes=lanes, names=("a\u202eb",), spans=spans)
    (side,) = timeline_sides(Verdict(workload="a", outcome=Outcome.PASSED, findings=(), timeline=found))
    assert side["what"] == (
        "step 2 of rank 3, 0.440 us under the profiler; the 40 longest of 90 executions; the 24 busiest of 40 lanes"
    )
    assert side["names"] == ["a\\u202eb"]
    # The busiest ones, in the order of the recording.
    assert [name for name, _ in side["lanes"]] == list(lanes[16:])


#: A step of 1 ms: 0.1 ms of work, nothing for 0.7 ms, and two lanes at once.
WAITS = StepTimeline(
    rank=0,
    step=0,
    duration_ns=1_000_000,
    count=3,
    lanes=("thread 1", "stream 7"),
    names=("aten::mm", "aten::add"),
    spans=((0, 0, 0, 100_000), (0, 1, 800_000, 200_000), (1, 1, 850_000, 100_000)),
)


def test_a_pause_that_is_a_large_part_of_the_step_is_a_lane_a_row_and_a_sentence():
    verdict = Verdict(workload="a", outcome=Outcome.PASSED, findings=(), timeline=WAITS)
    (side,) = timeline_sides(verdict)
    name = "pause after aten::mm and before aten::add"
    assert side["lanes"][0] == ["nothing ran", [2, 100_000, 700_000]]
    assert side["names"][2] == name
    assert side["what"] == (
        "step 1 of rank 0, 1.00 ms under the profiler; nothing ran for 0.700 ms, after aten::mm and before aten::add"
    )
    assert timeline_rows(verdict)[1] == (name, "now", "nothing ran", "0.100 ms", "0.700 ms")
    page = page_html(show.run_of(verdict))
    assert "nothing ran for 0.700\N{NO-BREAK SPACE}ms, after aten::mm and before aten::add" in page


def test_a_step_without_a_long_pause_has_none():
    busy = replace(WAITS, spans=((0, 0, 0, 500_000), (1, 1, 540_000, 460_000)), count=2)
    (side,) = timeline_sides(Verdict(workload="a", outcome=Outcome.PASSED, findings=(), timeline=busy))
    assert [lane for lane, _ in side["lanes"]] == ["thread 1", "stream 7"]
    assert side["what"] == "step 1 of rank 0, 1.00 ms under the profiler"


def test_of_a_step_whose_short_executions_are_left_out_a_pause_may_have_some():
    (side,) = timeline_sides(
        Verdict(workload="a", outcome=Outcome.PASSED, findings=(), timeline=replace(WAITS, count=9))
    )
    assert "nothing long ran for 0.700 ms" in side["what"]


def of_an_ab_run(*ratios: float) -> Verdict:
    """Return a verdict of both sides in processes, each with its ratio."""
    ratio = statistics.median(ratios)
    numbers = (
        Comparison(metric="step_ab", subject="", state=State.WORSE, judged=True, reference=1.0, current=ratio),
        Comparison(metric="step_ab_time", subject="", state=State.SAME, judged=False, reference=1000.0, current=1500.0),
    )
    samples = Measurement(metric="step_ab", subject="", value=ratio, samples=ratios)
    return Verdict(workload="a", outcome=Outcome.FAILED, findings=(), comparisons=numbers, measurements=(samples,))


def test_the_page_of_an_ab_run_shows_each_process():
    verdict = of_an_ab_run(1.5, 1.45, 1.62)
    (figure,) = figures_of(verdict)
    is_valid(figure)
    assert figure.kind == "processes"
    assert figure.rows == (("process", "change of a step"), ("1", "+50.0 %"), ("2", "+45.0 %"), ("3", "+62.0 %"))
    assert figure.caption == "1.00 → 1.50 ms, +50.0 %: the median of 3 processes, each of which ran both sides"
    assert [text for _, text in figure.drawing.hover] == [
        "process 2: +45.0 %",
        "process 1: +50.0 %",
        "process 3: +62.0 %",
    ]
    assert "The change of a step in each process" in page_html(show.run_of(verdict))


def test_with_time_off_no_figure_is_of_the_baseline_alone():
    timed = show.failing()
    assert "distribution" in kinds(timed)
    times = ("step_time", "profiled_step_time")
    off = replace(
        timed,
        steps=(),
        measurements=tuple(one for one in timed.measurements if one.metric not in times),
        ledger=None,
    )
    assert any(one.metric == "step_time" and one.reference_samples for one in off.comparisons)
    assert kinds(off) == ["memory"]


# -- tables ----------------------------------------------------------------------------------------------------------


def test_an_operator_has_one_row_with_both_sides_its_limit_and_what_was_found():
    rows = {row[0]: row for row in tables_of(show.failing())["operators"]}
    _, state, calls, calls_now, us, us_now, allowed, why = rows["aten::addmm"]
    assert (state, calls, calls_now) == ("worse", 0, 2)
    assert us == pytest.approx(us_now / 4)
    assert allowed == pytest.approx(us * 1.5)
    assert "operator_time 4.25 → 17.0 us/step" in why
    # Its calls are the same; its time is four times that of the baseline, and shown only.
    assert rows["aten::relu"][1] == "not judged"
    assert rows["aten::relu"][4] == pytest.approx(rows["aten::relu"][5] / 4)
    assert rows["aten::relu"][6] is None


def test_an_operator_is_the_same_only_if_all_that_is_shown_of_it_was_judged():
    calls = Comparison(metric="operator_calls", subject="a", state=State.SAME, judged=True, reference=1, current=1)
    time = replace(calls, metric="operator_time", reference=10.0, current=40.0)
    not_judged, elsewhere = replace(time, judged=False), replace(time, judged=False, state=State.NOT_COMPARABLE)
    more = replace(calls, state=State.WORSE, current=2)
    table = [
        ((calls, time), "same"),
        ((calls,), "same"),
        ((calls, not_judged), "not judged"),
        ((calls, elsewhere), "not judged"),
        ((not_judged,), "not judged"),
        ((more, not_judged), "worse"),
        ((calls, replace(time, state=State.WORSE)), "worse"),
    ]
    found = [
        tables_of(Verdict(workload="a", outcome=Outcome.PASSED, findings=(), comparisons=pair))["operators"][0][1]
        for pair, _ in table
    ]
    assert found == [state for _, state in table]


def test_the_worst_of_the_other_numbers_come_first():
    states = [row[1] for row in tables_of(show.failing())["metrics"]]
    assert states[0] == "worse"
    order = ("worse", "new", "gone", "warned", "better", "not-comparable", "same", "not judged")
    assert states == sorted(states, key=order.index)


def test_what_was_found_is_grouped_by_file_with_the_row_it_is_about(tmp_path):
    found = tables_of(show.invalid(tmp_path / "i"))
    (group,) = found["files"]
    assert group["file"].endswith("cpu_op_type_info_0.csv")
    ((one, where, line, _),) = group["findings"]
    assert (where, line) == ("line 3 $.percent", 3)
    assert one.excerpt.endswith(",<b>many</b>")


def test_nothing_is_quoted_for_those_who_want_no_notes(tmp_path):
    show.invalid(tmp_path / "i")
    for notes in (True, False):
        (found,) = examine(replay(tmp_path / "i"), workload="a", policy=show.POLICY, notes=notes).findings
        assert bool(found.excerpt) == notes


def test_in_a_hint_what_is_between_backticks_is_code_and_in_a_name_it_is_text(hostile):
    assert hint("wrap it in `with step():`; a/b") == "wrap it in <code>with step():</code>; a/<wbr>b"
    assert hint("one ` alone & <b>") == "one ` alone &amp; &lt;b&gt;"
    assert "`code` **bold**" in hostile


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0.147 → 0.294 ms (+100.0 %)", "0.147 → 0.294~ms (+100.0~%)"),
        ("7.50 KiB/step, 512 bytes", "7.50~KiB/step, 512~bytes"),
        ("3 steps of 12 us", "3 steps of 12~us"),
        ("rank 1 s2 %d", "rank 1 s2 %d"),
    ],
)
def test_a_line_never_breaks_between_a_number_and_its_unit(text, expected):
    assert kept(text) == expected.replace("~", "\N{NO-BREAK SPACE}")


def test_one_is_not_many():
    verdict = replace(show.measured("a"), read={"ranks": 1, "cycles": 1, "files": 1, "rows": 2})
    assert tables_of(verdict)["measured"][-1] == (
        "recording",
        f"layout {verdict.layouts[0]}: 1 rank, 1 cycle, 1 file, 2 rows",
    )


def test_a_long_list_of_findings_is_cut_and_counted():
    findings = tuple(Finding(code=Code.S103, place=f"a.csv:{n}", message="m") for n in range(MOST_FINDINGS + 3))
    found = tables_of(Verdict(workload="a", outcome=Outcome.INVALID, findings=findings))
    assert (sum(len(group["findings"]) for group in found["files"]), found["left_out"]) == (MOST_FINDINGS, 3)


def test_what_to_do_about_a_code_stands_once_in_a_file():
    findings = tuple(Finding(code=Code.S103, place=f"a.csv:{n}", message="m") for n in (1, 2))
    findings += (Finding(code=Code.A103, place="b", message="m", severity=Severity.NOTE),)
    found = tables_of(Verdict(workload="a", outcome=Outcome.INVALID, findings=findings))
    assert [[bool(fix) for *_, fix in group["findings"]] for group in found["files"]] == [[True, False], [True]]


def test_an_environment_that_differs_is_marked():
    rows = {name: (before, now, differs) for name, before, now, differs in tables_of(show.failing())["environment"]}
    assert rows["torch"][0] == "2.4.0"
    assert rows["torch"][2]
    assert not rows["python"][2]
