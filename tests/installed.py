"""Installed: packages that tests need, looked for without importing them.

pytest-xdist collects every module of the tests in every worker; a framework takes seconds to import, and few workers use it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest


def needs(name: str, extra: str) -> None:
    """Skip the module of tests that asks, where a package is not installed."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install -e '.[{extra}]'", allow_module_level=True)


def needed(name: str, extra: str) -> Any:
    """Return a package that is imported when a test uses it; skip the module of tests where it is not installed."""
    needs(name, extra)
    return _Later(name)


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        # pytest looks at everything in a module for marks and fixtures of its own.
        if name.startswith(("_", "pytest")) and name != "__version__":
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(import_module(self.__name__), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(import_module(self.__name__), name)
