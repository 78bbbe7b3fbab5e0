"""The page as its readers see it: in a real browser, by mouse, keyboard and axe-core."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.reports.page import page_html
from tests.browser import Shown, chromium
from tests.reports import runs_to_show as show

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

DESKTOP, LAPTOP, PHONE = (1920, 1080), (1366, 768), (390, 844)
#: Widths at which no label may be clipped.
WIDTHS = (360, 768, 1600)
#: Jobs of so many ranks, and which of them is odd.
RANKS = {"ranks": (48, 17), "1024-ranks": (1024, 517)}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """Write the pages of runs that went in every way a run can go."""
    place = tmp_path_factory.mktemp("pages")
    trace = next((show.TORCH / "profiler").rglob("*.json")).read_bytes()
    passing, failing, hostile = show.passing(), show.failing(), show.hostile(place / "h")
    others = show.without_baseline(), show.on_another_machine(), show.invalid(place / "i")
    runs = {
        "passing": show.run_of(passing),
        "failing": show.run_of(failing),
        "invalid": show.run_of(others[2]),
        "all": show.run_of(
            passing,
            failing,
            *others,
            hostile,
            unused=("a gone one",),
            not_run=("test_x.py::test_x",),
            trends=tuple(show.history_of(one.workload) for one in (passing, failing, hostile)),
        ),
        "hostile": show.run_of(hostile, unused=show.HOSTILE, not_run=show.HOSTILE, remarks=show.HOSTILE),
        "operators": show.run_of(show.many_operators()),
        "nothing": show.run_of(),
        "three": show.run_of(passing, failing, others[2]),
        "both-sides": show.run_of(show.both_sides()),
        "history": show.run_of(
            failing,
            trends=(show.history_of(failing.workload), show.history_of(failing.workload, metric="peak_memory_bytes")),
        ),
        "two-ranks": show.run_of(show.many_ranks(place / "two", 2, quick=1)),
        "long": show.run_of(show.long_names(place / "long"), error_rate="x" * 400),
    }
    found = {}
    for name, run in runs.items():
        found[name] = place / f"{name}.html"
        found[name].write_text(page_html(run), encoding="utf-8")
    found["ranks"] = page_of_ranks(place, "ranks")
    found["timeline"] = place / "timeline.html"
    found["timeline"].write_text(
        page_html(show.run_of(failing), timelines={failing.recording: trace}), encoding="utf-8"
    )
    return found


def page_of_ranks(place: Path, name: str) -> Path:
    count, odd = RANKS[name]
    path = place / f"{name}.html"
    path.write_text(page_html(show.run_of(show.many_ranks(place / name, count, quick=odd))), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, pages):
    """Open a page by name; in the end nothing was said on the console, and nothing was asked of the network."""
    every: list[Shown] = []

    def open_page(name: str, *, size: tuple[int, int] = LAPTOP, **how) -> Shown:
        every.append(Shown(browser, pages[name], size=size, **how))
        return every[-1]

    yield open_page
    for one in every:
        assert one.said == []
        assert one.outside == []
        one.context.close()


SIGHTS = [(LAPTOP, "light"), (PHONE, "dark")]
OTHER_SIGHTS = [(LAPTOP, "dark"), (PHONE, "light"), (DESKTOP, "light")]


def is_well_made(shown: Shown, name: str, scheme: str) -> None:
    """Look at all of a page: axe-core, the theme, the width; keep what it looks like."""
    width = shown.page.viewport_size["width"]
    shown.keep(f"{name}-{width}-{scheme}")
    for found in shown.page.query_selector_all("details"):
        found.evaluate("one => { one.open = true }")
    assert shown.violations() == []
    assert shown.page.evaluate("document.documentElement.dataset.theme") == scheme
    # Nothing is wider than the window, so nobody scrolls sideways.
    assert shown.page.evaluate("document.scrollingElement.scrollWidth") <= width
    shown.keep(f"{name}-{width}-{scheme}-whole", whole=True)


@pytest.mark.parametrize(
    "name, size, scheme",
    [("all", *SIGHTS[1]), ("hostile", *SIGHTS[0]), pytest.param("ranks", *SIGHTS[0], marks=pytest.mark.exhaustive)],
    ids=["all on a phone", "hostile", "ranks"],
)
def test_a_page_says_nothing_on_the_console_asks_for_nothing_and_is_accessible(opened, name, size, scheme):
    is_well_made(opened(name, size=size, scheme=scheme), name, scheme)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name, size, scheme",
    [
        *(("all", *sight) for sight in OTHER_SIGHTS),
        *((name, *sight) for name in ("passing", "failing", "operators", "invalid") for sight in SIGHTS),
        *((name, *SIGHTS[1]) for name in ("hostile", "ranks")),
    ],
)
def test_in_other_windows_a_page_is_as_well_made(opened, name, size, scheme):
    is_well_made(opened(name, size=size, scheme=scheme), name, scheme)


@pytest.mark.parametrize("width", [WIDTHS[0], *(pytest.param(one, marks=pytest.mark.exhaustive) for one in WIDTHS[1:])])
@pytest.mark.exhaustive
def test_no_label_is_clipped(opened, width):
    wrong = {}
    for name in ("passing", "failing", "invalid", "both-sides", "two-ranks", "ranks", "hostile", "long", "history"):
        shown = opened(name, size=(width, 1000))
        wrong[name] = shown.clipped()
        if (wide := shown.page.evaluate("document.scrollingElement.scrollWidth")) > width:
            wrong[name].append(f"the page is {wide} wide")
        # What a person looks at: all pages, all widths, light and dark.
        shown.keep(f"{name}-{width}-light-whole", whole=True)
        shown.page.emulate_media(color_scheme="dark")
        shown.count("html[data-theme=dark]", 1)
        shown.keep(f"{name}-{width}-dark-whole", whole=True)
    assert {name: found for name, found in wrong.items() if found} == {}


def test_on_a_phone_the_headline_is_on_the_first_screen(opened):
    headline = opened("all", size=PHONE).page.locator("article:not([hidden]) h2").bounding_box()
    assert headline["y"] + headline["height"] < 2 / 3 * PHONE[1]


def test_the_timeline_has_a_lane_for_each_thread_of_both_sides_and_zooms_and_finds(opened):
    shown = opened("both-sides")
    page = shown.page
    place = page.locator(".step-timeline")
    assert place.locator(".side strong").all_inner_texts() == ["baseline", "now"]
    # A thread and the pauses of each.
    assert place.locator(".lane canvas").count() == 4
    labels = [text for text in place.locator(".lane .label").all_inner_texts() if text]
    assert all(text.startswith("thread ") or text == "nothing ran" for text in labels)

    def edges() -> tuple[float, float]:
        texts = place.locator(".xs span").all_inner_texts()
        return float(texts[0].split()[0]), float(texts[-1].split()[0])

    start, end = edges()
    assert start == 0
    drawn = 'document.querySelector(".lane canvas").toDataURL()'
    whole = page.evaluate(drawn)
    place.get_by_label("Zoom in").click()
    assert edges()[1] - edges()[0] == pytest.approx(end / 2, rel=0.01)
    assert page.locator("#said").inner_text().startswith("from ")
    assert page.evaluate(drawn) != whole
    place.locator(".lanes").focus()
    page.keyboard.press("ArrowRight")
    moved = edges()
    page.keyboard.press("-")
    page.keyboard.press("0")
    assert moved[0] > end / 4
    assert edges() == (0, end)
    # Ctrl and the wheel zoom at the pointer; the wheel alone scrolls the page.
    place.locator("canvas").first.hover(position={"x": 10, "y": 5})
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    shown.count(f".step-timeline .xs .end:text-is('{end:.1f} us')", 0)
    assert edges()[1] < end
    place.locator(".lanes").focus()
    page.keyboard.press("0")
    assert page.evaluate(drawn) == whole
    find = place.get_by_label("Find an operator")
    find.fill("ADDMM")
    assert re.fullmatch(r"\d+ found, [\d.]+ us in all", place.locator(".found").inner_text())
    assert page.evaluate(drawn) != whole
    page.keyboard.press("Enter")
    assert edges()[0] > 0
    find.fill("no such operator")
    assert place.locator(".found").inner_text().startswith("0 found")
    # The same as a table, for those who see no canvas.
    assert place.locator("details tbody tr").filter(has_not_text="nothing ran").count() == 40
    shown.page.emulate_media(color_scheme="dark")
    shown.count("html[data-theme=dark]", 1)


#: What WCAG 2 calls contrast, of a bar's edge on the page and of its text on its fill, by every hue that a bar may have.
CONTRASTS = """() => {
  const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...probe.getImageData(0, 0, 1, 1).data].map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const style = getComputedStyle(document.body);
  const pen = CanvasRenderingContext2D.prototype, filled = pen.fillRect, texted = pen.fillText, said = [];
  pen.fillRect = function (...box) { said.push(["rect", this.fillStyle, box[2], box[3]]); filled.apply(this, box); };
  pen.fillText = function (...text) { said.push(["text", this.fillStyle]); texted.apply(this, text); };
  window.dispatchEvent(new Event("resize"));
  [pen.fillRect, pen.fillText] = [filled, texted];
  let least = [Infinity, Infinity], fill = "", bars = 0;
  for (const [kind, colour, width, height] of said) {
    if (kind === "rect" && height === 14) {
      bars += 1;
      fill = colour;
      least[0] = Math.min(least[0], contrast(colour, style.backgroundColor));
    } else if (kind === "rect" && height === 12) fill = colour;
    else if (kind === "text") least[1] = Math.min(least[1], contrast(colour, fill));
  }
  return [bars, ...least];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.exhaustive
