"""MindFormers' YAML: the window, options and output directories of its profiler and its SummaryMonitor.

Nothing of MindFormers or MindSpore is imported, and nothing in the file is executed. A setting that a version whose source
was read resets, ignores or misreads without a word is a `UsageError` that says what it would become. A profiler key that
perfguard does not know is a note, and a later version is read as the latest one below.

Three forms of the YAML set up the profiler, and a file has one of them:

* `profile: True` and `profile_start_step` beside it, in all versions;
* a section `profile: {profile_on: True, profile_start_step: ...}`, of llm_template_v2 (development branch of 2026);
* a section `profiler: {enable_profiling: True, start_step: ...}`, of the PyNative trainer of 2.1.

The same YAML means other steps in other versions of MindFormers:

* up to 1.1 the callback starts and stops the profiler itself; data sink mode is turned off; several devices set
  `init_start_profile` and `profile_communication`;
* 1.2 and 1.3 round the window to `sink_size` instead;
* 1.6 and 1.7 use a schedule, which begins and ends one step late;
* from 1.8 on the schedule is exact: steps `profile_start_step` to `profile_stop_step`, both included, counted from 1.

Sources: the wheels 1.0.2, 1.1.0, 1.2.0, 1.3.2, 1.6.0, 1.7.0, 1.8.0, 1.9.0, 2.0.0 and 2.1.0 (`core/callback/callback.py`,
`trainer/trainer.py`, `trainer/utils.py`, `tools/register/{config,template}.py`, `tools/utils.py`), of 2.1.0 also
`pynative/config/config.py`, `pynative/tools/profiler.py` and `pynative/trainer/trainer.py`; `tools/register/llm_template_v2.py`
of the repository; ProfileMonitor of 1.7, 1.8 and 2.1 run on a CPU with MindSpore 2.10; SummaryCollector of MindSpore 2.0 and
2.10.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from perfguard.config_files import read_text, read_yaml
from perfguard.configuration import Section, configuration_schema, misspelt
from perfguard.documents import merged
from perfguard.errors import UsageError
from perfguard.integrations.ranks import expected_ranks, require_ranks, require_world_size
from perfguard.integrations.summary_monitor import SummaryMonitor, read_summary_monitor
from perfguard.screen import one_line, shown
from perfguard.window import StepWindow

_LATEST = "2.1"
#: The versions whose sources were read.
_READ = ("1.0", "1.1", "1.2", "1.3", "1.6", "1.7", "1.8", "1.9", "2.0", "2.1")
LARGEST_BYTES = 4 << 20
_MOST_BASES = 8


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
    #: The directory of all ranks: `output/profile`, or `profiler.output_path` of the PyNative trainer.
    directory: Path
    #: The profiled ranks; None for all ranks.
    ranks: tuple[int, ...] | None
    #: The number of ranks, where the caller gave it.
    world_size: int | None
    #: Training steps of one sink: 1 without data sink mode, -1 for a whole epoch.
    sink_size: int
    #: How settings of this YAML were read otherwise than they stand there, a sentence each.
    notes: tuple[str, ...]
    #: The SummaryMonitor among the callbacks.
    summary: SummaryMonitor | None

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
        return ",".join([*items, *expected_ranks(self.ranks, self.world_size)])


def read_mindformers(path: str | Path, *, version: str = _LATEST, world_size: int | None = None) -> MindFormersProfile:
    """Read the YAML of a MindFormers task as MindFormers `version` does ("1.0", "1.3.2", "2.1").

    `world_size` is the number of ranks; `profile_pipeline` needs it. Raises `UsageError` for a syntax error (with line and
    column), a key that occurs twice, a misspelt key, a wrong value, and a setting that this version would reset or ignore.
    """
    place = Path(path)
    require_world_size(world_size)
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


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


class _Reader:
    """Reads the keys of one document; every error names the file and the key."""

    def __init__(
        self, path: Path, document: Mapping[str, Any], release: tuple[int, int], world_size: int | None
    ) -> None:
        self.path = path
        self.root = Section(document, configuration_schema("mindformers"), str(path))
        self.release = release
        #: The version whose source was read, which messages name.
        self.version = max(_READ, key=lambda one: (_numbers(one) <= release, _numbers(one)))
        self.world_size = world_size
        self.notes: list[str] = []
        if release > _numbers(_READ[-1]):
            self.notes.append(
                f"MindFormers {release[0]}.{release[1]} is read as {self.version}, the latest known version."
            )
        #: Where the keys of the profiler are: the document, or its section `profile`.
        self.keys = self.root
        self.is_on = False
        if isinstance(document.get("profile"), Mapping):
            self.keys = self._part("profile", document["profile"])

    def profile(self) -> MindFormersProfile:
        self._check_keys()
        self.is_on = self.keys.take("profile" if self.keys is self.root else "profile_on")
        if not self.root.is_null("profiler"):
            pynative = self._part("profiler", self.root.plain["profiler"])
            self._check_section(pynative)
            is_on = pynative.take("enable_profiling")
            if is_on and self.is_on:
                self._refuse(
                    "profiler",
                    "and profile both switch profiling on, and which trainer runs is not known; leave one of them out",
                )
            if not self.is_on:
                self.is_on = is_on
                return self._of_the_pynative_trainer(pynative)
        return self._of_the_callback()

    def _of_the_pynative_trainer(self, profiler: Section) -> MindFormersProfile:
        """Return the profile of a `profiler` section.

        Its schedule has skip_first = start_step, and the trainer calls step() once more before the first step: training steps
        start_step to end_step, both included, counted from 1.
        """
        found = {key: profiler.take(key) for key in profiler.schema["properties"]}
        start, end = found["start_step"], found["end_step"]
        if start > end:
            raise profiler.error("start_step", f"must not be after end_step, got {start} and {end}")
        ranks = found["profiler_rank"]
        if ranks is not None:
            self._check_ranks(profiler, "profiler_rank")
        return MindFormersProfile(
            path=self.path,
            version=f"{self.release[0]}.{self.release[1]}",
            is_on=self.is_on,
            window=StepWindow.from_start_stop(start, end),
            training_steps=(start, end),
            options={
                "profile_memory": found["profile_memory"],
                "profiler_level": f"Level{found['profiler_level']}",
                **{key: found[key] for key in ("with_stack", "mstx", "profile_cpu")},
            },
            directory=found["output_path"] or Path("profile"),
            ranks=None if ranks is None else tuple(sorted(ranks)),
            world_size=self.world_size,
            sink_size=1,
            notes=tuple(self.notes),
            summary=self._summary(self._directory(self.root, "output_dir")),
        )

    def _of_the_callback(self) -> MindFormersProfile:
        take = self.keys.take
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
        output = self._directory(self.root, "output_dir")
        profile_output = self._directory(self.keys, "profile_output") if self.release >= (1, 2) else None
        window, training_steps = self._window()
        return MindFormersProfile(
            path=self.path,
            version=f"{self.release[0]}.{self.release[1]}",
            is_on=self.is_on,
            window=window,
            training_steps=training_steps,
            options=self._options(),
            directory=(profile_output or output) / "profile",
            ranks=self._ranks(),
            world_size=self.world_size,
            sink_size=self.sink_size,
            notes=tuple(self.notes),
            summary=self._summary(output),
        )

    def _check_keys(self) -> None:
        properties = self.root.schema["properties"]
        since = {key: one["x-since"] for key, one in properties.items() if "x-since" in one}
        known = [*since, "callbacks", "runner_config", "training_args"]
        for key in self.root.plain:
            if not isinstance(key, str) or key in since:
                continue
            if key == "profile_end_step":
                self._refuse(key, "is TrainingArguments' name for profile_stop_step; write profile_stop_step")
            self._check_name(self.root, key, known, whole=False)
        for key, first in since.items():
            if self.release < _numbers(first) and not self.root.is_null(key):
                self._refuse(
                    key,
                    f"was added in MindFormers {first}, and this file is read as one of {self.version}; leave it out",
                )
        if self.keys is not self.root:
            self._check_section(self.keys)
            beside = [key for key in since if key not in ("profile", "profiler") and not self.root.is_null(key)]
            if beside:
                self._refuse(beside[0], "is beside the section profile; write it inside, where the other keys are")

    def _check_section(self, section: Section) -> None:
        for key in section.plain:
            if key not in section.schema["properties"]:
                self._check_name(section, one_line(str(key)), [*section.schema["properties"]], whole=True)

    def _check_name(self, section: Section, key: str, known: list[str], *, whole: bool) -> None:
        """Refuse a misspelt key, and note an unknown one of the profiler; other sections have keys of other programs."""
        note = section.unknown(key, known)
        if note and (whole or key.lower().startswith(("profile", "init_start"))):
            self.notes.append(note)

    def _refuse_window(self) -> NoReturn:
        start, stop = self.start, self.stop
        if start < 1:
            what = f"profile_start_step must be at least 1, got {start}"
        elif stop < 1:
            what = f"profile_stop_step must be at least 1, got {stop}"
        else:
            what = f"profile_start_step must not be after profile_stop_step, got {start} and {stop}"
        raise UsageError(f"{self.path}: {what}.")

    def _check_devices(self) -> None:
        forced = self.release < (1, 2) and self.root.take("use_parallel")
        if forced and not (self.init_start and self.communication):
            key = "init_start_profile" if not self.init_start else "profile_communication"
            self._reset(key, f"must be True on several devices for MindFormers {self.version}; write True")
        if not self.communication:
            return
        if self.release < (1, 6):
            if not self.init_start:
                self._reset("profile_communication", "is True and needs init_start_profile: True")
            return
        level = (
            self.keys.take("profiler_level") if self.keys is not self.root else self.root.plain.get("profiler_level")
        )
        if level is None:
            self._reset(
                "profile_communication",
                "needs a profiler_level; write profiler_level: 1",
            )
        if level == 0:
            self._reset("profiler_level", "must be 1 or 2 with profile_communication: True, got 0; write 1")

    def _sink_size(self) -> int:
        """Return the training steps of a sink; 1 without data sink mode."""
        place = "runner_config" if self.keys is self.root else "training_args"
        if self.root.is_null(place):
            return 1
        runner = self.root.section(place)
        on, size, epochs = (runner.take(key) for key in ("sink_mode", "sink_size", "epochs"))
        if on is None:
            on = self.release >= (1, 6)
        if self.release < (1, 2):
            if on:
                self.notes.append(f"sink_mode is read as false, as profiling is on (MindFormers {self.version}).")
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
                f"sink_size={size}: steps {given[0]} to {given[1]} are read as the whole sinks of steps {start} to {stop}."
            )
        if self.release < (1, 6) and stop % size:
            self._reset(
                "profile_stop_step",
                f"{given[1]} is read as {stop} with sink_size={size}, and no sink ends there; write "
                f"{-(-stop // size) * size}",
            )

    def _window(self) -> tuple[StepWindow, tuple[int, int] | None]:
        if self.release < (1, 6):
            return self._started_by_the_callback()
        start, stop, sink_size = self.start, self.stop, self.sink_size
        if self.init_start and start != 1:
            self.notes.append(
                f"init_start_profile: True has no effect with profile_start_step: {start} (MindFormers {self.version})."
            )
        if self.release < (1, 8):
            self.notes.append(f"The window is one step late, {start + 1} to {stop + 1} (MindFormers {self.version}).")
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
                f"is -1, and start and stop are counted in training steps (MindFormers {self.version}), so that they are "
                "unknown; write the number of steps of a sink",
            )
        # The callback runs before and after a whole sink, and gets the number of its last step.
        first = 1 if self.init_start else self.start - self.sink_size + 1
        return StepWindow.from_start_stop(first, self.stop), (first, self.stop)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"profile_memory": self.keys.take("profile_memory")}
        if self.release < (1, 6):
            options |= {"profile_communication": self.communication, "start_profile": self.init_start}
        if self.release >= (1, 3):
            options["profiler_level"] = f"Level{self._level()}"
            options |= {key: self.keys.take(key) for key in ("with_stack", "data_simplification")}
        if self.release >= (1, 6):
            options["mstx"] = self.keys.take("mstx")
        return options

    def _level(self) -> int:
        level: int = self.keys.take("profiler_level")
        if self.keys is not self.root:
            return level
        unread = self.root.take("profile_level")
        if unread is not None and (unread != level or self.root.is_null("profiler_level")):
            self._reset(
                "profile_level",
                f"is {unread}, and it is profiler_level that counts, which is {level}; write profiler_level: {unread}",
            )
        return level

    def _ranks(self) -> tuple[int, ...] | None:
        key = "profile_rank_ids"
        if self.keys.plain.get(key) == "None":
            raise self.keys.error(key, "is the text 'None'; write null for all ranks")
        value = self.keys.take(key)
        if value is not None:
            self._check_ranks(self.keys, key)
        ranks = set(value or ())
        if self.keys.take("profile_pipeline") and self.is_on:
            ranks |= set(self._first_of_stages())
        return tuple(sorted(ranks)) if ranks else None

    def _check_ranks(self, section: Section, key: str) -> None:
        value = section.take(key)
        if not value:
            raise section.error(key, "is empty; write null for all ranks, or name some ranks")
        if len(set(value)) != len(value):
            raise section.error(key, f"must name every rank once, got {shown(value)}")
        require_ranks(section, key, value, self.world_size)

    def _first_of_stages(self) -> range:
        if self.world_size is None:
            raise self.keys.error(
                "profile_pipeline", "needs the number of ranks; write read_mindformers(path, world_size=N)"
            )
        place, key = ("parallel_config", "pipeline_stage")
        if self.keys is not self.root:
            place, key = ("distribute_parallel_config", "pipeline_model_parallel_size")
        stages: int = 1
        if isinstance(self.root.plain.get(place), Mapping):
            stages = self.root.section(place).take(key)
        if self.world_size % stages:
            raise self.keys.error(
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
            elif misspelt(one["type"], ["SummaryMonitor"]):
                self._refuse(f"{where}.type", f"{one['type']!r} is not a callback; did you mean 'SummaryMonitor'?")
        if len(monitors) > 1:
            self._refuse(monitors[1][0], "is a second SummaryMonitor, and MindSpore allows one")
        if not monitors:
            return None
        where, one = monitors[0]
        return read_summary_monitor(one, source=self.root.source, at=where, output=output)

    # -- one value -----------------------------------------------------------------------------------------------------

    def _part(self, key: str, value: object) -> Section:
        """Return a section of the document by its schema in `$defs`."""
        return Section.of(value, self.root.schema["$defs"][key], self.root.source, key)

    def _directory(self, section: Section, key: str) -> Any:
        if section.plain.get(key) == "None":
            raise section.error(key, "is the text 'None', which names a directory None; write null")
        return section.take(key)

    def _reset(self, key: str, problem: str) -> None:
        """Refuse a setting that MindFormers would reset; with profiling switched off it is a note."""
        if self.is_on:
            raise self.keys.error(key, problem)
        self.notes.append(f"{self.keys.name(key)} {problem}.")

    def _refuse(self, key: str, problem: str) -> NoReturn:
        raise self.root.error(key, problem)


# -- the file ----------------------------------------------------------------------------------------------------------


def _with_bases(path: Path, below: tuple[Path, ...]) -> Iterator[dict[str, Any]]:
    """Yield the `base_config` files of a document, then the document."""
    document = _load(path, is_named=not below)
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


def _load(path: Path, *, is_named: bool) -> dict[str, Any]:
    """Return a document. What is in a file that only another file names is not quoted: it may be anything on this machine."""
    document = read_yaml(read_text(path, hint="the YAML of your MindFormers task", largest=LARGEST_BYTES), str(path))
    if not isinstance(document, dict):
        got = f", got {shown(document)}" if is_named else ""
        raise UsageError(f"{path} is not a MindFormers configuration: it must have keys with values{got}.")
    return document
