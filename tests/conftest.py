"""Fixtures of the whole suite."""

import compileall
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PACKAGE = Path(__file__).resolve().parent.parent / "perfguard"


def pytest_configure(config: pytest.Config) -> None:
    """Compile perfguard once: hundreds of processes import it, and under PYTHONDONTWRITEBYTECODE each would do it again."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(PACKAGE, quiet=2)
