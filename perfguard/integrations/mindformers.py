"""MindFormers' YAML: the window, the options and the directories its profiler and its SummaryMonitor would have.

Nothing of MindFormers or MindSpore is imported, and nothing in the file is executed. What MindFormers would reset, ignore or
misread without stopping is one `UsageError` that says what it would have become.

MindFormers means different steps by the same YAML, by its version:

* up to 1.1 the callback starts and stops the profiler itself; data sink mode is turned off; several devices set
  `init_start_profile` and `profile_communication`;
* 1.2 and 1.3 round the window to `sink_size` instead;
* 1.6 and 1.7 use a schedule, and begin and end one step late;
* from 1.8 the schedule fits: steps `profile_start_step` to `profile_stop_step`, both included, counted from 1.

Sources: the wheels 1.0.2, 1.1.0, 1.2.0, 1.3.2, 1.6.0, 1.7.0, 1.8.0, 1.9.0, 2.0.0 and 2.1.0 (`core/callback/callback.py`,
`trainer/trainer.py`, `trainer/utils.py`, `tools/register/{config,template}.py`, `tools/utils.py`), ProfileMonitor of 1.7, 1.8
and 2.1 run on a CPU with MindSpore 2.10; SummaryCollector of MindSpore 2.0 and 2.10.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from perfguard.errors import UsageError, nearest
from perfguard.window import StepWindow

#: What a step of the schedule semantics is called in messages: the versions whose sources were read.
_LATEST = "2.1"
_READ = ("1.0", "1.1", "1.2", "1.3", "1.6", "1.7", "1.8", "1.9", "2.0", "2.1")
LARGEST_BYTES = 4 << 20
_MOST_BASES = 8
_LONGEST_SHOWN = 60
#: Beyond it a number is no step, no rank and no frequency.
_MOST = 10**9 - 1
#: How near a key of the YAML must be to one of the profiler's to be a misspelling of it.
_NEAR = 0.86

_KEYS = (
    *("profile", "profile_start_step", "profile_stop_step", "init_start_profile", "profile_communication"),
    *("profile_memory", "profile_output", "profile_rank_ids", "profile_pipeline", "profiler_level", "profile_level"),
    *("with_stack", "data_simplification", "mstx"),
)
#: The first version that has a key; those not named have been there always.
_SINCE = {
    "profile_output": (1, 2),
    "profile_rank_ids": (1, 3),
    "profile_pipeline": (1, 3),
    "profiler_level": (1, 3),
    "with_stack": (1, 3),
    "data_simplification": (1, 3),
    "mstx": (1, 6),
}

_COLLECTED = {
    "collect_metric": True,
    "collect_graph": True,
    "collect_train_lineage": True,
    "collect_eval_lineage": True,
    "collect_input_data": True,
    "collect_dataset_graph": True,
}
_LANDSCAPE = ("landscape_size", "unit", "create_landscape", "num_samples", "intervals")
#: A summary file whose first record does not go into it stays empty.
_LEAST_FILE = 44
_MONITOR = (
    *("summary_dir", "collect_freq", "collect_specified_data", "keep_default_action", "custom_lineage_data"),
    *("collect_tensor_freq", "max_file_size", "export_options"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryMonitor:
    """What a YAML asks MindFormers' SummaryMonitor for, that is mindspore.SummaryCollector."""

    collect_freq: int
    collect_specified_data: dict[str, Any] | None
    keep_default_action: bool
    custom_lineage_data: dict[str, str | int | float] | None
    collect_tensor_freq: int | None
    #: Bytes of one file; None for no limit.
    max_file_size: int | None
    export_options: dict[str, str | None] | None
    #: Where it writes; None for `<output>/summary/rank_N`.
    summary_dir: Path | None
    #: MindFormers' output directory.
    output: Path

    def summary_directory(self, rank: int = 0) -> Path:
        """Return where the files of a rank lie: `output/summary/rank_0`, or the one place `summary_dir` names for all."""
        return self.summary_dir if self.summary_dir is not None else self.output / "summary" / f"rank_{rank}"

    def collector_arguments(self, rank: int = 0) -> dict[str, Any]:
        """Return the arguments of `mindspore.SummaryCollector`, as MindFormers gives them."""
        named = {name: getattr(self, name) for name in _MONITOR if name != "summary_dir"}
        return {"summary_dir": str(self.summary_directory(rank)), **named}

    @property
    def collects(self) -> frozenset[str]:
        """What is collected: names of `collect_specified_data` (`collect_metric`, ...), with the defaults worked in."""
        told = self.collect_specified_data or {}
        by_default: dict[str, Any] = {**_COLLECTED, "histogram_regular": None, "collect_landscape": {}}
        kept = by_default | told if self.keep_default_action else told
        # A histogram with no pattern is one of the first five parameters, and no landscape is no landscape.
        return frozenset(
            name for name, value in kept.items() if name == "histogram_regular" or value not in (False, None)
        )

    def steps(self, total: int) -> tuple[int, ...]:
        """Return the steps values are collected in, of a training of `total` steps (in data sink mode: epochs)."""
        return tuple(sorted({1, *range(self.collect_freq, total + 1, self.collect_freq)})) if total > 0 else ()

    def tensor_steps(self, total: int) -> tuple[int, ...]:
        """Return the steps tensors are collected in: by `collect_tensor_freq`, else at most 20 and the first."""
        from perfguard.dialects.invariants.summary_events import tensor_frequency

        if total < 1:
            return ()
        if self.collect_tensor_freq is not None:
            frequency, last = self.collect_tensor_freq, total
        else:
            frequency, last = tensor_frequency(self.collect_freq, total)
        return tuple(sorted({1, *range(frequency, min(last, total) + 1, frequency)}))

    def expectation(self, total: int | None = None) -> str:
        """Return what must be in the files, as `perfguard.check(expect=...)` takes it; `total` are the training's steps."""
        numbers = {
            "collect_freq": self.collect_freq,
            "collect_tensor_freq": self.collect_tensor_freq,
            "max_file_size": self.max_file_size,
            "summary_steps": total,
        }
        # Without a value there are no steps to look at.
        if not self.collects & {"collect_metric", "histogram_regular"}:
            numbers |= {"collect_freq": None, "collect_tensor_freq": None, "summary_steps": None}
        words = [f"{name}={number}" for name, number in numbers.items() if number is not None]
        if self.collects & {"collect_train_lineage", "collect_dataset_graph"} or self.custom_lineage_data:
            words.append("lineage")
        words.append("landscape" if "collect_landscape" in self.collects else "no-landscape")
        return ",".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MindFormersProfile:
    """What a YAML asks MindFormers' profiler for, in the words of one version of MindFormers.

    `window` counts the profiler's steps: in data sink mode it steps once a sink, and `training_steps` are those inside.
    """

    path: Path
    version: str
    is_on: bool
    window: StepWindow
    #: The first and the last training step that is profiled; None where a sink is an epoch.
    training_steps: tuple[int, int] | None
    #: What the profiler is given besides its window: {"profile_memory": True, "profiler_level": "Level1", ...}.
    options: dict[str, Any]
    #: `profile_output`, else MindFormers' own output directory.
    output: Path
    #: The ranks that are profiled; None for all of them.
    ranks: tuple[int, ...] | None
    #: How many ranks there are, where the caller says so.
    world_size: int | None
    #: Training steps of one sink; 1 where data sink mode is off, -1 where it is a whole epoch.
    sink_size: int
    #: What MindFormers makes of this YAML otherwise than it is written there, a sentence each.
    notes: tuple[str, ...]
    #: The SummaryMonitor among the callbacks.
    summary: SummaryMonitor | None

    @property
    def directory(self) -> Path:
        """The directory that holds those of all ranks: `output/profile`."""
        return self.output / "profile"

    def profile_directory(self, rank: int = 0) -> Path:
        """Return where the profiler's output of a rank lies: `output/profile/rank_0`."""
        return self.directory / f"rank_{rank}"

    @property
    def expectation(self) -> str:
        """What must be found there, as `perfguard.check(profile.directory, expect=profile.expectation)` takes it.

        Ranks are in it where they are 0 to N - 1; else check the directory of each one.
        """
        words = [f"steps={self.window.active}", "memory" if self.options["profile_memory"] else "no-memory"]
        level = self.options.get("profiler_level")
        words += [str(level).lower()] if level else []
        ranks = self.ranks if self.ranks is not None else range(self.world_size or 0)
        if len(ranks) and tuple(ranks) == tuple(range(len(ranks))):
            words.append(f"ranks={len(ranks)}")
        return ",".join(words)


