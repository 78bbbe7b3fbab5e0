"""The two sides of an A/B comparison: which interpreter runs each, where, in which processes, and what pytest measures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from perfguard import child, thresholds
from perfguard.capture.ab.policy import PolicyTree
from perfguard.capture.command import Ended, last_line, run_command
from perfguard.capture.worktree import MARK, Place, Worktree, relocated, without_git_variables
from perfguard.errors import UsageError
from perfguard.version import same_version

#: Seconds in which an interpreter must answer what it has.
_PROBE_TIMEOUT_S = 120.0
_PROBE = (
    "import json, os, sys, perfguard, pytest; "
    "print(json.dumps([perfguard.__version__, os.path.dirname(os.path.dirname(os.path.realpath(perfguard.__file__)))]))"
)
#: pytest's exit status if an argument names no file and no test.
_NOT_FOUND = 4
#: The mark of one process, in addition to that of the whole comparison.
RUN_MARK = "PERFGUARD_BESIDE_RUN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side: its interpreter, its directory, and its worktree if it is in one."""

    name: str
    python: str
    #: The directory its perfguard is imported from.
    home: str
    directory: Path
    environment: Mapping[str, str]
    #: The top of the checkout, if the other side is in a worktree of it.
    checkout: str | None = None
    #: The checkout and the worktree that replaces it, of that other side.
    moved: tuple[str, str] | None = None
    #: Whose settings count for it; None for its own.
    policy: PolicyTree | None = None

    @property
    def top(self) -> str | None:
        """The top of the tree that this side's code must come from; None if both sides run the same files."""
        return self.moved[1] if self.moved is not None else self.checkout

    def argument(self, text: str) -> str:
        """Return an argument of pytest for this side: a path into the checkout becomes one into the worktree."""
        if self.moved is None:
            return text
        option, equals, value = text.partition("=") if text.startswith("-") else ("", "", text)
        path, colons, names = value.partition("::")
        if not os.path.isabs(path):
            return text
        return f"{option}{equals}{relocated(path, *self.moved)}{colons}{names}"


def current_side(directory: Path, checkout: Path | None = None) -> Side:
    """Return the user's own side: this interpreter and this directory, uncommitted changes included."""
    return Side(
        name="current",
        python=child.python(),
        home=child.HOME,
        directory=directory,
        environment=without_git_variables(os.environ),
        checkout=str(checkout) if checkout is not None else None,
    )


def base_in(worktree: Worktree, current: Side) -> Side:
    """Return the side in a worktree of the current side's checkout. Raises `UsageError` if it has no such directory."""
    assert current.checkout is not None
    top = current.checkout
    directory = worktree.top / current.directory.relative_to(top)
    if not directory.is_dir():
        raise UsageError(
            f"{worktree.commit[:12]} has no directory {current.directory.relative_to(top)}; run this where both have tests."
        )
    moved = (top, str(worktree.top))
    environment = dict(current.environment)
    if paths := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(relocated(one, *moved) for one in paths.split(os.pathsep))
    return replace(current, name="base", directory=directory, environment=environment, checkout=top, moved=moved)


def base_on(python: Path, current: Side, version: str) -> Side:
    """Return the side of another interpreter in the same directory. Raises `UsageError` if it lacks this perfguard."""
    path = os.path.abspath(python)
    environment = {**current.environment, "PATH": os.pathsep.join((os.path.dirname(path), os.environ.get("PATH", "")))}
    install = same_version(version, f"{path} -m pip")
    try:
        found = child.ask(path, _PROBE, environment=environment, timeout_s=_PROBE_TIMEOUT_S)
    except (OSError, child.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it did not answer"
        raise UsageError(
            f"{python} cannot be run: {why}; name an interpreter, such as other-env/bin/python."
        ) from error
    if found.returncode != 0 or not found.stdout.strip():
        last = last_line(found.stderr) or "it wrote nothing"
        raise UsageError(f"{python} has no perfguard that can be imported ({last}); run: {install}")
    theirs, home = json.loads(found.stdout.strip().splitlines()[-1])
    if theirs != version:
        raise UsageError(f"{python} has perfguard {theirs}, and this is {version}; run: {install}")
    return Side(name="base", python=path, home=home, directory=current.directory, environment=environment)


# -- a process of a side -------------------------------------------------------------------------------------------------


def run_side(
    side: Side, request: Mapping[str, Any], own: Path, place: Place, *, environment: Mapping[str, str], timeout_s: float
) -> tuple[Ended, str]:
    """Run one process of a side to its end; return how it ended, and the last line of its output."""
    with open(own / "output", "wb") as output:
        ended = run_command(
            command_of(side, request, own),
            environment=marked(environment, place, own),
            mark=RUN_MARK,
            timeout_s=timeout_s,
            output=output,
            directory=side.directory,
        )
    return ended, last_line(own / "output", only_errors=ended.timed_out or ended.status > 128)


def command_of(side: Side, request: Mapping[str, Any], own: Path) -> list[str]:
    """Write the request for `plugin.side` into the process's own directory; return the command that reads it."""
    path = own / "request.json"
    path.write_text(json.dumps(request), encoding="utf-8")
    # perfguard is imported before the side's paths are set: it is the running one even if the project is perfguard.
    return child.own_command("perfguard.plugin.side:main", str(path), interpreter=side.python, home=side.home)


def marked(environment: Mapping[str, str], place: Place, own: Path) -> dict[str, str]:
    """Return the environment of a process: it writes nothing into the user's checkout, and `worktree` can find it."""
    temporary = own / "temporary"
    temporary.mkdir()
    # The summary page of a CI job must not show one side alone.
    own_variables = {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary), "GITHUB_STEP_SUMMARY": ""}
    return {**environment, **own_variables, MARK: place.mark, RUN_MARK: f"{place.mark}-{own.name}"}


