"""Settings of a project: `[tool.perfguard]` of pyproject.toml, options and markers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfguard import thresholds
from perfguard.errors import UsageError, nearest
from perfguard.findings import Code, is_code
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.measure.metrics import METRICS
from perfguard.window import StepWindow

if TYPE_CHECKING:
    from perfguard.contract.checks import Check

_TABLE = "[tool.perfguard]"
_ROOT_FILES = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
#: Deepest level of packages below their common directory, and directories without packages.
_DEEPEST_PACKAGE = 3
_NO_PACKAGES = frozenset({"build", "dist", "node_modules", "site-packages", "env", "venv"})
_TOLERANCE_KEYS = ("relative", "absolute", "warn")
_MARKER_KEYS = ("window", "backend", "timed_steps", "threads", "tolerance", "ignore", "changed", "isolated")
#: Values of `changed`: the result of a test with other operators and no slower step.
_CHANGED = ("warn", "fail")
#: Values of `confirm`: whether a slower step is confirmed by an A/B run with its baseline's commit before it fails.
_CONFIRM = ("on", "off")


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
    #: Whether a slower step needs an A/B run with the baseline's commit to fail a test.
    confirm: bool = True
    tolerance: tuple[Rule, ...] = ()
    ignore: tuple[str, ...] = ()
    #: The project's own checks, from the files in `checks`.
    checks: tuple[Check, ...] = ()
    #: Rules of one test's marker; they override `tolerance`.
    marker_tolerance: tuple[Rule, ...] = ()
    #: Whether the test's workloads are timed in processes of their own; set by a marker only.
    isolated: bool = False

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
            ignore=self.ignore,
            changed_fails=self.changed == "fail",
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
    known = (
        "baselines",
        "store",
        "window",
        "timed_steps",
        "threads",
        "backend",
        "time",
        "runs",
        "history",
        "unused",
        "changed",
        "confirm",
        "tolerance",
        "ignore",
        "checks",
    )
    refuse_unknown(table, known, where=_TABLE)
    values: dict[str, Any] = {}
    if "baselines" in table:
        values["baselines"] = Path(_typed(table, "baselines", str, _TABLE))
    if "history" in table:
        values["history"] = _typed(table, "history", str, _TABLE)
    if "store" in table:
        values["store"] = _typed(table, "store", str, _TABLE)
    if "window" in table:
        values["window"] = _window(table["window"])
    if "backend" in table:
        values["backend"] = _typed(table, "backend", str, _TABLE)
    if "time" in table:
        values["time"] = time_switch(_typed(table, "time", str, _TABLE))
    if "unused" in table:
        values["unused"] = _choice(table, "unused", ("fail", "warn"), _TABLE)
    if "changed" in table:
        values["changed"] = _choice(table, "changed", _CHANGED, _TABLE)
    if "confirm" in table:
        values["confirm"] = _choice(table, "confirm", _CONFIRM, _TABLE) == "on"
    if "tolerance" in table:
        values["tolerance"] = rules(_typed(table, "tolerance", dict, _TABLE), where=f"{_TABLE}.tolerance")
    if "ignore" in table:
        values["ignore"] = codes(_typed(table, "ignore", list, _TABLE))
    if "checks" in table:
        values["checks"] = _checks(root, table)
    if "runs" in table:
        values["runs"] = run_count(table["runs"])
    for key in ("timed_steps", "threads"):
        if key in table:
            values[key] = positive(table[key], key)
    return Settings(root=root, **values)


def project_checks(start: Path) -> tuple[Check, ...]:
    """Return the own checks of the project of a directory, without its other settings. Raises `UsageError`."""
    root = find_table(start)
    table = None if root is None else _own_table(root / "pyproject.toml")
    return () if root is None or table is None or "checks" not in table else _checks(root, table)


def _checks(root: Path, table: Mapping[str, Any]) -> tuple[Check, ...]:
    # The import loads DuckDB, which only a project with checks needs.
    from perfguard.contract.own_checks import own_checks

    names = _typed(table, "checks", list, _TABLE)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise UsageError(
            f"checks = {names!r} in {_TABLE} must be a list of files and folders as strings, got {wrong[0]!r}."
        )
    return own_checks([root / name for name in names], root)


def find_root(start: Path) -> Path:
    """Return the project of a directory: that of `find_table`, else the nearest root of pytest, else `start`."""
    if (found := find_table(start)) is not None:
        return found
    roots = (d for d in (start, *start.parents) if any((d / name).is_file() for name in _ROOT_FILES))
    return next(roots, start)


def find_table(start: Path) -> Path | None:
    """Return the nearest directory at or above `start` whose pyproject.toml has a `[tool.perfguard]`. Raises `UsageError`."""
    for directory in (start, *start.parents):
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


def with_marker(settings: Settings, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings of one test: its marker's keywords override the others. Raises `UsageError`."""
    refuse_unknown(arguments, _MARKER_KEYS, where="@pytest.mark.perfguard(...)")
    values: dict[str, Any] = {}
    if (window := arguments.get("window")) is not None:
        if not isinstance(window, StepWindow):
            raise UsageError(f"window={window!r} in @pytest.mark.perfguard must be a perfguard.StepWindow(...).")
        values["window"] = window
    if arguments.get("backend") is not None:
        values["backend"] = _typed(arguments, "backend", str, "@pytest.mark.perfguard")
    for key in ("timed_steps", "threads"):
        if arguments.get(key) is not None:
            values[key] = positive(arguments[key], key)
    if arguments.get("changed") is not None:
        values["changed"] = _choice(arguments, "changed", _CHANGED, "@pytest.mark.perfguard(...)")
    if (tolerance := arguments.get("tolerance")) is not None:
        if not isinstance(tolerance, Mapping):
            raise UsageError(
                f"tolerance={tolerance!r} in @pytest.mark.perfguard must be a dict, such as {{'step_time': 0.25}}."
            )
        values["marker_tolerance"] = rules(tolerance, where="@pytest.mark.perfguard(tolerance=...)")
    if (ignore := arguments.get("ignore")) is not None:
        if isinstance(ignore, str) or not isinstance(ignore, Iterable):
            raise UsageError(f"ignore={ignore!r} in @pytest.mark.perfguard must be a list of codes, such as ['C102'].")
        values["ignore"] = (*settings.ignore, *codes(ignore))
    if arguments.get("isolated") is not None:
        values["isolated"] = _typed(arguments, "isolated", bool, "@pytest.mark.perfguard")
    return replace(settings, **values)


