"""What the house promises of itself: what loads with what, and that every code is raised; who imports whom: import-linter."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import grimp
import pytest

from perfguard.findings import Code

TOP = Path(__file__).resolve().parent.parent
PACKAGE = TOP / "perfguard"
MODULES = sorted(PACKAGE.rglob("*.py"))
FRAMEWORKS = {"mindspore", "torch", "torch_npu"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(nodes) -> set[str]:
    """Return the modules that import statements among these nodes name."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def at_load(module: ast.Module) -> set[str]:
    """Return what a module imports when it is loaded: outside functions, and not for type checkers."""
    found: set[str] = set()
    pending: list[ast.stmt] = list(module.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= imports([node])
        elif isinstance(node, ast.If):
            for_types = "TYPE_CHECKING" in ast.unparse(node.test)
            pending += node.orelse if for_types else [*node.body, *node.orelse]
        elif isinstance(node, (ast.Try, ast.With, ast.ClassDef)):
            pending += node.body
            pending += [s for handler in getattr(node, "handlers", []) for s in handler.body]
    return found


def roots(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def loaded_by(*modules: str) -> set[str]:
    """Return the top-level packages that are loaded in a fresh interpreter after importing modules."""
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True, cwd=TOP
    )
    return set(found.stdout.split())


# -- one way in ----------------------------------------------------------------------------------------------------------

#: The parsers that give Python objects, and the modules that may call them, each with what it parses. All else comes in by
#: `perfguard.inputs`, which bounds it.
PARSERS = {"json.load", "json.loads", "tomllib.load", "tomllib.loads", "yaml.load", "msgspec.json.decode"}
PARSE = {
    "perfguard.inputs": "documents",
    "perfguard.artifacts.readers.*": "a profiler's files, within bounds of their own",
    "perfguard.artifacts.excerpt": "a file that a reader has read",
    "perfguard.artifacts.table": "rows that a reader has read",
    "perfguard.artifacts.trace_rows": "rows that a reader has read",
    "perfguard.integrations.offline": "its own request; the result of an analyser, as one raw text",
    "perfguard.artifacts.layout": "what the package ships",
    "perfguard.contract.grid": "what the package ships",
    "perfguard.documents": "what the package, or the distribution of a dialect, ships",
    "perfguard.findings": "what the package ships",
    "perfguard.testing.*": "what the package ships",
    "perfguard.validator": "a schema",
    "perfguard.plugin.*": "what perfguard's own processes write for each other, and pip's metadata",
    "perfguard.version": "pip's metadata of this package",
    "perfguard.child": "what perfguard's own processes write for each other",
    "perfguard.cli.run": "a value of the command line",
    "perfguard.capture.*": "what perfguard's own processes write for each other",
}


def parsers_in(path: Path) -> set[str]:
    """Return the parsers that a module names, also in the text of a program that it starts."""
    texts = [
        node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    names = [ast.unparse(node) for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)]
    return {one for one in PARSERS if one in names or any(f"{one}(" in text for text in texts)}


def test_every_other_document_comes_in_by_one_module():
    parsing = {name_of(path) for path in MODULES if parsers_in(path)}
    allowed = {pattern: {name for name in parsing if fnmatch(name, pattern)} for pattern in PARSE}
    assert parsing == set().union(*allowed.values())
    assert [pattern for pattern, names in allowed.items() if not names] == []


# -- what loads with what ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("module", ["perfguard", "perfguard.plugin", "perfguard.plugin.collision", "perfguard.cli"])
@pytest.mark.variants(2)
def test_what_is_always_loaded_loads_nothing_heavy(module):
    heavy = {"polars", "numpy", "pandas", "jsonschema", "msgspec", "tabulate", "filelock"} | FRAMEWORKS
    assert loaded_by(module) & heavy == set()


@pytest.mark.slow
def test_no_module_loads_a_framework():
    assert loaded_by(*[name_of(path) for path in MODULES if path.name != "__main__.py"]) & FRAMEWORKS == set()


@pytest.mark.slow
def test_everything_but_the_plugin_works_without_pytest():
    modules = [name_of(path) for path in MODULES if "plugin" not in path.parts and path.name != "__main__.py"]
    assert "pytest" not in loaded_by(*modules)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_help_loads_nothing_heavy(arguments):
    code = "import sys, perfguard.cli\ntry:\n perfguard.cli.main()\nfinally:\n print(*sys.modules, file=sys.stderr)"
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=600, check=True
    )
    assert roots(set(found.stderr.split())) & ({"polars", "numpy", "pytest", "jsonschema"} | FRAMEWORKS) == set()