def fresh_directory(place: Place) -> Path:
    """Make the directory of the next process."""
    own = place.directory / f"run-{sum(1 for _ in place.directory.glob('run-*'))}"
    own.mkdir()
    return own


# -- one side recorded -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeable:
    """A workload whose steps another process can repeat."""

    request: str
    threads: int
    took_s: float
    #: How long pytest took until it ran the test.
    before_s: float = 0.0
    #: The process-wide settings of its side when it ran.
    switches: dict[str, str] = field(default_factory=dict)

    @property
    def timeout_s(self) -> float:
        """The time after which a process that repeats it counts as hung, in addition to `thresholds.LEAST_TIMEOUT_S`."""
        return self.before_s + thresholds.TIMEOUT_FACTOR * self.took_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The result of pytest on one side. `report` exists if anything was measured; `status` is None if pytest was ended."""

    status: int | None
    report: Path
    timed: dict[str, Timeable] = field(default_factory=dict)
    #: Why tests and files did not complete, by node.
    reasons: dict[str, str] = field(default_factory=dict)
    #: Modules that were not imported from the side's own tree.
    strangers: Sequence[str] = ()
    #: Files of the working tree that the base read, and of which it has another version itself.
    taken: Sequence[str] = ()
    #: Tests that use perfguard and failed, and why.
    failed: dict[str, str] = field(default_factory=dict)
    #: Tests that use perfguard and did not run, because pytest ended early.
    unreached: Sequence[str] = ()
    #: What the session could not do, such as writing its report: sentences with the next command.
    problems: Sequence[str] = ()
    #: The files and tests named in the arguments, and those of them that do not exist.
    places: Sequence[str] = ()
    #: The directories of the tests that use perfguard.
    directories: Sequence[str] = ()
    not_found: Sequence[str] = ()
    last_words: str = ""


def record(
    side: Side, place: Place, arguments: Sequence[str], *, time: bool, timeout_s: float, recordings: Path | None = None
) -> Recorded:
    """Run pytest as the user calls it, on one side, and measure without judging.

    Only the side's own tests write into its tree. Of several files or tests in the arguments, those that a base lacks are
    left out.
    """
    named = [side.argument(one) for one in arguments]
    while True:
        recorded = _record(side, place, named, time=time, timeout_s=timeout_s, recordings=recordings)
        # pytest names only the first that is missing.
        kept = [one for one in named if not _is_among(one, side.directory, recorded.not_found)]
        if side.name != "base" or len(kept) == len(named) or not set(kept) & set(recorded.places):
            return recorded
        named = kept


def _record(
    side: Side, place: Place, arguments: Sequence[str], *, time: bool, timeout_s: float, recordings: Path | None
) -> Recorded:
    own = fresh_directory(place)
    report, result = own / "report.json", own / "facts.json"
    options = [
        *("--perfguard-update", "--perfguard-runs=0", f"--perfguard-time={'on' if time else 'off'}"),
        *(f"--perfguard-baselines={own / 'baselines'}", f"--perfguard-report={report}"),
        *(f"--perfguard-recordings={recordings or own / 'recordings'}", f"--basetemp={own / 'tmp'}"),
        *("-o", f"cache_dir={own / 'cache'}"),
        # pytest empties it as it starts, and the run that started this one to confirm a time is still writing it.
        *("-o", f"log_file={os.devnull}"),
    ]
    request = {
        "do": "record",
        "directory": str(side.directory),
        "moved": side.moved,
        "top": side.top,
        "checkout": side.checkout,
        "policy": None if side.policy is None else asdict(side.policy),
        "arguments": [*arguments, *options],
        "requests": str(own / "requests"),
        "result": str(result),
    }
    ended, line = run_side(side, request, own, place, environment=side.environment, timeout_s=timeout_s)
    facts: dict[str, Any] = {"status": None}
    if result.is_file():
        facts = json.loads(result.read_text(encoding="utf-8"))
    return Recorded(
        report=report,
        timed={name: Timeable(**one) for name, one in facts.pop("timed", {}).items()},
        not_found=_not_found(own / "output") if facts["status"] == _NOT_FOUND else (),
        last_words=ended.sentence(timeout_s, line, did=""),
        **facts,
    )


def _not_found(output: Path) -> tuple[str, ...]:
    """Return the files and tests of the arguments that pytest cannot find."""
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [line.partition("not found: ")[2] for line in lines if line.startswith("ERROR: ")]
    return tuple(dict.fromkeys(name.partition(" (no ")[0].strip() for name in names if name))


def _is_among(argument: str, directory: Path, names: Sequence[str]) -> bool:
    """Whether an argument is one of the files or tests named: pytest names a file as it was given, a test by its full path."""
    return argument in names or os.path.join(directory, argument) in names
