"""`perfguard doctor`: what this environment has, what the gate can judge in it, and what to do about the rest."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo, echo_json, echo_line
from perfguard.errors import PerfguardError, counted, listed
from perfguard.version import install_command

if TYPE_CHECKING:
    from perfguard.capture.probe import Probed
    from perfguard.judge.baseline import Baseline
    from perfguard.settings import Settings

#: The module that pytest loads as the plugin `perfguard`.
_OWN = "perfguard.plugin"
#: Seconds for the import of a framework; on a busy machine one takes 20.
_IMPORT_S = 120.0
_NOISE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One thing that was looked at. `todo` is what to do about it; without one it is in order, or worth knowing (`note`)."""

    subject: str
    found: str
    note: str = ""
    todo: str = ""

    @property
    def state(self) -> str:
        """The state in one word."""
        return "to do" if self.todo else "note" if self.note else "ok"


@click.command(name="doctor")
@options.flag("--json", "as_json", help="Print JSON: one object an observation.")
@options.flag("--no-noise", help="Skip the measurement of noise, which takes about ten seconds.")
def command(as_json: bool, no_noise: bool) -> None:
    """Show what can be judged on this machine, and what to do.

    It looks at versions, frameworks (each imported in a process of its own), devices, cores, noise, the project in the
    working directory, and other pytest plugins. Nothing is changed. Exit codes: 0 nothing to do, 4 the gate cannot judge
    until something is done.
    """
    observations = tuple(_observations(measures_noise=not no_noise))
    todo = [one for one in observations if one.todo]
    if as_json:
        echo_json(json.dumps([{**asdict(one), "state": one.state} for one in observations], indent=2))
    else:
        for one in observations:
            _show(one)
        sentences = dict.fromkeys(one.todo for one in todo)
        for number, sentence in enumerate(sentences, 1):
            echo_line(f"{number}. {sentence}")
        echo("nothing to do" if not todo else f"{counted(len(sentences), 'thing')} to do")
    sys.exit(Exit.NOTHING if todo else Exit.PASSED)


def _show(one: Observation) -> None:
    echo_line(f"{one.state:<5}  {one.subject:<13}  {one.found}")
    if one.note:
        echo_line(f"{'':<22}{one.note}")


def _observations(*, measures_noise: bool) -> Iterator[Observation]:
    yield from _versions()
    probed: dict[str, Probed] = {}
    yield from _frameworks(probed)
    yield _cores()
    yield from _clocks()
    if measures_noise:
        yield _noise()
    yield from _project(probed)
    yield from _plugins()


# -- the environment -----------------------------------------------------------------------------------------------------


def _versions() -> Iterator[Observation]:
    from perfguard.capture.environment import package_version, release
    from perfguard.child import python
    from perfguard.version import __version__

    yield Observation(subject="python", found=f"{platform.python_version()}, {python()}")
    names = ("pytest", "pytest-benchmark", "numpy")
    versions = {name: package_version(name) for name in names}
    found = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    missing = [name for name, version in versions.items() if version is None]
    old = release(versions["pytest"] or "0") < (8, 2)
    needed = [*missing, *(["'pytest>=8.2'"] if old and "pytest" not in missing else [])]
    yield Observation(
        subject="perfguard", found=f"{__version__}, {found}", todo=f"pip install {' '.join(needed)}" if needed else ""
    )


def _frameworks(probed: dict[str, Probed]) -> Iterator[Observation]:
    """Observe each installed framework, imported in another process; those that work are added to `probed`."""
    from perfguard.capture import BACKENDS, backend
    from perfguard.capture.environment import package_version
    from perfguard.capture.probe import probe_framework

    names = [name for name in BACKENDS if find_spec(name) is not None]
    if not names:
        try:
            backend(None)
        except PerfguardError as error:
            yield Observation(subject="framework", found="none", todo=str(error))
    for name in names:
        version = package_version(name) or "of unknown version"
        try:
            probed[name] = one = probe_framework(name, timeout_s=_IMPORT_S)
        except PerfguardError as error:
            yield Observation(subject=name, found=f"{version}, does not work", todo=str(error))
            continue
        seen = listed(sorted(set(one.devices)))
        devices = f"{counted(len(one.devices), 'device')} ({seen})"
        npu = package_version("torch_npu") if name == "torch" else None
        note = f"torch_npu {npu} is installed and sees no device" if npu and one.target.device != "npu" else ""
        found = f"{version}, {one.target.mode} mode, {devices}, ready in {one.seconds:.1f} s"
        yield Observation(subject=name, found=found, note=note)


