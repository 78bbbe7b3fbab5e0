"""The timeline of the fastest profiled step, of both sides where they are known: values for the script, and a table."""

from __future__ import annotations

from itertools import chain
from typing import Any

from perfguard.judge.step_time import TimeUnit
from perfguard.judge.verdict import Verdict
from perfguard.measure import StepTimeline
from perfguard.reports.pauses import long_pauses, pause_text, place_of
from perfguard.screen import printable

#: Rows of the table, and most lanes of a side: those with the most time.
_ROWS, _LANES = 20, 24
#: The lane of pauses.
_PAUSES = "nothing ran"


def timeline_sides(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the sides with a timeline, the baseline first, as values for the script.

    `lanes` are pairs of a name and its spans as `[name, start, length]` in ns, one after the other; `names` the texts.
    """
    sides = (("baseline", verdict.base_timeline), ("now", verdict.timeline))
    return [_side(label, one) for label, one in sides if one is not None and one.spans]


def _side(label: str, one: StepTimeline) -> dict[str, Any]:
    by_lane: dict[int, list[int]] = {}
    busy: dict[int, int] = {}
    for lane, name, start_ns, length_ns in sorted(one.spans, key=lambda span: (span[2], -span[3])):
        by_lane.setdefault(lane, []).extend((name, start_ns, length_ns))
        busy[lane] = busy.get(lane, 0) + length_ns
    most = set(sorted(busy, key=lambda lane: -busy[lane])[:_LANES])
    pauses = sorted(long_pauses(one), key=lambda pause: pause.start_ns)
    names = [*map(printable, one.names), *(f"pause {place_of(pause)}" for pause in pauses)]
    waits = [[len(one.names) + at, pause.start_ns, pause.length_ns] for at, pause in enumerate(pauses)]
    lanes = [[_PAUSES, list(chain.from_iterable(waits))]] if waits else []
    return {
        "label": label,
        "what": _what(one, len(by_lane)),
        "duration": one.duration_ns,
        "names": names,
        "lanes": [*lanes, *([printable(one.lanes[lane]), by_lane[lane]] for lane in sorted(most))],
    }


def _what(one: StepTimeline, lanes: int) -> str:
    """Return what is shown of a step, and what is not."""
    unit = TimeUnit.of([one.duration_ns / 1e3])
    text = f"step {one.step + 1} of rank {one.rank}, {unit.text(one.duration_ns / 1e3)} under the profiler"
    if one.count > len(one.spans):
        text += f"; the {len(one.spans)} longest of {one.count} executions"
    if pause := pause_text(one):
        text += f"; {pause}"
    return text + (f"; the {_LANES} busiest of {lanes} lanes" if lanes > _LANES else "")


def timeline_rows(verdict: Verdict) -> list[tuple[str, str, str, str, str]]:
    """Return the longest executions as a table: name, side, lane, start in the step, length; the headers first."""
    rows = [("name", "side", "lane", "start", "length")]
    for label, one in (("baseline", verdict.base_timeline), ("now", verdict.timeline)):
        if one is None:
            continue
        unit = TimeUnit.of([one.duration_ns / 1e3])
        for pause in long_pauses(one):
            times = unit.text(pause.start_ns / 1e3), unit.text(pause.length_ns / 1e3)
            rows.append((f"pause {place_of(pause)}", label, _PAUSES, *times))
        for lane, name, start_ns, length_ns in sorted(one.spans, key=lambda span: (-span[3], span[2]))[:_ROWS]:
            times = unit.text(start_ns / 1e3), unit.text(length_ns / 1e3)
            rows.append((one.names[name], label, one.lanes[lane], *times))
    return rows
