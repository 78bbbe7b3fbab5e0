"""The environment of a capture: versions and the machine, never a clock."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perfguard.capture import Target
from perfguard.recording import Environment
from perfguard.version import __version__


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


@cache
def cpu_model() -> str:
    """Return the CPU's name in /proc/cpuinfo, else the one of `platform`."""
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