def test_the_bars_of_a_timeline_are_seen_and_their_names_are_read(opened, scheme):
    shown = opened("both-sides", scheme=scheme)
    bars, on_page, on_bar = shown.page.evaluate(CONTRASTS)
    assert bars > 40
    assert on_page >= 3
    assert on_bar >= 4.5


@pytest.mark.exhaustive
def test_a_timeline_explains_what_it_has_and_nothing_else(opened):
    note = ".step-timeline .timeline-view .note"
    assert "the same on both sides" in opened("both-sides").page.locator(note).inner_text()
    alone = opened("failing").page.locator(note).inner_text()
    assert alone == "A colour is an operator; what it calls is below it. Drag to move; Ctrl and the wheel zoom."


@pytest.mark.exhaustive
def test_300_workloads_are_one_page(browser, pages, tmp_path):
    path = tmp_path / "many.html"
    names = [f"tests/test_{number:03d}.py::test_{'long_' * 70}{number}" for number in range(300)]
    verdict = show.failing()
    path.write_text(page_html(show.run_of(*(replace(verdict, workload=name) for name in names))), encoding="utf-8")
    print(f"the page has {path.stat().st_size / 1e6:.1f} MB")
    assert path.stat().st_size < 40_000_000
    shown = Shown(browser, path, size=PHONE, fragment="#w299")
    assert shown.page.locator("article:visible").count() == 1
    assert "test_299.py" in shown.page.locator("article:visible .workload").inner_text()
    shown.page.locator("#find-workload").fill("test_123")
    assert shown.page.locator("#workloads li:visible").count() == 1
    assert shown.page.evaluate("document.scrollingElement.scrollWidth") <= PHONE[0]
    assert (shown.said, shown.outside) == ([], [])
    shown.context.close()


