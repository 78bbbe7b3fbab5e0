"""The freeze: that no fact of a directory changed without a reason, and that its own parts would see it."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.frozen import run
from tests.frozen.mutants import mutant_of


@pytest.mark.slow
@pytest.mark.exhaustive
def test_no_fact_changed_without_a_reason(capsys):
    # All of them take three minutes of a processor: `python -m tests.frozen`, before and after a redesign.
    code = run.main(["--every", "4"])
    assert code == 0, capsys.readouterr().out


@given(st.binary(max_size=300), st.binary(max_size=300))
@example(b"", b"")
@example(b"aaa", b"aaaa")
def test_a_mutant_is_the_file_it_was_made_of(tmp_path_factory, old, new):
    folder = tmp_path_factory.mktemp("mutant")
    (folder / "a").write_bytes(old)
    (folder / "b.gz").write_bytes(gzip.compress(old))
    for path in ("a", "b.gz"):
        mutant_of(base="", what="", path=path, old=old, renamed=f"new-{path}", new=new).apply(folder)
    assert (folder / "new-a").read_bytes() == new
    assert gzip.decompress((folder / "new-b.gz").read_bytes()) == new
    assert not (folder / "a").exists()


def test_a_folder_that_a_mutant_empties_is_gone(tmp_path):
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "one" / "two" / "file").write_bytes(b"x")
    mutant_of(base="", what="", path="one/two/file", old=b"x", renamed="", new=b"x").apply(tmp_path)
    assert not (tmp_path / "one").exists()


def test_a_mutant_of_another_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"new")
    with pytest.raises(AssertionError, match="make mutants anew"):
        mutant_of(base="b", what="", path="a", old=b"old", renamed="a", new=b"x").apply(tmp_path)


FACTS = st.lists(st.sampled_from(["finding a", "finding b", "metric c = 1"]))


@given(FACTS, FACTS)
def test_facts_are_what_they_were_with_their_changes(old, new):
    assert run._changed(sorted(old), run._changes(old, new)) == sorted(new)


@pytest.mark.parametrize(
    "where, fact, place, change, expected",
    [
        ("*", "*", "recordings/torch-mlp", "+ metric a[b] = 1", True),
        ("corpus/*", "- finding * I107 *", "corpus/gpu/x", "- finding error I107 sum at a:1", True),
        ("corpus/*", "- finding * I107 *", "corpus/gpu/x", "+ finding error I107 sum at a:1", False),
        ("corpus/*", "- finding * I107 *", "generated/x", "- finding error I107 sum at a:1", False),
        # Brackets and dots are what they are.
        ("*", "+ metric a[b] = *", "x", "+ metric ab = 1", False),
    ],
)
def test_a_reason_covers_what_it_names(where, fact, place, change, expected):
    assert run.Meant(where=where, facts=(fact,), why="").covers(place, change) is expected
