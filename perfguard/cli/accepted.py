"""What `perfguard ab --accept-explained` accepts: only what the baseline of that very workload explains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfguard.cli.project import baselines_of
from perfguard.errors import StoreError, listed
from perfguard.judge.baseline import Baseline
from perfguard.judge.refresh import new_reason
from perfguard.measure import Measurement
from perfguard.screen import cut

#: Longest reason in a line, and most workloads.
_REASON = 200
_LISTED = 2


@dataclass(slots=True)
class Accepted:
    """The workloads that are accepted, and a remark on each, and on all others."""

    names: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)

    def accept(self, name: str, why: str) -> None:
        """Accept a workload, and say why."""
        self.names.add(name)
        self.remarks.append(f"accepted: {name} {why}")


def accepted(
    base_directory: Path, directory: Path, *, red: Sequence[str], gone: Sequence[str], new: Sequence[str], alone: bool
) -> Accepted:
    """Return which workloads a change of their own baseline explains; each side's baselines are found by its own settings.

    `red` ones are worse, or could not be compared: the baseline holds a reason that it does not hold at the base. `gone` ones
    were renamed: the baseline of a `new` one has their numbers. If the `new` ones are `alone`, with nothing to compare, they
    were added: each has a baseline, and the base has none of it.
    """
    found = Accepted()
    names = [*red, *gone, *new]
    base, current = _stored(base_directory, names, found), _stored(directory, names, found)
    added = [name for name in new if current.get(name) is not None and name in base and base[name] is None]
    for name in red:
        if (reason := new_reason(base.get(name), current.get(name))) is not None:
            found.accept(name, f"is not as on the base, and its baseline says why: {cut(reason, _REASON)}")
    for name in gone:
        before = base.get(name)
        if before is not None and current.get(name, before) is None:
            for one in added:
                if one not in found.names and _numbers(current[one]) == before.measurements:
                    found.accept(name, f"is called {one} now, and so is its baseline")
                    found.names.add(one)
                    break
    for name in added if alone else ():
        if name not in found.names:
            found.accept(name, "is new, and so is its baseline")
    others = [name for name in (names if alone else [*red, *gone]) if name not in found.names]
    if others:
        found.remarks.append(
            f"not accepted: {listed(others, _LISTED)}; if this is intended, store why in the baseline: "
            'perfguard baseline refresh --reason "..." TESTS'
        )
    return found


def _numbers(stored: Baseline | None) -> tuple[Measurement, ...] | None:
    return stored.measurements if stored is not None else None


def _stored(directory: Path, names: Iterable[str], found: Accepted) -> dict[str, Baseline | None]:
    """Return the baselines of workloads on one side, None where there is none. One that cannot be read is remarked on, and left
    out: it explains nothing."""
    stored: dict[str, Baseline | None] = {}
    for name in names:
        try:
            stored[name] = baselines_of(name, directory).load(name)
        except StoreError as error:
            found.remarks.append(f"not accepted: {name}: {error}")
    return stored
