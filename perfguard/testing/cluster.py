"""cluster_analysis_output: the output of msprof-analyze for the directories of all ranks.

Format read on real output of msprof-analyze (msinsight test data).
"""

from __future__ import annotations

from perfguard.testing.ascend_communication import by_kind, matrix_entries, with_total
from perfguard.testing.ascend_steps import torch_step_rows
from perfguard.testing.databases import cluster_database
from perfguard.testing.formats import Files, below, columns, csv_bytes, json_bytes
from perfguard.testing.truth import Collective, Rank, Truth, of_step

_HEADER = columns(
    "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive)"
)


def cluster_files(truth: Truth, ranks: tuple[Rank, ...], *, communication: bool, text: bool, db: bool) -> Files:
    """Write the directory of one schedule cycle: times of steps, and with `communication` also its times and links.

    The database holds the times of steps only: the format of its other tables is not known well enough.
    """
    files: Files = {}
    if db:
        files["cluster_analysis.db"] = cluster_database(_step_times(ranks))
    if text:
        files["cluster_step_trace_time.csv"] = csv_bytes([_HEADER, *_step_times(ranks)])
    if text and communication:
        group = str(tuple(range(truth.world)))
        pairs = sorted({pair for rank in ranks if (pair := _neighbours(rank))})
        operations, links = ({group: of(truth, ranks, "collective")} for of in (_communication, _matrix))
        files |= {
            "cluster_communication.json": json_bytes(
                {"p2p": _communication(truth, ranks, "p2p") if pairs else {}, **operations}
            ),
            "cluster_communication_matrix.json": json_bytes(
                {"p2p": _matrix(truth, ranks, "p2p") if pairs else {}, **links}
            ),
            "communication_group.json": json_bytes({"collective": [list(range(truth.world))], "p2p": pairs}),
        }
    return below("cluster_analysis_output", files)


def _neighbours(rank: Rank) -> tuple[int, ...]:
    """Return the sender and the receiver that this rank is one of; nothing outside a pipeline."""
    links = (link for one in rank.collectives if one.is_point_to_point for link in one.links)
    return next((tuple(sorted((one.source, one.target))) for one in links if one.source != one.target), ())


def _step_times(ranks: tuple[Rank, ...]) -> list[list[object]]:
    rows: list[list[object]] = []
    by_rank = [torch_step_rows(rank, scheduled=True) for rank in ranks]
    for same_step in zip(*by_rank, strict=True):
        step = same_step[0][0]
        # The last column of a rank's own file, the time until its first task, is left out.
        rows += [[step, "rank", rank.number, *row[1:-1]] for rank, row in zip(ranks, same_step, strict=True)]
        slowest = [
            max(float(str(value)) for value in column) for column in zip(*(row[1:-1] for row in same_step), strict=True)
        ]
        rows.append([step, "stage", str(tuple(rank.number for rank in ranks)), *slowest])
    return rows


def _of_step(rank: Rank, step: int, kind: str) -> list[Collective]:
    return by_kind(of_step(rank.collectives, step))[kind]


def _communication(truth: Truth, ranks: tuple[Rank, ...], kind: str) -> dict[str, object]:
    document: dict[str, object] = {}
    for step in ranks[0].steps:
        operations: dict[str, dict[str, object]] = {}
        for rank in ranks:
            for name, entry in with_total(truth, _of_step(rank, step.number, kind)).items():
                operations.setdefault(name, {})[str(rank.number)] = entry
        document[f"step{step.number}"] = operations
    return document


def _matrix(truth: Truth, ranks: tuple[Rank, ...], kind: str) -> dict[str, object]:
    document: dict[str, object] = {}
    for step in ranks[0].steps:
        operations: dict[str, dict[str, object]] = {}
        for rank in ranks:
            for name, link, entry in matrix_entries(truth, _of_step(rank, step.number, kind)):
                plain = {key: value for key, value in entry.items() if key != "Op Name"}
                key = "Total Op Info" if name.endswith("-total") else f"{name}@{truth.group}"
                operations.setdefault(key, {})[link] = plain
        document[f"step{step.number}"] = operations
    return document
