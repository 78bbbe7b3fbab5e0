"""cluster_analysis_output: what msprof-analyze makes of the directories of all ranks.

Format read on real output of msprof-analyze (msinsight test data).
"""

from __future__ import annotations

from perfguard.testing import ascend_output as output
from perfguard.testing.formats import csv_bytes, json_bytes
from perfguard.testing.truth import Collective, Rank, Truth

_HEADER = (
    "Step",
    "Type",
    "Index",
    "Computing",
    "Communication(Not Overlapped)",
    "Overlapped",
    "Communication",
    "Free",
    "Stage",
    "Bubble",
    "Communication(Not Overlapped and Exclude Receive)",
)


def cluster_files(truth: Truth, ranks: tuple[Rank, ...], *, communication: bool) -> dict[str, bytes]:
    """Write the directory of one schedule cycle; `communication`: whether more than the times of steps was asked for."""
    files = {"cluster_step_trace_time.csv": _step_times(ranks)}
    if communication:
        group = str(tuple(range(truth.world)))
        files |= {
            "cluster_communication.json": json_bytes({"p2p": {}, group: _communication(truth, ranks)}),
            "cluster_communication_matrix.json": json_bytes({"p2p": {}, group: _matrix(truth, ranks)}),
            "communication_group.json": json_bytes({"collective": [list(range(truth.world))], "p2p": []}),
        }
    return {f"cluster_analysis_output/{name}": content for name, content in files.items()}


def _step_times(ranks: tuple[Rank, ...]) -> bytes:
    rows: list[list[object]] = []
    by_rank = [output.torch_step_rows(rank, scheduled=True) for rank in ranks]
    for same_step in zip(*by_rank, strict=True):
        step = same_step[0][0]
        # The last column of a rank's own file, the time until its first task, is not taken over.
        rows += [[step, "rank", rank.number, *row[1:-1]] for rank, row in zip(ranks, same_step, strict=True)]
        slowest = [
            max(float(str(value)) for value in column) for column in zip(*(row[1:-1] for row in same_step), strict=True)
        ]
        rows.append([step, "stage", str(tuple(rank.number for rank in ranks)), *slowest])
    return csv_bytes([_HEADER, *rows])


def _of_step(rank: Rank, step: int) -> list[Collective]:
    return [one for one in rank.collectives if one.step == step]


def _communication(truth: Truth, ranks: tuple[Rank, ...]) -> dict[str, object]:
    document: dict[str, object] = {}
    for step in ranks[0].steps:
        operations: dict[str, dict[str, object]] = {}
        for rank in ranks:
            for name, entry in output.with_total(truth, _of_step(rank, step.number)).items():
                operations.setdefault(name, {})[str(rank.number)] = entry
        document[f"step{step.number}"] = operations
    return document


def _matrix(truth: Truth, ranks: tuple[Rank, ...]) -> dict[str, object]:
    document: dict[str, object] = {}
    for step in ranks[0].steps:
        operations: dict[str, dict[str, object]] = {}
        for rank in ranks:
            for place, link, entry in output.matrix_entries(truth, _of_step(rank, step.number)):
                plain = {key: value for key, value in entry.items() if key != "Op Name"}
                name = "Total Op Info" if place == "total" else f"allreduce-{place}@{truth.group}"
                operations.setdefault(name, {})[link] = plain
        document[f"step{step.number}"] = operations
    return document
