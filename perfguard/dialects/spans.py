"""Spans: what ran in the fastest step of a cycle, one by one, on its threads and streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch

#: Most spans of a step that are kept, the longest ones: as many as a figure can show.
MOST_SPANS = 1500


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spans:
    """Spans of one step, in the order of their starts, which count from the start of the step [ns].

    `count` is the number of all spans, with those that are not kept. `lane` and `name` are places in `lanes` and `names`.
    """

    step: int
    duration_ns: int
    count: int
    lanes: Sequence[str]
    names: Sequence[str]
    lane: NDArray[np.int32]
    name: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    length_ns: NDArray[np.int64]


def fastest_spans(batch: Batch, cycles: Collection[int]) -> dict[int, Spans]:
    """Return the spans of the fastest step of each cycle, by its number, where the starts and ends of steps are known."""
    if not cycles:
        return {}
    only = ", ".join(map(str, cycles))
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for cycle, *span in batch.execute(
        "select cycle, step, step_ns, count(*) over (partition by cycle) as count, is_device, lane, name, start_ns, length_ns "
        f"from fastest_spans where cycle in ({only}) "
        "qualify row_number() over (partition by cycle order by length_ns desc, start_ns, lane, name) "
        f"<= {MOST_SPANS} order by cycle, start_ns, length_ns desc, name"
    ):
        found[cycle].append(tuple(span))
    return {cycle: _spans(rows) for cycle, rows in found.items()}


def _spans(rows: Sequence[tuple[Any, ...]]) -> Spans:
    steps, durations_ns, counts, on_device, lane, name, start_ns, length_ns = zip(*rows, strict=True)
    # The host's threads come before the streams of devices.
    lanes = [text for _, text in sorted(set(zip(on_device, lane, strict=True)))]
    names = sorted(set(name))
    of_lanes, of_names = ({text: place for place, text in enumerate(texts)} for texts in (lanes, names))
    return Spans(
        step=steps[0],
        duration_ns=durations_ns[0],
        count=counts[0],
        lanes=lanes,
        names=names,
        lane=np.array([of_lanes[text] for text in lane], np.int32),
        name=np.array([of_names[text] for text in name], np.int32),
        start_ns=np.array(start_ns, np.int64),
        length_ns=np.array(length_ns, np.int64),
    )
