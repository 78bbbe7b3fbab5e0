"""The calibration file among the baselines: the gate's measured error rate, and its machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from perfguard.documents import FORMAT, dumps, exists, read_document
from perfguard.judge.calibration import Calibrated, ErrorRate
from perfguard.writing import write_atomically

#: No baseline has this name: their names contain the name of a test.
CALIBRATION_FILE = "calibration.json"

_MACHINE = ("cpu_model", "cpu_count", "device_name")
_REMEDY = "Delete it, or write it again with: perfguard calibrate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The results of `runs` unchanged runs of a suite, by workload, on one machine: CPU model, cores, device."""

    runs: int
    machine: tuple[str, int, str]
    workloads: Mapping[str, tuple[Calibrated, ...]]
    error_rate: ErrorRate | None


def write_calibration(calibration: Calibration, directory: Path) -> Path:
    """Write the calibration among the baselines, and return its path. Raises `StoreError`."""
    path = directory / CALIBRATION_FILE
    document = {
        "format": FORMAT,
        "runs": calibration.runs,
        "machine": dict(zip(_MACHINE, calibration.machine, strict=True)),
        "error_rate": asdict(calibration.error_rate) if calibration.error_rate else None,
        "metrics": [
            {"workload": workload, **one.as_dict()}
            for workload, found in sorted(calibration.workloads.items())
            for one in found
        ],
    }
    write_atomically(path, dumps(document, lines_of="metrics"))
    return path


def move_calibration(directory: Path, names: Mapping[str, str]) -> bool:
    """Rename workloads in the calibration; return whether it holds any of them.

    Raises `StoreError`.
    """
    calibration = read_calibration(directory)
    if calibration is None or calibration.workloads.keys().isdisjoint(names):
        return False
    others = {name: found for name, found in calibration.workloads.items() if name not in names}
    moved = {names[name]: found for name, found in calibration.workloads.items() if name in names}
    write_calibration(replace(calibration, workloads={**others, **moved}), directory)
    return True


def read_calibration(directory: Path) -> Calibration | None:
    """Return the calibration among the baselines, or None. Raises `StoreError` for a damaged one."""
    path = directory / CALIBRATION_FILE
    if not exists(path):
        return None
    document = read_document(path, "calibration", remedy=_REMEDY)
    workloads = defaultdict(list)
    for line in document["metrics"]:
        workloads[line.pop("workload")].append(Calibrated(**line))
    machine = document["machine"]
    return Calibration(
        runs=document["runs"],
        machine=(machine["cpu_model"], machine["cpu_count"], machine["device_name"]),
        workloads={workload: tuple(found) for workload, found in workloads.items()},
        error_rate=ErrorRate(**document["error_rate"]) if document["error_rate"] else None,
    )
