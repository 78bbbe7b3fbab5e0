"""Events of a trace_view that are there twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

from perfguard.artifacts.readers.event_schema import compiled
from perfguard.artifacts.readers.trace import stream_trace
from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.dialects.disagreement import disagreements
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: By layout: the check that no event is there twice, its code, and whether it holds of what has no duration as well: no real
#: sample says how MindSpore draws flows, or keeps this in 2.3.
_ONCE = {
    "pt-npu": ("device_events_are_there_once", Code.I114, True),
    "ms-2.5+": ("device_events_are_there_once", Code.I114, False),
    "ms-2.5+cpu": ("trace_events_are_there_once", Code.I103, False),
}


def rows_alike(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Ints]:
    """Return the rows of each cycle whose events are alike in what tables hold of them, in order."""
    found = {}
    checked = [number for number, one in cycles.items() if one.layout.id in _ONCE]
    for number in checked if checked and batch.is_any("from alike") else ():
        _, _, has_instants = _ONCE[cycles[number].layout.id]
        where = "" if has_instants else "and is_span"
        rows = batch.columns(f"select row from alike where cycle = {number} {where} order by row")["row"]
        if len(rows):
            found[number] = np.asarray(rows, np.int64)
    return found


def repeated_events(cycle: Cycle, alike: Ints) -> Iterator[Finding]:
    """Return findings for events that occur twice with all their arguments, among the rows that are alike.

    The trace is looked at once more for them. Raises `OSError` where the file is not what it was.
    """
    check, code, _ = _ONCE[cycle.layout.id]
    artifact = cycle.artifacts["trace_view"]
    rules = artifact.content.event_schema
    assert rules is not None
    seen: set[int] = set()
    shown: list[tuple[str, str]] = []
    count = 0

    def consume(events: Events) -> None:
        nonlocal count
        for at in np.flatnonzero(np.isin(events.rows, alike)).tolist():
            event = events.events[at]
            if (known := _print_of(event)) not in seen:
                seen.add(known)
                continue
            count += 1
            if count <= SHOWN_VIOLATIONS:
                name = json.dumps(event.name, ensure_ascii=False)
                place = f"{artifact.place} {artifact.content.events_path}[{events.rows[at]}]"
                shown.append((place, f"the event {name} is there a second time"))

    # With all arguments.
    again = stream_trace(artifact.path, compiled(rules.row, rules.root, {"*": ("*",)}), consume)
    if again.unreadable is not None or again.digest != artifact.content.digest:
        raise OSError(f"{artifact.path.name} changed while it was read: check again when nothing writes it")
    for finding in disagreements(code, shown, count, artifact.place):
        yield replace(finding, check=check, rank=cycle.rank)


def _print_of(event: Any) -> int:
    """Return a number that equal events have, and hardly any others: of all their keys, as the file has them."""
    values: Iterable[Any] = msgspec.structs.astuple(event)
    return hash((type(event), *(bytes(one) if type(one) is Raw else one for one in values)))
