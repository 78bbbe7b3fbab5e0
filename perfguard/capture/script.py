"""A script: an unmodified command, run under the profiler of the framework that it imports, on one rank or many.

Every Python process of the command gets `injected/sitecustomize.py`, which counts the steps, profiles the window and leaves
a file of plain facts; this module makes a recording of them. MindSpore's profiler is started by MS_PROFILER_OPTIONS for a
whole run and with a schedule for a window; torch's by `torch.profiler`. A script with its own profiler keeps it, and its
output is copied.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfguard import child, scratch
from perfguard.capture.command import Ended, free_port, run_command
from perfguard.capture.environment import Interpreter, cpu_model, environment, find_interpreter, release
from perfguard.capture.machine_load import MachineLoad
from perfguard.capture.mindspore_options import MindSporeOptions, mindspore_options
from perfguard.errors import CaptureError, StoreError, UsageError, nearest
from perfguard.recording import (
    PROFILER_DIRECTORY,
    Ending,
    Fingerprint,
    Recording,
    Step,
    begin_recording,
    write_recording,
)
from perfguard.window import Phase, StepWindow

#: The frameworks that can be recorded without perfguard in their Python; other backends work only with the fixture.
RECORDED = ("mindspore", "torch")
LAUNCHERS = ("msrun", "torchrun")
#: The number of steps of a whole run that torch records at most: its trace grows in memory with every step.
LIMIT = 100
#: The number of untimed steps before a window: they compile, allocate and fill caches.
SETTLE = 2
TIMED_AT_MOST = 30

#: What each level of saved graphs has.
_GRAPH_LEVELS = {
    1: "the graph after every pass",
    2: "and the backend's own steps",
    3: "and every step in a pass, and drawings",
}
_INJECTED = Path(__file__).parent / "injected"
_PLAN, _MARK = "PERFGUARD_PLAN", "PERFGUARD_RUN"
_GRAPHS = f"{PROFILER_DIRECTORY}/graphs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A command to run under the profiler, and how.

    `backend` is mindspore or torch (None: the one that trains), `window` the profiled steps (None: the whole run), `python` the
    interpreter (None: the command's own), `launcher` msrun or torchrun, with `ranks` on this machine. `options` are those of
    MindSpore's profiler. After `timeout_s` seconds the command is stopped. `graphs` is the level at which MindSpore saves the
    graphs it compiles, 1 to 3. Raises `UsageError` for values that contradict each other.
    """

    command: tuple[str, ...]
    backend: str | None = None
    window: StepWindow | None = None
    python: Path | None = None
    launcher: str | None = None
    ranks: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    graphs: int | None = None

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("there is no command to run; write it after --, such as: perfguard run -- python train.py")
        if self.backend is not None and self.backend not in RECORDED:
            raise UsageError(
                f"There is no backend {self.backend!r} to run a script with; {nearest(self.backend, RECORDED)}"
            )
        if self.launcher is not None and self.launcher not in LAUNCHERS:
            raise UsageError(f"There is no launcher {self.launcher!r}; {nearest(self.launcher, LAUNCHERS)}")
        if self.launcher is None and self.ranks != 1:
            raise UsageError(f"--ranks {self.ranks} needs a launcher; add --launcher msrun or --launcher torchrun.")
        if self.ranks < 1:
            raise UsageError(f"--ranks must be at least 1, got {self.ranks}.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"--timeout must be greater than 0 seconds, got {self.timeout_s}.")
        if self.window is not None and (self.window.repeat != 1 or self.window.wait):
            raise UsageError("a script is recorded in one window, without wait and repeat; write START:STOP.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRun:
    """The result of a script: the recording, how the command ended, and notes for the user."""

    recording: Recording
    ended: Ended
    notes: tuple[str, ...] = ()


def run_script(script: Script, *, workload: str, directory: Path) -> ScriptRun:
    """Run a script, and write a recording into `directory`, which must be empty or not exist.

    Its output and its exit status are unchanged. Raises `UsageError` before anything runs if it cannot work; a failure of the
    run is recorded.
    """
    interpreter = _interpreter(script)
    backends = _backends(script, interpreter)
    options = _mindspore_options(script, interpreter, backends)
    directory = _fresh(directory)
    try:
        begin_recording(directory)
    except StoreError:
        # The same command may be run again, which wants an empty directory.
        with suppress(OSError):
            (directory / PROFILER_DIRECTORY).rmdir()
        raise
    with scratch.folder() as facts:
        plan = {
            "facts": str(facts),
            "profiler": str(directory / PROFILER_DIRECTORY),
            "ranked": script.launcher is not None,
            "window": None if script.window is None else step_counts(script.window),
            "limit": LIMIT,
            "backends": backends,
            "torch": {"record_shapes": True, "profile_memory": True},
            "own_memory": options is not None and options.conditions.get("memory", False),
        }
        plan_path = facts / "plan"
        plan_path.write_text(json.dumps(plan), encoding="utf-8")
        load = MachineLoad()
        ended = run_command(
            _command(script, interpreter, directory),
            environment=_variables(script, interpreter, options, plan_path, directory),
            mark=_MARK,
            timeout_s=script.timeout_s,
        )
        others_share = load.others_share()
        processes = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(facts.glob("*.json"))]
        saw_python = any(facts.glob("python-*"))
    found = _gather(script, processes, ended, saw_python, options, workload=workload, directory=directory)
    return replace(found, recording=replace(found.recording, others_share=others_share))


# -- before it runs ----------------------------------------------------------------------------------------------------


def _interpreter(script: Script) -> Interpreter:
    """Return the Python that will run the command, and its frameworks, without importing any of them."""
    first = script.command[0]
    if script.python is not None:
        return find_interpreter(str(script.python))
    path = shutil.which(first) if _is_python(first) else child.python()
    if path is None:
        raise UsageError(f"there is no command {first!r}; name one that is on the PATH, or a path to it.")
    return find_interpreter(path)


def _is_python(command: str) -> bool:
    return Path(command).name.startswith("python")


def _backends(script: Script, interpreter: Interpreter) -> list[str]:
    installed = [name for name in RECORDED if name in interpreter.packages]
    if script.backend is None and not installed:
        raise UsageError(
            f"{interpreter.path} has neither mindspore nor torch, so there is no profiler to use; "
            "name another Python with --python PATH."
        )
    if script.backend is not None and script.backend not in installed:
        raise UsageError(
            f"{interpreter.path} has no {script.backend}; install it there, or name another Python with --python PATH."
        )
    return installed if script.backend is None else [script.backend]


def _mindspore_options(script: Script, interpreter: Interpreter, backends: list[str]) -> MindSporeOptions | None:
    """Check the options for the version that will read them: it silently ignores unknown ones."""
    if "mindspore" not in backends:
        if script.options:
            names = ", ".join(script.options)
            raise UsageError(
                f"{names}: these are options of MindSpore's profiler, and {interpreter.path} has no MindSpore."
            )
        return None
    version = interpreter.packages["mindspore"]
    has_schedule = release(version) >= (2, 5)
    if script.window is not None and not has_schedule:
        raise UsageError(
            f"MindSpore {version} of {interpreter.path} has no profiler with a schedule, and MS_PROFILER_OPTIONS has no "
            "window; leave --window out to record the whole run."
        )
    given = dict(script.options)
    if has_schedule:
        given.setdefault("profile_memory", True)
    return mindspore_options(version, given, surface="env")


def _fresh(directory: Path) -> Path:
    """Make the directory of a recording; the files of another run are neither mixed with it nor overwritten."""
    directory = directory.absolute()
    try:
        if directory.is_dir() and any(directory.iterdir()):
            raise UsageError(
                f"{directory} is not empty, and may hold another run; name a new directory with --output DIR."
            )
        (directory / PROFILER_DIRECTORY).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot hold a recording: {error.strerror}. Name another directory with --output DIR."
        ) from error
    return directory


