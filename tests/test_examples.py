"""Each example does what its README says: its commands in a copy, the change that it names, and the output that follows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugin.conftest import environment

EXAMPLES = Path(__file__).parent.parent / "examples"
#: What an example needs, and the status of its last command after the change. JAX has tests of its own: test_jax_example.py.
NEEDED = {
    "plain-torch": ("torch", 1),
    "mindspore": ("mindspore", 1),
    "trainer": ("transformers", 1),
    "lightning": ("lightning", 1),
    "torchrun": ("torch", 1),
    "profiler-wheel": ("torch", 3),
}


@dataclass(frozen=True)
class Readme:
    """What a README tells its reader to do."""

    commands: tuple[str, ...]
    #: What to replace by what, in which file.
    change: tuple[str, str, str]
    #: The lines of output it shows before and after the change.
    before: tuple[str, ...]
    after: tuple[str, ...]


def read(name: str) -> Readme:
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    head, found, tail = re.split(r"(change `.+?` to `.+?` in `.+?`)", text)
    (change,) = re.findall(r"change `(.+?)` to `(.+?)` in `(.+?)`", found)

    def blocks(part: str, language: str) -> tuple[str, ...]:
        return tuple("".join(re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL)).splitlines())

    commands = tuple(line for line in blocks(head, "bash") if not line.startswith("pip install "))
    return Readme(commands, change, blocks(head, "text"), blocks(tail, "text"))


def run(command: str, project: Path) -> tuple[int, str]:
    """Run a line of a README with this Python, and again if MindSpore let a step leak into the window.

    Its graph mode does so now and then on a busy machine; perfguard finds it, and says that the recording is invalid.
    """
    for _ in range(3):
        ended, output = run_once(command, project)
        if "a neighbouring step leaked in" not in output:
            break
    return ended, output


def run_once(command: str, project: Path) -> tuple[int, str]:
    words = shlex.split(command)
    start = {"pytest": ["-m", "pytest"], "perfguard": ["-m", "perfguard"], "python": []}[words[0]]
    done = subprocess.run(
        [sys.executable, *start, *words[1:]],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def missing(lines: tuple[str, ...], output: str, *, exact: bool) -> list[str]:
    """Return the lines that are not in the output. Numbers are compared only if the framework's version is pinned."""

    def plain(text: str) -> str:
        return text if exact else re.sub(r"[\d.]+", "#", text)

    return [line for line in lines if plain(line) not in plain(output)]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NEEDED)
def test_an_example_is_green_then_red_as_its_readme_says(name, tmp_path):
    framework, status = NEEDED[name]
    pytest.importorskip(framework, reason=f"{framework} is not installed: pip install -e '.[dev]'")
    project = tmp_path / name
    shutil.copytree(EXAMPLES / name, project, ignore=shutil.ignore_patterns("__pycache__"))
    exact = (project / "baselines").is_dir()
    readme = read(name)
    for command in readme.commands:
        ended, output = run(command, project)
        assert ended == 0, f"{command}\n{output}"
    assert missing(readme.before, output, exact=exact) == [], output

    before, after, file = readme.change
    source = (project / file).read_text(encoding="utf-8")
    assert source.count(before) == 1
    (project / file).write_text(source.replace(before, after), encoding="utf-8")
    shutil.rmtree(project / "recorded", ignore_errors=True)
    last = readme.commands[-2:] if name == "profiler-wheel" else readme.commands[-1:]
    for command in last:
        ended, output = run(command, project)
    assert ended == status, output
    assert readme.after
    assert missing(readme.after, output, exact=exact) == [], output


def test_every_example_is_tried_and_has_its_parts():
    names = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert names == {*NEEDED, "perfguard-jax"}
    wrong = []
    for name in names:
        lines = (EXAMPLES / name / "README.md").read_text(encoding="utf-8").splitlines()
        if len(lines) > 40:
            wrong.append(f"{name}/README.md has {len(lines)} lines")
        parts = ("pyproject.toml", "tests")
        wrong += [f"{name} has no {part}" for part in parts if not (EXAMPLES / name / part).exists()]
    assert wrong == []


def test_the_nightly_workflow_runs_what_the_readme_says():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    workflow = yaml.safe_load((EXAMPLES / "profiler-wheel" / ".github/workflows/nightly-profiler.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["gate"]["steps"] if "run" in step]
    assert [shlex.split(step) for step in steps[1:]] == [
        [word for word in shlex.split(command) if word != "-q"] for command in read("profiler-wheel").commands
    ]


def test_the_how_to_pages_show_what_the_examples_show():
    for name in ("trainer", "lightning"):
        page = (EXAMPLES.parent / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
        assert "\n".join(read(name).after) in page
