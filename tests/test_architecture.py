"""What the house promises of itself: what loads with what, and that every code is raised; who imports whom: import-linter."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
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
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, cwd=TOP
    )
    return set(found.stdout.split())


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
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert roots(set(found.stderr.split())) & ({"polars", "numpy", "pytest", "jsonschema"} | FRAMEWORKS) == set()


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
