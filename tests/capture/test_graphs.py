"""Graphs saved by the real compiler on the CPU, each in a process of its own: levels, final graphs, failures, exactness."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from perfguard import UsageError
from perfguard.capture.replay import replay
from perfguard.capture.script import graph_variables
from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.measure import measure
from tests.cli import run
from tests.programs import run_program

SCRIPT = Path(__file__).parent / "scripts" / "ir_nets.py"

#: What a CPU of MindSpore 2.10 is given of the script's nets.
TRAINED = {
    "ApplyMomentum": 4,
    "AssignAdd": 1,
    "BiasAdd": 2,
    "BiasAddGrad": 2,
    "Depend": 7,
    "Load": 4,
    "MakeTuple": 3,
    "MatMul": 5,
    "ReLU": 1,
    "ReluGrad": 1,
    "Return": 1,
    "SparseSoftmaxCrossEntropyWithLogits": 2,
    "UpdateState": 6,
}
INFERRED = {"BiasAdd": 2, "Depend": 1, "Load": 4, "MakeTuple": 2, "MatMul": 2, "ReLU": 1, "Return": 1, "UpdateState": 1}


def needs_mindspore():
    pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")


def compiled(
    name: str,
    place: Path,
    *own: object,
    level: int | None = 1,
    python: str | Path = sys.executable,
    cores: int | None = None,
    fails: bool = False,
    **environment: str,
) -> Path:
    """Compile one net of the script in a fresh process, in a directory of its own; return where its graphs are."""
    graphs = place / "graphs"
    place.mkdir(parents=True, exist_ok=True)
    # What the script does itself goes without the environment variables.
    told = {} if level is None else graph_variables(graphs, level)
    limit = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))] if cores else []
    done = run_program(*limit, python, SCRIPT, name, *own, cwd=place, **told | environment)
    assert (done.returncode != 0) is fails, done.stderr[-3000:]
    return graphs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the graphs of a net, compiled once for all tests that only look at them."""
    needs_mindspore()
    places: dict[tuple[str, int], Path] = {}

    def made(name: str, level: int = 1) -> Path:
        if (name, level) not in places:
            places[name, level] = compiled(name, tmp_path_factory.mktemp(name), level=level)
        return places[name, level]

    return made


def errors(place: Path) -> list[tuple[str, str]]:
    return [(f.code.name, f.place) for f in inspect(replay(place)).findings if f.severity is Severity.ERROR]


@cache
def seen(place: Path) -> dict[str, object]:
    contract = inspect(replay(place))
    assert contract.findings == ()
    return {one.label: one.value for one in measure(contract)}


def measured(place: Path) -> dict[str, object]:
    """Return what is measured of graphs that nothing is wrong with, and that nobody changes."""
    return dict(seen(place))


def census(values: dict[str, object]) -> dict[str, object]:
    return {
        label[len("graph_operators[") : -1]: count
        for label, count in values.items()
        if label.startswith("graph_operators")
    }


# -- how it is switched on -------------------------------------------------------------------------------------------


def test_the_environment_says_level_and_place_and_takes_no_filter_over(tmp_path):
    assert graph_variables(tmp_path / "new", 3) == {
        "MS_DEV_SAVE_GRAPHS": "3",
        "MS_DEV_SAVE_GRAPHS_PATH": str(tmp_path / "new"),
        "MS_DEV_DUMP_IR_PASSES": "",
    }
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("level", [0, 4, -1, True, "1", 1.5, None])
def test_another_level_is_refused(tmp_path, level):
    with pytest.raises(UsageError, match=r"level must be 1, 2 or 3 .*, got "):
        graph_variables(tmp_path / "new", level)


# -- real output -----------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.slow
def test_every_level_is_clean_and_has_the_same_passes_graphs_and_operators(tmp_path, made):
    runs = {("environment", level): made("train", level) for level in (1, 2, 3)}
    runs["set_context", 3] = compiled("train", tmp_path / "3", 3, tmp_path / "3" / "graphs", level=None)
    found = {}
    for (way, level), graphs in runs.items():
        found[way, level] = measured(graphs)
        drawings, verbose = list(graphs.glob("*.dot")), list(graphs.glob("verbose_ir_files/*.ir"))
        assert (bool(verbose), bool(drawings)) == (level > 1, level > 2)
        details = found[way, level].pop("graph_pass_details", [])
        assert len(details) > (0, 20, 100)[level - 1] or level == 1
    first = found["environment", 1]
    assert all(one == first for one in found.values())
    assert census(first) == TRAINED
    assert {"validate", "execute", "graph_build", "opt_pass_merge_cast_opt"} <= set(first["graph_passes"])
    assert first["graph_compilations[mindspore_nn_wrap_cell_wrapper_TrainOneStepCell_construct]"] == 1


