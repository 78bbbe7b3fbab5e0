"""What the Python sources of a project say, read and never run: frameworks, model factories, tests that use perfguard."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

FRAMEWORKS = ("torch", "mindspore")
#: The class that models derive from, by framework, and the method that computes.
_BASES = {"torch.nn.Module": ("torch", "forward"), "mindspore.nn.Cell": ("mindspore", "construct")}
_FACTORIES = ("build_model", "create_model", "make_model", "get_model")
#: Counts as so many arguments: one that must be given by name.
_BY_NAME = 100

#: What holds no code of the project.
_SKIPPED = frozenset({"build", "dist", "node_modules", "site-packages", "env", "venv", "__pycache__"})
#: Most files that are read, and the size of the largest.
MOST_FILES = 5000
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A class or function that makes a model without arguments."""

    framework: str
    file: Path
    line: int
    name: str
    is_function: bool = False
    layers: int = 0
    #: Whether another class or factory of the project makes one, as a part of its own.
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The findings in all files of a project."""

    #: Imported frameworks, the most used first.
    frameworks: tuple[str, ...]
    #: The most likely model first.
    models: tuple[Model, ...]
    test_files: tuple[Path, ...]
    #: Tests with the fixture `perfguard`, as `file::name`.
    gate_tests: tuple[str, ...]
    #: Models that are made with arguments, and are no part of another.
    unmade: tuple[Model, ...]
    #: Files that could not be parsed.
    unread: tuple[Path, ...]
    #: Whether there are more files than are read.
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class _Module:
    file: Path
    tree: ast.Module
    #: Dotted names by the names they are imported as.
    imported: Mapping[str, str]
    classes: Mapping[str, ast.ClassDef]

    def dotted(self, node: ast.expr) -> str:
        """Return the full name of an expression such as `nn.Linear`; empty for any other."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.imported.get(node.id, node.id), *reversed(parts)])

    def calls(self, node: ast.AST) -> Iterator[ast.Call]:
        """Yield the calls in a node in the order of the source."""
        found = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        yield from sorted(found, key=lambda call: (call.lineno, call.col_offset))


def read_sources(root: Path) -> Sources:
    """Read all Python files at and below a directory."""
    modules, unread = [], []
    paths = [*islice(_python_files(root), MOST_FILES + 1)]
    for path in paths[:MOST_FILES]:
        module = _parsed(path)
        if module is None:
            unread.append(path)
        else:
            modules.append(module)
    is_test = [is_test_file(module.file) for module in modules]
    tests = [module for module, test in zip(modules, is_test, strict=True) if test]
    code = [module for module, test in zip(modules, is_test, strict=True) if not test]
    used = Counter(name for module in modules for name in _frameworks(module))
    return Sources(
        frameworks=tuple(name for name, _ in used.most_common()),
        models=tuple(_ranked(code, root)),
        unmade=tuple(_unmade(code)),
        test_files=tuple(module.file for module in tests),
        gate_tests=tuple(
            f"{module.file.relative_to(root)}::{name}" for module in tests for name in _gate_tests(module)
        ),
        unread=tuple(unread),
        is_cut=len(paths) > MOST_FILES,
    )


def is_test_file(path: Path) -> bool:
    """Whether pytest's usual names make a file one of tests."""
    return path.name == "conftest.py" or path.name.startswith("test_") or path.name.endswith("_test.py")


