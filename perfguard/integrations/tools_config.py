"""The tools.json of MindSpeed-MM: read whole, every value checked, as frozen values.

Source: MindSpeed-MM, mindspeed_mm/tools: README.md, profiler.py, tools.json (the older form lacks aic_metrics_type and
analyse_flag). The FSDP2 configurations carry the same tree under `tools:` of a YAML file.
"""

from __future__ import annotations

import json
import os
import reprlib
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from perfguard.errors import UsageError, nearest
from perfguard.window import StepWindow

#: A configuration is a page long; what is larger is another file.
LARGEST_BYTES = 1 << 20
#: A capture keeps a note of every step before its window, so a window is not put at any number.
LAST_STEP = 10_000_000
_LONGEST_NUMBER = 18

LEVELS = ("level0", "level1", "level2")
AIC_METRICS = ("PipeUtilization", "ArithmeticUtilization")
PROFILE_TYPES = ("static", "dynamic")
_STACKS = ("all", "python")
#: All ranks, as `ranks` writes it.
EVERY_RANK = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticParam:
    """`profile.static_param`: the window that is known before the training. Steps count from 0, `end_step` is left out."""

    save_path: Path
    start_step: int
    end_step: int
    level: str = "level1"
    with_stack: bool = False
    with_memory: bool = False
    record_shapes: bool = False
    with_cpu: bool = True
    data_simplification: bool = False
    aic_metrics_type: str = "PipeUtilization"
    analyse_flag: bool = True

    @property
    def window(self) -> StepWindow:
        """The window: nothing is waited for, nothing warmed up."""
        return StepWindow.from_start_end(self.start_step, self.end_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicParam:
    """`profile.dynamic_param`: where profiler_config.json and the log lie."""

    config_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProfile:
    """`memory_profile`: the history of a device's memory, as one pickle a rank. `max_entries` None is no limit."""

    enable: bool = False
    start_step: int = 0
    end_step: int = 2
    save_path: Path = Path("memory_snapshot")
    dump_ranks: tuple[int, ...] = (0,)
    stacks: str = "all"
    max_entries: int | None = None
    mem_info: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsConfig:
    """A whole tools.json. `static_param` or `dynamic_param` is there where `profile_type` names it and it is enabled."""

    source: str
    enable: bool = False
    profile_type: str = "static"
    #: Global ranks to profile; (-1,) is all of them.
    ranks: tuple[int, ...] = (EVERY_RANK,)
    static_param: StaticParam | None = None
    dynamic_param: DynamicParam | None = None
    memory_profile: MemoryProfile = field(default_factory=MemoryProfile)
    #: Keys on the way to the tree inside the file: "tools." for a YAML of FSDP2.
    prefix: str = ""

    def holds_for(self, rank: int) -> bool:
        """Whether this rank is to be profiled."""
        return self.enable and (self.ranks == (EVERY_RANK,) or rank in self.ranks)


def read_tools_config(path: str | Path) -> ToolsConfig:
    """Read a tools.json, or the `tools:` of a YAML (.yaml, .yml). Raises `UsageError`, in one line that names the value."""
    if not isinstance(path, (str, Path)):
        raise UsageError(f"tools_profiler takes the path of a tools.json, not {shown(path)}.")
    text = read_text(Path(path))
    name = one_line(str(path))
    if Path(path).suffix.lower() in (".yaml", ".yml"):
        return _config(_tools_of(_yaml(text, name), name), name, prefix="tools.")
    return tools_config(read_json(text, name), source=name)


def tools_config(tree: object, *, source: str) -> ToolsConfig:
    """Check a tree as tools.json holds it. `source` is what messages call it. Raises `UsageError`."""
    return _config(tree, source, prefix="")


def _config(tree: object, source: str, *, prefix: str) -> ToolsConfig:
    root = Section.of(tree, "", source, prefix)
    # What sorafeature holds is read by the feature extraction alone.
    root.refuse_unknown(("profile", "memory_profile", "sorafeature"))
    if "profile" not in root and "memory_profile" not in root:
        raise UsageError(f"{source} has neither {prefix}profile nor {prefix}memory_profile, so it profiles nothing.")
    profile = root.section("profile")
    profile.refuse_unknown(("enable", "profile_type", "ranks", "static_param", "dynamic_param"))
    enable = profile.boolean("enable", False)
    kind = profile.choice("profile_type", PROFILE_TYPES, "static")
    return ToolsConfig(
        source=source,
        prefix=prefix,
        enable=enable,
        profile_type=kind,
        ranks=_ranks(profile),
        static_param=_static(profile, needed=enable and kind == "static"),
        dynamic_param=_dynamic(profile, needed=enable and kind == "dynamic"),
        memory_profile=_memory(root.section("memory_profile")),
    )


def _ranks(profile: Section) -> tuple[int, ...]:
    ranks = profile.integers("ranks", (EVERY_RANK,), least=EVERY_RANK)
    if EVERY_RANK in ranks and len(ranks) > 1:
        raise profile.wrong("ranks", "names ranks beside -1, which is all of them")
    if not ranks:
        raise profile.wrong("ranks", "profiles nobody: write -1 for all ranks, or enable = false")
    return ranks


def _static(profile: Section, *, needed: bool) -> StaticParam | None:
    if not needed and "static_param" not in profile:
        return None
    param = profile.section("static_param")
    param.refuse_unknown(StaticParam.__dataclass_fields__)
    start, end = _window(param, needed=needed)
    path = param.path("save_path", None if needed else "./npu_profiling")
    defaults = StaticParam(save_path=path, start_step=start, end_step=end)
    return StaticParam(
        save_path=path,
        start_step=start,
        end_step=end,
        level=param.choice("level", LEVELS, defaults.level),
        aic_metrics_type=param.choice("aic_metrics_type", AIC_METRICS, defaults.aic_metrics_type),
        with_stack=param.boolean("with_stack", defaults.with_stack),
        with_memory=param.boolean("with_memory", defaults.with_memory),
        record_shapes=param.boolean("record_shapes", defaults.record_shapes),
        with_cpu=param.boolean("with_cpu", defaults.with_cpu),
        data_simplification=param.boolean("data_simplification", defaults.data_simplification),
        analyse_flag=param.boolean("analyse_flag", defaults.analyse_flag),
    )


def _window(param: Section, *, needed: bool, start: int = 10, end: int = 11) -> tuple[int, int]:
    first = param.integer("start_step", None if needed else start, least=0, most=LAST_STEP)
    last = param.integer("end_step", None if needed else max(end, first + 1), least=0, most=LAST_STEP)
    if first >= last:
        raise UsageError(
            f"{param.name('start_step')} = {first} and end_step = {last} of {param.source} are no window: steps count from 0 "
            "and the end step is left out, so start_step must be less than end_step."
        )
    return first, last


def _dynamic(profile: Section, *, needed: bool) -> DynamicParam | None:
    if not needed and "dynamic_param" not in profile:
        return None
    param = profile.section("dynamic_param")
    param.refuse_unknown(DynamicParam.__dataclass_fields__)
    return DynamicParam(config_path=param.path("config_path", None if needed else "."))


def _memory(param: Section) -> MemoryProfile:
    defaults = MemoryProfile()
    param.refuse_unknown(MemoryProfile.__dataclass_fields__)
    start, end = _window(param, needed=False, start=defaults.start_step, end=defaults.end_step)
    return MemoryProfile(
        enable=param.boolean("enable", defaults.enable),
        start_step=start,
        end_step=end,
        save_path=param.path("save_path", str(defaults.save_path)),
        dump_ranks=param.integers("dump_ranks", defaults.dump_ranks, least=EVERY_RANK),
        stacks=param.choice("stacks", _STACKS, defaults.stacks),
        max_entries=None if param.is_null("max_entries") else param.integer("max_entries", 1, least=1),
        mem_info=param.boolean("mem_info", defaults.mem_info),
    )


# -- one object of a configuration ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """One object of a configuration: its values are taken out by type, and what is wrong is named with its path."""

    plain: Mapping[Any, Any]
    at: str
    source: str
    prefix: str = ""

    @classmethod
    def of(cls, plain: object, at: str, source: str, prefix: str = "") -> Section:
        """Take an object, or raise `UsageError` for what is none."""
        if not isinstance(plain, Mapping):
            what = f"{prefix}{at} = {shown(plain)} of {source}" if at else f"{source} holds {shown(plain)}, which"
            raise UsageError(f'{what} is no object: write {{"key": value, ...}} there.')
        return cls(plain, at, source, prefix)

    def __contains__(self, key: str) -> bool:
        return key in self.plain

    def name(self, key: str) -> str:
        """The path of a key, as messages say it."""
        return f"{self.prefix}{self.at}.{key}" if self.at else f"{self.prefix}{key}"

    def wrong(self, key: str, what: str) -> UsageError:
        """Make the error of a value: `what` follows its path, itself and the file."""
        return UsageError(f"{self.name(key)} = {shown(self.plain[key])} of {self.source} {what}.")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse keys nobody reads, with the nearest known one."""
        names = list(known)
        for key in self.plain:
            if key not in names:
                where = f"{self.prefix}{self.at} of {self.source}" if self.at else self.source
                raise UsageError(f"{where} has no key {shown(key)}; {nearest(one_line(str(key)), names)}")

    def section(self, key: str) -> Section:
        """The object below a key; an empty one where it is not there."""
        at = f"{self.at}.{key}" if self.at else key
        return Section.of(self.plain.get(key, {}), at, self.source, self.prefix)

    def is_null(self, key: str) -> bool:
        """Whether a value is null, or not there."""
        return self.plain.get(key) is None

    def boolean(self, key: str, default: bool) -> bool:
        """Take true or false; neither 1 nor "true" is one."""
        value = self.plain.get(key, default)
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            raise self.wrong(key, "is a text where true or false belongs: write it without quotes")
        raise self.wrong(key, f"is {_kind(value)} where true or false belongs")

    def integer(self, key: str, default: int | None, *, least: int, most: int | None = None, reset: str = "") -> int:
        """Take a whole number; `reset` is what the profiler itself would do with a number below `least`."""
        value = self._required(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"is {_kind(value)} where a whole number belongs")
        if value < least:
            raise self.wrong(key, f"is less than {least}{reset}")
        if most is not None and value > most:
            raise self.wrong(key, f"is beyond step {most}, and no training has so many")
        return value

    def number(self, key: str, *, least: float) -> float:
        """Take a number that is there."""
        value = self.plain[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(key, f"is {_kind(value)} where a number belongs")
        if not least <= value < float("inf"):
            raise self.wrong(key, f"is no number of at least {least}")
        return value

    def integers(self, key: str, default: tuple[int, ...], *, least: int) -> tuple[int, ...]:
        """Take a list of whole numbers; a number alone is a list of one."""
        value = self.plain.get(key, list(default))
        items = value if isinstance(value, (list, tuple)) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int) or item < least:
                what = f"a whole number of at least {least}" if least >= 0 else "a rank: 0 or more, or -1 for all"
                raise self.wrong(key, f"holds {shown(item)}, which is not {what}")
        return tuple(items)

    def texts(self, key: str, default: tuple[str, ...], choices: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Take a list of texts; a text alone is a list of one. Compared with `choices` whatever its case."""
        value = self.plain.get(key, list(default))
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise self.wrong(key, f"is {_kind(value)} where a list of texts belongs")
        for item in items:
            if not isinstance(item, str) or (choices and item.lower() not in [one.lower() for one in choices]):
                of = f"none of {', '.join(choices)}" if choices else "no text"
                raise self.wrong(key, f"holds {shown(item)}, which is {of}")
        return tuple(items)

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """Take one of some texts."""
        value = self.plain.get(key, default)
        if not isinstance(value, str) or value not in choices:
            raise self.wrong(key, f"is none of {', '.join(choices)}")
        return value

    def path(self, key: str, default: str | None) -> Path:
        """Take a path; relative ones are relative to the working directory."""
        value = self._required(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"is {_kind(value)} where a path belongs")
        if not value.strip() or "\0" in value or not _is_encodable(value):
            raise self.wrong(key, "is no path")
        return Path(value)

    def _required(self, key: str, default: object) -> Any:
        if key not in self.plain and default is None:
            raise UsageError(f"{self.name(key)} is missing in {self.source}.")
        return self.plain.get(key, default)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, (list, tuple)) else "an object"