def _cores() -> Observation:
    from perfguard.engines.local import usable_cpus

    total = os.cpu_count() or 1
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    usable = usable_cpus()
    limits = [f"affinity allows {bound}"] if bound < total else []
    limits += [f"the quota of the cgroup allows {usable}"] if usable < bound else []
    alone = "one core: the model shares it with every other program, so that times are seldom steady"
    return Observation(
        subject="cores",
        found=", ".join([f"{usable} usable of {total}", *limits]),
        note=alone if usable == 1 else "",
    )


def _clocks() -> Iterator[Observation]:
    """Observe what the system does not offer, and which metrics are missing then."""
    from perfguard.capture.controlled import host_memory_reader

    lacking = {
        "no CPU affinity, so that timed processes move between cores": hasattr(os, "sched_setaffinity"),
        "no /proc/thread-self/schedstat, so that a stall is not judged (run_blocked_time)": Path(
            "/proc/thread-self/schedstat"
        ).exists(),
        "malloc is not that of glibc 2.33 or later, so that leaks of the host are not judged (host_memory_growth_bytes)": (
            host_memory_reader() is not None
        ),
    }
    for what, is_there in lacking.items():
        if not is_there:
            yield Observation(subject="system", found=platform.system(), note=what)


def _noise() -> Observation:
    from perfguard import thresholds
    from perfguard.capture.probe import probe_noise
    from perfguard.measure.runs import measure_runs

    try:
        timings = probe_noise(thresholds.BASELINE_RUNS, timeout_s=_NOISE_S)
    except PerfguardError as error:
        return Observation(subject="noise", found="not measured", todo=str(error))
    samples = {one.metric: one.samples or () for one in measure_runs(timings)}
    speed, cost = (max(samples[name]) / min(samples[name]) - 1 for name in ("run_calibration", "step_cost"))
    load = min(samples.get("run_machine_load", (0.0,))) / 100
    found = (
        f"{len(timings)} processes: step_cost, which is judged, differs by {100 * cost:.1f} % (tolerance "
        f"{100 * thresholds.STORED_TOLERANCE:.0f} %), the machine's speed by {100 * speed:.1f} %; "
        f"other programs use {100 * load:.0f} % of the CPUs"
    )
    note = ""
    if load > thresholds.BUSY_SHARE:
        note = "busy: measure baselines when it is quieter; a slower step may be INCONCLUSIVE (B112)"
    elif cost > thresholds.STORED_TOLERANCE / 2:
        note = "unsteady: see how often the gate would be wrong: perfguard calibrate"
    return Observation(subject="noise", found=found, note=note)


# -- the project ---------------------------------------------------------------------------------------------------------


def _project(probed: dict[str, Probed]) -> Iterator[Observation]:
    from perfguard.settings import find_root, find_table, read_settings
    from perfguard.stores.project import store_of

    here = Path.cwd()
    try:
        table = find_table(here)
        settings = read_settings(table or find_root(here))
        store = store_of(settings)
        baselines = [one for name in store.workloads() if (one := store.load(name)) is not None]
    except PerfguardError as error:
        yield Observation(subject="project", found="its settings or baselines cannot be read", todo=str(error))
        return
    if table is None:
        note = f"no [tool.perfguard] at or above {here}: defaults are used; perfguard init writes one"
        yield Observation(subject="project", found=str(settings.root), note=note)
    else:
        yield _settings(settings, probed)
    if baselines:
        yield _exact(baselines, probed)
        yield _times(settings, baselines, probed)
    else:
        missing = "pytest --perfguard-update measures them, on a quiet machine; commit them with the tests"
        todo = missing if table is not None else ""
        yield Observation(subject="baselines", found=f"none in {settings.baselines_directory}", todo=todo)