def step_counts(window: StepWindow) -> dict[str, int]:
    """Return the number of steps of each phase. The steps before the window are timed, after the settling ones."""
    before = window.skip_first
    # One step warms the profiler up, if there are two: the first step of a script is unlike the others.
    warmup = window.warmup or (1 if before > 1 else 0)
    before -= warmup if not window.warmup else 0
    timed = min(max(before - SETTLE, 0), TIMED_AT_MOST)
    return {"skip_first": before - timed, "timed": timed, "warmup": warmup, "active": window.active}


def _command(script: Script, interpreter: Interpreter, directory: Path) -> list[str]:
    first, *arguments = script.command
    if script.launcher is None:
        return [interpreter.path if _is_python(first) else first, *arguments]
    # Both launchers start a Python script themselves.
    command = arguments if _is_python(first) or first == interpreter.path else [first, *arguments]
    if script.launcher == "torchrun":
        port = f"--master-port={free_port()}"
        launch = ["-m", "torch.distributed.run", f"--nproc-per-node={script.ranks}", "--master-addr=127.0.0.1", port]
        return [interpreter.path, *launch, *command]
    own = Path(interpreter.path).parent / "msrun"
    found = str(own) if own.is_file() else shutil.which("msrun")
    if found is None:
        raise UsageError(f"there is no msrun next to {interpreter.path}; MindSpore has it since 2.3.")
    count = [f"--worker_num={script.ranks}", f"--local_worker_num={script.ranks}"]
    where = [f"--master_port={free_port()}", f"--log_dir={directory / 'logs'}", "--join=True"]
    return [interpreter.path, found, *count, *where, *command]


