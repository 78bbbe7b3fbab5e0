"""The workflow that comments: its scripts as they stand there, beside a stand-in for GitHub's API."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfguard.reports.document import report_json
from tests.github_api import BOT, MOST_CHARACTERS, REPOSITORY, TOKEN, GitHub, serving
from tests.reports import runs_to_show as show

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

WORKFLOW = Path(__file__).parent.parent / ".github" / "workflows" / "perfguard-comment.yml"
MARKER = "<!-- perfguard -->"
HEAD, SHA, FORK = "stranger:faster; rm -rf $HOME & x=1", "a" * 40, 7
TEXT = "### perfguard: ✅ 2 passed\n"


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving() as github:
        github.pull(3, head=HEAD, sha=SHA, repository_id=FORK)
        yield github


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    directory = tmp_path / "comment"
    directory.mkdir()
    (directory / "number.txt").write_text("3\n")
    (directory / "comment.md").write_text(TEXT, encoding="utf-8")
    return directory


def step_of(job: str, name: str) -> dict[str, str]:
    (step,) = [one for one in yaml.safe_load(WORKFLOW.read_text())["jobs"][job]["steps"] if one.get("name") == name]
    return step


def rendered(reports: Path) -> str:
    """Run the script that renders the reports of a run as GitHub's runner does, and return the comment."""
    place = reports.with_name("rendered")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    environment = {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "RUNNER_TEMP": str(place),
        "REPORTS": str(reports),
        "COMMENT": str(place / "comment"),
    }
    command = ["bash", "-e", "-c", step_of("render", "Render the reports")["run"]]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return (place / "comment" / "comment.md").read_text(encoding="utf-8")


def run(github: GitHub, artifact: Path) -> tuple[int, str]:
    """Run the script of the step that comments, and return how it ended and what it said."""
    step = step_of("comment", "Create or edit the comment")
    assert step["shell"] == "python"
    script, event = artifact.parent / "script.py", artifact.parent / "event.json"
    script.write_text(step["run"], encoding="utf-8")
    login, _, branch = HEAD.partition(":")
    head = {"id": FORK, "owner": {"login": login}}
    run = {"head_sha": SHA, "head_branch": branch, "head_repository": head, "html_url": "https://github.com/run/1"}
    event.write_text(json.dumps({"workflow_run": run}), encoding="utf-8")
    environment = {
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_EVENT_PATH": str(event),
        "TOKEN": TOKEN,
        "COMMENT": str(artifact),
    }
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_comment_is_created_once_and_edited_in_place(github, artifact):
    """It is on the second page, and others have written the marker as well."""
    for number in range(150):
        github.comment(3, f"{MARKER}\nmine" if number % 50 == 0 else "looks good", author="stranger")
    github.comment(3, "another workflow's")

    assert run(github, artifact) == (0, "pull request 3: created the comment\n")
    (created,) = [one for one in github.comments[3] if one["user"]["login"] == BOT and MARKER in one["body"]]
    assert created["body"].startswith(f"{MARKER}\n{TEXT}")
    assert "[this run](https://github.com/run/1) of " + SHA in created["body"]

    (artifact / "comment.md").write_text("### perfguard: ❌ 1 failed\n", encoding="utf-8")
    assert run(github, artifact) == (0, "pull request 3: edited the comment\n")
    assert "❌ 1 failed" in created["body"]
    assert github.writes == ["POST /issues/3/comments", f"PATCH /issues/comments/{created['id']}"]


def test_of_two_pull_requests_of_a_branch_the_artifact_says_which(github, artifact):
    github.pull(4, head=HEAD, sha=SHA, repository_id=FORK)
    (artifact / "number.txt").write_text("4")

    assert run(github, artifact)[0] == 0
    assert github.writes == ["POST /issues/4/comments"]


@pytest.mark.parametrize("number", ["9", "../4/comments", "3 4", "", "3\n4", "٣", "1" * 2_000_000])
@pytest.mark.variants(2)
def test_an_artifact_cannot_choose_another_pull_request(github, artifact, number):
    github.pull(9, head="owner:main-work", sha="b" * 40)
    (artifact / "number.txt").write_text(number, encoding="utf-8")

    status, said = run(github, artifact)

    assert status == 1
    assert "nothing is posted" in said
    assert github.writes == []


@pytest.mark.parametrize(
    "head",
    [
        {"head": HEAD, "sha": "b" * 40, "repository_id": FORK},
        {"head": "other:branch", "sha": SHA, "repository_id": FORK},
        {"head": HEAD, "sha": SHA, "repository_id": 8},
    ],
    ids=["pushed again", "another branch", "another repository"],
)
def test_a_pull_request_that_moved_on_gets_nothing(github, artifact, head):
    github.pulls.clear()
    github.pull(3, **head)

    status, said = run(github, artifact)

    assert (status, github.writes) == (0, [])
    assert said == f"no open pull request has {SHA} as its head any more; nothing is posted\n"


