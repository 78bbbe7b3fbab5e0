"""What another source tree says of damaged tables, beside what this one says: for rules that move, before they are frozen.

    git worktree add ../before COMMIT
    python -m tests.frozen.beside ../before [--files 'kernel_details*' 'l2_cache*'] [--count 200] [--seed 0]

Generated directories whose CSV tables are damaged, most of them so that they keep their schemas, are read by both trees. Every
fact (see `facts`) that is not the same is shown, with the directory it is in; exits 1 where there is one.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from perfguard.testing import generate
from perfguard.testing.generation import LAYOUTS

HERE = Path(__file__).parents[2]
_SAY = """
import json, sys
from pathlib import Path
from tests.frozen.facts import facts_of
told = {}
for place in sorted(Path(sys.argv[1]).iterdir()):
    try:
        told[place.name] = facts_of(place, None)
    except Exception as error:
        told[place.name] = [f"it ends with {error!r}"]
print(json.dumps(told))
"""
Rows = list[list[str]]


def _numbers(rows: Rows) -> list[int]:
    """Return the columns that hold a number somewhere."""
    return [at for at, cells in enumerate(zip(*rows, strict=True)) if any(_is_number(cell) for cell in cells)]


def _is_number(cell: str) -> bool:
    return cell.strip().replace(".", "", 1).isdigit()


def _cell(rows: Rows, random: Random) -> None:
    row, column = random.choice(rows), random.choice(_numbers(rows))
    row[column] = random.choice(["0", "1", "0.5", "77.25", "N/A", "", f"{row[column]}1"])


def _unit(rows: Rows, random: Random) -> None:
    column, factor = random.choice(_numbers(rows)), random.choice([1000, 0.001, 2, 10])
    for row in rows:
        row[column] = f"{float(row[column]) * factor:.6g}" if _is_number(row[column]) else row[column]


def _noise(rows: Rows, random: Random) -> None:
    column, share = random.choice(_numbers(rows)), random.choice([0.05, 0.15, 0.5])
    for row in rows:
        row[column] = f"{random.random() * 50:.3f}" if random.random() < share else row[column]


def _later(rows: Rows, random: Random) -> None:
    column, by = random.choice(_numbers(rows)), random.choice([1, 100, -1])
    for row in rows[random.randrange(len(rows)) :]:
        row[column] = f"{float(row[column]) + by:.3f}" if _is_number(row[column]) else row[column]


def _unknown(rows: Rows, random: Random) -> None:
    column = random.randrange(len(rows[0]))
    for row in rows:
        row[column] = "N/A"


def _other_column(rows: Rows, random: Random) -> None:
    to, of = random.randrange(len(rows[0])), random.randrange(len(rows[0]))
    for row in rows:
        row[to] = row[of]


def _swap(rows: Rows, random: Random) -> None:
    at = random.randrange(len(rows))
    rows[at], rows[at - 1] = rows[at - 1], rows[at]


def _twice(rows: Rows, random: Random) -> None:
    rows.insert(random.randrange(len(rows) + 1), list(random.choice(rows)))


def _lost(rows: Rows, random: Random) -> None:
    del rows[random.randrange(len(rows))]


DAMAGE: tuple[Callable[[Rows, Random], None], ...] = (
    _cell, _unit, _noise, _later, _unknown, _other_column, _swap, _twice, _lost,
)  # fmt: skip


def make(folder: Path, files: list[str], count: int, seed: int) -> None:
    """Write damaged directories into a folder."""
    layouts = sorted(LAYOUTS)
    number = 0
    while len(list(folder.iterdir())) < count:
        random = Random(f"{seed}-{number}")
        place = folder / f"{number:05d}"
        generate(
            random.choice(layouts), seed=number, ranks=random.choice([1, 1, 2]), operators=random.randint(5, 30)
        ).write(place)
        tables = sorted(path for one in files for path in place.rglob(one) if path.suffix == ".csv")
        if not tables:
            shutil.rmtree(place)
        for path in random.sample(tables, min(len(tables), 2)):
            header, *rows = csv.reader(io.StringIO(path.read_text(), newline=""))
            for damage in random.choices(DAMAGE, k=random.choice([0, 1, 1, 2])):
                if rows and (damage in (_swap, _twice, _lost, _unknown, _other_column) or _numbers(rows)):
                    damage(rows, random)
            out = io.StringIO(newline="")
            csv.writer(out, lineterminator="\n").writerows([header, *rows])
            path.write_text(out.getvalue(), newline="")
        number += 1


def said(tree: Path, folder: Path) -> dict[str, list[str]]:
    """Return the facts of every directory, as a source tree tells them."""
    done = subprocess.run(
        [sys.executable, "-c", _SAY, folder], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told: dict[str, list[str]] = json.loads(done.stdout)
    return told


def main() -> int:
    """Compare both trees."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("before", type=Path)
    asked.add_argument("--files", nargs="+", default=["*.csv"])
    asked.add_argument("--count", type=int, default=200)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), given.files, given.count, given.seed)
        before, now = said(given.before.resolve(), Path(folder)), said(HERE, Path(folder))
        for place, facts in before.items():
            gone, new = (sorted({*one} - {*other}) for one, other in ((facts, now[place]), (now[place], facts)))
            differing += bool(gone or new)
            for sign, changed in (("-", gone), ("+", new)):
                for fact in changed[:8]:
                    print(f"{place} {sign} {fact}")
    print(f"{differing} of {len(before)} directories are judged otherwise")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
