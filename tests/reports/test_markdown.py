"""The run in Markdown, read back by GitHub's own library (cmark-gfm)."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

cmarkgfm = pytest.importorskip("cmarkgfm", reason="cmarkgfm is not installed")
from cmarkgfm.cmark import Options  # noqa: E402

from perfguard.judge.refresh import Refresh  # noqa: E402
from perfguard.judge.verdict import Outcome, Verdict  # noqa: E402
from perfguard.recording import Provenance  # noqa: E402
from perfguard.reports.markdown import MOST_CHARACTERS, report_markdown  # noqa: E402
from tests.reports import runs_to_show as show  # noqa: E402


class Rendered(HTMLParser):
    """What GitHub makes of a text: the elements, and the text of each kind of element."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        # Raw HTML is let through, as GitHub does before it cleans it: what would get so far is seen here.
        self.feed(cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in self._open:
            self.texts[tag][-1] += data


def rows_of(found: Rendered) -> int:
    return found.tags.count("tr") - 1


def test_a_failure_is_told_in_a_heading_words_findings_and_commands():
    found = Rendered(report_markdown(show.run_of(show.failing(), show.passing())))
    assert found.texts["h3"] == ["perfguard: ❌ 1 failed, ✅ 1 passed"]
    assert found.texts["h4"] == ["❌ tests/test_net.py::test_fails"]
    assert found.texts["strong"][0].startswith(
        "The step does more work: aten::addmm (0 → 2 calls a step). A step became slower: 147 → 294 us (+100.0 %)."
    )
    findings, numbers, commands = found.texts["pre"]
    assert "R102 peak_memory_bytes[cpu] 776 → 1552 bytes, +100.0 %" in findings
    assert "step +147.3 us:" in findings
    assert "under the profiler, wall time: the fastest step" in numbers
    assert "0.147 → 0.294" in found.texts["td"]
    assert 'pytest --perfguard --perfguard-update tests/test_net.py::test_fails --perfguard-reason "..."' in commands
    assert rows_of(found) == 2
    assert "commit 0123456789ab" in found.texts["sub"][0]


@pytest.mark.parametrize(
    "make, title", [(show.passing, "perfguard: ✅ 1 passed"), (show.without_baseline, "perfguard: ❔ 1 inconclusive")]
)
def test_the_title_counts_the_outcomes(make, title):
    assert Rendered(report_markdown(show.run_of(make()))).texts["h3"] == [title]


def test_a_run_that_measured_nothing_says_so():
    text = report_markdown(show.run_of(unused=("gone",), not_run=("a", "b")))
    found = Rendered(text)
    assert found.texts["h3"] == ["❔ perfguard: nothing was measured, so nothing was gated"]
    assert "B104" in text
    assert "2 not run" in text


def test_what_failed_is_told_before_what_has_no_baseline():
    unknown = show.without_baseline()
    many = [replace(unknown, workload=f"tests/test_net.py::test_{number}") for number in range(400)]
    found = Rendered(report_markdown(show.run_of(*many, replace(show.failing(), workload="z.py::test_z"))))
    assert "z.py::test_z" in found.texts["h4"][0]
    assert any("FAILED" in row and "z.py::test_z" in row for row in found.texts["tr"][:3])


def test_of_a_newer_report_of_which_nothing_is_known_it_is_said():
    text = report_markdown(replace(show.run_of(), is_partial=True))
    assert "nothing of this report could be read" in text


def test_names_of_a_recording_are_no_markup(tmp_path):
    verdict = show.hostile(tmp_path / "h")
    text = report_markdown(show.run_of(verdict, unused=show.HOSTILE, remarks=show.HOSTILE))
    found = Rendered(text)
    assert not {"script", "img", "a", "h1", "h2"} & set(found.tags), found.texts.get("a")
    assert rows_of(found) == 1
    # No name opens a block, mentions anybody or turns text around.
    assert "\u202e" not in text
    assert not any(mark in text for mark in "\x07\x1b")
    outside = " ".join(found.texts.get("p", []) + found.texts.get("blockquote", []))
    assert "<script>window.pwned=1</script>" in outside
    assert not re.search("[^>]@team", re.sub("<code>.*?</code>", "", text))


@pytest.mark.parametrize("text", show.LINKS)
def test_a_foreign_text_is_live_nowhere(text):
    """As a name, a remark, a commit, and words of a headline; at the beginning and in a sentence."""
    verdict = replace(show.failing(), workload=text, source=text, origin=text, outcome=Outcome.FAILED)
    for remark in (text, f"accepted: a says {text}"):
        run = replace(show.run_of(verdict, unused=(text,), remarks=(remark,)), provenance=Provenance(commit=text))
        assert show.live(report_markdown(run)) == []


def test_a_sentence_of_perfguard_stays_a_sentence():
    sentence = "Slower: 1.5 → 2.5 ms (+66.7 %), the side's step; more work, isn't it?"
    assert f"> {sentence}\n" in report_markdown(show.run_of(remarks=(sentence,)))


def test_many_remarks_and_names_leave_room_for_the_workloads():
    many = tuple("x" * 5000 for _ in range(5000))
    text = report_markdown(show.run_of(show.failing(), unused=many, remarks=many))
    assert len(text) <= MOST_CHARACTERS
    found = Rendered(text)
    assert rows_of(found) == 1
    assert "and 4980 more" in text


@pytest.mark.parametrize("padding", [0, 150, 5000])
@pytest.mark.parametrize("count", [1, 60, 2500])
@pytest.mark.variants(1)
def test_a_long_run_stays_within_what_a_comment_may_have(count, padding):
    failing = show.failing()
    verdicts = [
        replace(failing, workload=f"tests/test_net.py::{'_' * padding}test_{number}", source="")
        for number in range(count)
    ]
    text = report_markdown(show.run_of(*verdicts))
    assert len(text) <= MOST_CHARACTERS + 200
    found = Rendered(text)
    assert found.texts["h3"] == [f"perfguard: ❌ {count} failed"]
    shown = len(found.texts["h4"])
    if shown < count:
        assert f"{count - shown} more are not green" in text
    assert shown >= 1
    rows = rows_of(found)
    assert rows == min(count, 200) or (padding and f"and {count - rows} more workloads" in text)


def test_a_refresh_is_told_by_what_became_of_the_baseline():
    verdict = Verdict(workload="a", outcome=Outcome.PASSED, findings=(), refresh=Refresh.CREATED)
    assert "✅ created" in Rendered(report_markdown(show.run_of(verdict))).texts["tr"][1]