# -- who starts programs -------------------------------------------------------------------------------------------------

#: What starts a program, or names the Python to start. A browser is the user's own.
STARTING = re.compile(
    r"(subprocess|multiprocessing|asyncio|pty|joblib|webbrowser)(\..*)?|(concurrent\.futures\.)?ProcessPoolExecutor"
    r"|os\.(system|popen|fork\w*|exec\w+|spawn\w+|posix_spawnp?)|sys\.(executable|orig_argv)"
)


def starters(module: ast.Module) -> set[str]:
    """Return what a module uses of all that can start a program."""
    nodes = list(ast.walk(module))
    named = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    taken = {
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return {name for name in imports(nodes) | named | taken if STARTING.fullmatch(name)}


def test_programs_are_started_in_one_module():
    """So that there is one rule for what they may import, and one way in which they end."""
    found = {name_of(path): starters(tree(path)) for path in MODULES}
    assert {name for name, used in found.items() if used} == {
        "perfguard.child",
        "perfguard.cli.report",
        "perfguard.fork",
    }
    assert found["perfguard.cli.report"] == {"webbrowser", "webbrowser.open"}
    # A copy of this process runs no program.
    assert found["perfguard.fork"] == {"os.fork"}


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess",
        "from subprocess import run",
        "def f():\n    import multiprocessing.pool",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor(2)",
        "import os\nos.execv('a', [])",
        "from os import posix_spawn",
        "import sys\nsys.executable",
    ],
)
def test_every_way_to_start_a_program_is_seen(text):
    assert starters(ast.parse(text))


# -- who imports whom ----------------------------------------------------------------------------------------------------


def test_a_framework_is_imported_in_functions_of_capture_and_integrations_only():
    importing = {path for path in MODULES if roots(imports(ast.walk(tree(path)))) & FRAMEWORKS}
    assert [path for path in importing if not {"capture", "integrations"} & set(path.parts)] == []
    assert [path for path in importing if roots(at_load(tree(path))) & FRAMEWORKS] == []


def test_no_modules_import_each_other_in_a_circle():
    graph = grimp.build_graph("perfguard", exclude_type_checking_imports=False, cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imported).prepare()  # raises CycleError, which names a circle


@pytest.mark.exhaustive
def test_pandas_is_never_imported():
    assert [path for path in MODULES if "pandas" in roots(imports(ast.walk(tree(path))))] == []


@pytest.mark.parametrize("name", ["__init__.py", "collision.py"])
def test_the_plugins_entry_imports_pytest_and_the_standard_library_only(name):
    found = roots(at_load(tree(PACKAGE / "plugin" / name)))
    assert found <= {"pytest"} | set(sys.stdlib_module_names)


# -- where temporary folders are ------------------------------------------------------------------------------------------

#: What makes temporary folders and files, and why not in scratch.py, which deletes what killed processes left.
TEMPORARY = {
    "perfguard.scratch": "this is it",
    "perfguard.writing": "the neighbour of a file, with the same rule",
    "perfguard.integrations.offline": "a folder in its own; an output without a name",
    "perfguard.plugin.judging": "a recording that is kept, where the user says",
    "perfguard.plugin.options": "a file without a name",
}
_MAKES_TEMPORARY = re.compile(r"(tempfile\.)?(mkdtemp|mkstemp|(Named|Spooled)?Temporary(File|Directory)|mktemp)")


def test_temporary_folders_are_made_in_one_module():
    found = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and _MAKES_TEMPORARY.fullmatch(ast.unparse(node.func))
    }
    assert found == TEMPORARY.keys()


# -- one way out ----------------------------------------------------------------------------------------------------------

