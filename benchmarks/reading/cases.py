"""Which work is compared on which input: groups of candidates that do the same, or less, and the one all are measured by."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.reading.inputs import Input

ROOT = Path(__file__).parents[2]
_TRACE = {"torch": "artifacts/torch_trace", "ascend": "artifacts/trace_view.pt"}
_KERNELS = "artifacts/kernel_details.level1"
#: How many rows jsonschema checks one by one before its figure is extrapolated.
_SAMPLE = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way to do the work: the command, by the name it has in the table."""

    name: str
    command: tuple[str, ...]
    #: Exit statuses that are no failure (`perfguard compare` ends with 1 where something is worse).
    statuses: frozenset[int] = frozenset({0})
    #: Of how many rows the command takes a sample; its CPU time is then extrapolated.
    rows: int | None = None
    #: What it must have found, where it says so: as many rows as there are, and as many broken ones.
    expects: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One group of the table."""

    job: str
    title: str
    inputs: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    #: The candidate the others are divided by.
    reference: str
    #: At most so many times the reference, by candidate (from the issue); None asks for nothing.
    target: Mapping[str, float] = field(default_factory=dict)
    #: Megabytes the case reads.
    mb: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much is measured: sizes of traces in MB, rows of tables, numbers of ranks."""

    sizes: Sequence[float]
    rows: Sequence[int]
    ranks: Sequence[int]
    gpu_sizes: Sequence[float]


QUICK = Extent(sizes=(10,), rows=(50_000,), ranks=(1, 16), gpu_sizes=(10,))
FULL = Extent(sizes=(10, 100, 500, 1000), rows=(500_000, 5_000_000), ranks=(1, 64, 1024), gpu_sizes=(35, 200))

