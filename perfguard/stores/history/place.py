"""The file of a history, before anything is opened; and that there is none."""

from __future__ import annotations

from pathlib import Path

from perfguard.errors import UsageError


class NoHistoryError(UsageError):
    """Nobody has added anything there yet."""

    def __init__(self, shown: str) -> None:
        super().__init__(
            f"There is no history in {shown}; write a report with: pytest --perfguard --perfguard-report FILE, "
            f"and add it with: perfguard history add FILE"
        )


def file_of(place: str, *, root: Path) -> Path:
    """Return the file that a place which is no URL names. Raises `UsageError` for the home of somebody nobody knows."""
    try:
        return root / Path(place).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{place} begins with a home directory that is not known here. Name another file: --history FILE"
        ) from error
