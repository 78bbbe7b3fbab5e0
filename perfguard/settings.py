"""Settings of a project: `[tool.perfguard]` of pyproject.toml, options and markers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard import thresholds
from perfguard.config_files import read_toml
from perfguard.configuration import Schema, Section, configuration_schema, violation
from perfguard.errors import UsageError, counted, nearest
from perfguard.findings import Code, is_code
from perfguard.judge.kernel_sets import KernelSets
from perfguard.judge.tolerance import IN_SETTINGS, OF_THE_TEST, Policy, Rule, Tolerance
from perfguard.measure.metrics import METRICS
from perfguard.screen import shown
from perfguard.window import StepWindow

if TYPE_CHECKING:
    from perfguard.contract.checks import Check

_TABLE = "[tool.perfguard]"
_ROOT_FILES = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
#: Deepest level of packages below their common directory, and directories without packages.
_DEEPEST_PACKAGE = 3
_NO_PACKAGES = frozenset({"build", "dist", "node_modules", "site-packages", "env", "venv"})
_MARKER = "@pytest.mark.perfguard(...)"
_MARKER_KEYS = (
    "window",
    "backend",
    "timed_steps",
    "threads",
    "tolerance",
    "ignore",
    "changed",
    "target",
    "isolated",
    "period",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. `baselines` is relative to `root`, the directory of pyproject.toml."""

    root: Path
    baselines: Path = Path("baselines")
    #: The kind of store: a name of `perfguard.stores`.
    store: str = "directory"
    #: A file, relative to `root`, or the URL of a database; None is `perfguard-history.db` beside pyproject.toml.
    history: str | None = None
    window: StepWindow = field(default_factory=StepWindow)
    timed_steps: int = 30
    threads: int = 1
    backend: str | None = None
    time: bool = True
    #: Controlled processes that measure a baseline's times; 0 measures the test's own process only.
    runs: int = thresholds.BASELINE_RUNS
    unused: str = "fail"
    #: "fail": other operators fail a test, as in a snapshot test, even if nothing got worse.
    changed: str = "warn"
    #: "device": reads of values by the host are judged on a CPU as on a device, where each waits.
    target: str = "host"
    #: Whether a slower step needs an A/B run with the baseline's commit to fail a test.
    confirm: bool = True
    tolerance: tuple[Rule, ...] = ()
    kernels: KernelSets = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    #: The project's own checks, from the files in `checks`.
    checks: tuple[Check, ...] = ()
    #: Rules of one test's marker; they override `tolerance`. And the codes that it ignores as well.
    marker_tolerance: tuple[Rule, ...] = ()
    marker_ignore: tuple[str, ...] = ()
    marker_target: str | None = None
    #: Whether the test's workloads are timed in processes of their own; set by a marker only.
    isolated: bool = False
    #: After how many steps the test's steps repeat; set by a marker only.
    period: int | None = None

    @property
    def baselines_directory(self) -> Path:
        """The directory of the baselines."""
        return self.root / self.baselines

    @property
    def policy(self) -> Policy:
        """The policy of the judge."""
        return Policy(
            marker=self.marker_tolerance,
            settings=self.tolerance,
            judge_time=self.time,
            ignore=(*self.ignore, *self.marker_ignore),
            ignored_by=dict.fromkeys(self.marker_ignore, OF_THE_TEST) | dict.fromkeys(self.ignore, IN_SETTINGS),
            changed_fails=self.changed == "fail",
            target=self.target,
            marker_target=self.marker_target,
            kernels=self.kernels,
            checks=self.checks,
        )


def read_settings(root: Path) -> Settings:
    """Read `[tool.perfguard]` of `root`/pyproject.toml; return defaults without it. Raises `UsageError`."""
    path = root / "pyproject.toml"
    table = _own_table(path) if path.is_file() else None
    if table is None:
        return Settings(root=root)
    try:
        return _settings(root, table)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _settings(root: Path, table: Mapping[str, Any]) -> Settings:
    section = Section(table, configuration_schema("settings"), "", _TABLE)
    values = section.given()
    if "window" in values:
        values["window"] = StepWindow(**values["window"])
    for key in values.keys() & {"time", "confirm"}:
        values[key] = values[key] == "on"
    if "tolerance" in values:
        values["tolerance"] = rules(values["tolerance"], where=f"{_TABLE}.tolerance")
    if "ignore" in values:
        values["ignore"] = codes(values["ignore"])
    if "kernels" in values:
        values["kernels"] = _kernel_sets(values["kernels"])
    if "checks" in values:
        values["checks"] = _checks(root, values["checks"])
    return Settings(root=root, **values)


