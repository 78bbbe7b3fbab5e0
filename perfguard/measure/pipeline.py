"""The data pipeline (MindData): how full its queues were, and how long a batch took to come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.measure.measurement import Better
from perfguard.measure.metrics import Measured, cycle_metric, shown

if TYPE_CHECKING:
    from perfguard.contract import Cycle


@cycle_metric(
    shown(
        "pipeline_queue_usage",
        "fraction",
        "How full an operator's output queue was on average; near 0 it cannot keep up.",
        better=Better.HIGHER,
    ),
    needs=("minddata_pipeline_raw",),
)
def pipeline_queue_usage(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """output_queue_usage_rate by operator; the root, which feeds the training itself, has no such queue."""
    from perfguard.artifacts.table import as_float64

    content = cycle.content("minddata_pipeline_raw")
    if content is None:
        return
    frame = content.frame
    usage = as_float64(frame["output_queue_usage_rate"]).to_list()
    for number, name, value in zip(frame["op_id"].to_list(), frame["op_type"].to_list(), usage, strict=True):
        if value is not None:
            yield f"{name}(id={number})", round(value, 6)


@cycle_metric(
    shown("pipeline_batch_time", "us", "Time to get one batch: from asking the pipeline to having it."),
    needs=("dataset_iterator_profiling", "device_queue_profiling"),
)
def pipeline_batch_time(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Time records (type 0) of the iterator or the device queue: extra 0 is the pipeline, 1 the push, 2 the batch; in ms."""
    from perfguard.artifacts.table import as_int64

    for slot in ("dataset_iterator_profiling", "device_queue_profiling"):
        artifact = cycle.artifacts.get(slot)
        if artifact is None or artifact.content.frame.width < 5:
            continue
        frame = artifact.content.frame
        kind, extra, _, value = (as_int64(frame[name]).to_list() for name in frame.columns[:4])
        for number, part in ((0, "pipeline"), (1, "push"), (2, "batch")):
            records = zip(kind, extra, value, strict=True)
            # A time beyond 64 bits is none.
            samples = [v * 1e3 for k, e, v in records if k == 0 and e == number and v is not None]
            if samples:
                yield part, tuple(samples)