def read_mindformers(path: str | Path, *, version: str = _LATEST, world_size: int | None = None) -> MindFormersProfile:
    """Read the YAML of a MindFormers task as MindFormers of `version` does ("1.0", "1.3.2", "2.1").

    `world_size` is the number of ranks; `profile_pipeline` needs it. Raises `UsageError`: no YAML (with line and column), a key
    twice, a misspelt key, a value of the wrong type, and whatever that version would reset or ignore.
    """
    place = Path(path)
    if world_size is not None and not _is_integer(world_size, 1, _MOST):
        raise UsageError(f"world_size={world_size!r} is no number of ranks; it must be an integer of at least 1.")
    release = _release(version)
    return _Reader(place, _document(place), release, f"{release[0]}.{release[1]}", world_size).profile()


def _release(version: object) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})(\.\w+)*", version) if isinstance(version, str) else None
    if found is None:
        raise UsageError(f'version={version!r} is no version of MindFormers; write it as "1.0" or "{_LATEST}".')
    release = int(found[1]), int(found[2])
    if release < (1, 0) or (1, 3) < release < (1, 6):
        raise UsageError(f"MindFormers {version} is not known to perfguard; known are {', '.join(_READ)} and later.")
    return release


class _Reader:
    """Reads the keys of one document; every complaint names the file and the key."""

    def __init__(
        self,
        path: Path,
        document: Mapping[str, Any],
        release: tuple[int, int],
        version: str,
        world_size: int | None,
    ) -> None:
        self.path = path
        self.document = document
        self.release = release
        self.version = version
        self.world_size = world_size
        self.notes: list[str] = []
        self.is_on = False

    # -- the profiler --------------------------------------------------------------------------------------------------

    def profile(self) -> MindFormersProfile:
        self._check_keys()
        self.is_on = is_on = self._boolean("profile", False)
        start, stop = self._step("profile_start_step", 1), self._step("profile_stop_step", 10)
        init_start = self._boolean("init_start_profile", self.release < (1, 6))
        communication = self._boolean("profile_communication", False)
        sink_size = self._sink_size()
        if start < 1 or stop < start:
            self._refuse_window(start, stop, init_start)
        self._check_devices(init_start, communication)
        start, stop = self._rounded(start, stop, sink_size)
        output = self._output("output_dir", "output")
        profile_output = self._text("profile_output") if self.release >= (1, 2) else None
        window, training_steps = self._window(start, stop, init_start, sink_size)
        return MindFormersProfile(
            path=self.path,
            version=self.version,
            is_on=is_on,
            window=window,
            training_steps=training_steps,
            options=self._options(init_start, communication),
            output=output if profile_output is None else Path(profile_output),
            ranks=self._ranks(),
            world_size=self.world_size,
            sink_size=sink_size,
            notes=tuple(self.notes),
            summary=self._summary(output),
        )

    def _check_keys(self) -> None:
        for key in self.document:
            if not isinstance(key, str) or key in _KEYS:
                continue
            if key == "profile_end_step":
                self._refuse(
                    key, "is what TrainingArguments calls it, and MindFormers ignores it; write profile_stop_step"
                )
            near = difflib.get_close_matches(key.lower(), [*_KEYS, "callbacks", "runner_config"], n=1, cutoff=_NEAR)
            if near and key != near[0]:
                self._refuse(key, f"is no key of MindFormers, which ignores it; did you mean {near[0]!r}?")
            if key.lower().startswith(("profile", "profiler", "init_start")):
                self._refuse(key, f"is no key of MindFormers, which ignores it; {nearest(key, _KEYS)}")
        for key, since in _SINCE.items():
            if self.release < since and self.document.get(key) is not None:
                first = ".".join(map(str, since))
                self._refuse(key, f"is ignored by MindFormers {self.version}: it came with {first}; leave it out")

    def _refuse_window(self, start: int, stop: int, init_start: bool) -> NoReturn:
        key, value = ("profile_start_step", start) if start < 1 else ("profile_stop_step", stop)
        if value >= 1:
            what = f"profile_start_step={start} comes after profile_stop_step={stop}"
        else:
            what = f"{key}={value} is no step: steps count from 1"
        raise UsageError(f"{self.path}: {what}, and {self._become(start, stop, init_start)}.")

    def _become(self, start: int, stop: int, init_start: bool) -> str:
        """Say what MindFormers would make of a window that is none."""
        who = f"MindFormers {self.version}"
        if self.release < (1, 6):
            if stop < 1:
                return f"{who} would never stop the profiler"
            if init_start:
                return f"{who} would profile steps 1 to {stop}"
            if start < 1:
                return f"{who} would never start the profiler"
            return f"{who} would stop the profiler at step {stop}, before it is started"
        # ProfileMonitor._check_step mends its own start and stop; the schedule is made of the mended stop and the old start.
        mended = 10 if stop < 0 or (1 if start < 0 else start) > stop else stop
        late = self.release < (1, 8)
        active = max(mended, 1) if init_start and start == 1 else max(mended - start + 1, 1)
        first = 1 if init_start and start == 1 else max(start, 0)
        first, last = max(first + late, 1), first + active - 1 + late
        return f"{who} would reset it and profile " + (f"step {last}" if first == last else f"steps {first} to {last}")

    def _check_devices(self, init_start: bool, communication: bool) -> None:
        forced = self.release < (1, 2) and self._boolean("use_parallel", False)
        if forced and not (init_start and communication):
            key = "init_start_profile" if not init_start else "profile_communication"
            self._reset(key, f"would be set to True by MindFormers {self.version} on several devices; write it so")
        if not communication:
            return
        if self.release < (1, 6):
            if not init_start:
                self._reset("profile_communication", "True needs init_start_profile: True")
            return
        level = self.document.get("profiler_level")
        if level is None:
            self._reset(
                "profile_communication",
                f"True collects nothing without profiler_level: MindFormers {self.version} takes Level0; write "
                "profiler_level: 1",
            )
        if level == 0:
            self._reset(
                "profiler_level",
                f"0 would be reset to 1 by MindFormers {self.version}, because of profile_communication; write 1",
            )

    def _sink_size(self) -> int:
        """Return the steps of a sink; 1 where it makes no difference."""
        runner = self.document.get("runner_config")
        if runner is None:
            return 1
        if not isinstance(runner, Mapping):
            self._refuse("runner_config", "is no mapping")
        on = self._checked(
            "runner_config.sink_mode", runner.get("sink_mode"), self.release >= (1, 6), _is_boolean, _BOOLEAN
        )
        size = self._checked(
            "runner_config.sink_size",
            runner.get("sink_size"),
            1,
            lambda one: _is_integer(one, -1, _MOST) and one != 0,
            "an integer of at least 1, or -1 for a whole epoch",
        )
        epochs = self._checked(
            "runner_config.epochs",
            runner.get("epochs"),
            None,
            lambda one: _is_integer(one, 1, _MOST),
            "an integer of at least 1",
        )
        stop = self._step("profile_stop_step", 10)
        if self.release < (1, 2):
            if on:
                self.notes.append(f"sink_mode: MindFormers {self.version} turns it off while it profiles.")
            return 1
        if on and size == -1 and epochs is not None and stop > epochs:
            self._refuse(
                "profile_stop_step", f"{stop} is never reached: with sink_size -1 a step is one of {epochs} epochs"
            )
        return int(size) if on else 1

    def _rounded(self, start: int, stop: int, sink_size: int) -> tuple[int, int]:
        """Round the window as Trainer._build_profile_cb does: the stop is not brought to a multiple in general."""
        if sink_size <= 1:
            return start, stop
        asked = start, stop
        if start % sink_size:
            start = max(start - start % sink_size, sink_size)
        if stop % sink_size:
            stop = max(stop + stop % sink_size, start + sink_size)
        if asked != (start, stop):
            self.notes.append(
                f"sink_size={sink_size}: MindFormers makes steps {asked[0]} to {asked[1]} into {start} to {stop}."
            )
        if self.release < (1, 6) and stop % sink_size:
            self._reset(
                "profile_stop_step",
                f"{asked[1]} becomes {stop} with sink_size={sink_size}, which no callback ever sees, so that "
                f"MindFormers {self.version} never stops the profiler; write {-(-stop // sink_size) * sink_size}",
            )
        return start, stop

    def _window(
        self, start: int, stop: int, init_start: bool, sink_size: int
    ) -> tuple[StepWindow, tuple[int, int] | None]:
        if self.release < (1, 6):
            return self._started_by_the_callback(start, stop, init_start, sink_size)
        if init_start and start != 1:
            self.notes.append(
                f"init_start_profile: True has no effect beside profile_start_step: {start}; MindFormers "
                f"{self.version} resets it."
            )
        if self.release < (1, 8):
            self.notes.append(f"MindFormers {self.version} begins and ends one step late: {start + 1} to {stop + 1}.")
            start, stop = start + 1, stop + 1
        window = StepWindow.from_start_stop(start, stop)
        if sink_size == -1:
            self.notes.append(f"sink_size=-1: a step of the profiler is an epoch, {start} to {stop}.")
            return window, None
        steps = (start - 1) * sink_size + 1, stop * sink_size
        if sink_size > 1:
            self.notes.append(
                f"sink_size={sink_size}: the profiler steps once a sink, so its steps {start} to {stop} are the "
                f"training steps {steps[0]} to {steps[1]}."
            )
        return window, steps

    def _started_by_the_callback(
        self, start: int, stop: int, init_start: bool, sink_size: int
    ) -> tuple[StepWindow, tuple[int, int] | None]:
        if init_start and start != 1:
            self.notes.append(f"profile_start_step: {start} has no effect beside init_start_profile: True.")
        if sink_size == -1:
            self._refuse(
                "runner_config.sink_size",
                f"-1 leaves open when MindFormers {self.version} starts and stops: it counts training steps; write the "
                "number of steps of a sink",
            )
        # The callback comes before and after a whole sink, whose last step it is told.
        first = 1 if init_start else start - sink_size + 1
        return StepWindow.from_start_stop(first, stop), (first, stop)

    def _options(self, init_start: bool, communication: bool) -> dict[str, Any]:
        options: dict[str, Any] = {"profile_memory": self._boolean("profile_memory", True)}
        if self.release < (1, 6):
            options |= {"profile_communication": communication, "start_profile": init_start}
        if self.release >= (1, 3):
            level = self._level()
            options |= {
                "profiler_level": f"Level{level}",
                "with_stack": self._boolean("with_stack", False),
                "data_simplification": self._boolean("data_simplification", True),
            }
        if self.release >= (1, 6):
            options["mstx"] = self._boolean("mstx", False)
        return options

    def _level(self) -> int:
        def is_level(value: object) -> bool:
            return _is_integer(value, 0, 2)

        level: int = self._checked("profiler_level", self.document.get("profiler_level"), 0, is_level, "0, 1 or 2")
        unread = self._checked("profile_level", self.document.get("profile_level"), None, is_level, "0, 1 or 2")
        if unread is not None and (unread != level or self.document.get("profiler_level") is None):
            self._reset(
                "profile_level",
                f"is accepted by MindFormers and never read by its training, which takes profiler_level: {level}; write "
                f"profiler_level: {unread}",
            )
        return level

    def _ranks(self) -> tuple[int, ...] | None:
        value = self.document.get("profile_rank_ids")
        if value == "None":
            self._refuse(
                "profile_rank_ids",
                "None is a text in YAML, with which MindFormers profiles no rank; write null for all",
            )
        if value is not None:
            if not isinstance(value, list) or not all(_is_integer(one, 0, _MOST) for one in value):
                self._refuse("profile_rank_ids", f"{_shown(value)} is no list of ranks, such as [0, 1]")
            if not value:
                self._refuse("profile_rank_ids", "[] is all ranks to MindFormers; write null, or name some")
            if len(set(value)) != len(value):
                self._refuse("profile_rank_ids", f"{_shown(value)} names a rank twice")
            if self.world_size is not None and max(value) >= self.world_size:
                self._refuse("profile_rank_ids", f"{_shown(value)} names a rank beyond the {self.world_size} there are")
        ranks = set(value or ())
        if self._boolean("profile_pipeline", False) and self.is_on:
            ranks |= set(self._first_of_stages())
        return tuple(sorted(ranks)) if ranks else None

    def _first_of_stages(self) -> range:
        if self.world_size is None:
            self._refuse("profile_pipeline", "True needs the number of ranks; say read_mindformers(path, world_size=N)")
        parallel = self.document.get("parallel_config")
        told = parallel.get("pipeline_stage") if isinstance(parallel, Mapping) else None
        stages: int = self._checked(
            "parallel_config.pipeline_stage",
            told,
            1,
            lambda one: _is_integer(one, 1, _MOST),
            "an integer of at least 1",
        )
        if self.world_size % stages:
            self._refuse("profile_pipeline", f"True needs ranks that {stages} stages divide, not {self.world_size}")
        return range(0, self.world_size, self.world_size // stages)

    # -- the summary ---------------------------------------------------------------------------------------------------

    def _summary(self, output: Path) -> SummaryMonitor | None:
        callbacks = self.document.get("callbacks")
        if callbacks is None:
            return None
        if not isinstance(callbacks, list):
            self._refuse("callbacks", "is no list; each callback begins with '- type: '")
        monitors: list[tuple[str, Mapping[str, Any]]] = []
        for number, one in enumerate(callbacks):
            where = f"callbacks[{number}]"
            if not isinstance(one, Mapping) or not isinstance(one.get("type"), str):
                self._refuse(where, "has no type; a callback is written as '- type: SummaryMonitor'")
            if one["type"] == "SummaryMonitor":
                monitors.append((where, one))
            elif difflib.get_close_matches(one["type"], ["SummaryMonitor"], cutoff=_NEAR):
                self._refuse(f"{where}.type", f"{one['type']!r} is no callback; did you mean 'SummaryMonitor'?")
        if len(monitors) > 1:
            self._refuse(monitors[1][0], "is a second SummaryMonitor, and MindSpore takes one")
        return self._monitor(*monitors[0], output) if monitors else None

    def _monitor(self, where: str, told: Mapping[str, Any], output: Path) -> SummaryMonitor:
        for key in told:
            if key != "type" and key not in _MONITOR:
                self._refuse(f"{where}.{key}", f"is no parameter of SummaryMonitor; {nearest(str(key), _MONITOR)}")

        def checked(key: str, default: Any, is_good: Callable[[Any], bool], must: str) -> Any:
            return self._checked(f"{where}.{key}", _null(told.get(key)), default, is_good, must)

        def positive(key: str, default: int | None) -> Any:
            return checked(key, default, lambda one: _is_integer(one, 1, _MOST), "an integer of at least 1")

        folder = checked("summary_dir", None, lambda one: isinstance(one, str) and bool(one.strip()), "a directory")
        return SummaryMonitor(
            collect_freq=positive("collect_freq", 10),
            collect_specified_data=self._specified(
                f"{where}.collect_specified_data", told.get("collect_specified_data")
            ),
            keep_default_action=checked("keep_default_action", True, _is_boolean, _BOOLEAN),
            custom_lineage_data=self._lineage(f"{where}.custom_lineage_data", _null(told.get("custom_lineage_data"))),
            collect_tensor_freq=positive("collect_tensor_freq", None),
            max_file_size=checked(
                "max_file_size",
                None,
                lambda one: _is_integer(one, _LEAST_FILE, 10**15 - 1),
                f"an integer of at least {_LEAST_FILE}, the bytes of a file's first record",
            ),
            export_options=self._export(f"{where}.export_options", _null(told.get("export_options"))),
            summary_dir=None if folder is None else Path(folder),
            output=output,
        )

    def _specified(self, where: str, value: Any) -> dict[str, Any] | None:
        known = (*_COLLECTED, "histogram_regular", "collect_landscape")
        if (told := self._mapping(where, _null(value), known)) is None:
            return None
        found: dict[str, Any] = {}
        for key, one in told.items():
            if key in _COLLECTED:
                found[key] = self._checked(f"{where}.{key}", one, None, _is_boolean, _BOOLEAN)
                if one is None:
                    self._refuse(f"{where}.{key}", "is null; write True or False")
            elif key == "histogram_regular":
                found[key] = self._pattern(f"{where}.{key}", _null(one))
            else:
                found[key] = self._landscape(f"{where}.{key}", _null(one))
        return found

    def _pattern(self, where: str, value: Any) -> str | None:
        pattern: str | None = self._checked(
            where, value, None, lambda one: isinstance(one, str), "a regular expression"
        )
        try:
            re.compile(pattern or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"{self.path}: {where}: {_shown(pattern)} is no regular expression: {error}.") from error
        return pattern

    def _landscape(self, where: str, value: Any) -> dict[str, Any] | None:
        if (told := self._mapping(where, value, _LANDSCAPE)) is None:
            return None
        if told.get("intervals") is None:
            self._refuse(where, "has no intervals, without which SummaryCollector fails; write intervals: [[1, 2, 3]]")
        integer = "an integer of at least 1"
        rules: dict[str, tuple[Callable[[Any], bool], str]] = {
            "landscape_size": (lambda one: _is_integer(one, 3, 256), "an integer from 3 to 256"),
            "unit": (lambda one: one in ("step", "epoch"), "step or epoch"),
            "num_samples": (lambda one: _is_integer(one, 1, _MOST), integer),
            "intervals": (_are_intervals, "a list of lists of at least three integers, as [[1, 2, 3]]"),
            "create_landscape": (
                lambda one: (
                    isinstance(one, dict) and set(one) <= {"train", "result"} and all(map(_is_boolean, one.values()))
                ),
                "{train: True, result: True}",
            ),
        }
        for key, one in told.items():
            is_good, must = rules[key]
            if not is_good(one):
                self._refuse(f"{where}.{key}", f"{_shown(one)} is not {must}")
        return dict(told)

    def _lineage(self, where: str, value: Any) -> dict[str, str | int | float] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._refuse(where, f"{_shown(value)} is no mapping")
        for key, one in value.items():
            if not isinstance(key, str):
                self._refuse(where, f"has the key {_shown(key)}, which is no text")
            # SummaryCollector packs an integer into 32 bits.
            if isinstance(one, bool) or not (isinstance(one, (str, float)) or _is_integer(one, -(2**31), 2**31 - 1)):
                self._refuse(f"{where}.{key}", f"{_shown(one)} is not a text, a number or an integer of 32 bits")
        return dict(value)

    def _export(self, where: str, value: Any) -> dict[str, str | None] | None:
        if (told := self._mapping(where, value, ("tensor_format",))) is None:
            return None
        found = {key: _null(one) for key, one in told.items()}
        if found.get("tensor_format") not in ("npy", None):
            self._refuse(f"{where}.tensor_format", f"{_shown(told['tensor_format'])} is not npy or null")
        return found

    def _mapping(self, where: str, value: Any, known: tuple[str, ...]) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._refuse(where, f"{_shown(value)} is no mapping")
        for key in value:
            if key not in known:
                self._refuse(f"{where}.{key}", f"is not known; {nearest(str(key), known)}")
        return value

    # -- one value -----------------------------------------------------------------------------------------------------

    def _boolean(self, key: str, default: bool) -> bool:
        value: bool = self._checked(key, self.document.get(key), default, _is_boolean, _BOOLEAN)
        return value

    def _step(self, key: str, default: int) -> int:
        step: int = self._checked(
            key,
            self.document.get(key),
            default,
            lambda one: _is_integer(one, -_MOST, _MOST),
            "a step: write an integer",
        )
        return step

    def _text(self, key: str) -> str | None:
        if self.document.get(key) == "None":
            self._refuse(
                key, "None is a text in YAML, so that MindFormers writes to a directory of that name; write null"
            )
        text: str | None = self._checked(
            key, self.document.get(key), None, lambda one: isinstance(one, str) and bool(one.strip()), "a directory"
        )
        return text

    def _output(self, key: str, default: str) -> Path:
        return Path(self._text(key) or default)

    def _checked(self, where: str, value: Any, default: Any, is_good: Callable[[Any], bool], must: str) -> Any:
        """Return the value, or the default for none. Raises `UsageError` for a bad one."""
        if value is None:
            return default
        if not is_good(value):
            self._refuse(where, f"{_shown(value)} is not {must}")
        return value

    def _reset(self, where: str, reason: str) -> None:
        """Refuse what MindFormers would make something else of; a note where it does not profile at all."""
        if self.is_on:
            self._refuse(where, reason)
        self.notes.append(f"{where}: {reason}.")

    def _refuse(self, where: str, reason: str) -> NoReturn:
        end = "" if reason.endswith((".", "?")) else "."
        raise UsageError(f"{self.path}: {where}: {reason}{end}")


_BOOLEAN = "a boolean: write True or False"


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_integer(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _are_intervals(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list) and len(one) >= 3 and all(_is_integer(step, 1, _MOST) for step in one) for one in value
    )


def _null(value: Any) -> Any:
    """Read the text `None` as null: MindFormers' documents write it so, and YAML takes it for a text."""
    return None if value == "None" else value


def _shown(value: object) -> str:
    """Write a value shortly: aliases make a short YAML a value of 2**60 entries."""
    short = reprlib.Repr()
    short.maxlevel = short.maxlist = short.maxdict = 4
    short.maxstring = short.maxlong = short.maxother = _LONGEST_SHOWN
    return short.repr(value)


# -- the file ----------------------------------------------------------------------------------------------------------


def _document(path: Path) -> dict[str, Any]:
    """Read the YAML and what it is based on (`base_config`), the nearer going first, as MindFormerConfig does."""
    merged: dict[str, Any] = {}
    for document in _with_bases(path, ()):
        merged = _merged(document, merged)
    return merged


def _with_bases(path: Path, below: tuple[Path, ...]) -> Iterator[dict[str, Any]]:
    """Yield the document and its bases, the one that goes first last."""
    document = _load(path)
    place = path.resolve()
    if place in below:
        raise UsageError(f"{path}: base_config leads back to this file.")
    if len(below) >= _MOST_BASES:
        raise UsageError(f"{path}: base_config is {_MOST_BASES} files deep.")
    bases = document.pop("base_config", None)
    bases = [] if bases is None else bases if isinstance(bases, list) else [bases]
    for base in bases:
        if not isinstance(base, str):
            raise UsageError(f"{path}: base_config: {_shown(base)} is no file name.")
        yield from _with_bases(path.parent / base, (*below, place))
    yield document


def _merged(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(lower)
    for key, value in upper.items():
        under = found.get(key)
        both = isinstance(value, dict) and isinstance(under, dict)
        found[key] = _merged(value, under) if both and isinstance(under, dict) else value
    return found


def _load(path: Path) -> dict[str, Any]:
    yaml = _pyyaml(path)
    text = _text_of(path)
    try:
        document = yaml.load(text, Loader=_loader(yaml))
    except yaml.MarkedYAMLError as error:
        raise UsageError(_worded(path, text, error)) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is no YAML: {' '.join(str(error).split())}.") from error
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply to be a configuration.") from error
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{path} is no YAML: {error}.") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} is no MindFormers configuration: it holds {_kind(document)}, not keys with values.")
    return document


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path} is missing; name the YAML of your MindFormers task.") from error
    except IsADirectoryError as error:
        raise UsageError(f"{path} is a directory; name the file in it.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {reason}.") from error
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{path} is larger than {LARGEST_BYTES >> 20} MiB, so it is no configuration file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}.") from error


