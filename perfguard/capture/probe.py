"""What this machine has and how steady it is: a framework, and the calibration kernel, each in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from perfguard import child, scratch, thresholds
from perfguard.capture import BACKENDS, Target
from perfguard.capture.command import last_line, run_command
from perfguard.capture.controlled import ControlledWindow, bind, calibration_kernel, controlled_environment
from perfguard.capture.environment import cpu_model
from perfguard.errors import CaptureError, PerfguardError
from perfguard.timing import Timing, read_timing, write_timing
from perfguard.window import StepWindow

_NOISE = "--noise"
#: The key of a result that is one of perfguard's own errors: a sentence with the next command.
_REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A framework that works: what it runs on, the devices that it sees, and how long its import took."""

    target: Target
    devices: tuple[str, ...]
    seconds: float


def probe_framework(name: str, *, timeout_s: float) -> Probed:
    """Import a framework in another process. Raises `CaptureError` if that fails, crashes or takes too long."""
    with scratch.folder() as directory:
        result = directory / "result.json"
        _run((name, str(result)), directory, os.environ, timeout_s, name)
        found = json.loads(result.read_text(encoding="utf-8"))
    if _REFUSED in found:
        raise CaptureError(found[_REFUSED])
    return Probed(target=Target(**found["target"]), devices=tuple(found["devices"]), seconds=found["seconds"])


def probe_noise(processes: int, *, timeout_s: float) -> tuple[Timing, ...]:
    """Time the calibration kernel as a step, in controlled processes one after the other. Raises `CaptureError`."""
    environment = controlled_environment(os.environ, threads=1)
    with scratch.folder() as directory:
        found = []
        for number in range(processes):
            result = directory / f"{number}.json"
            _run((_NOISE, str(result)), directory, environment, timeout_s, "numpy")
            found.append(read_timing(result))
    return tuple(found)


def _run(
    arguments: tuple[str, str], directory: Path, environment: Mapping[str, str], timeout_s: float, module: str
) -> None:
    """Run a probe that needs a module. Raises `CaptureError` if it leaves no result."""
    output = directory / "output"
    with open(output, "wb") as stream:
        ended = run_command(
            child.own_command(f"{__name__}:main", *arguments),
            environment=environment,
            mark="PERFGUARD_PROBE",
            timeout_s=timeout_s,
            output=stream,
            directory=directory,
        )
    if ended.status == 0 and Path(arguments[1]).is_file():
        return
    # The last line of one that was ended is about the signal that ended it.
    line = "" if ended.timed_out else last_line(output)
    sentence = ended.sentence(timeout_s, line, did="")
    raise CaptureError(f"a process that uses {module} {sentence}. See why with: python -c 'import {module}'")


# -- in the other process ------------------------------------------------------------------------------------------------


def main() -> None:
    """Run a probe in this process, and write its result."""
    name, result = sys.argv[1:]
    if name == _NOISE:
        write_timing(_kernel_steps(), Path(result))
        return
    try:
        found = _described(name)
    except PerfguardError as error:
        found = {_REFUSED: str(error)}
    Path(result).write_text(json.dumps(found), encoding="utf-8")


def _described(name: str) -> dict[str, object]:
    began = time.perf_counter()
    backend = BACKENDS[name]()
    backend.prepare(1)
    target = backend.target()
    seconds = time.perf_counter() - began
    return {"target": asdict(target), "devices": _devices(name, target), "seconds": round(seconds, 1)}


def _devices(name: str, target: Target) -> list[str]:
    """Return the names of the devices; a backend itself reports the one that is in use."""
    if name == "torch":
        import torch

        for accelerator in (getattr(torch, "npu", None), torch.cuda):
            if accelerator is not None and accelerator.is_available():
                return [str(accelerator.get_device_name(index)) for index in range(accelerator.device_count())]
    return [target.device_name]


def _kernel_steps() -> Timing:
    cpus = bind(1)
    kernel = calibration_kernel()
    steps = thresholds.STEPS_IN_A_ROW
    return ControlledWindow(_NoFramework(), workload="noise", settle=1, least=steps, cpus=cpus).run(kernel)


class _NoFramework:
    """A backend of steps that use numpy alone: nothing to prepare, to wait for or to profile."""

    name = "numpy"
    conditions: dict[str, bool] = {}  # noqa: RUF012 - as the protocol declares it

    def prepare(self, threads: int) -> None:
        """Do nothing."""

    def restore(self) -> None:
        """Do nothing."""

    def target(self) -> Target:
        """Return the CPU."""
        facts = {"device": "cpu", "mode": "eager", "device_name": cpu_model()}
        return Target(**facts, world_size=1, rank=0, threads=1, packages={})

    def synchronize(self) -> None:
        """Do nothing: numpy is done when it returns."""

    def start(self, directory: Path, window: StepWindow) -> None:
        """Refuse: there is no profiler."""
        raise CaptureError("numpy has no profiler")

    def advance(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""