def read_table(root: Path) -> dict[str, Any]:
    """Return `[tool.perfguard]` of `root`/pyproject.toml as it is written; empty without it. Raises `UsageError`."""
    path = root / "pyproject.toml"
    return (_own_table(path) if path.is_file() else None) or {}


def project_checks(start: Path) -> tuple[Check, ...]:
    """Return the own checks of the project of a directory, of its settings alone. Raises `UsageError`, for unknown ones too."""
    root = find_table(start)
    table = None if root is None else _own_table(root / "pyproject.toml")
    if root is None or table is None:
        return ()
    section = Section(table, configuration_schema("settings"), str(root / "pyproject.toml"), _TABLE)
    # `check = [...]` would run none.
    section.refuse_unknown()
    return _checks(root, section.take("checks"))


def _checks(root: Path, names: list[str]) -> tuple[Check, ...]:
    if not names:
        return ()
    # The import loads DuckDB, which only a project with checks needs.
    from perfguard.contract.own_checks import own_checks

    return own_checks([root / name for name in names], root)


def find_root(start: Path, levels: Sequence[Path] = ()) -> Path:
    """Return the project of a directory: that of `find_table`, else the nearest root of pytest, else `start`."""
    if (found := find_table(start, levels)) is not None:
        return found
    levels = levels or (start, *start.parents)
    return next((d for d in levels if any((d / name).is_file() for name in _ROOT_FILES)), levels[0])


def find_table(start: Path, levels: Sequence[Path] = ()) -> Path | None:
    """Return the nearest directory at or above `start` whose pyproject.toml has a `[tool.perfguard]`. Raises `UsageError`.

    `levels` are other directories to look at, the nearest first: those of another checkout.
    """
    for directory in levels or (start, *start.parents):
        path = directory / "pyproject.toml"
        if path.is_file() and _own_table(path) is not None:
            return directory
    return None


def has_test_file(root: Path, workload: str) -> bool:
    """Whether the test file of a workload exists below a directory, or below a pytest root in it.

    Several packages may keep their baselines in a common directory; their names are relative to each package's pytest root.
    """
    path = workload.partition("::")[0]
    return (root / path).is_file() or any((below / path).is_file() for below in _roots_below(root))


@cache
def _roots_below(root: Path) -> tuple[Path, ...]:
    found = []
    for place, directories, files in os.walk(root):
        directory = Path(place)
        is_deepest = len(directory.relative_to(root).parts) == _DEEPEST_PACKAGE
        # Skip copies of tests, and folders without projects.
        directories[:] = (
            [] if is_deepest else [d for d in directories if not d.startswith(".") and d not in _NO_PACKAGES]
        )
        if directory != root and not {*_ROOT_FILES}.isdisjoint(files):
            found.append(directory)
    return tuple(found)


def marker_schema() -> Schema:
    """Return the schema of the marker's keywords."""
    document = configuration_schema("settings")
    properties = {**document["properties"], **{key: document["$defs"][key] for key in ("isolated", "period")}}
    # A marker has a StepWindow, which validates itself.
    properties["window"] = {"description": properties["window"]["description"]}
    return {"properties": {key: properties[key] for key in _MARKER_KEYS}}