def _variables(
    script: Script, interpreter: Interpreter, options: MindSporeOptions | None, plan: Path, directory: Path
) -> dict[str, str]:
    found = dict(os.environ)
    found.pop("MS_PROFILER_OPTIONS", None)
    found[_PLAN] = str(plan)
    found["PYTHONPATH"] = os.pathsep.join([str(_INJECTED), *filter(None, [found.get("PYTHONPATH")])])
    if script.python is not None or script.launcher is not None:
        # For programs started by name: msrun's workers, the script's own pip, another python.
        found["PATH"] = os.pathsep.join([str(Path(interpreter.path).parent), found.get("PATH", os.defpath)])
    if script.graphs is not None:
        if options is None:
            raise UsageError(f"--graphs {script.graphs} is for MindSpore, and {interpreter.path} has no MindSpore.")
        found |= graph_variables(directory / _GRAPHS, script.graphs)
    if options is not None:
        found["MS_PROFILER_OPTIONS"] = options.environment(str(directory / PROFILER_DIRECTORY))
    return found


def graph_variables(directory: Path, level: int) -> dict[str, str]:
    """Return the environment variables that make MindSpore save the graphs it compiles. Raises `UsageError` for a level.

    MindSpore 2.0 and later reads them once. A script that calls `set_context(save_graphs=..., save_graphs_path=...)` itself
    keeps this directory; its level wins in 2.0, and loses in 2.10. Several ranks save in `rank_0`, `rank_1`, ... below it. A
    filter of passes is switched off, because the passes it leaves out would look lost. Source: MindSpore 2.0.0, 2.7.0 and
    2.10.0, run on a CPU.
    """
    if isinstance(level, bool) or level not in _GRAPH_LEVELS:
        known = "; ".join(f"{number}: {what}" for number, what in _GRAPH_LEVELS.items())
        raise UsageError(f"level must be 1, 2 or 3 ({known}), got {level!r}.")
    return {
        "MS_DEV_SAVE_GRAPHS": str(int(level)),
        "MS_DEV_SAVE_GRAPHS_PATH": str(directory),
        "MS_DEV_DUMP_IR_PASSES": "",
    }


# -- after it ran ------------------------------------------------------------------------------------------------------