def _is_encodable(value: str) -> bool:
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Show a value in a message: short, and in one line whatever it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 60
    return one_line(short.repr(value))


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters."""
    return "".join(one if one.isprintable() else " " for one in text)


# -- reading -------------------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Read a configuration file. Raises `UsageError`: not there, no regular file, too large, empty, not UTF-8."""
    name = one_line(str(path))
    try:
        # A pipe would wait for a writer who never comes; looked at after opening, so that nobody changes it in between.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UsageError(f"{name} is not a regular file; name a configuration file.")
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{name} is missing; name the tools.json of your model.") from error
    except IsADirectoryError as error:
        raise UsageError(f"{name} is a directory; name the file in it.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name} cannot be read: {reason}.") from error
    return decoded(data, name)


def decoded(data: bytes, name: str) -> str:
    """Decode what a configuration file holds. Raises `UsageError`: too large, empty, not UTF-8."""
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{name} is larger than {LARGEST_BYTES >> 20} MiB, so it is no configuration file.")
    if not data.strip():
        raise UsageError(f"{name} is empty.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}.") from error


def read_json(text: str, name: str) -> Any:
    """Read JSON, and nothing else: no NaN, no key twice, no number without end. Raises `UsageError` with line and column."""
    try:
        return json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_refuse_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}.") from error
    except RecursionError as error:
        raise UsageError(f"{name} is nested too deeply to be a configuration.") from error
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}.") from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {shown(double)} stands twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"the number {text[:_LONGEST_NUMBER]}... is beyond every step")
    return int(text)