def _pyyaml(path: Path) -> Any:
    try:
        return import_module("yaml")
    except ImportError as error:
        raise UsageError(
            f"{path} is YAML, and PyYAML is not installed. Run: pip install 'perfguard[mindformers]'"
        ) from error


def _loader(yaml: Any) -> Any:
    """Return PyYAML's safe loader (YAML 1.1, as MindFormers reads it), which lets a key stand once only."""

    def construct_mapping(self: Any, node: Any, deep: bool = False) -> Any:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                problem = f"the key {_shown(key.value)} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value))
        return yaml.SafeLoader.construct_mapping(self, node, deep=deep)

    return type("Loader", (yaml.SafeLoader,), {"construct_mapping": construct_mapping})


def _worded(path: Path, text: str, error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(str(error.problem or error.context).split())
    if mark is None:
        return f"{path} is no YAML: {problem}."
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    lines = text.splitlines()
    starred = [number for number, line in enumerate(lines[: mark.line + 1], start=1) if re.match(r"\s*\*\s+\w+:", line)]
    if starred:
        return f"{path} is no YAML: line {starred[-1]}: a list item begins with '- ', not with '* '."
    return f"{path} is no YAML: {where}: {problem}."


def _kind(document: object) -> str:
    return {type(None): "nothing", list: "a list", str: "a text"}.get(type(document), "a value")
