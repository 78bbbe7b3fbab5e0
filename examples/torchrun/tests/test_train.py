"""The gate: an unchanged script, started by torchrun as two ranks."""

import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "train.py"


def test_two_ranks(perfguard):
    perfguard.script([sys.executable, SCRIPT], launcher="torchrun", ranks=2, window="4:6", timeout=300)
