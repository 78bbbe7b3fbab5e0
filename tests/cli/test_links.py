"""Links in a recording that lead out of it: finding A109, and nothing of the other side in any output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import TORCH, copied, run

#: In the name and in the content of every file outside.
SECRET = "SECRET"
#: The links by their place in a recording: the recording itself (one of several) has the place "".
PLACES = ("profiler", "recording.json", "steps.json", "trace", "")

Place = Callable[[str], Path]


@pytest.fixture
def linked(tmp_path: Path) -> Place:
    """Return what makes a directory of two recordings, of which one has a link in some place, and returns that one."""
    outside = copied(TORCH, tmp_path / SECRET, replace=("aten::linear", f"{SECRET}::linear"), workload=SECRET)
    (trace,) = (outside / "profiler").iterdir()

    def link(place: str) -> Path:
        named = tmp_path / f"with-{place or 'link'}"
        copied(TORCH, named / "right")
        if not place:
            (named / "linked").symlink_to(outside)
            return named / "linked"
        copied(TORCH, named / "linked")
        inside = named / "linked" / (f"profiler/{trace.name}" if place == "trace" else place)
        target = outside / SECRET
        (trace if place == "trace" else outside / inside.name).rename(target)
        inside.rename(named / "elsewhere")
        inside.symlink_to(target)
        return named / "linked"

    return link


@pytest.mark.parametrize(
    "place", [*PLACES[:1], *(pytest.param(one, marks=pytest.mark.exhaustive) for one in PLACES[1:-1]), PLACES[-1]]
)
@pytest.mark.variants(1)
def test_a_link_out_of_a_recording_is_a109_in_every_command_and_leaks_nothing(linked, place, tmp_path):
    one = linked(place)
    # A link that the user names is followed: it is the directory around it that is judged.
    many = one.parent
    checked = run("check", many, "--json")
    (verdict,) = (found for found in json.loads(checked.stdout)["workloads"] if found["workload"].endswith("linked"))
    codes = {(found["code"], found["severity"]) for found in verdict["findings"]}
    assert (checked.exit_code, verdict["outcome"]) == (3, "INVALID")
    assert ("A109", "error") in codes

    target = many if not place else one
    files = [tmp_path / f"report.{ending}" for ending in ("json", "md", "sarif", "html", "csv")]
    report, markdown, sarif, page, rows = files
    commands = [
        ("check", many, "--explain", "--metrics", "-v", "--sarif", sarif),
        ("report", many, "--json", report, "--markdown", markdown),
        ("view", many, "--no-open", "--output", page),
        ("sql", many, "select * from operators", "--format", "csv", "--output", rows),
        *[("ops", target, "-v"), ("compare", one.parent / "right", target), ("analyse", many)],
    ]
    printed = {str(words[0]): run(*words).output for words in commands}
    leaks = [name for name, text in {**printed, "check --json": checked.output}.items() if SECRET in text]
    leaks += [file.name for file in files if SECRET in file.read_text(encoding="utf-8")]
    assert leaks == []


@pytest.mark.parametrize("scheme", ["local://", "simplecache::file://"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.variants(1)
def test_no_link_of_another_file_system_is_followed(linked, place, scheme):
    pytest.importorskip("fsspec", reason="URLs need the extra remote")
    found = run("check", f"{scheme}{linked(place).parent}", "--explain", "--metrics", "-v")
    assert (found.exit_code, "A109" in found.output, SECRET in found.output) == (3, True, False)


@pytest.mark.exhaustive
def test_a_link_inside_a_directory_and_one_that_the_user_names_are_followed(tmp_path):
    one = copied(TORCH, tmp_path / "runs" / "one")
    (tmp_path / "runs" / "latest").symlink_to("one")
    (one / "data").mkdir()
    for name in ("recording.json", "steps.json"):
        (one / name).rename(one / "data" / name)
        (one / name).symlink_to(f"data/{name}")
    (tmp_path / "named").symlink_to(tmp_path / "runs" / "one")
    for place, count in ((tmp_path / "runs", 2), (tmp_path / "named", 1), (tmp_path / "runs" / "latest", 1)):
        found = run("check", place)
        assert (found.exit_code, found.stdout.count("PASSED")) == (0, count)