def with_marker(settings: Settings, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings of one test: its marker's keywords override the others. Raises `UsageError`."""
    schema = marker_schema()
    plain = {key: value for key, value in arguments.items() if value is not None or key not in _MARKER_KEYS}
    if isinstance(ignore := plain.get("ignore"), Iterable) and not isinstance(ignore, str):
        plain["ignore"] = [*ignore]
    section = Section(plain, schema, _MARKER)
    values = section.given()
    if "window" in values and not isinstance(values["window"], StepWindow):
        raise section.error("window", f"must be a perfguard.StepWindow(...), got {shown(values['window'])}")
    if "tolerance" in values:
        values["marker_tolerance"] = rules(values.pop("tolerance"), where="@pytest.mark.perfguard(tolerance=...)")
    if "target" in values:
        values["marker_target"] = values.pop("target")
    if "ignore" in values:
        values["marker_ignore"] = codes(values.pop("ignore"))
    found = replace(settings, **values)
    if found.period is None:
        return found
    return replace(found, window=_whole_periods(found.window, found.period))


def _whole_periods(window: StepWindow, period: int) -> StepWindow:
    """Return the window cut to whole periods, so that every kind of step has its share. Raises `UsageError` for none."""
    if period > window.active:
        raise UsageError(
            f"{_MARKER}: period={period} is longer than the window of {counted(window.active, 'step')}; give it two periods: "
            f"window=perfguard.StepWindow(active={2 * period})."
        )
    return replace(window, active=window.active - window.active % period)


def rules(table: Mapping[str, Any], *, where: str) -> tuple[Rule, ...]:
    """Turn `{"step_time": 0.25, "operator_time[MatMul*]": {"relative": 0.25, "absolute": 50}}` into rules."""
    for pattern in table:
        if not isinstance(pattern, str):
            raise UsageError(f"{where}: a metric must be a name, such as 'step_time', got {shown(pattern)}.")
    return tuple(Rule(pattern=pattern, tolerance=_tolerance(value, pattern, where)) for pattern, value in table.items())


def _tolerance(value: Any, pattern: str, where: str) -> Tolerance | None:
    if value == "off":
        return None
    where = f"{where} {pattern}"
    found = _limits(value, pattern, where)
    if pattern.partition("[")[0] not in ("step_cost", "step_ab"):
        return found
    if found.relative == found.absolute == 0:
        raise UsageError(
            f"{where} = 0 would fail half of all unchanged runs. Write a fraction such as 0.05, or get one from: "
            "perfguard calibrate"
        )
    if thresholds.BLIND_TOLERANCE <= found.relative < math.inf:
        raise UsageError(
            f"{where} = {found.relative:g} allows a step that is {1 + found.relative:g} times as slow. "
            'Write a fraction (0.1 is 10 %), or "off" to show it only.'
        )
    return found


def _kernel_sets(table: Mapping[str, Any]) -> KernelSets:
    """Turn `{"gemm": ["cutlass_*", "ampere_*"]}` into sets. Raises `UsageError`."""
    names = configuration_schema("settings")["$defs"]["names"]
    for name, globs in table.items():
        if broken := violation(globs, names):
            raise UsageError(f"{_TABLE}.kernels {name} {broken}.")
        if any(not set(glob) - set("*?") for glob in globs):
            raise UsageError(
                f'{_TABLE}.kernels {name} has a name that every kernel has. Write more of it, such as "cutlass_*".'
            )
    return {name: tuple(globs) for name, globs in table.items()}


def _limits(value: Any, pattern: str, where: str) -> Tolerance:
    parts = configuration_schema("settings")["$defs"]
    if not isinstance(value, Mapping):
        if broken := violation(value, parts["fraction"]):
            raise UsageError(f"{where} {broken}.")
        return Tolerance(relative=float(value))
    limits = {key: float(limit) for key, limit in Section(value, parts["limits"], where).given().items()}
    warn = limits.pop("warn", None)
    metric = METRICS.get(pattern.partition("[")[0])
    if metric is not None and not limits:
        # An earlier warning alone keeps the metric's own limits for failures.
        return Tolerance(relative=metric.relative, absolute=metric.absolute, warn_relative=warn)
    return Tolerance(**{"relative": 0.0, "absolute": 0.0} | limits, warn_relative=warn)


def codes(names: Iterable[Any], *, use: str = "ignore") -> tuple[str, ...]:
    """Validate codes, or beginnings of codes: a typing error would silently ignore (or select) nothing."""
    found = tuple(name.upper() if isinstance(name, str) else name for name in names)
    for name in found:
        if use == "ignore" and isinstance(name, str) and name.startswith("B"):
            raise UsageError(f"{name} cannot be ignored: codes of B report that there is nothing to compare with.")
        if not isinstance(name, str) or not name or not is_code(name, beginning=True):
            hint = nearest(str(name), [code.name for code in Code])
            raise UsageError(f"There is no finding code {name!r} to {use}; {hint}")
    return found


def run_count(value: Any) -> int:
    """Validate a number of controlled processes, 0 included."""
    if broken := violation(value, configuration_schema("settings")["properties"]["runs"]):
        raise UsageError(f"runs {broken}.")
    return int(value)


def _own_table(path: Path) -> dict[str, Any] | None:
    """Return `[tool.perfguard]` of a pyproject.toml, or None. Raises `UsageError`."""
    found: Any = read_toml(path)
    for key, name in (("tool", "tool"), ("perfguard", "tool.perfguard")):
        if key not in found:
            return None
        found = found[key]
        if not isinstance(found, dict):
            raise UsageError(
                f"{path}: {name} must be a table, got {shown(found)}. Write {_TABLE} and its keys below it."
            )
    return dict(found)
