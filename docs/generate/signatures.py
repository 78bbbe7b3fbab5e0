"""Signatures and docstrings as Markdown."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from perfguard.reports.prose import code, prose

_WIDEST = 100


def signature(name: str, function: Callable[..., Any], *, result: str | None = None) -> str:
    """Return a signature as a block of code, with annotations as they are written; without `self`."""
    found = inspect.signature(function)
    parts: list[str] = []
    has_star = False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            parts.append("*")
        has_star = has_star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_parameter(parameter))
    returned = _annotation(found.return_annotation) if result is None else result
    end = f") -> {returned}" if returned else ")"
    line = f"{name}({', '.join(parts)}{end}"
    if len(line) > _WIDEST:
        line = f"{name}(\n{''.join(f'    {part},{chr(10)}' for part in parts)}{end}"
    return f"```python\n{line}\n```"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    annotation = _annotation(parameter.annotation)
    text = f"{stars}{parameter.name}" + (f": {annotation}" if annotation else "")
    if parameter.default is parameter.empty:
        return text
    if "factory" in repr(parameter.default):
        return f"{text} = ..."
    default = json.dumps(parameter.default) if isinstance(parameter.default, str) else repr(parameter.default)
    return f"{text} = {default}" if annotation else f"{text}={default}"


def _annotation(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("windows.", "")


def docstring(found: Any) -> str:
    """Return a docstring as Markdown: paragraphs, lists, and indented lines as code."""
    shown: list[str] = []
    for is_code, lines in groupby(
        (inspect.getdoc(found) or "").split("\n\n"), lambda part: part.lstrip("\n")[:4] == "    "
    ):
        if is_code:
            shown.append(
                f"```python\n{textwrap.dedent(chr(10).join(f'{part}{chr(10)}' for part in lines)).strip()}\n```"
            )
        else:
            shown += [part if part.startswith("* ") else prose(" ".join(part.split())) for part in lines if part]
    return "\n\n".join(shown)


def members(found: type) -> Iterator[str]:
    """Yield a section for each public method and property of a class, in the order of its definition."""
    for name, member in vars(found).items():
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(member, property) and member.__doc__:
            yield f"\n#### `{found.__name__}.{name}`\n"
            yield f"A property of type {code(_annotation(inspect.signature(member.fget).return_annotation))}.\n"  # type: ignore[arg-type]
            yield docstring(member)
        elif isinstance(member, (classmethod, staticmethod)) or inspect.isfunction(member):
            function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            yield f"\n#### `{found.__name__}.{name}`\n"
            yield signature(f"{found.__name__}.{name}", function) + "\n"
            yield docstring(function)
