"""Fixtures of the whole suite."""

from hypothesis import settings

pytest_plugins = ["pytester"]

# How long an example takes is the machine's, and decides no test.
settings.register_profile("perfguard", deadline=None)
settings.load_profile("perfguard")
