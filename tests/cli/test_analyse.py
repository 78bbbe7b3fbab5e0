"""`perfguard analyse`."""

from __future__ import annotations

import shutil

import pytest

from perfguard.testing import generate
from tests.cli import RECORDINGS, copied, run

RECORDED = RECORDINGS / "mindspore-graph"


@pytest.fixture
def collected(tmp_path):
    """A recording of perfguard's whose analysis is gone."""
    pytest.importorskip("mindspore", reason="mindspore is not installed: pip install -e '.[models]'")
    out = copied(RECORDED, tmp_path / "out")
    for place in out.rglob("ASCEND_PROFILER_OUTPUT"):
        shutil.rmtree(place)
    for path in out.rglob("FRAMEWORK/*"):
        # As the profiler writes them; a checkout under another umask does not, and MindSpore reads none others may write.
        path.chmod(0o600)
    return out


@pytest.mark.slow
def test_what_is_analysed_is_judged_as_check_does(collected):
    assert run("check", collected).exit_code == 3
    found = run("analyse", collected)
    line, verdict = found.stdout.splitlines()
    place = next((collected / "profiler").iterdir())
    assert line.startswith(f"{place} is analysed by MindSpore 2.")
    assert verdict == run("check", collected).stdout.rstrip("\n")
    assert verdict.startswith(f"PASSED {collected} (")
    assert found.exit_code == 0


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_worst_counts_where_one_of_two_fails(collected, tmp_path):
    both = tmp_path / "both"
    for rank in ("rank_0", "rank_1"):
        shutil.copytree(collected / "profiler", both / rank)
    for path in (both / "rank_1").rglob("FRAMEWORK/*timestamp*"):
        path.unlink()
    found = run("analyse", both, "--jobs", 2)
    assert found.exit_code == 3
    assert "rank_0" in next(line for line in found.stdout.splitlines() if "is analysed by" in line)
    assert "rank_1" in next(line for line in found.stdout.splitlines() if "could not be analysed" in line)
    assert "A104" in found.stdout


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_refused_one_beside_an_analysed_one_is_two(collected, tmp_path):
    both = tmp_path / "both"
    shutil.copytree(collected / "profiler", both / "a")
    generate("pt-torch").write(both / "b")
    found = run("analyse", both)
    assert "which need no analysis" in found.stdout
    assert "PASSED" in found.stdout
    assert found.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "nowhere does not exist; name a directory that a profiler wrote, or a perfguard recording"),
        (["--steps", "5,7", RECORDED], "--steps 5,7 is not a range; write START:STOP, such as --steps 5:8"),
        (["--steps", "5:", RECORDED], "--steps 5: is not a range"),
        (["--steps", "٣:٤", RECORDED], "is not a range"),
        (["--steps", "3", RECORDED], "--steps 3:3: MindSpore slices by step only what an Ascend device recorded"),
        (["--jobs", "0", RECORDED], "--jobs must be at least 1, got 0"),
        (["--pretty", RECORDED], "MindSpore since 2.5 accepts --pretty and ignores it"),
        (["--python", "/bin/nothing", RECORDED], "there is no Python /bin/nothing; name one with --python PATH."),
        ([RECORDINGS / "torch-mlp"], "torch.profiler writes complete traces, which need no analysis"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_changes_nothing(arguments, reason):
    before = sorted(path for path in RECORDINGS.rglob("*"))
    found = run("analyse", *arguments)
    assert found.exit_code == 2
    assert reason in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert sorted(path for path in RECORDINGS.rglob("*")) == before


def test_a_hostile_name_obeys_nobody(tmp_path):
    (tmp_path / "two\nlines\x1b[31m").mkdir()
    found = run("analyse", tmp_path / "two\nlines\x1b[31m")
    assert found.exit_code == 2
    assert "\x1b" not in found.stderr
    assert len(found.stderr.splitlines()) == 1
