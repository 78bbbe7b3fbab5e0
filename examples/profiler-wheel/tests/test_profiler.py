"""The gate: everything the profiler wrote is there, well-formed, and agrees with itself. It needs no --perfguard."""

from record import record

import perfguard


def test_trace(tmp_path):
    record(str(tmp_path))
    verdict = perfguard.check(tmp_path, expect="memory,shapes,steps=3")
    calls = {one.subject: one.value for one in verdict.measurements if one.metric == "operator_calls"}
    # Two layers, forward; the numbers of a profiler must be those of the model.
    assert calls["aten::addmm"] == 2