def _settings(settings: Settings, probed: dict[str, Probed]) -> Observation:
    from perfguard.capture import BACKENDS

    name = settings.backend
    found = f"{settings.root / 'pyproject.toml'}, backend {name or 'not named'}"
    note = todo = ""
    if name in BACKENDS and find_spec(str(name)) is None:
        todo = f"the settings name backend = {name!r}, and {name} is not installed: {install_command(str(name))}"
    elif name is None and len(probed) > 1:
        note = f"{' and '.join(probed)} are installed, so every test names its backend in its marker"
    return Observation(subject="project", found=found, note=note, todo=todo)


def _exact(baselines: list[Baseline], probed: dict[str, Probed]) -> Observation:
    packages = {name: version for one in probed.values() for name, version in one.target.packages.items()}
    stored = {pair for one in baselines if one.environment for pair in one.environment.packages.items()}
    others = sorted(f"{name} {old} → {packages[name]}" for name, old in stored if packages.get(name, old) != old)
    note = f"since the baselines: {listed(others)}; another version may run other operators" if others else ""
    found = f"judged on any machine: {counted(len(baselines), 'baseline')}"
    return Observation(subject="exact metrics", found=found, note=note)


def _times(settings: Settings, baselines: list[Baseline], probed: dict[str, Probed]) -> Observation:
    from perfguard import thresholds
    from perfguard.capture.checkout import repository_of
    from perfguard.capture.environment import cpu_model

    devices = {cpu_model(), *(device for one in probed.values() for device in one.devices)}
    machines = {(cpu_model(), os.cpu_count() or 0, device) for device in devices}
    of_here = [one for one in baselines if one.environment is not None and one.environment.machine in machines]
    weak = sum(one.runs < thresholds.BASELINE_RUNS for one in of_here)
    notes = []
    if not settings.time:
        return Observation(subject="times", found="not judged", note='time = "off" in the settings')
    if len(of_here) < len(baselines):
        notes.append(f"{len(baselines) - len(of_here)} measured on another machine: their times are shown, not judged")
    if weak:
        notes.append(f"{weak} timed in fewer than {thresholds.BASELINE_RUNS} processes: a slower step only warns")
    if settings.confirm and repository_of(settings.root) is None:
        notes.append("no git repository: a slower step is not measured again before it fails")
    found = f"judged for {len(of_here) - weak} of {counted(len(baselines), 'baseline')}"
    return Observation(subject="times", found=found, note="; ".join(notes))


# -- pytest's plugins ----------------------------------------------------------------------------------------------------


def _plugins() -> Iterator[Observation]:
    from perfguard.cli.pytest_settings import pytest_settings

    plugins = entry_points(group="pytest11")
    rivals = sorted(
        {str(one.dist and one.dist.name) for one in plugins if one.name == "perfguard" and one.module != _OWN}
    )
    known = [name for name in ("xdist", "randomly", "rerunfailures", "timeout") if name in plugins.names]
    todo = [f"another distribution registers the pytest plugin `perfguard`: pip uninstall {name}" for name in rivals]
    try:
        options = [*pytest_settings(Path.cwd()).get("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    except (PerfguardError, ValueError) as error:
        todo.append(str(error))
        options = []
    text = f" {' '.join(options)} "
    notes = []
    if "-p no:perfguard " in text or "-pno:perfguard " in text:
        todo.append("pytest's addopts block the plugin: remove `-p no:perfguard`")
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") and "-p perfguard" not in text:
        todo.append(
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD is set, so that pytest loads no plugin: pytest -p perfguard --perfguard"
        )
    if _is_parallel(options):
        todo.append(
            "pytest's addopts start pytest-xdist, which disturbs times: pytest --perfguard -n0, or --perfguard-time=off"
        )
    if "--benchmark-skip" in options:
        todo.append("--benchmark-skip in pytest's addopts skips the tests that use perfguard: remove it")
    if any(one.startswith("--reruns") for one in options):
        notes.append("--reruns: the last verdict of a test counts, and a red one before it is reported as flaky")
    found = f"supported: {', '.join(known)}" if known else "none that matters"
    yield Observation(subject="plugins", found=found, note="; ".join(notes), todo="; ".join(todo))


def _is_parallel(options: list[str]) -> bool:
    for at, option in enumerate(options):
        for name in ("-n", "--numprocesses"):
            if option == name:
                return options[at + 1 : at + 2] != ["0"]
            value = option.removeprefix(name).removeprefix("=")
            if option.startswith(name) and (value.isdigit() or value in ("auto", "logical")):
                return value != "0"
    return False