def test_three_tests_are_at_most_two_megabytes(pages):
    assert pages["three"].stat().st_size <= 2_000_000


def test_without_scripts_the_page_says_so_and_shows_every_verdict_figure_and_table(opened):
    shown = opened("all", scripts=False)
    page = shown.page
    assert "Scripts are off" in page.locator("noscript p").inner_text()
    articles = page.locator("article:visible")
    assert articles.count() == page.locator("#workloads a").count() > 3
    for article in articles.all():
        assert article.locator(".verdict h2").inner_text()
        if article.locator(".verdict.INVALID").count() == 0:
            assert article.locator(".operators tbody tr:visible").count() > 10
            assert article.locator("figure:visible .drawing").count() > 1
    # A button would do nothing.
    assert page.locator("button:visible").count() == 0
    shown.keep("all-without-scripts", whole=True)


def test_a_printed_page_has_its_figures_in_dark_ink_on_white(opened):
    shown = opened("failing", scheme="dark")
    shown.page.emulate_media(media="print")
    back, ink = (
        shown.page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
    )
    assert (back, ink) == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    assert shown.page.locator("nav:visible, button:visible, input:visible").count() == 0
    assert shown.page.locator("figure:visible .drawing").count() >= 4
    assert shown.clipped() == []
    assert len(shown.page.pdf()) > 10_000