@pytest.mark.slow
@pytest.mark.exhaustive
def test_fresh_processes_and_cores_give_the_same_to_the_last_name(tmp_path, made):
    runs = [
        made("train"),
        compiled("train", tmp_path / "one core", cores=1, OMP_NUM_THREADS="1"),
        compiled("train", tmp_path / "all cores"),
    ]
    names = [sorted(path.relative_to(run).as_posix() for path in run.rglob("*")) for run in runs]
    assert len(names[0]) > 100
    for other in (1, 2):
        assert names[other] == names[0]
        assert measured(runs[other]) == measured(runs[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, built, compilations, operators",
    [
        ("infer", 1, {"__main___Net_construct": 1}, INFERRED),
        pytest.param(
            "infer-casts", 1, {"__main___Net_construct": 1}, INFERRED | {"Cast": 2}, marks=pytest.mark.exhaustive
        ),
        ("shapes", 2, {"__main___Net_construct": 2}, {name: 2 * count for name, count in INFERRED.items()}),
        pytest.param(
            "nets", 2, {"__main___Net_construct": 1, "__main___Other_construct": 1}, None, marks=pytest.mark.exhaustive
        ),
        pytest.param("loop", 5, {"__main___Loop_construct": 1}, None, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.variants(1)
def test_what_was_compiled_is_counted(made, name, built, compilations, operators):
    values = measured(made(name))
    assert values["graphs_built"] == built
    assert {label: count for label, count in values.items() if label.startswith("graph_compilations")} == {
        f"graph_compilations[{name}]": count for name, count in compilations.items()
    }
    assert operators is None or census(values) == operators


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_export_builds_nothing_and_is_counted_as_the_front_end_leaves_it(tmp_path):
    needs_mindspore()
    values = measured(compiled("export", tmp_path))
    assert "graphs_built" not in values
    assert census(values)["MatMul"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, found",
    [
        ("mismatched", [("C110", "00_bootstrap_0000.ir")]),
        pytest.param("mismatched-later", [("C110", "00_bootstrap_0098.ir")], marks=pytest.mark.exhaustive),
        pytest.param("missing", [("A102", "graph_build_0_*.ir")], marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_a_compilation_that_failed_is_found(tmp_path, name, found):
    needs_mindspore()
    graphs = compiled(name, tmp_path, fails=True)
    assert errors(graphs) == found
    assert run("check", graphs).exit_code == 3
    if name != "missing":
        # What MindSpore leaves beside the script, saved graphs or not.
        assert errors(tmp_path / "rank_0" / "om") == [("C110", "analyze_fail.ir")]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_other_order_of_a_dump_is_read_as_well(tmp_path, made):
    assert measured(compiled("loop", tmp_path, MS_DEV_SAVE_GRAPHS_SORT_MODE="1")) == measured(made("loop"))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_script_that_saves_graphs_itself_does_so_where_it_was_told(tmp_path):
    needs_mindspore()
    graphs = compiled("infer", tmp_path, 3, tmp_path / "own", level=1)
    assert list((tmp_path / "own").rglob("*.*")) == []
    assert errors(graphs) == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_one_more_net_in_the_same_place_is_seen_as_two_runs(tmp_path, made):
    for name in ("infer", "loop"):
        shutil.copytree(made(name), tmp_path / "both", dirs_exist_ok=True)
    assert {code for code, _ in errors(tmp_path / "both")} == {"I113"}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_damage_to_real_files_is_found(tmp_path, made):
    graphs = tmp_path / "graphs"
    # Of hundreds of files the few that are damaged, and what belongs to them: the rest only takes time.
    for path in made("infer", 3).rglob("*"):
        if path.is_file() and re.search(r"bootstrap|validate|graph_build|hwopt_common_final", path.name):
            copied = graphs / path.relative_to(made("infer", 3))
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copied)
    drawing = next(graphs.glob("*validate*.dot"))
    final = next(graphs.glob("graph_build_0_*.ir"))
    whole = {path: path.read_bytes() for path in (drawing, final)}
    text, drawn = whole[final].decode(), whole[drawing].decode()
    lines = text.splitlines(keepends=True)
    node = next(number for number, line in enumerate(lines) if line.startswith("  %3("))
    edge = next(line for line in drawn.splitlines() if "->" in line)
    damages = [
        (final, text[: len(text) // 2]),
        (final, "".join(lines[: node + 1])),
        (final, "".join(lines[:node] + lines[node + 1 :])),
        (final, ""),
        (drawing, drawn.replace(edge, edge.replace("->", "->gone"))),
        (drawing, drawn[:-2]),
        (drawing, ""),
    ]
    for path, damaged in damages:
        path.write_text(damaged)
        assert [code for code, _ in errors(graphs)] == ["S101"], damaged[-200:]
        path.write_bytes(whole[path])
    assert errors(graphs) == []
    final.unlink()
    assert errors(graphs) == [("A102", "graph_build_0_*.ir")]


# -- comparing -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_release_that_adds_casts_is_told_so(made):
    base, more, most = made("infer"), made("infer-casts"), made("infer-more-casts")
    found = run("compare", base, more)
    assert found.exit_code == 1
    assert "R104 graph_operators[Cast] is 2 operators, and the baseline has none" in found.stdout
    found = run("compare", more, most)
    assert found.exit_code == 1
    assert "R102 graph_operators[Cast] 2 → 4 operators, +2 (added work: +" in found.stdout
    assert [line.split()[0] for line in found.stdout.splitlines() if line.startswith("  R")] == ["R102"]
    found = run("ops", most, "--against", more)
    assert found.exit_code == 0
    assert found.stdout.splitlines()[2].split() == ["0", "Cast", "2", "4", "+2", "in", "final", "graphs"]
    assert found.stdout.splitlines()[-1] == "1 of 9 operators differ"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_pass_that_was_added_is_told_by_name(tmp_path, made):
    base = made("infer")
    more = Path(shutil.copytree(base, tmp_path / "more"))
    last = max(int(path.stem.rsplit("_", 1)[1]) for path in more.glob("[0-9]*.ir"))
    shutil.copy(next(more.glob("24_execute_*.ir")), more / f"25_prune_{last + 1:04d}.ir")
    found = run("compare", base, more)
    assert found.exit_code == 1
    assert "R102 graph_passes changed: + prune" in found.stdout


@pytest.mark.exhaustive
@pytest.mark.slow
def test_of_two_levels_what_both_saved_is_compared(made):
    low, high = made("infer", 1), made("infer", 3)
    up, down = run("compare", low, high), run("compare", high, low)
    assert (up.exit_code, down.exit_code) == (0, 1)
    assert "R104 (warning) graph_pass_details is" in up.stdout
    assert "R103 graph_pass_details was" in down.stdout
    assert [line for line in down.stdout.splitlines() if line.startswith("  R")][1:] == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_operators_that_run_are_those_of_the_final_graph(tmp_path):
    """The census of the compiler is that of the profiler, but for what holds the graph together and never runs."""
    needs_mindspore()
    options = json.dumps({"start": True, "output_path": str(tmp_path / "profile"), "activities": ["CPU"]})
    graphs = compiled("train", tmp_path, MS_PROFILER_OPTIONS=options)
    in_graphs = json.loads(run("ops", graphs, "--json").stdout)
    assert {one["operator"]: one["in_graphs"] for one in in_graphs} == TRAINED
    ran = json.loads(run("ops", tmp_path / "profile", "--json").stdout)
    glue = {"Depend", "Load", "MakeTuple", "Return", "UpdateState"}
    # The script trains two steps.
    expected = {name: 2 * count for name, count in TRAINED.items() if name not in glue}
    assert {one["operator"]: one["occurrences"] for one in ran} == expected


# -- MindSpore 2.0 ---------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.slow
def test_mindspore_2_0_saves_the_same_ways(tmp_path, environment):
    python, found = environment("mindspore-2.0.0"), {}
    for way, level in (("environment", 1), ("set_context", 3)):
        place = tmp_path / str(level)
        own = () if way == "environment" else (level, place / "graphs")
        graphs = compiled("infer", place, *own, level=level if way == "environment" else None, python=python)
        found[level] = measured(graphs)
        found[level].pop("graph_pass_details", None)
    assert found[1] == found[3]
    # It fuses a layer on some CPUs: seen with AVX-512, and not where AVX2 is the most.
    assert census(found[1]).get("MatMulBiasAddReluFusion") == 1 or census(found[1]) == INFERRED
    assert found[1]["graph_compilations[construct.Default]"] == 1


@pytest.mark.exhaustive
@pytest.mark.slow
def test_mindspore_2_0_that_failed_is_found(tmp_path, environment):
    python = environment("mindspore-2.0.0")
    front = compiled("mismatched", tmp_path / "front", python=python, fails=True)
    assert errors(front) == [("C110", "03_meta_unpack_prepare_0003.ir")]
    back = compiled("missing", tmp_path / "back", python=python, fails=True)
    assert errors(back) == [("A102", "graph_build_0_*.ir")]


# -- nothing is rewritten --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_looking_changes_no_file(made):
    few, many = made("infer"), made("infer", 3)
    before = hashes(few), hashes(many)
    for command in (("check", many), ("ops", few), ("ops", few, "--against", few), ("compare", few, few)):
        assert run(*command).exit_code == 0
    assert (hashes(few), hashes(many)) == before


def hashes(place: Path) -> dict[str, str]:
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }
