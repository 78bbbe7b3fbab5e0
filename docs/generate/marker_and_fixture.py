"""The page of the marker and the fixture, from the schema of the settings and the type of the fixture."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generate.signatures import docstring, signature
from perfguard import plugin
from perfguard.configuration import wording
from perfguard.guard import Callback, Guard
from perfguard.reports.prose import code, prose, table
from perfguard.settings import marker_schema

#: How a test writes them.
_CALLS = {"__call__": "perfguard"}


def page() -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Marker and fixture\n",
            "## The marker\n",
            "`@pytest.mark.perfguard(...)` sets how one test is measured and judged. Every argument is optional, and overrides "
            "the [settings](settings.md); `ignore` adds to them.\n",
            table(("argument", "value", "meaning"), _arguments()),
            "\n## The fixture\n",
            f"{docstring(plugin.perfguard)}\n",
            "For type checkers the fixture is a `perfguard.Guard`:\n",
            "```python\nfrom perfguard import Guard\n\n\ndef test_train(perfguard: Guard) -> None: ...\n```",
            *_methods(Guard, "perfguard"),
            "\n## The callback\n",
            f"{docstring(Callback)}",
            *_methods(Callback, "callback"),
        ]
    )


def _arguments() -> Iterator[tuple[str, str, str]]:
    for name, key in marker_schema()["properties"].items():
        value = "a `perfguard.StepWindow`" if name == "window" else prose(wording(key))
        yield code(name), value, prose(key["description"])


def _methods(found: type, name: str) -> Iterator[str]:
    for method, function in vars(found).items():
        if method.startswith("_") and method not in _CALLS:
            continue
        shown = _CALLS.get(method, f"{name}.{method}")
        if isinstance(function, property):
            yield f"\n### `{shown}`\n"
            yield docstring(function)
        elif callable(function):
            yield f"\n### `{shown}(...)`\n"
            yield f"{signature(shown, function)}\n"
            yield docstring(function)
