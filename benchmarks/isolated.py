"""A plugin of pytest that times every workload in a process of its own: `-p benchmarks.isolated`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests."""
    for item in items:
        item.add_marker(pytest.mark.perfguard(isolated=True))
