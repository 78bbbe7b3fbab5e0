"""Says when another distribution has registered a pytest plugin under perfguard's name.

pytest loads one plugin a name, whichever it finds first, and skips the other in silence. The distribution
`pytest-perfguard` has the same name and the same `--perfguard` option, so a gate could be green without ever having run.
"""

from __future__ import annotations

import pytest

_OTHER = "pytest-perfguard"


def pytest_configure(config: pytest.Config) -> None:
    """Stop a run that asked for a gate and got the other plugin."""
    if _taken(config) and getattr(config.option, "perfguard", False):
        raise pytest.UsageError(f"{_sentence(config)} Run: pip uninstall {_OTHER}")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say it once at the top of the run, where both are installed."""
    from importlib.util import find_spec

    if _taken(config) or find_spec(_OTHER.replace("-", "_")) is not None:
        return _sentence(config)
    return None


def _taken(config: pytest.Config) -> bool:
    plugin = config.pluginmanager.get_plugin("perfguard")
    return plugin is not None and getattr(plugin, "__name__", "") != "perfguard.plugin"


def _sentence(config: pytest.Config) -> str:
    loaded, skipped = (_OTHER, "perfguard") if _taken(config) else ("perfguard", _OTHER)
    return f"perfguard: {_OTHER} is installed too and has the same plugin name; pytest loaded {loaded}, not {skipped}."