def _python_files(root: Path) -> Iterator[Path]:
    for place, directories, files in os.walk(root):
        directories[:] = sorted(
            name
            for name in directories
            if not name.startswith(".")
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        for name in sorted(files):
            path = Path(place, name)
            if name.endswith(".py") and path.is_file() and path.stat().st_size <= _MOST_BYTES:
                yield path


def _parsed(path: Path) -> _Module | None:
    try:
        with warnings.catch_warnings():
            # Old string escapes of the user's code are not ours to report.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return None
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                imported[one.asname or one.name.partition(".")[0]] = (
                    one.name if one.asname else one.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return _Module(path, tree, imported, classes)


def _frameworks(module: _Module) -> set[str]:
    return {name.partition(".")[0] for name in module.imported.values()} & {*FRAMEWORKS}


def _gate_tests(module: _Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if "perfguard" in names:
                yield node.name


# -- models --------------------------------------------------------------------------------------------------------------


def _ranked(modules: list[_Module], root: Path) -> list[Model]:
    """Return the models: factories, then whole models, then parts of others; the one with the most layers first.

    Those of tests come after those of the code.
    """
    by_class: dict[str, list[tuple[_Module, ast.ClassDef]]] = {}
    for module in modules:
        for name, node in module.classes.items():
            by_class.setdefault(name, []).append((module, node))
    parts = _parts(modules)
    found = []
    for module in modules:
        for statement in module.tree.body:
            if isinstance(statement, ast.ClassDef) and (model := _of_class(module, statement)) is not None:
                found.append(replace(model, is_part=bool(parts[statement.name])))
            if isinstance(statement, ast.FunctionDef) and (made := _of_function(module, statement, by_class)):
                found.append(made)

    def key(model: Model) -> tuple[object, ...]:
        of_tests = not {"test", "tests"}.isdisjoint(model.file.relative_to(root).parts)
        kind = (of_tests, not model.is_function, model.is_part)
        return *kind, -model.layers, str(model.file), model.line

    return sorted(found, key=key)


def _parts(modules: list[_Module]) -> Counter[str]:
    """Return how often the classes of a project call each name."""
    return Counter(
        module.dotted(call.func).rpartition(".")[2]
        for module in modules
        for node in module.classes.values()
        for call in module.calls(node)
    )


def _unmade(modules: list[_Module]) -> Iterator[Model]:
    """Yield models that are made with arguments, which no template knows, unless they are parts of others."""
    parts = _parts(modules)
    for module in modules:
        for node in module.classes.values():
            base, made = _base(module, node), _method(module, node, "__init__")
            is_whole = not node.name.startswith("_") and not parts[node.name]
            if base is not None and is_whole and made is not None and _required(made) != 1:
                yield Model(framework=base[0], file=module.file, line=node.lineno, name=node.name)


def _of_class(module: _Module, node: ast.ClassDef) -> Model | None:
    """Return the model that a class makes without arguments and calls with one; None for any other class."""
    found = _base(module, node)
    if found is None or node.name.startswith("_"):
        return None
    framework, compute = found
    made, computes = _method(module, node, "__init__"), _method(module, node, compute)
    if computes is None or _required(computes) != 2 or not _returns_one(computes):
        return None
    if made is not None and _required(made) != 1:
        return None
    model = Model(framework=framework, file=module.file, line=node.lineno, name=node.name)
    return model if made is None else replace(model, layers=_layers(module, made, framework))


def _of_function(
    module: _Module, node: ast.FunctionDef, by_class: Mapping[str, list[tuple[_Module, ast.ClassDef]]]
) -> Model | None:
    frameworks = _frameworks(module)
    returned = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
    if node.name not in _FACTORIES or _required(node) or node.decorator_list or not _returns_one(node):
        return None
    made = [module.dotted(call.func).rpartition(".")[2] for call in module.calls(node)]
    classes = [by_class[name][0] for name in made if len(by_class.get(name, ())) == 1]
    bases = [base for where, one in classes if (base := _base(where, one)) is not None]
    framework = bases[0][0] if bases else next(iter(sorted(frameworks)), "")
    if not framework or not returned:
        return None
    model = Model(framework=framework, file=module.file, line=node.lineno, name=node.name, is_function=True)
    for where, one in classes:
        computes = _method(where, one, dict(_BASES.values()).get(framework, ""))
        if computes is not None and (_required(computes) != 2 or not _returns_one(computes)):
            return model
        if (init := _method(where, one, "__init__")) is not None:
            return replace(model, layers=_layers(where, init, framework))
    return replace(model, layers=_layers(module, node, framework))


def _base(module: _Module, node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> tuple[str, str] | None:
    for base in node.bases:
        name = module.dotted(base)
        if name in _BASES:
            return _BASES[name]
        is_new = name in module.classes and name not in seen
        if is_new and (found := _base(module, module.classes[name], seen | {node.name})) is not None:
            return found
    return None


def _method(module: _Module, node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == name:
            return one
    names = [module.dotted(base) for base in node.bases]
    above = (
        _method(module, module.classes[base], name) for base in names if base in module.classes and base != node.name
    )
    return next((one for one in above if one is not None), None)


def _required(node: ast.FunctionDef) -> int:
    """Return how many arguments a call must give by position, `self` included."""
    arguments = node.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional + (_BY_NAME if None in arguments.kw_defaults else 0)


def _returns_one(node: ast.FunctionDef) -> bool:
    """Whether a function returns a value that is not a literal of several, and is not abstract."""
    returned = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
    return bool(returned) and not any(
        value is None or isinstance(value, (ast.Tuple, ast.List, ast.Dict)) for value in returned
    )


def _layers(module: _Module, node: ast.FunctionDef, framework: str) -> int:
    """Return how many layers of the framework a function makes."""
    return sum(module.dotted(call.func).startswith(f"{framework}.nn.") for call in module.calls(node))


# -- imports -------------------------------------------------------------------------------------------------------------


def import_root(file: Path) -> Path:
    """Return the directory that a file's top-level package or module is in."""
    directory = file.parent
    while (directory / "__init__.py").is_file() and directory.parent != directory:
        directory = directory.parent
    return directory


def module_of(file: Path, root: Path) -> tuple[Path, str] | None:
    """Return the directory that a file is imported from, and its dotted name; None if it cannot be imported by a name.

    Directories without `__init__.py` count as packages below `src` or the project's root.
    """
    place = import_root(file)
    if place == file.parent and place != root:
        source = root / "src"
        place = source if file.is_relative_to(source) else root if file.is_relative_to(root) else place
    parts = file.relative_to(place).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    usable = parts and all(part.isidentifier() for part in parts) and parts[0] not in sys.stdlib_module_names
    return (place, ".".join(parts)) if usable else None
