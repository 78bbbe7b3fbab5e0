"""Queries that would take all time or memory, each as one column of one row or more; `sql` and users' checks end them."""

from __future__ import annotations

_JOINED = " join ".join(["spans s0", *(f"spans s{number} on s{number}.row = s0.row" for number in range(1, 300))])

#: On a busy machine the limit of time may be met before any other.
LATE = "it takes longer"

#: By name: the query, and the words of its refusal.
HOSTILE: dict[str, tuple[str, tuple[str, ...]]] = {
    "recursion": (
        "with recursive t as (select 1 as x union all select x + 1 from t) select count(*) from t",
        (),
    ),
    "recursion of texts": (
        "with recursive t as (select 1 as x, 'a' as s union all select x + 1, s || s from t where x < 60) "
        "select length(max(s)) from t",
        ("it needs more memory",),
    ),
    "repeat": ("select length(repeat('x', 4_000_000_000))", ("it needs more memory",)),
    "repeat in rows": ("select repeat('x', 100_000_000) from range(1000)", ("it needs more memory",)),
    "lpad": ("select length(lpad('a', 2_000_000_000, 'b'))", ("it needs more memory",)),
    "printf": ("select printf('%999999999d', 1)", ("it needs more memory",)),
    "format": ("select format('{:>999999999}', 'a')", ("it needs more memory",)),
    "concatenation": (
        f"select length({' || '.join(['repeat(chr(120), 10_000_000)'] * 60)})",
        ("it needs more memory",),
    ),
    "string_agg": ("select string_agg(repeat('x', 1_000_000), '') from range(10_000)", ("it needs more memory",)),
    "translate": ("select length(translate(repeat('a', 200_000_000), 'a', 'b'))", ("it needs more memory",)),
    "split": ("select len(string_split(repeat('a,', 100_000_000), ','))", ("it needs more memory",)),
    "distance": (
        "select sum(levenshtein(repeat('a', 30_000), repeat('b', 30_000) || x)) from range(50) t(x)",
        (),
    ),
    "distance in memory": (
        "select damerau_levenshtein(repeat('ab', 20_000), repeat('ba', 20_000))",
        ("it needs more memory",),
    ),
    "pattern": (
        "select len(regexp_extract_all(repeat('ab', 50_000_000), '.'))",
        ("it needs more memory",),
    ),
    "many rows": ("select x from range(10_000_000_000) t(x)", ()),
    "list_resize": ("select len(list_resize([1], 1_000_000_000, 7))", ("it needs more memory",)),
    "series": ("select count(*) from generate_series(1, 1_000_000_000_000_000_000)", ()),
    "series in a list": ("select generate_series(1, 1_000_000_000_000)", ("Lists larger than",)),
    "list of rows": ("select list(x) from range(1_000_000_000) t(x)", ("it needs more memory",)),
    "unnest": ("select unnest(range(1_000_000_000))", ("it needs more memory",)),
    "map": ("select map(range(20_000_000), range(20_000_000))", ("it needs more memory",)),
    "zip": ("select list_zip(range(50_000_000), range(50_000_000))", ("it needs more memory",)),
    "distinct": ("select count(distinct x) from range(1_000_000_000) t(x)", ()),
    "sort": ("select x from range(300_000_000) t(x) order by hash(x)", ()),
    "window": (
        "select max(r) from (select row_number() over (order by hash(x)) as r from range(200_000_000) t(x))",
        (),
    ),
    "cross join": ("select count(*) from spans a, spans b, spans c, spans d", ()),
    "300 joins": (f"select count(*) from {_JOINED}", ("it needs more memory",)),
    "15 000 unions": (" union all ".join(["select 1"] * 15_000), ("it needs more memory",)),
    "50 000 columns": (
        f"select len([{', '.join(f'c{number}' for number in range(50_000))}]) from (select "
        f"{', '.join(f'{number} as c{number}' for number in range(50_000))})",
        ("it needs more memory",),
    ),
    "20 000 brackets": (f"select {'(' * 20_000}1{')' * 20_000}", ("Max expression depth",)),
    "JSON": (
        "select length(json_array(repeat('x', 100_000_000), repeat('x', 100_000_000))::text)",
        ("it needs more memory",),
    ),
    "JSON tree": (
        "select count(*) from json_tree('[' || repeat('1,', 20_000_000) || '1]')",
        ("it needs more memory",),
    ),
    "decimal": ("select 99999999999999999999::decimal(38, 0) * 99999999999999999999::decimal(38, 0)", ("Overflow",)),
    "nested value": (f"select {'{a: ' * 500}1{'}' * 500}", ("nested too deep",)),
    "environment": ("select getenv('HOME')", ("getenv does not exist",)),
    "file": ("select content from read_text('/etc/passwd')", ("it can read these tables, and nothing else",)),
    "secrets": ("select name from duckdb_secrets()", ("it can read these tables, and nothing else",)),
}