_OWN = "in a private directory of this process, which it deletes"
_OUTPUT = "the output of a process that was started, in a private directory"
_INJECTED = "runs in other environments, without perfguard, in a private directory of the process that started it"
#: The functions that write files by themselves, and why; all others call perfguard.writing.
WRITERS = {
    "perfguard.writing:write_atomically": "this is it",
    "perfguard.writing:_put": "its last step",
    "perfguard.writing:_neighbour": "this is it",
    "perfguard.writing:append": "what others append to as well cannot be replaced",
    "perfguard.writing:_replaced": "asks whether the file may be written, and writes nothing",
    "perfguard.artifacts.database:_connected": _OWN,
    "perfguard.fork:_be_copy": "writes to a pipe",
    "perfguard.fork:_be_quiet": "opens /dev/null",
    "perfguard.artifacts.readable:Readable.to_parquet": "to a file of that directory; from there it is written like any other",
    "perfguard.artifacts.readers.database:_opened": "reads a profiler's database (mode=ro)",
    "perfguard.artifacts.remote:RemoteTree._fetch_head": _OWN,
    "perfguard.artifacts.remote:RemoteTree.fetched": _OWN,
    "perfguard.capture.ab.sides:command_of": _OWN,
    "perfguard.capture.ab.sides:run_side": _OUTPUT,
    "perfguard.capture.ab.timing:_started": _OUTPUT,
    "perfguard.capture.injected.perfguard_bootstrap.recorder:StepRecorder.write": _INJECTED,
    "perfguard.capture.injected.sitecustomize:_begin": _INJECTED,
    "perfguard.capture.probe:_run": _OUTPUT,
    "perfguard.capture.probe:main": _OWN,
    "perfguard.capture.replay:replay_tree": _OWN,
    "perfguard.capture.script:_copy_output": "copies what the script's profiler wrote into a recording that it has made",
    "perfguard.capture.script:run_script": _OWN,
    "perfguard.capture.worktree:add_worktree": _OWN,
    "perfguard.cli:main": "opens /dev/null where standard output is closed",
    "perfguard.cli.calibrate:_one_run": _OUTPUT,
    "perfguard.cli.verdicts:alone": _OWN,
    "perfguard.integrations.offline:_linked": _OWN,
    "perfguard.integrations.offline:add_missing_info": "in its copy of the recording, only if there is none (O_EXCL)",
    "perfguard.integrations.offline:copy_recording": _OWN,
    "perfguard.integrations.offline:take_over": "moves the analyser's results into the recording, each whole",
    "perfguard.integrations.tools_part:claim": "an empty file that only one process can create (O_EXCL)",
    "perfguard.plugin.confirmation:Confirmation._compared": _OUTPUT,
    "perfguard.plugin.controlled:Round.__init__": _OWN,
    "perfguard.plugin.controlled:write_request": _OWN,
    "perfguard.plugin.rounds:Rounds._process": _OUTPUT,
    "perfguard.stores.history.database:_connected": "SQLite writes its file itself",
    "perfguard.testing.databases:_database": "a database in memory",
    "perfguard.testing.torch_trace:trace_file": "packs in memory",
    "perfguard.testing.generation:Tree.write": "generated output for tests, into a directory that the caller names",
}


#: Functions that make a file, or put one in its place, and methods of paths and frames that do.
_MAKES = re.compile(
    r"os\.(replace|renames?|link|symlink|mkfifo|mknod|truncate)|shutil\.(copy2?|copyfile|copytree|move|make_archive)"
    r"|tempfile\.(mkstemp|NamedTemporaryFile)|duckdb\.connect|sqlite3\.connect"
    r"|.*\.(write_text|write_bytes|touch|symlink_to|hardlink_to|to_csv|write_csv|write_parquet)"
)
_OPENS = re.compile(r"open|.*\.(open|fdopen|FileIO|GzipFile|BZ2File|LZMAFile|ZipFile)")
_TO_WRITE = re.compile(r"O_(WRONLY|RDWR|CREAT|APPEND|TRUNC)")


def _writes(call: ast.Call) -> bool:
    """Whether a call opens a file for writing, or puts one in its place."""
    name = ast.unparse(call.func)
    if _MAKES.fullmatch(name):
        return True
    if name == "os.open":
        return _TO_WRITE.search(ast.unparse(call)) is not None
    if _OPENS.fullmatch(name):
        modes = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "mode")] if name == "open" else []
        is_unknown = any(not isinstance(one, ast.Constant) for one in given)
        return is_unknown or any(re.fullmatch(r"[rbt]*[wax+][rwaxbt+]*", one) for one in modes)
    if name.endswith((".replace", ".rename")):  # of a path: that of a text has two arguments, that of a frame a dict
        return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Dict | ast.DictComp)
    return False


