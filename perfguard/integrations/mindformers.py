"""MindFormers' YAML: the window, options and output directories of its profiler and its SummaryMonitor.

Nothing of MindFormers or MindSpore is imported, and nothing in the file is executed. A setting that MindFormers would reset,
ignore or misread without a word is a `UsageError` that says what it would become.

The same YAML means other steps in other versions of MindFormers:

* up to 1.1 the callback starts and stops the profiler itself; data sink mode is turned off; several devices set
  `init_start_profile` and `profile_communication`;
* 1.2 and 1.3 round the window to `sink_size` instead;
* 1.6 and 1.7 use a schedule, which begins and ends one step late;
* from 1.8 on the schedule is exact: steps `profile_start_step` to `profile_stop_step`, both included, counted from 1.

Sources: the wheels 1.0.2, 1.1.0, 1.2.0, 1.3.2, 1.6.0, 1.7.0, 1.8.0, 1.9.0, 2.0.0 and 2.1.0 (`core/callback/callback.py`,
`trainer/trainer.py`, `trainer/utils.py`, `tools/register/{config,template}.py`, `tools/utils.py`), ProfileMonitor of 1.7, 1.8
and 2.1 run on a CPU with MindSpore 2.10; SummaryCollector of MindSpore 2.0 and 2.10.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from perfguard.configuration import Section, configuration_schema, shown, violation
from perfguard.documents import merged
from perfguard.errors import UsageError, nearest
from perfguard.integrations.config_files import read_text, read_yaml
from perfguard.integrations.summary_monitor import SummaryMonitor, read_summary_monitor
from perfguard.window import StepWindow

_LATEST = "2.1"
#: The versions whose sources were read.
_READ = ("1.0", "1.1", "1.2", "1.3", "1.6", "1.7", "1.8", "1.9", "2.0", "2.1")
LARGEST_BYTES = 4 << 20
_MOST_BASES = 8
#: Likeness from which a key of the YAML counts as a misspelling of a profiler key.
_NEAR = 0.86

_WORLD_SIZE = {"type": "integer", "minimum": 1, "maximum": 10**9 - 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class MindFormersProfile:
    """The profiler options of a YAML, as one version of MindFormers understands them.

    `window` counts the profiler's steps: one per sink in data sink mode, where `training_steps` are the steps inside.
    """

    path: Path
    version: str
    is_on: bool
    window: StepWindow
    #: The first and the last profiled training step; None where a sink is an epoch.
    training_steps: tuple[int, int] | None
    #: The options besides the window: {"profile_memory": True, "profiler_level": "Level1", ...}.
    options: dict[str, Any]
    #: `profile_output`, else MindFormers' own output directory.
    output: Path
    #: The profiled ranks; None for all ranks.
    ranks: tuple[int, ...] | None
    #: The number of ranks, where the caller gave it.
    world_size: int | None
    #: Training steps of one sink: 1 without data sink mode, -1 for a whole epoch.
    sink_size: int
    #: How MindFormers changes settings of this YAML, a sentence each.
    notes: tuple[str, ...]
    #: The SummaryMonitor among the callbacks.
    summary: SummaryMonitor | None

    @property
    def directory(self) -> Path:
        """The directory of all ranks: `output/profile`."""
        return self.output / "profile"

    def profile_directory(self, rank: int = 0) -> Path:
        """Return the directory of a rank's profiler output: `output/profile/rank_0`."""
        return self.directory / f"rank_{rank}"

    @property
    def expectation(self) -> str:
        """The `expect` of `perfguard.check(profile.directory, expect=profile.expectation)`.

        It has the number of ranks where they are 0 to N - 1; else check the directory of each rank.
        """
        items = [f"steps={self.window.active}", "memory" if self.options["profile_memory"] else "no-memory"]
        level = self.options.get("profiler_level")
        items += [str(level).lower()] if level else []
        ranks = self.ranks if self.ranks is not None else range(self.world_size or 0)
        if len(ranks) and tuple(ranks) == tuple(range(len(ranks))):
            items.append(f"ranks={len(ranks)}")
        return ",".join(items)


def read_mindformers(path: str | Path, *, version: str = _LATEST, world_size: int | None = None) -> MindFormersProfile:
    """Read the YAML of a MindFormers task as MindFormers `version` does ("1.0", "1.3.2", "2.1").

    `world_size` is the number of ranks; `profile_pipeline` needs it. Raises `UsageError` for a syntax error (with line and
    column), a key that occurs twice, a misspelt key, a wrong value, and a setting that this version would reset or ignore.
    """
    place = Path(path)
    if world_size is not None and (problem := violation(world_size, _WORLD_SIZE)):
        raise UsageError(f"world_size {problem}.")
    release = _release(version)
    # The nearer file wins, as with MindFormerConfig.
    document = functools.reduce(merged, _with_bases(place, ()))
    return _Reader(place, document, release, world_size).profile()


