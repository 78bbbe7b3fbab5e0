"""What stops a run: each error is one sentence that names the next command, or the word that was probably meant.

What is wrong with the thing judged is a `perfguard.findings.Finding`, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable


class PerfguardError(Exception):
    """Root of the errors perfguard raises on purpose; its text is the whole message for the user."""


class UsageError(PerfguardError):
    """The call, an option or the configuration is wrong."""


class CaptureError(PerfguardError):
    """The machine or the framework cannot run the workload under the profiler at all."""


class StoreError(PerfguardError):
    """A file perfguard keeps (baseline, recording, report) cannot be read or written."""


class DamagedError(StoreError):
    """The file was read, and is not what it should be."""


def nearest(name: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """Return `did you mean 'x'?`, or where nothing is near `otherwise`, or the list of what is known."""
    import difflib

    names = list(known)
    if near := difflib.get_close_matches(name, names, n=1):
        # Of equally near names the one that differs in the fewest places: C1O1 is C101, not C112.
        likeness = difflib.SequenceMatcher(None, near[0], name).ratio()
        equal = [one for one in names if difflib.SequenceMatcher(None, one, name).ratio() == likeness]
        best = max(equal, key=lambda one: sum(a == b for a, b in zip(one, name, strict=False)))
        return f"did you mean {best!r}?"
    return otherwise if otherwise is not None else f"known are {', '.join(names)}."