#: Groups that --only may name.
JOBS = ("trace", "trace-gz", "trace-bad", "gpu", "diff", "pair", "kernels", "kernels-bad", "ranks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the cases are made with: inputs by name, this Python, and that of the peers (None: they are left out)."""

    inputs: Mapping[str, Input]
    peers: Path | None
    #: A folder for what the candidates write.
    output: Path


def names(extent: Extent, jobs: Sequence[str], *, peers: bool) -> dict[str, tuple[str, ...]]:
    """Return, by job, the names of the inputs it needs."""
    sizes = [f"{size:g}" for size in extent.sizes]
    middle = _middle(extent)
    traces = [f"trace-{kind}-{size}" for kind in ("ascend", "torch") for size in sizes]
    small = [f"trace-{kind}-{size:g}" for kind in ("ascend", "torch") for size in extent.sizes if size <= 500]
    found = {
        "trace": tuple(traces),
        "trace-gz": tuple(name for one in small for name in (one, f"{one}-gz")),
        "trace-bad": tuple(f"trace-{kind}-{middle}{how}" for kind in ("ascend", "torch") for how in ("", "-bad")),
        "gpu": tuple(f"gpu-{size:g}" for size in extent.gpu_sizes) if peers else (),
        "diff": (f"gpu-{extent.gpu_sizes[0]:g}", f"gpu-{extent.gpu_sizes[0]:g}-other") if peers else (),
        "pair": ("pair-real", "pair-60") if peers else (),
        "kernels": tuple(f"kernels-{rows}" for rows in extent.rows),
        "kernels-bad": (f"kernels-{extent.rows[0]}", f"kernels-{extent.rows[0]}-bad"),
        "ranks": tuple(f"ranks-{ranks}" for ranks in extent.ranks),
    }
    return {job: found[job] for job in jobs}


def _middle(extent: Extent) -> str:
    return f"{100 if 100 in extent.sizes else extent.sizes[0]:g}"


def cases(extent: Extent, jobs: Sequence[str], bench: Bench) -> Iterator[Case]:
    """Yield every group of the jobs asked for; those of peers only where there are any."""
    needed = names(extent, jobs, peers=bench.peers is not None)
    for job, wanted in needed.items():
        if wanted:
            yield from _CASES[job](bench, wanted)


def _job(name: str, function: str, given: Input, *arguments: str) -> Candidate:
    command = (sys.executable, "-m", "benchmarks.reading.jobs", function, str(given.paths[0]), *arguments)
    expects = {key: given.facts[key] for key in ("rows", "bad") if key in given.facts}
    return Candidate(name=name, command=command, expects=expects)


def _sampled(name: str, function: str, given: Input, schema_name: str) -> Candidate:
    return replace(
        _job(name, function, given, schema_name, str(_SAMPLE)), rows=given.facts["rows"], expects={"sampled": _SAMPLE}
    )


def _perfguard(name: str, *arguments: str | Path, statuses: frozenset[int] = frozenset({0})) -> Candidate:
    return Candidate(name=name, command=(sys.executable, "-m", "perfguard", *map(str, arguments)), statuses=statuses)


def _megabytes(*inputs: Input) -> float:
    return sum(one.facts["bytes"] for one in inputs) / 1e6


def _traces(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    for name in wanted:
        given = bench.inputs[name]
        kind = name.split("-")[1]
        candidates = [
            _job("perfguard", "perfguard_trace", given, _TRACE[kind]),
            _job("orjson.loads", "orjson_loads", given),
            _job("json.load", "plain_json", given),
        ]
        if kind == "torch":
            candidates.insert(1, _perfguard("perfguard check --jobs 1", "check", "--jobs", "1", given.directory))
        if _megabytes(given) < 50:
            candidates.append(_sampled("orjson + jsonschema", "jsonschema_events", given, _TRACE[kind]))
        yield Case(
            job="trace",
            title=f"{kind} trace, {_megabytes(given):.0f} MB, {given.facts['rows']:,} events",
            inputs=(name,),
            candidates=tuple(candidates),
            reference="orjson.loads",
            target={"perfguard": 0.40 if kind == "ascend" else 0.25},
            mb=_megabytes(given),
        )


def _compressed(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    for plain, packed in zip(wanted[::2], wanted[1::2], strict=True):
        given = bench.inputs[packed]
        kind = plain.split("-")[1]
        yield Case(
            job="trace-gz",
            title=f"{kind} trace, {_megabytes(bench.inputs[plain]):.0f} MB, {_megabytes(given):.1f} MB as .gz",
            inputs=(plain, packed),
            candidates=(
                _job("perfguard, .gz", "perfguard_trace", given, _TRACE[kind]),
                _job("perfguard, plain", "perfguard_trace", bench.inputs[plain], _TRACE[kind]),
                _job("gzip + orjson.loads", "orjson_loads", given),
            ),
            reference="gzip + orjson.loads",
            mb=_megabytes(bench.inputs[plain]),
        )


def _bad_traces(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    for clean, bad in zip(wanted[::2], wanted[1::2], strict=True):
        kind = clean.split("-")[1]
        given = bench.inputs[bad]
        title = (
            f"{kind} trace, {_megabytes(given):.0f} MB, {given.facts['bad']:,} of {given.facts['rows']:,} events broken"
        )
        yield _beside_clean("trace-bad", title, bench, (clean, bad), "perfguard_trace", _TRACE[kind])


def _beside_clean(job: str, title: str, bench: Bench, names: tuple[str, str], function: str, schema_name: str) -> Case:
    """Return the case of a job on an input that is partly broken, beside the same input that is not."""
    clean, bad = (bench.inputs[name] for name in names)
    return Case(
        job=job,
        title=title,
        inputs=names,
        candidates=(
            _job("perfguard, broken", function, bad, schema_name),
            _job("perfguard, clean", function, clean, schema_name),
        ),
        reference="perfguard, clean",
        target={"perfguard, broken": 2.5},
        mb=_megabytes(bad),
    )


def _gpu(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    for name in wanted:
        given = bench.inputs[name]
        yield Case(
            job="gpu",
            title=f"GPU trace (made), {_megabytes(given):.0f} MB, {given.facts['rows']:,} events",
            inputs=(name,),
            candidates=(
                _job("perfguard", "perfguard_trace", given, _TRACE["torch"]),
                _perfguard("perfguard check", "check", given.directory),
                _peer(bench, "HTA: load, kernel breakdown", "hta_breakdown", given.directory),
                _job("orjson.loads", "orjson_loads", given),
            ),
            reference="HTA: load, kernel breakdown",
            target={"perfguard": 1 / 12 if _megabytes(given) < 100 else 1 / 20},
            mb=_megabytes(given),
        )


def _diff(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    one, other = (bench.inputs[name] for name in wanted)
    yield Case(
        job="diff",
        title=f"two GPU traces (made), {_megabytes(one):.0f} MB each",
        inputs=tuple(wanted),
        candidates=(
            _perfguard("perfguard compare", "compare", one.directory, other.directory, statuses=frozenset({0, 1})),
            _peer(bench, "HTA: TraceDiff", "hta_diff", one.directory, other.directory),
        ),
        reference="HTA: TraceDiff",
        target={"perfguard compare": 1 / 12},
        mb=_megabytes(one, other),
    )


def _pairs(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    assert bench.peers is not None
    for name in wanted:
        given = bench.inputs[name]
        first, second = map(str, given.paths)
        tool = str(bench.peers.with_name("msprof-analyze"))
        command = (tool, "compare", "-d", first, "-bp", second, "-o", str(bench.output), "--force")
        yield Case(
            job="pair",
            title=f"two Ascend directories ({given.facts['origin']}), {_megabytes(given):.0f} MB together",
            inputs=(name,),
            candidates=(
                _perfguard("perfguard compare", "compare", first, second, statuses=frozenset({0, 1})),
                Candidate(name="msprof-analyze compare", command=command),
            ),
            reference="msprof-analyze compare",
            target={"perfguard compare": 1 / 30},
            mb=_megabytes(given),
        )


def _peer(bench: Bench, name: str, function: str, *arguments: Path) -> Candidate:
    script = str(Path(__file__).with_name("peer_jobs.py"))
    return Candidate(name=name, command=(str(bench.peers), script, function, *map(str, arguments)))


def _kernels(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    for name in wanted:
        given = bench.inputs[name]
        rows = given.facts["rows"]
        yield Case(
            job="kernels",
            title=f"kernel_details.csv, {rows:,} rows, {_megabytes(given):.0f} MB",
            inputs=(name,),
            candidates=(
                _job("perfguard: validated", "perfguard_table", given, _KERNELS),
                _job("perfguard: with metrics", "perfguard_table_metrics", given, _KERNELS),
                _job("polars: the same columns", "polars_columns", given, _KERNELS),
                _job("polars: all as text", "polars_text", given),
                _sampled("jsonschema row by row", "jsonschema_rows", given, _KERNELS),
            ),
            reference="polars: the same columns",
            target={"perfguard: validated": 1.2, "perfguard: with metrics": 1.5},
            mb=_megabytes(given),
        )


def _bad_kernels(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    clean, bad = wanted
    facts = bench.inputs[bad].facts
    title = f"kernel_details.csv, {facts['bad']:,} of {facts['rows']:,} rows broken"
    yield _beside_clean("kernels-bad", title, bench, (clean, bad), "perfguard_table", _KERNELS)


def _ranks(bench: Bench, wanted: Sequence[str]) -> Iterator[Case]:
    for name in wanted:
        given = bench.inputs[name]
        yield Case(
            job="ranks",
            title=f"{name.split('-')[1]} ranks, {_megabytes(given):.1f} MB",
            inputs=(name,),
            candidates=(
                _perfguard("perfguard check", "check", given.directory),
                _job("the readers alone", "perfguard_readers", given, _TRACE["torch"]),
            ),
            reference="the readers alone",
            target={"perfguard check": 1.5},
            mb=_megabytes(given),
        )


_CASES = {
    "trace": _traces,
    "trace-gz": _compressed,
    "trace-bad": _bad_traces,
    "gpu": _gpu,
    "diff": _diff,
    "pair": _pairs,
    "kernels": _kernels,
    "kernels-bad": _bad_kernels,
    "ranks": _ranks,
}
