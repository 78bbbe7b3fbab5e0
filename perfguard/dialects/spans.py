"""Spans: what ran in the fastest step of a cycle, one by one, on its threads and streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perfguard.artifacts.tables import frame

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
    rows = frame(
        batch,
        "select cycle, step, step_ns, lane, is_device, name, start_ns, length_ns, count(*) over (partition by cycle) as count "
        f"from fastest_spans where cycle in ({only}) "
        "qualify row_number() over (partition by cycle order by length_ns desc, start_ns, lane, name) "
        f"<= {MOST_SPANS} order by cycle, start_ns, length_ns desc, name",
    )
    found = {}
    for (cycle,), own in rows.group_by("cycle", maintain_order=True):
        # The host's threads come before the streams of devices.
        lanes = own.select("is_device", "lane").unique().sort("is_device", "lane")["lane"].to_list()
        names = own["name"].unique().sort().to_list()
        places = ({text: place for place, text in enumerate(texts)} for texts in (lanes, names))
        lane, name = (
            np.array([place[text] for text in own[column]], np.int32)
            for column, place in zip(("lane", "name"), places, strict=True)
        )
        found[int(cycle)] = Spans(
            step=own["step"][0],
            duration_ns=own["step_ns"][0],
            count=own["count"][0],
            lanes=lanes,
            names=names,
            lane=lane,
            name=name,
            start_ns=own["start_ns"].to_numpy(),
            length_ns=own["length_ns"].to_numpy(),
        )
    return found
