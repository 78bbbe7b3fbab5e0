"""Places of a history: a file, and a real PostgreSQL server of the tests' own."""

from __future__ import annotations

import itertools

import pytest

from tests.postgres import Server, programs, running

_NAMES = (f"history{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def server() -> Server:
    """A server that runs; it is not to be stopped."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[postgres]'")
    if programs() is None:
        pytest.skip("PostgreSQL is not installed here: apt-get install postgresql")
    with running() as found:
        yield found


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path) -> str:
    """Where a history may lie: a file that is not there yet, or an empty database."""
    if request.param == "file":
        return str(tmp_path / "history.db")
    return request.getfixturevalue("server").made(next(_NAMES))
