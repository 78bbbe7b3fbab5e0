"""Queries in SQL, of `perfguard sql` and of users' checks: put together by chance of what DuckDB knows."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.fuzz.documents import RECORDING
from tests.fuzz.values import TEXTS

#: Statements and functions that reach out of the tables, or could.
_REACHING = (
    "copy spans to 'out.csv'",
    "attach 'a.db'",
    "install httpfs",
    "load httpfs",
    "set memory_limit = '9GB'",
    "pragma database_list",
    "select * from read_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from glob('/*')",
    "select getenv('HOME')",
    "select * from read_text('pyproject.toml')",
    "create table t as select 1",
    "drop table spans",
    "export database 'd'",
    "checkpoint",
    "set lock_configuration = false",
    "call pragma_version()",
    "select * from duckdb_settings()",
    "from spans; copy spans to 'x'",
    "select * from sniff_csv('/etc/passwd')",
    "select query('select 1')",
    "prepare p as select 1",
    "use memory",
    "explain analyze from spans",
)
_FUNCTIONS = (
    "length({})",
    "repeat('ab', {})",
    "lpad('a', {}, 'b')",
    "range({})",
    "list_sum(range({}))",
    "printf('%{}d', 1)",
    "hash({})",
    "regexp_replace(repeat('a', {}), '(a+)+$', 'b')",
    "json_extract('[1]', '$[{}]')",
    "array_slice([1, 2], 1, {})",
    "2 ** {}",
    "cast({} as varchar)",
    "cast('{}' as double)",
    "to_json({})",
    "md5(repeat('x', {}))",
    "factorial({})",
    "{}::hugeint * {}::hugeint",
    "list_transform(range({}), lambda x: x || 'a')",
    "unnest(range({}))",
    "string_split(repeat('a,', {}), ',')",
    "date '2026-01-01' + {}",
)
_SIZES = ("0", "1", "-1", "7", "1000", "100000", "10000000", "4000000000", "99999999999999999999", "NULL", "1e308")


def queried(rng: random.Random, folder: Path) -> list[Sequence[str]]:
    """Write a recording and return a query of it, or a check that asks it."""
    shutil.copytree(RECORDING, folder / "run")
    query = _query(rng)
    if rng.random() < 0.5:
        form = rng.choice(("table", "csv", "json"))
        return [["sql", "run", query, "--format", form, "--timeout", "3"]]
    message = rng.choice(
        ("{x}", "{cycle} {x:.1f}", "{x:>99}", "{x.__class__}", "{x!r:9}", "{", "{x:>999999}", "", rng.choice(TEXTS))
    )
    (folder / "checks.sql").write_text(_check(query, message.replace("\n", " ").replace("\r", " ")), "utf-8", "replace")
    return [["check", "run", "--checks", "checks.sql"]]


KINDS = {"queries": queried}


def _check(query: str, message: str) -> str:
    return f"-- check: mine\n-- code: U001\n-- message: {message}\n{query}\n"


@cache
def _tables() -> tuple[str, ...]:
    from perfguard.contract.open_tables import meanings

    return tuple(sorted(meanings()))


def _query(rng: random.Random) -> str:
    how = rng.randrange(6)
    table = rng.choice(_tables())
    called = rng.choice(_FUNCTIONS).replace("{}", rng.choice(_SIZES))
    if how == 0:
        return rng.choice(_REACHING)
    if how == 1:
        joined = " ".join(f"cross join {rng.choice(_tables())} t{number}" for number in range(rng.choice((1, 3, 40))))
        return f"select count(*) as x, min(t.cycle) as cycle from {table} t {joined}"
    if how == 2:
        return f"with recursive r as (select 1 as x union all select x + 1 from r) select x, {rng.randrange(3)} as cycle from r"
    if how == 3:
        text = rng.choice(TEXTS).replace("'", "''").replace("\0", "")
        return f"select *, '{text}' as x from {table}"
    if how == 4:
        return f"select {rng.choice(('cycle', 'null', '-1', '99', 'cycle::double', '0'))} as cycle, {called} as x from {table}"
    depth = rng.choice((1, 20, 2000))
    return f"select {'(' * depth}{called}{')' * depth} as x, 0 as cycle"
