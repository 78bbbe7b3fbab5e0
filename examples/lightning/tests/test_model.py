"""The gate: Lightning's own loop."""

from model import fit


def test_fit(perfguard):
    fit(perfguard.lightning_callback())