def rules(table: Mapping[str, Any], *, where: str) -> tuple[Rule, ...]:
    """Turn `{"step_time": 0.25, "operator_time[MatMul*]": {"relative": 0.25, "absolute": 50}}` into rules."""
    for pattern in table:
        if not isinstance(pattern, str):
            raise UsageError(f"{pattern!r} in {where} must be the name of a metric, such as 'step_time'.")
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


def _limits(value: Any, pattern: str, where: str) -> Tolerance:
    if not isinstance(value, Mapping):
        return Tolerance(relative=_fraction(value, where))
    refuse_unknown(value, _TOLERANCE_KEYS, where=where)
    metric = METRICS.get(pattern.partition("[")[0])
    relative, absolute = 0.0, 0.0
    if metric is not None and not {"relative", "absolute"} & value.keys():
        # An earlier warning alone keeps the metric's own limits for failures.
        relative, absolute = metric.relative, metric.absolute
    return Tolerance(
        relative=_fraction(value["relative"], where) if "relative" in value else relative,
        absolute=_fraction(value["absolute"], where) if "absolute" in value else absolute,
        warn_relative=_fraction(value["warn"], where) if "warn" in value else None,
    )


def _fraction(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise UsageError(
            f'{where} = {value!r} is not a tolerance. Write a fraction (0.25 is 25 %), {{ relative, absolute, warn }} or "off".'
        )
    return float(value)


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


def time_switch(value: str) -> bool:
    """Convert "on" or "off"."""
    if value not in ("on", "off"):
        raise UsageError(f'time must be "on" or "off", got {value!r}.')
    return value == "on"


def positive(value: Any, name: str) -> int:
    """Validate a count of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be an integer of at least 1, got {value!r}.")
    return value


def run_count(value: Any) -> int:
    """Validate a number of controlled processes, 0 included."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= thresholds.MOST_BASELINE_RUNS:
        raise UsageError(
            f"runs must be an integer from 0 (no controlled process) to {thresholds.MOST_BASELINE_RUNS}, got {value!r}."
        )
    return value


def refuse_unknown(table: Mapping[str, Any], known: Iterable[str], *, where: str) -> None:
    """Refuse unknown keys, and suggest the nearest known one."""
    names = list(known)
    for key in table:
        if key not in names:
            raise UsageError(f"{where} has no key {key!r}; {nearest(str(key), names)}")


def _window(value: Any) -> StepWindow:
    if not isinstance(value, dict):
        raise UsageError(f"window = {value!r} in {_TABLE} must be a table, such as {{ skip_first = 2, active = 5 }}.")
    refuse_unknown(value, StepWindow.__dataclass_fields__, where=f"{_TABLE}.window")
    return StepWindow(**value)


def _typed(table: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = table[key]
    if not isinstance(value, kind):
        raise UsageError(f"{key} = {value!r} in {where} must be a {kind.__name__}, got a {type(value).__name__}.")
    return value


def _choice(table: Mapping[str, Any], key: str, choices: tuple[str, ...], where: str) -> str:
    value = table[key]
    if value not in choices:
        raise UsageError(f"{key} = {value!r} in {where} must be one of {', '.join(choices)}.")
    return str(value)


def _own_table(path: Path) -> dict[str, Any] | None:
    """Return `[tool.perfguard]` of a pyproject.toml, or None. Raises `UsageError`."""
    tool = _read_toml(path).get("tool", {})
    if not isinstance(tool, dict):
        raise UsageError(f"tool = {tool!r} of {path} must be a table, to hold {_TABLE}.")
    if "perfguard" not in tool:
        return None
    table = tool["perfguard"]
    if not isinstance(table, dict):
        raise UsageError(
            f"perfguard = {table!r} in [tool] of {path} must be a table. Write {_TABLE} and its keys below it."
        )
    return table


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}. Correct it, then run the same command again.") from error
