"""Fixtures of the whole suite."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.environments import interpreter

pytest_plugins = ["pytester"]

# How long an example takes is the machine's, and decides no test.
settings.register_profile("perfguard", deadline=None)
settings.load_profile("perfguard")

# Hundreds of processes of this suite import perfguard: those before them have compiled it, unless told not to keep that.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Return what gives the Python of another environment, by its name."""

    def python_of(name: str) -> Path:
        return interpreter(name, Path(request.config.cache.mkdir("environments")))

    return python_of