#: The facts of a run of which no process left any.
_UNKNOWN = dict.fromkeys(("device", "mode", "python"), "unknown")
_NO_FACTS: dict[str, Any] = {**_UNKNOWN, "device_name": "", "rank": 0, "threads": 0, "packages": {}}


def _gather(
    script: Script,
    processes: list[dict[str, Any]],
    ended: Ended,
    saw_python: bool,
    options: MindSporeOptions | None,
    *,
    workload: str,
    directory: Path,
) -> ScriptRun:
    notes = [f"{ended.left_behind} processes were left behind, and were ended"] if ended.left_behind else []
    trained = [one for one in processes if one["steps"] or one["own"]] or processes
    if script.graphs is not None and not (directory / _GRAPHS).is_dir():
        notes.append("no graph was saved: the script compiled nothing")
    own = [(one, profiler) for one in trained for profiler in one["own"]]
    if own and script.window is None:
        notes += _copy_output(own, directory / PROFILER_DIRECTORY, ranked=script.launcher is not None)
    if any(one["lost_first"] for one in trained):
        notes.append("the first step cannot be distinguished from what the script ran before it, and is left out")
    first = trained[0] if trained else _NO_FACTS | {"backend": script.backend or "unknown"}
    is_alone = script.launcher is None and len(trained) < 2
    counts = {} if script.window is None else step_counts(script.window)
    timed = counts.pop("timed", 0)
    window = StepWindow(**counts) if counts else None
    phases = None if window is None else [phase for phase, _ in window.phases(timed, timed_first=True)]
    steps = tuple(step for one in trained for step in _steps(one, phases, 0 if is_alone else one["rank"]))
    # The script decides what its own profiler records; the files show it.
    conditions: dict[str, bool] = {}
    if not own and first["backend"] == "torch":
        conditions = {"memory": True, "shapes": True}
    elif not own and options is not None:
        conditions = options.conditions
    ending, reason = next(_endings(script, trained, ended, saw_python))
    recording = Recording(
        directory=directory,
        fingerprint=Fingerprint(
            workload=workload,
            world_size=max([script.ranks, *(one["world_size"] for one in trained)]),
            window=window,
            first_profiled_step=None if window is None else window.first_profiled_step(timed),
            **{name: first[name] for name in ("backend", "device", "mode", "threads")},
        ),
        environment=environment(first["python"], first["packages"], first["device_name"] or cpu_model()),
        steps=steps,
        ending=ending,
        reason=reason,
        rank=first["rank"] if is_alone else None,
        timed_steps=timed,
        conditions=conditions,
    )
    if not directory.is_dir():
        notes.append(f"{directory} was deleted while the script ran")
        directory.mkdir(parents=True)
    write_recording(recording)
    return ScriptRun(recording=recording, ended=ended, notes=tuple(notes))


def _found_phases(one: Mapping[str, Any]) -> list[Phase]:
    """Return the phases of the steps of a whole run: all are active, or those while the script's own profiler was on."""
    if not one["own"]:
        return [Phase.ACTIVE] * len(one["steps"])
    if one["backend"] == "torch" or any(profiler.get("has_schedule") for profiler in one["own"]):
        # torch's trace marks its steps itself, and a schedule leaves some out.
        return []
    on = [interval for profiler in one["own"] for interval in profiler["on"]]
    # A callback starts and stops it within its steps.
    is_on = [
        any(begin < start + wall and (end is None or start < end) for begin, end in on)
        for start, wall, *_ in one["steps"]
    ]
    return [Phase.ACTIVE if profiled else Phase.SETTLE for profiled in is_on] if any(is_on) else []


def _steps(one: Mapping[str, Any], phases: list[Phase] | None, rank: int) -> Iterator[Step]:
    """Yield the steps of one process; a whole run has no `phases`."""
    phases = _found_phases(one) if phases is None else phases
    for index, (phase, (start, wall, cpu, pause)) in enumerate(zip(phases, one["steps"], strict=False)):
        yield Step(
            index=index,
            phase=phase,
            cycle=0,
            start_ns=start,
            wall_ns=wall,
            thread_cpu_ns=max(cpu, 0),
            pause_ns=pause if index else None,
            rank=rank,
        )


