"""Counts by name and by step, against a count of executions one by one."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.artifacts.table_definitions import NULL
from perfguard.artifacts.tables import Batch, batch
from perfguard.dialects.counts import counts_of
from perfguard.dialects.cycle import Counts
from perfguard.dialects.queries import definitions, named_texts

#: Operator, name, step, start and duration; the place is that in the list.
Execution = tuple[str, str, int | None, int | None, int]
EXECUTIONS = st.lists(
    st.tuples(
        st.sampled_from(["Add", "Mul"]),
        st.sampled_from(["x", "y", "z"]),
        st.sampled_from([None, 0, 1, 2, 7]),
        st.sampled_from([0, 5, 9]),
        st.sampled_from([0, 3]),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def tables():
    with batch(definitions(frozenset({"ms-2.5+cpu"})), named_texts()) as found:
        yield found


def counted(tables: Batch, executions: list[Execution], compared: str = "name") -> Counts:
    tables.hand_over()
    tables._run("delete from listed")
    if executions:
        operators, names, *numbers = zip(*executions, strict=True)
        steps, starts, lasts = (np.array([NULL if one is None else one for one in column]) for column in numbers)
        tables.add(
            "listed", 3, place=np.arange(len(names)), operator=list(operators), name=list(names), step=steps,
            start_ns=starts, duration_ns=lasts, shapes=[None] * len(names), calls=np.ones(len(names), np.int64),
        )  # fmt: skip
    tables.hand_over()
    return counts_of(tables, "fill_listed_sums", [3], compared=compared)[3]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(executions=EXECUTIONS, compared=st.sampled_from(["name", "operator"]))
@pytest.mark.exhaustive
def test_queries_count_as_counting_one_by_one_does(tables, executions, compared):
    # Of averages no start is known; the others are listed in the order of their starts.
    executions = [
        (*one[:3], None if one[1] == "z" else one[3], one[4]) for one in sorted(executions, key=lambda one: one[3])
    ]
    found = counted(tables, executions, compared)
    groups: dict[tuple[str, str], list[tuple[int | None, int, int, int]]] = defaultdict(list)
    by_step: dict[int, Counter[str]] = defaultdict(Counter)
    for place, (operator, name, step, start, lasts) in enumerate(executions):
        # An execution without a start has no place.
        groups[operator, name].append((step, -1 if start is None else start, -1 if start is None else place, lasts))
        if step is not None:
            by_step[step][name if compared == "name" else operator] += 1
    rows = {(row.operator, row.name): dict(zip(row._fields[2:], row[2:], strict=True)) for row in found.by_name}
    assert rows == {
        key: {
            "calls": len(group),
            "outside": sum(step is None for step, *_ in group),
            "unfilled": sum(start == lasts == 0 for _, start, _, lasts in group),
            "total_ns": sum(lasts for *_, lasts in group),
            **dict(zip(("first_ns", "first_place"), min(one[1:3] for one in group), strict=True)),
            **dict(zip(("last_ns", "last_place"), max(one[1:3] for one in group), strict=True)),
        }
        for key, group in groups.items()
    }
    assert list(found.steps) == sorted(by_step)
    alike = [[step for step in sorted(by_step) if by_step[step] == calls] for calls in by_step.values()]
    usual = max(sorted(alike), key=len, default=[])
    assert list(found.odd_steps) == sorted(by_step.keys() - {*usual})
    assert found.odd == {step: by_step[step] for step in found.odd_steps}
    assert found.usual == (by_step[usual[0]] if found.odd_steps else {})


def test_of_many_odd_steps_the_first_are_shown(tables):
    executions = [("Add", f"op{step}", step, step, 1) for step in range(3 * SHOWN_VIOLATIONS)]
    found = counted(tables, executions)
    assert found.odd_steps == tuple(range(1, 3 * SHOWN_VIOLATIONS))
    assert found.odd == {step: {f"op{step}": 1} for step in range(1, SHOWN_VIOLATIONS + 1)}
