"""The tables of the cycles and of their files, as checks see them."""

from __future__ import annotations

import pytest

from perfguard.artifacts.conditions import expectation
from perfguard.capture.replay import replay
from perfguard.contract import reduce
from perfguard.contract.own_checks import own_checks
from perfguard.testing import generate
from tests.cli import RECORDINGS

CHECK = "-- check: own\n-- code: U001\n-- needs: cycles\n-- message: {said}\n"


def said(place, directory, query, **how):
    """Return what a check says whose query has one column of its own."""
    (place / "own.sql").write_text(f"{CHECK}{query}\n", encoding="utf-8")
    contract = reduce(replay(directory), checks=own_checks([place / "own.sql"], place), **how)
    return [finding.message for finding in contract.findings if finding.check == "own"]


def test_a_cycle_has_a_row_however_many_are_read_together(tmp_path):
    query = (
        "select cycle, concat_ws(' ', recording, rank, layout, requested_steps, recorded_steps) as said "
        "from cycles where ends_with(place, '.pt.trace.json')"
    )
    assert said(tmp_path, RECORDINGS / "torch-repeat2", query) == ["torch-repeat2 0 pt-torch 2 2"] * 2


@pytest.mark.parametrize(
    "words, steps, numbers",
    [
        ([], "null", []),
        (["steps=3"], "3", []),
        (["collect_freq=10,max_file_size=99"], "null", ["collect_freq=10", "max_file_size=99"]),
    ],
)
@pytest.mark.variants(1)
def test_what_the_caller_requested(words, steps, numbers, tmp_path):
    generate("pt-npu", ranks=1, steps=2).write(tmp_path / "npu")
    for query, expected in (
        ("select cycle, requested_steps as said from cycles", [steps]),
        ("select cycle, name || '=' || number as said from requested_numbers order by said", numbers),
    ):
        assert said(tmp_path, tmp_path / "npu", query, expected=expectation(words)) == expected


def test_files_have_the_rank_in_their_names_and_their_size(tmp_path):
    generate("ms-2.0", ranks=2, steps=2).write(tmp_path / "flat")
    (file,) = (tmp_path / "flat").rglob("profiler_info_1.json")
    query = (
        "select cycle, concat_ws(' ', rank, file, bytes) as said from files where slot = 'profiler_info' and rank = 1"
    )
    assert said(tmp_path, tmp_path / "flat", query) == [f"1 0 {file.stat().st_size}"]


def test_a_file_that_breaks_its_schema_is_there_without_a_number(tmp_path):
    generate("pt-npu", ranks=1, steps=2).write(tmp_path / "npu")
    (file,) = (tmp_path / "npu").rglob("op_statistic.csv")
    file.write_text("nothing\n", encoding="utf-8")
    query = "select cycle, name as said from files where file is null and bytes = 8"
    assert said(tmp_path, tmp_path / "npu", query) == ["op_statistic.csv"]
