"""The environment of a capture: versions and the machine, never a clock; and what another Python has."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perfguard import child
from perfguard.capture import Target
from perfguard.errors import UsageError
from perfguard.recording import Environment
from perfguard.version import __version__

_PROBE = """
import json
from importlib.metadata import distributions
found = {}
for one in distributions():  # in the order of imports: the first counts
    name = (one.metadata["Name"] or "").lower().replace("-", "_")
    if name in ("mindspore", "torch", "torch_npu", "numpy"):
        found.setdefault(name, one.version)
print(json.dumps(found))
"""


def environment_of(target: Target) -> Environment:
    """Describe this machine and the packages a target runs with in this process."""
    numpy = package_version("numpy")
    packages = {**target.packages, **({"numpy": numpy} if numpy else {})}
    return environment(platform.python_version(), packages, target.device_name)


def environment(python: str, packages: Mapping[str, str], device_name: str) -> Environment:
    """Describe this machine and what runs on it."""
    return Environment(
        python=python,
        platform=f"{platform.system()} {platform.machine()}",
        packages={"perfguard": __version__, **packages},
        cpu_model=cpu_model(),
        cpu_count=os.cpu_count() or 0,
        device_name=device_name,
    )


def package_version(name: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


#: The lines of /proc/cpuinfo that tell processors apart whose name has no model number, and their names in ours:
#: of x86 (arch/x86/kernel/cpu/proc.c in Linux), and of Arm, which has no name at all (arch/arm64/kernel/cpuinfo.c).
_MODEL_FIELDS = {
    "cpu family": "family",
    "model": "model",
    "stepping": "stepping",
    "CPU implementer": "implementer",
    "CPU part": "part",
    "CPU variant": "variant",
    "CPU revision": "revision",
}
_CLOCK = re.compile(r"\s*@\s*[\d.]+\s*[GM]Hz")
#: A word with a model number: `8259CL`, `E5-2680`, `7B13`; not `2.5+` or `v4`.
_MODEL_NUMBER = re.compile(r"(?<!\S)(?=(?:[^\s\d]*\d){3})[\w-]+(?!\S)")


@cache
def cpu_model() -> str:
    """Return the name of the CPU's model: that of /proc/cpuinfo, else the one of `platform`.

    A name without a model number (`AMD EPYC`, as virtual machines have it) gets family, model and stepping.
    """
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return cpu_model_in(text, otherwise=platform.processor() or platform.machine())


def cpu_model_in(cpuinfo: str, *, otherwise: str) -> str:
    """Return the name of the first CPU in the text of /proc/cpuinfo; `otherwise` is the name if the text has none."""
    first = cpuinfo.strip().partition("\n\n")[0]
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
    name = fields.get("model name") or otherwise
    if "model name" in fields and _MODEL_NUMBER.search(_CLOCK.sub("", name)):
        return name
    numbers = [f"{short} {fields[field]}" for field, short in _MODEL_FIELDS.items() if fields.get(field)]
    return f"{name} ({', '.join(numbers)})" if numbers else name


def release(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version; (0, 0) if there are none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python that is to run a command, and the versions of its frameworks."""

    path: str
    packages: Mapping[str, str]


def find_interpreter(path: str) -> Interpreter:
    """Return what a Python has, read without importing any of it. Raises `UsageError` if it does not work."""
    try:
        done = child.ask(path, _PROBE, environment=os.environ, timeout_s=60)
        # The last line: a sitecustomize of its own may print as well.
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, child.TimeoutExpired, ValueError, IndexError) as error:
        raise UsageError(f"{path} is not a working Python ({error}); name one with --python PATH.") from error
    return Interpreter(path=path, packages=found)
