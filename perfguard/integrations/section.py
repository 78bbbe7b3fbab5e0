"""Section: one object of a configuration file, whose values are taken by rules; errors name the file and the key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.capture.rules import PATH, Rule, one_line, shown
from perfguard.errors import UsageError, nearest

#: The default of a key that the file must have.
REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Section:
    """One object of a configuration: its values, its path in the file (empty for the whole), and the file's name."""

    plain: Mapping[Any, Any]
    at: str
    source: str
    #: Keys that lead to the tree inside the file: "tools." for a YAML of FSDP2.
    prefix: str = ""
    #: Whether null means the default, as in MindFormers' YAML.
    null_is_default: bool = False

    @classmethod
    def of(cls, plain: object, at: str, source: str, prefix: str = "") -> Section:
        """Return the section of an object. Raises `UsageError` for anything else."""
        if not isinstance(plain, Mapping):
            name = f"{source}: {prefix}{at}" if at else source
            raise UsageError(f'{name} must be an object, {{"key": value, ...}}, got {shown(plain)}.')
        return cls(plain, at, source, prefix)

    def __contains__(self, key: str) -> bool:
        return key in self.plain

    def name(self, key: str) -> str:
        """Return the path of a key in the file."""
        return f"{self.prefix}{self.at}.{key}" if self.at else f"{self.prefix}{key}"

    def take(self, key: str, rule: Rule, default: Any) -> Any:
        """Return the value of a key, or the default without one. Raises `UsageError` for a value that breaks the rule."""
        value = self.plain.get(key, REQUIRED)
        if value is None and self.null_is_default:
            value = REQUIRED
        if value is not REQUIRED:
            return self.checked(key, rule, value)
        if default is REQUIRED:
            raise UsageError(f"{self.source}: {self.name(key)} is missing.")
        return default

    def checked(self, key: str, rule: Rule, value: Any) -> Any:
        """Return the value of a key. Raises `UsageError` for one that breaks the rule."""
        if violation := rule.violation(value):
            raise self.error(key, violation)
        return value

    def path(self, key: str, default: Any) -> Path:
        """Return the path at a key; relative ones are relative to the working directory."""
        return Path(self.take(key, PATH, default))

    def section(self, key: str) -> Section:
        """Return the object at a key, and an empty one without the key."""
        at = f"{self.at}.{key}" if self.at else key
        return Section.of(self.plain.get(key, {}), at, self.source, self.prefix)

    def is_null(self, key: str) -> bool:
        """Whether a value is null or missing."""
        return self.plain.get(key) is None

    def error(self, key: str, problem: str) -> UsageError:
        """Return the error about a key: "FILE: KEY PROBLEM."."""
        return UsageError(f"{self.source}: {self.name(key)} {problem}{'' if problem.endswith(('.', '?')) else '.'}")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise `UsageError` for a key that is not among the known ones, with the nearest of them."""
        names = list(known)
        for key in self.plain:
            if key not in names:
                raise self.error(one_line(str(key)), f"is not a known key; {nearest(one_line(str(key)), names)}")