def _tools_of(document: object, name: str) -> object:
    # The other keys of such a file are the model's, the data's and the training's own.
    if not isinstance(document, Mapping) or "tools" not in document:
        raise UsageError(f"{name} has no tools:, where the profiler of an FSDP2 configuration is set.")
    return document["tools"]


def _yaml(text: str, name: str) -> object:
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise UsageError(
            f"{name} is YAML, and PyYAML is not installed. Run: pip install 'perfguard[mindformers]'"
        ) from error
    try:
        return yaml.load(text, Loader=_safe_loader(yaml))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise UsageError(f"{name} is not YAML: {at}{one_line(str(error.problem or error.context))}.") from error
    except RecursionError as error:
        raise UsageError(f"{name} is nested too deeply to be a configuration.") from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{name} is not YAML: {one_line(str(error))}.") from error


def _safe_loader(yaml: Any) -> Any:
    """Return PyYAML's SafeLoader, which runs nothing, and here refuses a key that stands twice."""
    construct: Callable[..., Any] = yaml.SafeLoader.construct_mapping

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    continue
                if key.value.__hash__ is not None and key.value in seen:
                    mark = key.start_mark
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {shown(key.value)} stands twice", mark
                    )
                if key.value.__hash__ is not None:
                    seen.add(key.value)
            return construct(self, node, deep=deep)

    return Loader
