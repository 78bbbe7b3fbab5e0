"""The page of the settings: keys of pyproject.toml, options of pytest, environment variables."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfguard import plugin
from perfguard.configuration import configuration_schema, wording
from perfguard.reports.prose import code, prose, sentence, table

_VARIABLES = Path(__file__).with_name("variables.toml")


def page() -> str:
    """Return the page."""
    document = configuration_schema("settings")
    keys = document["properties"]
    return "\n".join(
        [
            "# Settings, options, environment variables\n",
            "A test uses the nearest `pyproject.toml` with a `[tool.perfguard]` at or above its file; a command uses the "
            "nearest at or above the working directory. Options override settings, and a [marker](marker-and-fixture.md) "
            "overrides both for its test. An unknown key or a wrong value is refused.\n",
            "## Keys of `[tool.perfguard]`\n",
            table(("key", "value", "default", "meaning"), _rows(keys)),
            "\n### Keys of `window`\n",
            table(("key", "value", "default", "meaning"), _rows(keys["window"]["properties"])),
            "\n(tolerance-keys)=\n### Keys of a tolerance\n",
            f"The value of a metric in `tolerance` is {prose(document['$defs']['fraction']['x-must'])}. With `off` the metric "
            "is shown and not judged.\n",
            table(
                ("key", "value", "default", "meaning"), _rows(document["$defs"]["limits"]["properties"], "a fraction")
            ),
            "\n## Options of pytest\n",
            table(("option", "value", "meaning"), _options()),
            "\n## Environment variables\n",
            table(
                ("variable", "meaning"),
                ((", ".join(map(code, names)), prose(meaning)) for names, meaning in variables()),
            ),
        ]
    )


def _rows(keys: Mapping[str, Any], value: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, key in keys.items():
        default = code(json.dumps(key["default"])) if "default" in key else ""
        yield code(name), prose(value or wording(key)), default, prose(key["description"])


def _options() -> Iterator[tuple[str, str, str]]:
    found = _Collected()
    plugin.pytest_addoption(found)  # type: ignore[arg-type]
    for flag, how in found.options.items():
        value = " | ".join(how.get("choices", ())) or how.get("metavar", "")
        yield code(flag), code(value), sentence(how["help"])


class _Collected:
    """Collects the options that the plugin adds, in place of pytest's parser."""

    def __init__(self) -> None:
        self.options: dict[str, dict[str, Any]] = {}

    def getgroup(self, name: str, description: str) -> _Collected:
        """Return itself for any group."""
        return self

    def addoption(self, flag: str, **how: Any) -> None:
        """Keep an option."""
        self.options[flag] = how


def variables() -> list[tuple[list[str], str]]:
    """Return the environment variables: names, and what they do."""
    found = tomllib.loads(_VARIABLES.read_text(encoding="utf-8"))["variable"]
    return [(one["names"], one["meaning"]) for one in found]
