"""The inputs of the benchmark, by name: each is made once in the scratch folder, by a process of its own.

Names: `trace-ascend-100`, `trace-torch-100` (MB), with `-gz` or `-bad` behind; `kernels-500000` (rows), `kernels-500000-bad`;
`ranks-64`; `gpu-35` and `gpu-35-other` (MB, two runs of one model); `pair-real`, `pair-60` (two Ascend ranks; steps).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reading import scaling, sources

ROOT = Path(__file__).parents[2]
MB = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input: its directory, the file that matters in it (the directory itself where there are several), and facts."""

    name: str
    directory: Path
    paths: tuple[Path, ...]
    facts: dict[str, Any]


def prepared(name: str, scratch: Path) -> Input:
    """Return an input, made now where it is not there yet. Raises `CalledProcessError` where it cannot be made."""
    directory = scratch / name
    if not (directory / "facts.json").is_file():
        # In a process of its own: a measured process begins with the peak memory of the one that started it.
        subprocess.run(
            [sys.executable, "-m", "benchmarks.reading.inputs", name, str(scratch)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
    facts = json.loads((directory / "facts.json").read_text(encoding="utf-8"))
    paths = tuple(directory / "data" / one if one else directory / "data" for one in facts.pop("paths"))
    return Input(name=name, directory=directory / "data", paths=paths, facts=facts)


def make(name: str, scratch: Path) -> None:
    """Make an input in the scratch folder. Raises `ValueError` for a name that stands for none."""
    for pattern, maker in _MAKERS.items():
        if match := re.fullmatch(pattern, name):
            made = scratch / f"{name}.part"
            shutil.rmtree(made, ignore_errors=True)
            (made / "data").mkdir(parents=True)
            facts = maker(made / "data", scratch / "sources", **match.groupdict())
            (made / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
            shutil.rmtree(scratch / name, ignore_errors=True)
            made.rename(scratch / name)
            return
    raise ValueError(f"{name} is no input; they are: {', '.join(_MAKERS)}")


def _trace(target: Path, scratch: Path, kind: str, mb: str, variant: str | None) -> dict[str, Any]:
    source = sources.ascend_trace(scratch) if kind == "ascend" else sources.torch_trace(scratch)
    trace = scaling.Trace(source.path.read_text(encoding="utf-8"))
    repetitions = trace.repetitions_of(int(float(mb) * MB))
    name = "trace_view.json"
    if kind == "torch":
        name = scaling.named_after_its_end(source.path.name, trace, repetitions)
    name += ".gz" if variant == "gz" else ""
    written = trace.write(target / name, repetitions=repetitions, bad=variant == "bad", compress=variant == "gz")
    return {"paths": [name], "origin": source.origin, **written.as_dict()}


def _kernels(target: Path, scratch: Path, rows: str, variant: str | None) -> dict[str, Any]:
    source = sources.ascend_kernels(scratch)
    written = scaling.scale_kernels(source.path, target / "kernel_details.csv", int(rows), bad=variant == "bad")
    return {"paths": ["kernel_details.csv"], "origin": source.origin, **written.as_dict()}


def _ranks(target: Path, scratch: Path, ranks: str) -> dict[str, Any]:
    source = sources.small_torch_trace(scratch)
    text = source.path.read_text(encoding="utf-8")
    world = int(ranks)
    size = rows = 0
    for rank in range(world):
        group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": world, "ranks": []}
        told = {"backend": "gloo", "rank": rank, "world_size": world, "pg_count": 1, "pg_config": [group]}
        told_text = f'"schemaVersion": 1,\n    "distributedInfo": {json.dumps(told)},'
        trace = scaling.Trace(re.sub(r'"schemaVersion": ?1,', lambda _, own=told_text: own, text, count=1))
        # Every rank begins a microsecond later: no two files are the same.
        name = f"rank{rank}.{scaling.named_after_its_end(source.path.name, trace, 1, rank).partition('.')[2]}"
        written = trace.write(target / name, repetitions=1, lead=rank)
        size, rows = size + written.bytes, rows + written.rows
    return {"paths": [""], "origin": source.origin, "bytes": size, "rows": rows, "bad": 0}


def _gpu(target: Path, scratch: Path, mb: str, other: str | None) -> dict[str, Any]:
    source = sources.gpu_trace(scratch, lasts=1.05 if other else 1.0)
    trace = scaling.Trace(source.path.read_text(encoding="utf-8"))
    repetitions = trace.repetitions_of(int(float(mb) * MB))
    name = scaling.named_after_its_end(source.path.name, trace, repetitions)
    written = trace.write(target / name, repetitions=repetitions)
    return {"paths": [name], "origin": source.origin, **written.as_dict()}


def _pair(target: Path, scratch: Path, steps: str) -> dict[str, Any]:
    if steps == "real":
        ranks = sources.ascend_ranks(scratch)
    else:
        ranks = sources.generated_ascend_ranks(scratch / f"ascend-{steps}", steps=int(steps))
    for rank in ranks:
        # What a test corpus holds may be read-only, and nobody else's tool may write there.
        shutil.copytree(rank.path, target / rank.path.name, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o640)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return {"paths": [rank.path.name for rank in ranks], "origin": ranks[0].origin, "bytes": size}


_MAKERS: dict[str, Callable[..., dict[str, Any]]] = {
    r"trace-(?P<kind>ascend|torch)-(?P<mb>[0-9.]+)(?:-(?P<variant>gz|bad))?": _trace,
    r"kernels-(?P<rows>[0-9]+)(?:-(?P<variant>bad))?": _kernels,
    r"ranks-(?P<ranks>[0-9]+)": _ranks,
    r"gpu-(?P<mb>[0-9.]+)(?:-(?P<other>other))?": _gpu,
    r"pair-(?P<steps>real|[0-9]+)": _pair,
}


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