def writers(path: Path) -> dict[str, int]:
    """Return the functions of a module that write files, each with a line."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            is_named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if (isinstance(child, ast.Call) and _writes(child)) or (
                isinstance(child, ast.Constant) and isinstance(child.value, str) and "copy (" in child.value
            ):
                found[f"{name_of(path)}:{'.'.join(names)}"] = child.lineno
            visit(child, (*names, child.name) if is_named else names)

    visit(tree(path), ())
    return found


def test_files_are_written_in_one_place():
    found = {name: line for path in MODULES for name, line in writers(path).items()}
    assert sorted(found.keys() - WRITERS.keys()) == [], "write with perfguard.writing, or say why not"
    assert sorted(WRITERS.keys() - found.keys()) == [], "it writes no file any more"


@pytest.mark.parametrize(
    "line",
    [
        "open(path, 'w')", "open(path, mode='ab')", "open(path, mode)", "path.open('xb')", "path.write_text(text)",
        "os.fdopen(handle, 'w')", "os.open(path, os.O_WRONLY)", "shutil.copyfile(one, other)", "os.replace(one, other)",
        "one.replace(other)", "gzip.open(path, 'wb')", "path.touch()", "tempfile.mkstemp()", "path.rename(other)",
        "sqlite3.connect(path)", "gzip.open(path, 'at')", "f'copy ({query}) to {place}'", "open(path, 'r+b')",
    ],
)  # fmt: skip
def test_what_writes_is_seen(tmp_path, monkeypatch, line):
    monkeypatch.setattr(sys.modules[__name__], "TOP", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(f"def function():\n    {line}\n", encoding="utf-8")
    assert list(writers(path)) == ["module:function"]


@pytest.mark.parametrize(
    "line",
    ["open(path)", "open(path, 'rb')", "path.open(encoding='utf-8')", "text.replace('a', 'b')", "os.open(path, 0)"],
)
def test_what_reads_writes_nothing(tmp_path, monkeypatch, line):
    monkeypatch.setattr(sys.modules[__name__], "TOP", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(f"def function():\n    {line}\n", encoding="utf-8")
    assert writers(path) == {}


# -- habits --------------------------------------------------------------------------------------------------------------


def test_nothing_prints():
    for path in MODULES:
        names = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
        printed = names & {"print", "sys.stdout.write", "sys.stderr.write"}
        # What runs inside somebody's script has no caller to tell.
        assert printed <= ({"sys.stderr.write"} if "injected" in path.parts else set()), path
        assert "click.echo" not in names or "cli" in path.parts, path


def test_a_module_opens_with_a_sentence_that_says_what_it_is():
    for path in MODULES:
        docstring = ast.get_docstring(tree(path)) or "nothing"
        ends = docstring.partition("\n\n")[0].rstrip().endswith((".", ":", "?"))
        assert ends or docstring.splitlines()[0].endswith("."), path


def test_no_error_is_swallowed_whole():
    for path in MODULES:
        for handler in (node for node in ast.walk(tree(path)) if isinstance(node, ast.ExceptHandler)):
            kind = ast.unparse(handler.type) if handler.type else "BaseException"
            if kind in ("Exception", "BaseException"):
                told = {node.id for node in ast.walk(handler) if isinstance(node, ast.Name)}
                raised = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
                assert raised or handler.name in told, f"{name_of(path)}:{handler.lineno}"


def test_no_module_is_called_after_nothing():
    names = {part for path in MODULES for part in path.relative_to(TOP).with_suffix("").parts}
    assert not names & {"utils", "helpers", "manager", "base", "common", "misc"}


def test_the_type_marker_ships_beside_the_public_names():
    import perfguard

    assert (PACKAGE / "py.typed").is_file()
    assert all(getattr(perfguard, name) is not None for name in perfguard.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        perfguard.nothing


# -- codes ---------------------------------------------------------------------------------------------------------------


def raised_codes() -> set[str]:
    """Return the codes the package names: as `Code.X`, by layouts and checks, or in the text of a message."""
    names = {code.name for code in Code}
    found = set()
    for path in MODULES:
        if path == PACKAGE / "findings.py":
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Code":
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {word for word in node.value.replace(":", " ").split() if word in names}
    for path in PACKAGE.rglob("checks.sql"):
        found |= set(re.findall(r"^-- code: (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    for path in (TOP / "schemas" / "layouts").glob("*.json"):
        found |= {code for code in names if f'"{code}"' in path.read_text(encoding="utf-8")}
    return found


def test_every_code_is_raised_somewhere():
    assert {code.name for code in Code} - raised_codes() == set()


def test_a_code_is_a_family_and_a_number_with_a_headline():
    for code in Code:
        assert re.fullmatch(r"[ASICBR]\d{3}", code.name)
        assert code.family == code.name[0]
        assert re.fullmatch(r"[^\sA-Z](.*[^\s.])?", code.value), code


def test_no_query_looks_back_over_all_rows():
    # `last_value(... ignore nulls)` takes the square of the rows where values are sparse: 18 s of two million.
    found = {
        path.name
        for path in sorted(PACKAGE.rglob("*.sql"))
        if "ignore nulls" in path.read_text(encoding="utf-8").lower()
    }
    assert not found, "max(index), or arg_max(value, index), finds the last value in one pass"
