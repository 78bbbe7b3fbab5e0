"""The corpus of real output, which generated files are compared with."""

from __future__ import annotations

from tests.contract.conftest import corpus

__all__ = ["corpus"]
