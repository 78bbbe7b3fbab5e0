"""A reader, a reporter, a store and a backend."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, numbered_lines
from perfguard.artifacts.table import Cells, Table
from perfguard.capture import Target
from perfguard.reports import RunReport
from perfguard.stores.directory import BaselineDirectory
from perfguard.window import StepWindow


def read_toy(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read lines of two words."""
    import polars as pl

    rows = [line.split(" ") for _, line in numbered_lines(path)]
    return Content(table=Table(frame=pl.DataFrame(rows, schema=["name", "count"], orient="row"), cells=Cells.TEXT))


class OneLine:
    """Writes a line for each workload."""

    def text(self, report: RunReport) -> str:
        """Return the lines."""
        return "".join(f"{one.outcome.value} {one.workload}\n" for one in report.verdicts)


class Cellar(BaselineDirectory):
    """Keeps baselines one floor down."""

    def __init__(self, place: Path) -> None:
        super().__init__(place / "cellar")


class ToyBackend:
    """Writes how many steps there were."""

    name = "toyframe"
    conditions: Mapping[str, bool] = {}

    def prepare(self, threads: int) -> None:
        """Do nothing."""

    def restore(self) -> None:
        """Do nothing."""

    def target(self) -> Target:
        """Return a device that is not there."""
        return Target(
            device="toy", mode="eager", world_size=1, rank=0, threads=1, device_name="toy", packages={"toyframe": "1"}
        )

    def synchronize(self) -> None:
        """Do nothing."""

    def start(self, directory: Path, window: StepWindow) -> None:
        """Count from 0."""
        self._file, self._steps = directory / "steps.toy", 0

    def advance(self) -> None:
        """Count a step."""
        self._steps += 1

    def stop(self) -> None:
        """Write the file."""
        self._file.write_text(f"step {self._steps}\n", encoding="utf-8")
