"""Exit codes, in one place."""

from __future__ import annotations

from perfguard.judge import Outcome

EXIT_PASSED = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_INVALID = 3
EXIT_NOTHING = 4

EXIT_OF = {
    Outcome.PASSED: EXIT_PASSED,
    Outcome.FAILED: EXIT_REGRESSION,
    Outcome.INVALID: EXIT_INVALID,
    Outcome.INCONCLUSIVE: EXIT_NOTHING,
}

#: The code of a run with several outcomes is that of the gravest.
GRAVITY = (Outcome.INVALID, Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.PASSED)


def exit_code(outcomes: list[Outcome]) -> int:
    """Return the exit code of several outcomes; of none, that nothing could be judged."""
    for outcome in GRAVITY:
        if outcome in outcomes:
            return EXIT_OF[outcome]
    return EXIT_NOTHING
