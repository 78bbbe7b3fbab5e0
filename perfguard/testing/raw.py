"""Raw data that profilers leave for their analysis: its content is arbitrary, only its presence is checked."""

from __future__ import annotations

from random import Random

from perfguard.testing.formats import stamp
from perfguard.testing.truth import Rank


def raw_token(rank: Rank) -> tuple[Random, str]:
    """Return a source of content, and the name of CANN's own directory."""
    random = Random(f"raw {rank.start_ns} {rank.number}")
    token = "".join(random.choice("ABCDEFGHIJKLMNOPQR") for _ in range(16))
    return random, f"PROF_000001_{stamp(rank.start_ns)}_{token}"