@pytest.mark.exhaustive
def test_1024_ranks_are_one_page(opened, pages, tmp_path):
    pages["1024-ranks"] = page_of_ranks(tmp_path, "1024-ranks")
    shown = opened("1024-ranks")
    names_the_odd_rank(shown, "1024-ranks")
    is_well_made(shown, "1024-ranks", "light")
    print(f"the page has {pages['1024-ranks'].stat().st_size / 1e6:.1f} MB")


def test_a_run_without_a_workload_says_so(browser, pages):
    context = browser.new_context()
    page = context.new_page()
    page.goto(pages["nothing"].as_uri())
    assert page.locator("h2").inner_text() == "Nothing was measured, so nothing was gated."
    context.close()


@pytest.mark.parametrize("size", [LAPTOP, DESKTOP], ids=["laptop", "desktop"])
def test_the_first_screen_of_a_failure_answers_the_question(opened, size):
    shown = opened("failing", size=size)
    for what in (
        ".verdict .badge",
        ".verdict h2",
        ".verdict .where",
        ".points li",
        ".verdict .since",
        ".advice code",
        "figure[data-kind=waterfall] .drawing",
        "figure[data-kind=distribution] .drawing",
        "figure[data-kind=memory] .drawing",
    ):
        assert shown.is_on_screen(what), what
    # A number is never in another line than its unit.
    assert shown.page.locator(".verdict h2").inner_text() == (
        "The step does more work: aten::addmm (0 → 2 calls a step). A step became slower: 147 → 294~us (+100.0~%). "
        "Peak memory on cpu: 776 → 1552~bytes (+100.0~%); torch 2.4.0 → 2.13.0+cpu since the baseline."
    ).replace("~", "\N{NO-BREAK SPACE}")
    said = shown.page.locator(".verdict").inner_text()
    assert "commit fedcba987654, stored because “a first one” → now: commit 0123456789ab, branch wider" in said
    assert "the test is tests/test_net.py:20" in said
    assert 'pytest --perfguard --perfguard-update tests/test_net.py::test_fails --perfguard-reason "..."' in said


def test_on_a_phone_the_outcome_comes_first(opened):
    shown = opened("failing", size=PHONE)
    for what in (".verdict .badge", ".verdict h2", ".points li"):
        assert shown.is_on_screen(what), what


def test_every_figure_is_drawn_and_has_its_numbers_as_a_table(opened):
    shown = opened("failing")
    kinds = [one.get_attribute("data-kind") for one in shown.page.query_selector_all("article:not([hidden]) figure")]
    assert kinds == ["waterfall", "distribution", "memory", "steps"]
    for figure in shown.page.query_selector_all("figure"):
        drawing = figure.query_selector(".drawing")
        assert drawing.query_selector("path[d]:not(.grid), .track i") is not None
        assert drawing.get_attribute("aria-label")
        assert len(figure.query_selector_all("tbody tr")) > 0
    bars = shown.page.locator("figure[data-kind=waterfall] .drawing .track i")
    rows = shown.page.locator("figure[data-kind=waterfall] tbody tr")
    # Corrections are a row, and no bar.
    assert bars.count() == rows.count() - 1


def texts(shown: Shown, column: int, *, grid: str = ".operators") -> list[str]:
    rows = shown.page.query_selector_all(f"article:not([hidden]) {grid} tbody tr")
    return [row.query_selector_all("th, td")[column].inner_text() for row in rows]