def _endings(
    script: Script, trained: list[dict[str, Any]], ended: Ended, saw_python: bool
) -> Iterator[tuple[Ending, str]]:
    """Yield how it ended and why; a cause comes before its consequences."""
    if ended.timed_out:
        why = f"the script did not end in {script.timeout_s:g} s and was stopped; its output so far is kept"
        yield Ending.INTERRUPTED, why
    if ended.status:
        raised = next((f": {one['raised']}" for one in trained if one["raised"]), "")
        yield Ending.SCRIPT_FAILED, f"the script ended with status {ended.status}{raised}"
    own = [profiler for one in trained for profiler in one["own"]]
    if own and (script.window is not None or any(not profiler["on"] for profiler in own)):
        yield Ending.TWO_PROFILERS, f"{own[0]['at']} makes its own profiler ({own[0]['what']})"
    yield from ((Ending.PROFILER_FAILED, one["problem"]) for one in trained if one["problem"])
    if not trained and not saw_python:
        why = "no Python of the command loaded perfguard's bootstrap: a Python started with -I, -E or -S loads none"
        yield Ending.LOADER_ENDED, why
    if not trained:
        yield (
            Ending.LOADER_ENDED,
            "no step was found: perfguard finds steps of Model.train, optimizers and calls of models, in processes that "
            "keep PYTHONPATH and end by themselves",
        )
    if not any(one["steps"] or one["own"] for one in trained):
        yield (
            Ending.LOADER_ENDED,
            "a step began and none ended: perfguard finds steps of Model.train, optimizers and, without training "
            "(model.eval(), torch.no_grad()), calls of models",
        )
    if script.launcher is None and len({one["rank"] for one in trained}) < len(trained):
        why = f"{len(trained)} processes of the script trained as one rank; run them one at a time"
        yield Ending.PROFILER_FAILED, why
    needed = 0 if script.window is None else script.window.skip_first + script.window.profiler_steps
    for one in trained:
        if (ran := len(one["steps"])) < needed:
            why = f"{ran} steps were run, the window needs {needed} (it ends with step {needed})"
            yield Ending.LOADER_ENDED, why
    yield Ending.COMPLETE, ""


def _changed(place: Path, found: Mapping[str, Any]) -> Path | None:
    """Return an entry that existed before the script's own profiler was made, and into which it wrote."""
    for name in found["before"]:
        entry = place / str(name)
        inside = [entry, *entry.rglob("*")] if entry.is_dir() else [entry]
        if any(one.is_file() and one.stat().st_mtime_ns >= found["made_ns"] for one in inside):
            return entry
    return None


def _copy_output(own: list[tuple[dict[str, Any], dict[str, Any]]], profiler: Path, *, ranked: bool) -> list[str]:
    """Copy the output of the script's own profilers; the originals stay where other tools look for them."""
    notes = []
    for one, found in own:
        place = Path(found["place"])
        target = profiler / f"rank_{one['rank']}" if ranked else profiler
        new = sorted(entry for entry in place.iterdir() if entry.name not in found["before"]) if place.is_dir() else []
        for entry in new:
            target.mkdir(parents=True, exist_ok=True)
            try:
                if entry.is_dir():
                    shutil.copytree(entry, target / entry.name, symlinks=True)
                else:
                    shutil.copy2(entry, target / entry.name)
            except OSError as error:
                raise CaptureError(
                    f"{entry} cannot be copied to {target}: {error.strerror or error}. Free the disk, then run again."
                ) from error
        wrote = f"its output in {place} is judged" if new else f"it wrote nothing new in {place}"
        if not new and (mixed := _changed(place, found)):
            wrote = f"it wrote into {mixed}, which holds the output of an earlier run: move that away, and run again"
        notes.append(f"{found['at']} has its own profiler ({found['what']}); {wrote}")
    return notes
