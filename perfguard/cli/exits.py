"""Exit codes, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfguard.judge.verdict import Outcome

EXIT_PASSED = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_INVALID = 3
EXIT_NOTHING = 4


def exit_code(outcomes: list[Outcome]) -> int:
    """Return the exit code of several outcomes, that of the gravest; of none, that nothing could be judged."""
    # The judge, and all it stands on, is imported when something was judged: `--help` needs only the numbers.
    from perfguard.judge.verdict import Outcome

    by_gravity = {
        Outcome.INVALID: EXIT_INVALID,
        Outcome.FAILED: EXIT_REGRESSION,
        Outcome.INCONCLUSIVE: EXIT_NOTHING,
        Outcome.CHANGED: EXIT_PASSED,
        Outcome.PASSED: EXIT_PASSED,
    }
    return next((code for outcome, code in by_gravity.items() if outcome in outcomes), EXIT_NOTHING)
