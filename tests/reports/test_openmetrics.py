"""The numbers as OpenMetrics, read back by the parser of Prometheus' own client."""

from __future__ import annotations

import math

import pytest

parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="prometheus_client is not installed")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from perfguard.judge.verdict import Outcome, Verdict  # noqa: E402
from perfguard.measure import METRICS, Measurement  # noqa: E402
from perfguard.reports.openmetrics import report_openmetrics  # noqa: E402
from perfguard.screen import printable  # noqa: E402
from tests.reports import runs_to_show as show  # noqa: E402

OF_WORKLOADS = sorted(name for name, one in METRICS.items() if one.of_workload)


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    return {
        family.name: {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
        for family in parser.text_string_to_metric_families(text)
    }


def test_a_run_is_read_back():
    found = read(report_openmetrics(show.run_of(show.passing(), show.failing())))
    peak = next(one.value for one in show.passing().measurements if one.metric == "peak_memory_bytes")
    assert (
        found["perfguard_peak_memory_bytes"][(("subject", "cpu"), ("workload", "tests/test_net.py::test_fails"))]
        == peak
    )
    assert found["perfguard_outcome"] == {
        (("outcome", "PASSED"), ("workload", "tests/test_net.py::test_passes")): 1,
        (("outcome", "FAILED"), ("workload", "tests/test_net.py::test_fails")): 1,
    }
    # Operators are not among them: GitLab's page lists every number.
    assert not any("operator" in name for name in found)


def test_a_run_without_a_workload_is_whole():
    assert read(report_openmetrics(show.run_of())) == {"perfguard_outcome": {}}


@given(
    st.dictionaries(
        st.tuples(
            st.text(max_size=9),
            st.sampled_from(OF_WORKLOADS),
            st.text(max_size=9),
        ),
        st.one_of(st.integers(-(2**60), 2**60), st.floats()),
        max_size=5,
    )
)
def test_any_name_and_number_is_read_back_as_it_was(numbers):
    verdicts = [
        Verdict(
            workload=workload,
            outcome=Outcome.PASSED,
            findings=(),
            measurements=tuple(
                Measurement(metric=metric, subject=subject, value=value)
                for (name, metric, subject), value in numbers.items()
                if name == workload
            ),
        )
        for workload in sorted({name for name, _, _ in numbers})
    ]
    found = read(report_openmetrics(show.run_of(*verdicts)))
    for (workload, metric, subject), value in numbers.items():
        labels = {"workload": printable(workload), **({"subject": printable(subject)} if subject else {})}
        told = found.get(f"perfguard_{metric}", {}).get(tuple(sorted(labels.items())))
        assert (told is None) == (not math.isfinite(value))
        assert told is None or float(told) == float(value)
