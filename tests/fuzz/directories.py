"""Directories that a profiler wrote, and recordings: damaged in bytes, lines, cells, values, names, links and packing."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

from perfguard.errors import UsageError
from perfguard.testing import LAYOUTS, generate
from tests.fuzz.values import NUMBERS, TEXTS, json_value

RECORDINGS = Path(__file__).resolve().parent.parent / "data" / "recordings"
_CONDITIONS: tuple[dict[str, bool], ...] = (
    {},
    {},
    {"text": False, "db": True},
    {"gpu": True},
    {"dot": True},
    {"npu": True, "cpu_device": False},
)
#: Larger JSON documents are damaged as bytes.
_JSON_BYTES = 1024**2
#: Damages the directory, or returns without having done so.
Damage = Callable[[random.Random, Path], None]
DAMAGES: list[Damage] = []


def damaged(rng: random.Random, folder: Path) -> list[Sequence[str]]:
    """Write a right directory or recording, damage it up to four times, and return what reads it."""
    place = folder / "run"
    shutil.copytree(_right(rng.choice(_kinds())), place, symlinks=True)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(DAMAGES)(rng, place)
    commands: list[Sequence[str]] = [
        ["check", "run", "--jobs", "1", *rng.choice(((), ("--explain",), ("--metrics",), ("--json",)))]
    ]
    if rng.random() < 0.33:
        commands.append(
            rng.choice(
                (
                    ["sql", "run", "--tables"],
                    ["ops", "run"],
                    ["report", "run", "--html", "../tmp/page.html"],
                    ["check", "run", "--verbose"],
                )
            )
        )
    return commands


KINDS = {"directories": damaged}


@cache
def _kinds() -> tuple[tuple[str, int], ...]:
    recordings = [(one.name, -1) for one in sorted(RECORDINGS.iterdir()) if one.is_dir()]
    return (*recordings * 2, *((layout, number) for layout in sorted(LAYOUTS) for number in range(len(_CONDITIONS))))


@cache
def _place() -> Path:
    place = tempfile.mkdtemp(prefix="fuzz-right-")
    return Path(place)


@cache
def _right(kind: tuple[str, int]) -> Path:
    """Return a right directory, which is written once."""
    name, number = kind
    if number < 0:
        return RECORDINGS / name
    place = _place() / f"{name}-{number}"
    for conditions in (_CONDITIONS[number], {}):
        with suppress(UsageError):
            shutil.rmtree(place, ignore_errors=True)
            generate(name, seed=1, ranks=1 + number % 2, conditions=conditions).write(place)
            return place
    raise ValueError(name)


def damage(one: Damage) -> Damage:
    """Register a damage."""
    DAMAGES.append(one)
    return one


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file() and not path.is_symlink())


def _file(rng: random.Random, place: Path, *endings: str) -> Path | None:
    """Return one of the files, those that are read more often."""
    files = [path for path in _files(place) if not endings or path.name.endswith(endings)]
    return rng.choice(files) if files else None


def _change(rng: random.Random, place: Path, change: Callable[[bytes], bytes], *endings: str) -> None:
    if (path := _file(rng, place, *endings)) is not None:
        path.write_bytes(change(path.read_bytes()))


@damage
def bytes_of_a_file(rng: random.Random, place: Path) -> None:
    def change(raw: bytes) -> bytes:
        new = bytearray(raw)
        for _ in range(rng.choice((1, 1, 3, 30))):
            at = rng.randrange(len(new) + 1)
            what = rng.randrange(4)
            if what == 0 and at < len(new):
                new[at] ^= 1 << rng.randrange(8)
            elif what == 1:
                new[at:at] = rng.randbytes(rng.choice((1, 2, 16)))
            elif what == 2:
                del new[at : at + rng.choice((1, 2, 100))]
            else:
                new[at : at + 8] = bytes(8)
        return bytes(new)

    _change(rng, place, change)


@damage
def a_part_of_a_file(rng: random.Random, place: Path) -> None:
    def change(raw: bytes) -> bytes:
        at, to = sorted((rng.randrange(len(raw) + 1), rng.randrange(len(raw) + 1)))
        return rng.choice(
            (raw[:at], raw[at:], raw[:at] + raw[to:], raw + raw[at:to], b"", raw + raw, raw[:at] + bytes(to - at))
        )

    _change(rng, place, change)


@damage
def lines(rng: random.Random, place: Path) -> None:
    def change(raw: bytes) -> bytes:
        rows = raw.split(b"\n")
        for _ in range(rng.choice((1, 1, 4))):
            at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
            what = rng.randrange(6)
            if what == 0 and len(rows) > 1:
                del rows[at]
            elif what == 1:
                rows.insert(at, rows[other])
            elif what == 2:
                rows[at], rows[other] = rows[other], rows[at]
            elif what == 3:
                rows[at] += rng.choice((rows[other], b" ", b"\r", b",", b"x" * 100_000))
            elif what == 4:
                rows[at] = rows[at][: rng.randrange(len(rows[at]) + 1)]
            else:
                rows[at:at] = [rows[at]] * rng.choice((2, 50, 3000))
        return b"\n".join(rows)

    _change(rng, place, change, ".csv", ".txt", ".ir", ".dot", ".log", ".json")


@damage
def cells(rng: random.Random, place: Path) -> None:
    def change(raw: bytes) -> bytes:
        rows = raw.split(b"\n")
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.randrange(len(rows))
            separator = rng.choice((b",", b" ", b";"))
            parts = rows[at].split(separator)
            parts[rng.randrange(len(parts))] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
            rows[at] = separator.join(parts)
        return b"\n".join(rows)

    _change(rng, place, change, ".csv", ".txt", ".ir", ".dot", ".log")


@damage
def numbers(rng: random.Random, place: Path) -> None:
    def change(raw: bytes) -> bytes:
        found = list(re.finditer(rb"[0-9]+(?:\.[0-9]+)?", raw[: 4 * 1024**2]))
        for one in sorted(rng.sample(found, min(len(found), rng.choice((1, 2, 20)))), key=lambda one: -one.start()):
            raw = raw[: one.start()] + rng.choice(NUMBERS).encode() + raw[one.end() :]
        return raw

    _change(rng, place, change, ".csv", ".txt", ".json", ".ir", ".log")


@damage
def values_of_json(rng: random.Random, place: Path) -> None:
    if (path := _file(rng, place, ".json")) is None or path.stat().st_size > _JSON_BYTES:
        return
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    for _ in range(rng.choice((1, 1, 3))):
        document = _with_damage(rng, document)
    with suppress(RecursionError):
        text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _with_damage(rng: random.Random, document: Any) -> Any:
    """Return a document in which a value, a key or an element is another."""
    at = document
    while isinstance(at, dict | list) and at:
        key = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        inner = at[key]
        if not (isinstance(inner, dict | list) and inner) or rng.random() < 0.2:
            what = rng.randrange(4)
            if what == 0:
                del at[key]
            elif what == 1 and isinstance(at, dict):
                at[rng.choice(TEXTS)] = json_value(rng)
            elif what == 1:
                at.insert(key, inner)
            else:
                at[key] = json_value(rng)
            return document
        at = inner
    return json_value(rng)


@damage
def keys_that_are_twice(rng: random.Random, place: Path) -> None:
    def change(raw: bytes) -> bytes:
        found = list(re.finditer(rb'"[^"\\]*"\s*:\s*("[^"\\]*"|[-0-9.e]+|null|true)\s*,', raw[: 4 * 1024**2]))
        if not found:
            return raw
        one = rng.choice(found)
        return raw[: one.start()] + one[0] + raw[one.start() :]

    _change(rng, place, change, ".json")


@damage
def tables_of_a_database(rng: random.Random, place: Path) -> None:
    if (path := _file(rng, place, ".db")) is None:
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        for _ in range(rng.choice((1, 3))):
            table = rng.choice(tables)
            columns = [one[1] for one in database.execute(f'pragma table_info("{table}")')]
            column = rng.choice(columns)
            new = rng.choice((None, b"\0\xff", 2**62, -1, 1e308, float("inf"), *TEXTS))
            what = rng.randrange(6)
            if what == 0:
                database.execute(f'drop table "{table}"')
                tables.remove(table)
            elif what == 1:
                database.execute(f'alter table "{table}" drop column "{column}"')
            elif what == 2:
                database.execute(f'delete from "{table}" where rowid % {rng.randrange(1, 5)} = 0')
            elif what == 3:
                database.execute(f'insert into "{table}" select * from "{table}"')
            elif what == 4:
                database.execute(f'create view "{rng.choice(TEXTS)}" as select * from "{table}"')
            else:
                database.execute(f'update "{table}" set "{column}" = ? where rowid % {rng.randrange(1, 9)} = 0', (new,))
            database.commit()


def _entries(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if not path.is_symlink())


@damage
def names(rng: random.Random, place: Path) -> None:
    entries = _entries(place)
    if not entries:
        return
    path = rng.choice(entries)
    new = re.sub(r"[0-9]+", lambda _: rng.choice(NUMBERS), path.name) if rng.random() < 0.5 else rng.choice(TEXTS)
    new = new.replace("/", "_").replace("\0", "_")[:200]
    with suppress(OSError, ValueError):
        path.rename(path.with_name(new))


@damage
def places(rng: random.Random, place: Path) -> None:
    """Move, copy, swap and delete files and folders."""
    entries = _entries(place)
    if not entries:
        return
    one, other = rng.choice(entries), rng.choice(entries)
    what = rng.randrange(5)
    with suppress(OSError, shutil.Error):
        if what == 0 and one.is_file():
            one.unlink()
        elif what == 0:
            shutil.rmtree(one)
        elif what == 1 and one.is_file() and other.is_file():
            shutil.copy(one, other)
        elif what == 2 and other.is_dir():
            shutil.move(one, other)
        elif what == 3 and one.is_dir() and one not in other.parents:
            shutil.copytree(one, one.with_name(f"{one.name}_2"), symlinks=True)
        elif one.is_file():
            one.unlink()
            one.mkdir()


@damage
def links_and_pipes(rng: random.Random, place: Path) -> None:
    if (path := _file(rng, place)) is None:
        return
    target = rng.choice(
        ("/etc/passwd", "..", ".", path.name, "nowhere", str(place), "/dev/zero", "/dev/stdin", "other")
    )
    other = rng.choice(_files(place))
    path.unlink()
    what = rng.randrange(5)
    with suppress(OSError):
        if what == 0:
            os.mkfifo(path)
        elif what == 1 and other != path:
            os.link(other, path)
        elif what == 2 and other != path:
            path.symlink_to(os.path.relpath(other, path.parent))
        else:
            path.symlink_to(target)


@damage
def modes(rng: random.Random, place: Path) -> None:
    rng.choice(_entries(place) or [place]).chmod(rng.choice((0o000, 0o200, 0o400, 0o7777)))


@damage
def packing(rng: random.Random, place: Path) -> None:
    if (path := _file(rng, place)) is None:
        return
    raw = path.read_bytes()
    packed = gzip.compress(raw, 1)
    at = rng.randrange(len(packed) + 1)
    pieces: Iterable[bytes] = rng.choice(
        ([packed], [packed[:at]], [packed, packed], [packed, b"rubbish"], [packed, bytes(1000)], [raw],
         [gzip.compress(b""), packed], [b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 600_000 + b"\0", packed[10:]])
    )  # fmt: skip
    path.with_name(f"{path.name}.gz").write_bytes(b"".join(pieces))
    if rng.random() < 0.7:
        path.unlink()


@damage
def depth(rng: random.Random, place: Path) -> None:
    deep = place / "/".join(["d"] * rng.choice((2, 15, 17, 60)))
    deep.mkdir(parents=True, exist_ok=True)
    if (path := _file(rng, place)) is not None and rng.random() < 0.7:
        shutil.copy(path, deep)
    for number in range(rng.choice((0, 0, 300))):
        (deep / f"rank_{number}").mkdir(exist_ok=True)
