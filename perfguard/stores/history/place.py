"""Where a history is, and the error for a place that has none."""

from __future__ import annotations

from pathlib import Path

from perfguard.errors import UsageError


class NoHistoryError(UsageError):
    """Nothing has been added to this history yet."""

    def __init__(self, shown: str) -> None:
        super().__init__(
            f"There is no history in {shown}; write a report with: pytest --perfguard --perfguard-report FILE, "
            f"and add it with: perfguard history add FILE"
        )


def is_server(place: str) -> bool:
    """Whether `place` is a database server, and not a file."""
    return "://" in place and not place.lower().startswith("sqlite")


def file_of(place: str, *, root: Path) -> Path:
    """Return the file that `place`, which is not a URL, names. Raises `UsageError` for the home of an unknown user."""
    try:
        return root / Path(place).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{place} starts with the home directory of an unknown user. Name another file: --history FILE"
        ) from error
