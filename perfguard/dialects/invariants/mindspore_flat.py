"""What must agree in the flat files of an Ascend device (MindSpore 1.x to 2.4) and is in no table: JSON in cells, columns
named after operators. All else is asked of the tables (`dialects/mindspore_flat`).

The files kept their names while their writers changed: up to 2.0 they are made by parsers of MindSpore's own, from 2.1 on
out of msprof's op_summary. Whatever holds for one of the two only is asked of that one; which one wrote a directory is
seen in its files (`task_type` in aicore_intermediate_detail, the version in profiler_info).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_float64
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Artifact, Cycle

#: Sums of numbers that were printed in full.
_EXACT = 1e-6
_VERSION = re.compile(r"^(\d+)\.(\d+)")

_DETAIL = "aicore_intermediate_detail"


class _Writer(Enum):
    """Who made the flat files."""

    UP_TO_2_0 = "MindSpore up to 2.0"
    SINCE_2_1 = "MindSpore since 2.1"


# -- communication ---------------------------------------------------------------------------------------------------


@invariant(needs=("hccl_raw",))
def communication_costs_add_up(cycle: Cycle) -> Iterator[Finding]:
    """A step's communication_cost, wait_cost and link_info are the sums over its operators.

    Relative 1e-6. From 2.1 on the cost also holds what belongs to no operator, so there the operators may add up to less.
    Up to 2.0 the cost is of the main stream, so it is at most the time on all links (ms, as they are); from 2.1 on it is
    in us and links are in ms, so they are not compared. Bandwidths are averages of their own and follow from nothing.
    Source: MindSpore 2.0 source: hccl_parser.py; MindSpore 2.1 source: ascend_hccl_generator.py; real output of 2.0.
    """
    artifact = cycle.artifacts["hccl_raw"]
    steps = _hccl_steps(artifact)
    since = _hccl_writer(cycle, steps) is _Writer.SINCE_2_1

    def found() -> Iterator[tuple[str, str]]:
        for step in (one for one in steps if one["step"] != "-"):
            where, operators = step["place"], step["operators"]
            for key, index in (("communication_cost", 1), ("wait_cost", 2)):
                total = sum(_number(operator, index) for operator in operators.values())
                less = since and key == "communication_cost" and total <= step[key]
                if not less and not _equal(step[key], total):
                    yield (
                        f"{where} $.{key}",
                        f"step {step['step']}: {step[key]:.6g} here, its operators add up to {total:.6g}",
                    )
            yield from _link_sums(step, since=since)
            time = sum(_number(link, 0) for _, link in _links(step["links"]))
            if (
                not since
                and step["links"]
                and step["communication_cost"] > time
                and not _equal(step["communication_cost"], time)
            ):
                yield (
                    f"{where} $.communication_cost",
                    f"step {step['step']}: {step['communication_cost']:.6g} ms here, only {time:.6g} ms on its links",
                )
            for name, operator in operators.items():
                if str(operator[0]) != step["step"]:
                    yield (
                        f"{where} $.communication_operator_cost",
                        f"step {step['step']}: {name} says it is of step {operator[0]}",
                    )

    yield from disagreements(Code.I109, found(), place=artifact.place)


@invariant(needs=("hccl_raw",))
def average_of_communication_follows(cycle: Cycle) -> Iterator[Finding]:
    """The last row (`-`) has the mean cost of all steps up to 2.0, and is the last step once more from 2.1 on.

    Relative 1e-6. Source: MindSpore 2.0 source: hccl_parser.py; MindSpore 2.1 source: ascend_hccl_generator.py; real
    output of 2.0.
    """
    artifact = cycle.artifacts["hccl_raw"]
    everything = _hccl_steps(artifact)
    steps = [one for one in everything if one["step"] != "-"]
    if not steps:
        return
    wrote = _hccl_writer(cycle, everything)
    for row in (one for one in everything if one["step"] == "-"):
        for key in ("communication_cost", "wait_cost"):
            mean = sum(one[key] for one in steps) / len(steps)
            expected = steps[-1][key] if wrote is _Writer.SINCE_2_1 else mean
            if not _equal(row[key], expected):
                words = "the last step has" if wrote is _Writer.SINCE_2_1 else f"the mean of {len(steps)} steps is"
                yield Finding(
                    code=Code.I105,
                    place=f"{row['place']} $.{key}",
                    message=f"average {row[key]:.6g} here, {words} {expected:.6g}",
                )


# -- what the checks share -------------------------------------------------------------------------------------------


_LAYOUTS = {"ms-1.x": _Writer.UP_TO_2_0, "ms-2.1": _Writer.SINCE_2_1, "ms-2.3": _Writer.SINCE_2_1}


def _writer(cycle: Cycle) -> _Writer | None:
    """Who wrote the directory, as its files tell, else its layout; None where ms-2.0 is only what is left."""
    detail = cycle.content(_DETAIL)
    if detail is not None and detail.table is not None:
        return _Writer.SINCE_2_1 if "task_type" in detail.frame.columns else _Writer.UP_TO_2_0
    information = cycle.content("profiler_info")
    document = information.document if information is not None else None
    version = _VERSION.match(str(document.get("ms_version", ""))) if isinstance(document, dict) else None
    if version is None:
        return _LAYOUTS.get(cycle.layout.id)
    return _Writer.SINCE_2_1 if (int(version[1]), int(version[2])) >= (2, 1) else _Writer.UP_TO_2_0


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= _EXACT * max(abs(one), abs(other)) + 1e-9


def _number(values: Any, index: int) -> float:
    value = values[index] if isinstance(values, list) and len(values) > index else 0.0
    return float(value) if isinstance(value, (int, float)) else 0.0


def _hccl_steps(artifact: Artifact) -> list[dict[str, Any]]:
    """Rows of hccl_raw with their JSON decoded."""
    import msgspec

    frame, table = artifact.content.frame, artifact.content.table
    assert table is not None
    rows = []
    for number, row in enumerate(frame.iter_rows(named=True)):
        rows.append(
            {
                "place": f"{artifact.place}{table.place(number)}",
                "step": row["step_num"].strip(),
                "links": msgspec.json.decode(row["link_info"]),
                "operators": msgspec.json.decode(row["communication_operator_cost"]),
            }
        )
    for key in ("communication_cost", "wait_cost"):
        for one, value in zip(rows, as_float64(frame[key]).to_list(), strict=True):
            one[key] = value
    return rows


def _hccl_writer(cycle: Cycle, rows: list[dict[str, Any]]) -> _Writer:
    """Who wrote hccl_raw: where nothing else tells, a last row equal to the last step is the way of 2.1."""
    known = _writer(cycle)
    if known is not None:
        return known
    steps = [one for one in rows if one["step"] != "-"]
    average = [one for one in rows if one["step"] == "-"]
    is_copy = bool(steps and average) and all(
        average[-1][key] == steps[-1][key] for key in ("communication_cost", "wait_cost")
    )
    return _Writer.SINCE_2_1 if is_copy else _Writer.UP_TO_2_0


def _links(links: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Every link of a step or operator: ((source-destination, SDMA or RDMA), [time, size, ...])."""
    for pair, kinds in links.items():
        for kind, values in kinds.items():
            yield (pair, kind), values


def _link_sums(step: Mapping[str, Any], *, since: bool) -> Iterator[tuple[str, str]]:
    """Compare the links of a step with the sums over its operators: their time (ms) and size (KB)."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for operator in step["operators"].values():
        if len(operator) < 4:
            return
        for key, values in _links(operator[3]):
            sums[key][0] += _number(values, 0)
            sums[key][1] += _number(values, 1)
    for key, values in _links(step["links"]):
        # 2.1 pairs RDMA events within whatever it looks at, so what it finds in the parts is not what is in the whole.
        if since and key[1] != "SDMA":
            continue
        for index, what in ((0, "time"), (1, "size")):
            if not _equal(_number(values, index), sums[key][index]):
                yield (
                    f"{step['place']} $.link_info",
                    f"step {step['step']}: {what} {_number(values, index):.6g} on link {key[0]} ({key[1]}), the "
                    f"operators add up to {sums[key][index]:.6g}",
                )