@pytest.mark.exhaustive
def test_operators_are_sorted_by_a_click_and_by_the_keyboard(opened):
    shown = opened("failing")
    page = shown.page
    heads = page.locator("article:not([hidden]) .operators thead th")
    titles = [one.split(" ↓")[0].split(" ↑")[0] for one in heads.all_inner_texts()]
    now = titles.index("us now")
    values = [float(one) for one in texts(shown, now)]
    assert values == sorted(values, reverse=True)
    assert heads.nth(now).get_attribute("aria-sort") == "descending"
    heads.nth(now).locator("button").click()
    assert [float(one) for one in texts(shown, now)] == sorted(values)
    assert heads.nth(now).get_attribute("aria-sort") == "ascending"
    assert page.locator("#said").inner_text() == "sorted by us now, ascending"
    heads.nth(0).locator("button").focus()
    page.keyboard.press("Enter")
    names = [one.split("\n")[0] for one in texts(shown, 0)]
    assert names == sorted(names, key=str.casefold) or names == sorted(names)
    verdict = titles.index("verdict")
    heads.nth(verdict).locator("button").click()
    assert texts(shown, verdict)[0] == "▲ worse"


def test_operators_are_filtered_by_name_and_by_verdict(opened):
    shown = opened("failing")
    page = shown.page
    place = "article:not([hidden]) .operators"
    page.locator(f"{place} input").fill("ADDMM")
    shown.count(f"{place} tbody tr", 3)
    assert {one.split("\n")[0] for one in texts(shown, 0)} == {
        "aten::addmm",
        "AddmmBackward0",
        "autograd::engine::evaluate_function: AddmmBackward0",
    }
    page.locator(f"{place} select").select_option("worse")
    assert [one.split("\n")[0] for one in texts(shown, 0)] == ["aten::addmm"]
    assert "0 → 2 calls/step" in texts(shown, 0)[0]
    page.locator(f"{place} input").fill("no such operator")
    shown.count(f"{place} tbody tr", 0)
    assert page.locator("#said").inner_text().startswith("0 of ")


@pytest.mark.exhaustive
def test_the_share_of_an_operator_is_that_of_the_profiled_step(opened):
    shown = opened("failing")
    (step_us,) = (one.value for one in show.failing().measurements if one.metric == "profiled_step_time")
    heads = shown.page.locator("article:not([hidden]) .operators thead th")
    at = [one.split(" ↓")[0] for one in heads.all_inner_texts()].index("share of the step")
    shares = [float(one.split()[0]) for one in texts(shown, at)]
    times = [float(one) for one in texts(shown, at - 4)]
    assert shares == pytest.approx([100 * one / step_us for one in times], rel=0.02, abs=0.01)
    assert sum(shares) < 100
    # The first bar is as long as it says, and begins below its header.
    bar = shown.page.locator("article:not([hidden]) .operators .bar").first
    length, whole = (one.bounding_box()["width"] for one in (bar.locator("i").last, bar))
    assert length == pytest.approx(whole * shares[0] / 100, abs=1)
    assert bar.bounding_box()["x"] == pytest.approx(heads.nth(at).locator("button").bounding_box()["x"], abs=1)


#: The tables that are wider than their place, and the rows of which a name is not above all of its numbers.
CROWDED = """() => [...document.querySelectorAll(".stacked")].filter((one) => one.checkVisibility()).flatMap((table) => {
  const place = table.closest(".scroll"), name = table.querySelector(".name") ? ".name" : ":scope > :first-child";
  const said = place.getAttribute("aria-label");
  const wide = place.scrollWidth > place.clientWidth + 1 ? [`${said}: ${place.scrollWidth - place.clientWidth} too wide`] : [];
  return wide.concat([...table.querySelectorAll("tr")].filter((row) => {
    const above = row.querySelector(name).getBoundingClientRect();
    return [...row.children].some((one) => one.checkVisibility() && one !== row.querySelector(name)
      && one.getBoundingClientRect().top < above.bottom - 1);
  }).map((row) => `${said}: ${row.textContent.slice(0, 60)}`));
})"""