def too_large(path: Path) -> None:
    path.write_bytes(b"x" * 1_000_001)


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("damage", [Path.unlink, too_large, link])
def test_an_artifact_that_is_no_text_is_not_posted(github, artifact, damage):
    damage(artifact / "comment.md")

    status, said = run(github, artifact)

    assert (status, github.writes) == (1, [])
    assert said == "comment.md of the artifact is no file of at most 1000000 bytes; nothing is posted\n"


# -- from the reports of a run to its comment ------------------------------------------------------------------------------

UNREADABLE = "**The gate wrote no report that can be read**: the job's log says why."


def test_reports_of_a_fork_are_rendered_here_and_no_text_of_it_is_markdown(github, tmp_path):
    cmarkgfm = pytest.importorskip("cmarkgfm", reason="cmarkgfm is not installed")
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "number.txt").write_text("3\n")
    # What the fork calls Markdown is not looked at.
    for name in ("comment.md", "summary.md", "ab.md"):
        (reports / name).write_text("[planted](https://evil.example) @owner", encoding="utf-8")
    remarks = tuple(f"accepted: {text}" for text in show.LINKS)
    (reports / "report.json").write_text(report_json(show.run_of(show.hostile(tmp_path / "h"), unused=show.LINKS)))
    (reports / "ab.json").write_text(report_json(show.run_of(show.passing(), remarks=remarks)))

    said = rendered(reports)
    assert "planted" not in said
    assert said.index("❌ 1 failed") < said.index("## Side by side with the base") < said.index("accepted: ")
    assert show.live(said) == []
    assert run(github, tmp_path / "rendered" / "comment") == (0, "pull request 3: created the comment\n")
    (body,) = [one["body"] for one in github.comments[3]]
    assert said in body
    html = cmarkgfm.github_flavored_markdown_to_html(body)
    assert html.count("<a ") == 1, html
    assert '<a href="https://github.com/run/1">this run</a>' in html


def no_report(path: Path) -> None:
    path.write_text("{}", encoding="utf-8")


def recordings(path: Path) -> None:
    """Not a report but a directory, whose files would be judged."""
    shutil.copytree(show.TORCH, path)


def outside(path: Path) -> None:
    elsewhere = path.parent.with_name("elsewhere.json")
    elsewhere.write_text(report_json(show.run_of(show.passing())), encoding="utf-8")
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "make", [lambda path: None, no_report, recordings, outside], ids=["missing", "wrong", "directory", "link"]
)
def test_what_is_no_report_is_said_to_be_none(tmp_path, make):
    reports = tmp_path / "reports"
    reports.mkdir()
    make(reports / "report.json")
    said = rendered(reports)
    assert said.startswith(f"{UNREADABLE}\n")
    assert "**`perfguard ab` wrote no report that can be read**" in said
    # Nothing names a pull request, so nothing is posted.
    assert [path.name for path in (tmp_path / "rendered" / "comment").iterdir()] == ["comment.md"]


def test_a_long_text_is_cut_before_a_workload(github, artifact):
    section = f"#### ❌ <code>test</code>\n\n```text\n{'x' * 7000}\n```\n"
    (artifact / "comment.md").write_text(TEXT + "\n" + section * 12, encoding="utf-8")

    assert run(github, artifact)[0] == 0
    (body,) = [one["body"] for one in github.comments[3]]
    assert MOST_CHARACTERS - 15_000 < len(body) < MOST_CHARACTERS
    assert body.count("```") == 2 * body.count("#### ❌")
    assert "The rest is in the run's artifact" in body


@pytest.mark.parametrize(
    "request_line, status, answer, told",
    [
        (("GET", "/pulls"), 403, b"{}", "GitHub answers 403 to GET /pulls"),
        (("GET", "/issues/3/comments"), 404, b"{}", "GitHub answers 404 to GET /issues/3/comments"),
        (("POST", "/issues/3/comments"), 403, b"{}", "the job needs `pull-requests: write`"),
        (("POST", "/issues/3/comments"), 502, b"<html>", "GitHub answers 502 to POST /issues/3/comments: run this job"),
        (("GET", "/pulls"), 200, b"<html>", "GitHub's answer to GET /pulls"),
    ],
)
@pytest.mark.variants(1)
def test_an_error_of_the_api_is_one_sentence(github, artifact, request_line, status, answer, told):
    github.failing[request_line] = (status, answer)

    ended, said = run(github, artifact)

    assert ended == 1
    assert told in said
    assert len(said.splitlines()) == 1
    assert github.comments[3] == []


def test_an_api_that_is_not_there_is_one_sentence(github, artifact):
    github.url = "http://127.0.0.1:9"

    ended, said = run(github, artifact)

    assert ended == 1
    assert said.startswith("GitHub's answer to GET /pulls")