def _release(version: object) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\w+)*", version) if isinstance(version, str) else None
    if found is None:
        raise UsageError(
            f'version must be a version of MindFormers, such as "1.0" or "{_LATEST}", got {shown(version)}.'
        )
    release = int(found[1]), int(found[2])
    if release < (1, 0) or (1, 3) < release < (1, 6):
        raise UsageError(f"version {version} of MindFormers is unknown; known are {', '.join(_READ)} and later.")
    return release


class _Reader:
    """Reads the keys of one document; every error names the file and the key."""

    def __init__(
        self, path: Path, document: Mapping[str, Any], release: tuple[int, int], world_size: int | None
    ) -> None:
        self.path = path
        self.root = Section(document, configuration_schema("mindformers"), str(path))
        self.release = release
        self.version = f"{release[0]}.{release[1]}"
        self.world_size = world_size
        self.notes: list[str] = []
        self.is_on = False

    def profile(self) -> MindFormersProfile:
        self._check_keys()
        take = self.root.take
        self.is_on = take("profile")
        self.start, self.stop = take("profile_start_step"), take("profile_stop_step")
        self.init_start = take("init_start_profile")
        if self.init_start is None:
            self.init_start = self.release < (1, 6)
        self.communication = take("profile_communication")
        self.sink_size = self._sink_size()
        if self.start < 1 or self.stop < self.start:
            self._refuse_window()
        self._check_devices()
        self._round()
        output = self._directory("output_dir")
        profile_output = self._directory("profile_output") if self.release >= (1, 2) else None
        window, training_steps = self._window()
        return MindFormersProfile(
            path=self.path,
            version=self.version,
            is_on=self.is_on,
            window=window,
            training_steps=training_steps,
            options=self._options(),
            output=profile_output or output,
            ranks=self._ranks(),
            world_size=self.world_size,
            sink_size=self.sink_size,
            notes=tuple(self.notes),
            summary=self._summary(output),
        )

    def _check_keys(self) -> None:
        properties = self.root.schema["properties"]
        since = {key: one["x-since"] for key, one in properties.items() if "x-since" in one}
        for key in self.root.plain:
            if not isinstance(key, str) or key in since:
                continue
            if key == "profile_end_step":
                self._refuse(key, "is TrainingArguments' name, which MindFormers ignores; write profile_stop_step")
            near = difflib.get_close_matches(key.lower(), [*since, "callbacks", "runner_config"], n=1, cutoff=_NEAR)
            if near and key != near[0]:
                self._refuse(key, f"is not a key of MindFormers, which ignores it; did you mean {near[0]!r}?")
            if key.lower().startswith(("profile", "profiler", "init_start")):
                self._refuse(key, f"is not a key of MindFormers, which ignores it; {nearest(key, since)}")
        for key, first in since.items():
            if self.release < tuple(map(int, first.split("."))) and not self.root.is_null(key):
                self._refuse(key, f"is ignored by MindFormers {self.version}: it was added in {first}; leave it out")

    def _refuse_window(self) -> NoReturn:
        start, stop = self.start, self.stop
        if start < 1:
            what = f"profile_start_step must be at least 1, got {start}"
        elif stop < 1:
            what = f"profile_stop_step must be at least 1, got {stop}"
        else:
            what = f"profile_start_step must not be after profile_stop_step, got {start} and {stop}"
        raise UsageError(f"{self.path}: {what}; MindFormers {self.version} would {self._become(start, stop)}.")

    def _become(self, start: int, stop: int) -> str:
        """Return what MindFormers would do with an invalid window."""
        if self.release < (1, 6):
            if stop < 1:
                return "never stop the profiler"
            if self.init_start:
                return f"profile steps 1 to {stop}"
            if start < 1:
                return "never start the profiler"
            return f"stop the profiler at step {stop}, before it is started"
        # ProfileMonitor._check_step corrects its start and stop; the schedule has the corrected stop and the old start.
        corrected = 10 if stop < 0 or (1 if start < 0 else start) > stop else stop
        late = self.release < (1, 8)
        at_first = self.init_start and start == 1
        active = max(corrected, 1) if at_first else max(corrected - start + 1, 1)
        first = 1 if at_first else max(start, 0)
        first, last = max(first + late, 1), first + active - 1 + late
        return "reset it and profile " + (f"step {last}" if first == last else f"steps {first} to {last}")

    def _check_devices(self) -> None:
        forced = self.release < (1, 2) and self.root.take("use_parallel")
        if forced and not (self.init_start and self.communication):
            key = "init_start_profile" if not self.init_start else "profile_communication"
            self._reset(key, f"would be set to True by MindFormers {self.version} on several devices; write True")
        if not self.communication:
            return
        if self.release < (1, 6):
            if not self.init_start:
                self._reset("profile_communication", "is True and needs init_start_profile: True")
            return
        level = self.root.plain.get("profiler_level")
        if level is None:
            self._reset(
                "profile_communication",
                f"collects nothing without profiler_level, where MindFormers {self.version} takes Level0; write "
                "profiler_level: 1",
            )
        if level == 0:
            self._reset(
                "profiler_level",
                f"is 0, which MindFormers {self.version} resets to 1 because of profile_communication; write 1",
            )

    def _sink_size(self) -> int:
        """Return the training steps of a sink; 1 without data sink mode."""
        if self.root.is_null("runner_config"):
            return 1
        runner = self.root.section("runner_config")
        on, size, epochs = (runner.take(key) for key in ("sink_mode", "sink_size", "epochs"))
        if on is None:
            on = self.release >= (1, 6)
        if self.release < (1, 2):
            if on:
                self.notes.append(f"sink_mode is switched off by MindFormers {self.version} during profiling.")
            return 1
        if on and size == -1 and epochs is not None and self.stop > epochs:
            self._refuse(
                "profile_stop_step",
                f"is {self.stop} and is never reached: with sink_size -1 a step is one of {epochs} epochs",
            )
        return int(size) if on else 1

    def _round(self) -> None:
        """Round the window as Trainer._build_profile_cb does; the rounded stop is not always a multiple."""
        size = self.sink_size
        if size <= 1:
            return
        given = self.start, self.stop
        if self.start % size:
            self.start = max(self.start - self.start % size, size)
        if self.stop % size:
            self.stop = max(self.stop + self.stop % size, self.start + size)
        start, stop = self.start, self.stop
        if given != (start, stop):
            self.notes.append(
                f"sink_size={size}: MindFormers rounds steps {given[0]} to {given[1]} to steps {start} to {stop}."
            )
        if self.release < (1, 6) and stop % size:
            self._reset(
                "profile_stop_step",
                f"{given[1]} becomes {stop} with sink_size={size}, a step that no callback gets, so that MindFormers "
                f"{self.version} never stops the profiler; write {-(-stop // size) * size}",
            )

    def _window(self) -> tuple[StepWindow, tuple[int, int] | None]:
        if self.release < (1, 6):
            return self._started_by_the_callback()
        start, stop, sink_size = self.start, self.stop, self.sink_size
        if self.init_start and start != 1:
            self.notes.append(
                f"init_start_profile: True has no effect with profile_start_step: {start}; MindFormers {self.version} "
                "resets it."
            )
        if self.release < (1, 8):
            self.notes.append(f"MindFormers {self.version} begins and ends one step late: {start + 1} to {stop + 1}.")
            start, stop = start + 1, stop + 1
        window = StepWindow.from_start_stop(start, stop)
        if sink_size == -1:
            self.notes.append(
                f"sink_size=-1: a step of the profiler is an epoch; epochs {start} to {stop} are profiled."
            )
            return window, None
        steps = (start - 1) * sink_size + 1, stop * sink_size
        if sink_size > 1:
            self.notes.append(
                f"sink_size={sink_size}: the profiler steps once per sink, so its steps {start} to {stop} are the "
                f"training steps {steps[0]} to {steps[1]}."
            )
        return window, steps

    def _started_by_the_callback(self) -> tuple[StepWindow, tuple[int, int]]:
        if self.init_start and self.start != 1:
            self.notes.append(f"profile_start_step: {self.start} has no effect with init_start_profile: True.")
        if self.sink_size == -1:
            self._refuse(
                "runner_config.sink_size",
                f"is -1, and MindFormers {self.version} counts training steps, so that its start and stop are unknown; "
                "write the number of steps of a sink",
            )
        # The callback runs before and after a whole sink, and gets the number of its last step.
        first = 1 if self.init_start else self.start - self.sink_size + 1
        return StepWindow.from_start_stop(first, self.stop), (first, self.stop)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"profile_memory": self.root.take("profile_memory")}
        if self.release < (1, 6):
            options |= {"profile_communication": self.communication, "start_profile": self.init_start}
        if self.release >= (1, 3):
            options["profiler_level"] = f"Level{self._level()}"
            options |= {key: self.root.take(key) for key in ("with_stack", "data_simplification")}
        if self.release >= (1, 6):
            options["mstx"] = self.root.take("mstx")
        return options

    def _level(self) -> int:
        level: int = self.root.take("profiler_level")
        unread = self.root.take("profile_level")
        if unread is not None and (unread != level or self.root.is_null("profiler_level")):
            self._reset(
                "profile_level",
                f"is never read by MindFormers {self.version}, which takes profiler_level: {level}; write profiler_level: "
                f"{unread}",
            )
        return level

    def _ranks(self) -> tuple[int, ...] | None:
        key = "profile_rank_ids"
        if self.root.plain.get(key) == "None":
            self._refuse(key, "is the text 'None', with which MindFormers profiles no rank; write null for all ranks")
        value = self.root.take(key)
        if value is not None:
            if not value:
                self._refuse(key, "is empty, which means all ranks to MindFormers; write null, or name some ranks")
            if len(set(value)) != len(value):
                self._refuse(key, f"must name every rank once, got {shown(value)}")
            if self.world_size is not None and max(value) >= self.world_size:
                self._refuse(key, f"must be less than the number of ranks, {self.world_size}, got {shown(value)}")
        ranks = set(value or ())
        if self.root.take("profile_pipeline") and self.is_on:
            ranks |= set(self._first_of_stages())
        return tuple(sorted(ranks)) if ranks else None

    def _first_of_stages(self) -> range:
        if self.world_size is None:
            self._refuse("profile_pipeline", "needs the number of ranks; write read_mindformers(path, world_size=N)")
        parallel = self.root.plain.get("parallel_config")
        stages: int = (
            self.root.section("parallel_config").take("pipeline_stage") if isinstance(parallel, Mapping) else 1
        )
        if self.world_size % stages:
            self._refuse(
                "profile_pipeline", f"needs a number of ranks that {stages} stages divide, got {self.world_size}"
            )
        return range(0, self.world_size, self.world_size // stages)

    def _summary(self, output: Path) -> SummaryMonitor | None:
        monitors: list[tuple[str, Mapping[Any, Any]]] = []
        for number, one in enumerate(self.root.take("callbacks") or ()):
            where = f"callbacks[{number}]"
            if not isinstance(one, Mapping) or not isinstance(one.get("type"), str):
                self._refuse(where, "has no type; write a callback as '- type: SummaryMonitor'")
            if one["type"] == "SummaryMonitor":
                monitors.append((where, one))
            elif difflib.get_close_matches(one["type"], ["SummaryMonitor"], cutoff=_NEAR):
                self._refuse(f"{where}.type", f"{one['type']!r} is not a callback; did you mean 'SummaryMonitor'?")
        if len(monitors) > 1:
            self._refuse(monitors[1][0], "is a second SummaryMonitor, and MindSpore allows one")
        if not monitors:
            return None
        where, one = monitors[0]
        return read_summary_monitor(one, source=self.root.source, at=where, output=output)

    # -- one value -----------------------------------------------------------------------------------------------------

    def _directory(self, key: str) -> Any:
        if self.root.plain.get(key) == "None":
            self._refuse(key, "is the text 'None', and MindFormers writes to a directory of that name; write null")
        return self.root.take(key)

    def _reset(self, key: str, problem: str) -> None:
        """Refuse a setting that MindFormers would reset; with profiling switched off it is a note."""
        if self.is_on:
            self._refuse(key, problem)
        self.notes.append(f"{key} {problem}.")

    def _refuse(self, key: str, problem: str) -> NoReturn:
        raise self.root.error(key, problem)


# -- the file ----------------------------------------------------------------------------------------------------------


def _with_bases(path: Path, below: tuple[Path, ...]) -> Iterator[dict[str, Any]]:
    """Yield the `base_config` files of a document, then the document."""
    document = _load(path)
    place = path.resolve()
    if place in below:
        raise UsageError(f"{path}: base_config leads back to this file.")
    if len(below) >= _MOST_BASES:
        raise UsageError(f"{path}: base_config must be at most {_MOST_BASES} files deep.")
    bases = document.pop("base_config", None)
    bases = [] if bases is None else bases if isinstance(bases, list) else [bases]
    for base in bases:
        if not isinstance(base, str):
            raise UsageError(f"{path}: base_config must be a file name, got {shown(base)}.")
        yield from _with_bases(path.parent / base, (*below, place))
    yield document


def _load(path: Path) -> dict[str, Any]:
    document = read_yaml(read_text(path, hint="the YAML of your MindFormers task", largest=LARGEST_BYTES), str(path))
    if not isinstance(document, dict):
        raise UsageError(
            f"{path} is not a MindFormers configuration: it must have keys with values, got {shown(document)}."
        )
    return document
