"""The page of the public names of `perfguard` and `perfguard.testing`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import perfguard
import perfguard.testing
from docs.generate.signatures import docstring, members, signature
from perfguard.capture.mindspore_options import PARAMETERS, ProfilerOptions
from perfguard.findings import Finding
from perfguard.guard import Callback, Guard
from perfguard.integrations.mindformers import MindFormersProfile
from perfguard.integrations.mindspeed_llm import MindSpeedLLMProfile
from perfguard.integrations.tools_profiler import ToolsProfiler
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement
from perfguard.recording import Recording
from perfguard.reports.catalogue import slug
from perfguard.reports.prose import code, table

#: Classes whose instances a user gets.
_RETURNED = (Verdict, Outcome, Finding, Measurement, Recording, MindFormersProfile, MindSpeedLLMProfile, ToolsProfiler)


def page() -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Python API\n",
            "All public names are typed. Everything else in the package may change in any release.\n",
            *_module(perfguard),
            "\n### Options of MindSpore's profiler\n",
            "`callback`, `Script` and `write_profiler_config` accept the options that the MindSpore in use has, and refuse "
            "others.\n",
            table(("option", "MindSpore"), _profiler_options()),
            *_module(perfguard.testing),
            "\n## Returned values\n",
            "Functions and methods return instances of these classes. Import them for annotations only.\n",
            *(line for found in _RETURNED for line in _returned(found)),
        ]
    )


def _module(module: ModuleType) -> Iterator[str]:
    yield f"\n## `{module.__name__}`\n"
    yield docstring(module)
    for name in module.__all__:
        yield from _entry(f"{module.__name__}.{name}", getattr(module, name))


def _entry(name: str, found: Any) -> Iterator[str]:
    kind = "class" if inspect.isclass(found) else "name"
    yield f"\n(api-{kind}-{slug(name)})=\n### `{name}`\n"
    if isinstance(found, str):
        yield "The version, as text."
    elif found in (Guard, Callback):
        yield f"{docstring(found)} See [Marker and fixture](marker-and-fixture.md)."
    elif inspect.isclass(found):
        if not issubclass(found, (Exception, Enum)):
            yield signature(name, found, result="") + "\n"
        yield docstring(found)
        yield from members(found)
    elif callable(found):
        yield signature(name, found) + "\n"
        yield docstring(found)
    else:
        yield f"A {code(type(found).__name__)} with the keys {', '.join(map(code, found))}."


def _returned(found: type) -> Iterator[str]:
    """Yield a class with its attributes: it is not made by its users."""
    yield f"\n(api-class-{slug(found.__name__)})=\n### `{found.__name__}`\n"
    yield docstring(found)
    if is_dataclass(found):
        yield "\n```python"
        yield from (f"{one.name}: {one.type}" for one in fields(found))
        yield "```"
    yield from members(found)


def _profiler_options() -> Iterator[tuple[str, str]]:
    for name in ProfilerOptions.__annotations__:
        versions = [one for one in PARAMETERS if one.name == name]
        since = min(one.since for one in versions)
        before = max(one.before for one in versions)
        until = f", before {before[0]}.{before[1]}" if before[0] < 1000 else ""
        yield code(name), f"since {since[0]}.{since[1]}{until}"
