"""Fixtures of the whole suite."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.environments import interpreter

pytest_plugins = ["pytester"]

# The main job (tests/models) runs in an environment without it.
with suppress(ModuleNotFoundError):
    from hypothesis import settings

    # How long an example takes is the machine's, and decides no test.
    settings.register_profile("perfguard", deadline=None)
    settings.load_profile("perfguard")

# Hundreds of processes of this suite import perfguard: those before them have compiled it, unless told not to keep that.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# How wide the screen of whoever runs the suite is, and which colours it has, decides no test.
for _name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
    os.environ.pop(_name, None)


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Return what gives the Python of another environment, by its name."""

    def python_of(name: str) -> Path:
        return interpreter(name, Path(request.config.cache.mkdir("environments")))

    return python_of