@pytest.mark.exhaustive
def test_on_a_phone_a_name_is_above_its_numbers_and_no_number_is_broken(opened):
    wrong = {}
    for name in ("passing", "failing", "both-sides", "two-ranks", "ranks", "invalid"):
        shown = opened(name, size=(360, 800))
        for found in shown.page.query_selector_all("details"):
            found.evaluate("one => { one.open = true }")
        assert shown.page.locator(".stacked:visible").count() > (0 if name == "invalid" else 3), name
        wrong[name] = shown.page.evaluate(CROWDED)
        # A number, and the line that a finding quotes, are whole.
        for cell in shown.page.locator("td.figure:visible, td.number:visible, .part .value:visible").all()[:60]:
            if cell.evaluate(
                "one => { const range = document.createRange(); range.selectNodeContents(one);"
                "return range.getBoundingClientRect().height > 24 }"
            ):
                wrong[name].append(f"broken: {cell.inner_text()}")
        for quoted in shown.page.locator("pre:visible").all():
            if quoted.evaluate("one => one.scrollWidth > one.clientWidth"):
                wrong[name].append(f"cut: {quoted.inner_text()}")
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.exhaustive
def test_ten_thousand_operators_stay_quick(opened):
    began = time.perf_counter()
    shown = opened("operators")
    place = "article:not([hidden]) .operators"
    print(f"10 000 operators are shown after {time.perf_counter() - began:.2f} s")
    assert shown.page.locator(f"{place} tbody tr").count() == 100
    assert "100 of 10000 shown" in shown.page.locator(f"{place} .tools").inner_text()
    began = time.perf_counter()
    shown.page.locator(f"{place} input").fill("op::00003")
    shown.count(f"{place} tbody tr", 1)
    print(f"and filtered after {time.perf_counter() - began:.2f} s")
    shown.page.locator(f"{place} input").fill("")
    shown.count(f"{place} tbody tr", 100)
    shown.page.locator(f"{place} select").select_option("changed")
    assert "100 of 10000" in shown.page.locator(f"{place} .tools").inner_text()
    shown.page.locator(f"{place} select").select_option("")
    shown.page.locator(f"{place} > button").click()
    assert shown.page.locator(f"{place} tbody tr").count() == 600


@pytest.mark.exhaustive
def test_ranks_have_a_heat_map_in_which_the_odd_one_is_named(opened):
    names_the_odd_rank(opened("ranks"), "ranks")


def names_the_odd_rank(shown: Shown, name: str) -> None:
    count, place = RANKS[name]
    odd = sorted(range(count), key=lambda rank: f"rank{rank}.")[place]
    figure = shown.page.locator("figure[data-kind=ranks]:visible")
    assert f"{count} ranks" in figure.inner_text()
    rows = [one.locator("td").all_text_contents() for one in figure.locator("tbody tr").all()]
    # No other rank has so quick an operator; which number the rank has is written in the name of its file.
    assert [row[0] for row in rows if row[1] == "aten::empty" and float(row[3].split()[0]) < -60] == [str(odd)]
    choice = shown.page.locator("section:has(figure[data-kind=ranks]) .tools select")
    titles = choice.locator("option").all_text_contents()
    assert titles[0] == "operator_time by rank"
    choice.select_option(str(titles.index("operator_calls by rank")))
    assert "operator_calls by rank" in shown.page.locator("figure[data-kind=ranks]:visible figcaption").inner_text()


def test_names_of_a_recording_are_text_and_nothing_else(opened):
    shown = opened("hostile")
    page = shown.page
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == 0
    said = page.locator("body").inner_text()
    for name in (
        "<script>window.pwned=1</script>",
        "javascript:alert(1)",
        "\\u202eb\\u200f",
        "bell\\x07\\x1b[31m",
        "{{ 7*7 }}",
    ):
        assert name in said, name
    assert page.locator("a[href^='javascript']").count() == 0
    assert not any(mark in said for mark in "\u202e\u200f\u2066\x07\x1b")
    # The pointer shows a text of the recording.
    page.locator("figure[data-kind=memory] .drawing svg").hover(position={"x": 100, "y": 40})
    assert page.locator(".tip").inner_text().startswith("step ")
    assert page.evaluate("window.pwned") is None


