"""Other tools' work, in their own environment: <their python> benchmarks/reading/peer_jobs.py JOB DIR [DIR]

Imports nothing of perfguard's and nothing beside it, because their environment has neither.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

_cpu_before_s = 0.0


def work_begins() -> None:
    """Note what start-up and imports have taken so far."""
    global _cpu_before_s
    _cpu_before_s = time.process_time()


def hta_breakdown(directory: str) -> dict[str, Any]:
    """HolisticTraceAnalysis: load the trace, and break its GPU time down by kernel."""
    from hta.trace_analysis import TraceAnalysis

    logging.disable()
    work_begins()
    kinds, kernels = TraceAnalysis(trace_dir=directory).get_gpu_kernel_breakdown(visualize=False)
    return {"operators": len(kernels), "kinds": len(kinds)}


def hta_diff(control: str, test: str) -> dict[str, Any]:
    """HolisticTraceAnalysis: load two traces, and compare counts and times of their operators in the first step of each."""
    from hta.trace_diff import TraceDiff

    logging.disable()
    work_begins()
    return {"operators": len(TraceDiff.compare_traces(control, test))}


JOBS = {"hta_breakdown": hta_breakdown, "hta_diff": hta_diff}

if __name__ == "__main__":
    found = JOBS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"cpu_before_s": _cpu_before_s, **found}))
