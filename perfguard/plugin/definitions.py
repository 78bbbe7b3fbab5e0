"""Definitions of tests in a file: which of them a later one of the same name replaces, so that pytest never sees them."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def replaced_definition(item: pytest.Item, *, is_gate_test: bool) -> str:
    """Return what is wrong if the test, or a class around it, replaces an earlier one that uses perfguard; else empty.

    Of an earlier function that uses it through another fixture nothing is known, so it counts if this one `is_gate_test`.
    """
    names = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    names.append(getattr(item, "originalname", None) or item.name)
    for place, earlier, later, uses_it in _replaced(item.path):
        if names[: len(place)] == list(place) and (uses_it or is_gate_test):
            return (
                f"line {earlier} defines {'.'.join(place)}, which never runs, because line {later} defines it again: "
                "give one of them another name"
            )
    return ""


@cache
def _replaced(path: Path) -> tuple[tuple[tuple[str, ...], int, int, bool], ...]:
    """Return the replaced definitions of a file: names, both lines, and whether the earlier one names perfguard."""
    try:
        with tokenize.open(path) as file:
            source = file.read()
        return tuple(_in_body(ast.parse(source), ())) if "perfguard" in source else ()
    except (OSError, SyntaxError, ValueError):
        # A file that is no Python, such as a doctest or one that a plugin collects.
        return ()


def _in_body(
    node: ast.Module | ast.ClassDef, outer: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int, int, bool]]:
    seen: dict[str, _Definition] = {}
    for one in node.body:
        if not isinstance(one, (*_FUNCTIONS, ast.ClassDef)):
            continue
        place = (*outer, one.name)
        if (earlier := seen.get(one.name)) is not None:
            yield place, earlier.lineno, one.lineno, _uses_perfguard(earlier)
        seen[one.name] = one
        if isinstance(one, ast.ClassDef):
            yield from _in_body(one, place)


def _uses_perfguard(node: _Definition) -> bool:
    """Whether a function has the fixture as an argument, or a definition has a marker of perfguard; of a class, any in it."""
    if any("perfguard" in ast.unparse(one) for one in node.decorator_list):
        return True
    if isinstance(node, ast.ClassDef):
        return any(_uses_perfguard(one) for one in node.body if isinstance(one, (*_FUNCTIONS, ast.ClassDef)))
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return any(one.arg == "perfguard" for one in arguments)