@pytest.mark.exhaustive
def test_one_of_many_workloads_is_chosen_by_a_link_that_can_be_shared(opened):
    shown = opened("all")
    page = shown.page
    names = page.locator("#workloads a .badge").all_inner_texts()
    assert names == sorted(names, key=["FAILED", "INVALID", "INCONCLUSIVE", "PASSED"].index)
    assert page.locator("article:visible").count() == 1
    page.locator("#workloads a", has_text="test_invalid").click()
    # Browsers tell of a new fragment later, so this is waited for, like all that follows a link.
    shown.count("article:visible h2:has-text('The recording is incomplete or wrong')", 1)
    assert page.locator("article:visible pre").inner_text().endswith("<b>many</b>")
    address = page.url
    other = opened("all", fragment=address[address.index("#") :])
    assert "test_invalid" in other.page.locator("article:visible .workload").inner_text()
    assert other.page.locator("nav a[aria-current=true]").count() == 1


def test_the_keyboard_alone_reaches_the_result_the_workloads_and_the_theme(opened):
    shown = opened("all")
    page = shown.page
    page.keyboard.press("Tab")
    shown.count(".skip:focus", 1)
    page.keyboard.press("Enter")
    shown.count("#main:focus", 1)
    fourth = page.locator("#workloads a").nth(3)
    assert fourth.get_attribute("aria-current") is None
    fourth.focus()
    page.keyboard.press("Enter")
    shown.count(f"#workloads a[href='{fourth.get_attribute('href')}'][aria-current=true]", 1)
    page.locator("#theme").focus()
    page.keyboard.press("Space")
    shown.count("html[data-theme=dark]", 1)


def test_a_command_is_copied(opened, browser):
    shown = opened("failing")
    button = shown.page.locator(".copy").first
    button.click()
    shown.count(".copy:text-is('copy')", shown.page.locator(".copy").count() - 1)
    assert shown.page.evaluate("getSelection().toString()") == "pytest --perfguard tests/test_net.py::test_fails"


#: Stands for https://ui.perfetto.dev, which cannot be reached from everywhere; it answers as Perfetto's documents say.
PERFETTO = """<!doctype html><script>
addEventListener("message", (event) => {
  if (event.data === "PING") event.source.postMessage("PONG", "*");
  else if (event.data.perfetto) window.given = {
    title: event.data.perfetto.title, text: new TextDecoder().decode(event.data.perfetto.buffer) };
});
</script>"""


@pytest.mark.exhaustive
def test_the_timeline_is_handed_to_perfetto_and_can_be_saved(browser, pages, tmp_path):
    shown = Shown(browser, pages["timeline"], size=LAPTOP)
    trace = json.loads(next((show.TORCH / "profiler").rglob("*.json")).read_text())
    assert shown.outside == []
    shown.context.route(
        "https://ui.perfetto.dev/**", lambda route: route.fulfill(body=PERFETTO, content_type="text/html")
    )
    with shown.context.expect_page() as other:
        shown.page.locator("button.timeline").click()
    other.value.wait_for_function("window.given")
    given = other.value.evaluate("window.given")
    assert given["title"] == "tests/test_net.py::test_fails"
    assert json.loads(given["text"]) == trace
    with shown.page.expect_download() as saved:
        shown.page.locator("button.save").click()
    saved.value.save_as(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == trace
    # The click asked for Perfetto, and nothing else was ever asked for.
    assert set(shown.outside) == {"https://ui.perfetto.dev/"}
    assert shown.said == []
    shown.context.close()


@pytest.mark.parametrize("fragment", ["#f99", "#f0"])
@pytest.mark.exhaustive
def test_a_link_that_leads_nowhere_shows_the_page(opened, fragment):
    shown = opened("failing", fragment=fragment)
    assert shown.page.locator("article:visible").count() == 1
    assert len(texts(shown, 0)) > 10
