"""Fixtures of the whole suite."""

pytest_plugins = ["pytester"]
