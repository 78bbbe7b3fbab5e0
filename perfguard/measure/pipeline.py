"""The data pipeline (MindData): how full its queues were, and how long a batch took to come."""

from __future__ import annotations

from perfguard.measure.measurement import Better
from perfguard.measure.metrics import queried_metric, shown

queried_metric(
    shown(
        "pipeline_queue_usage",
        "fraction",
        "How full an operator's output queue was on average; near 0 it cannot keep up.",
        better=Better.HIGHER,
    )
)
queried_metric(shown("pipeline_batch_time", "us", "Time to get one batch: from asking the pipeline to having it."))
