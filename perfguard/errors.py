"""Exceptions for a wrong call, configuration or machine, and how messages name things: the nearest word, the first of many.

Anything wrong with the recording under test is a `perfguard.findings.Finding`, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class PerfguardError(Exception):
    """Base class of perfguard's errors; its text is the complete message for the user."""


class UsageError(PerfguardError):
    """The call, an option or the configuration is wrong."""


class CaptureError(PerfguardError):
    """The machine or the framework cannot run the workload under the profiler at all."""


class StoreError(PerfguardError):
    """One of perfguard's files (baseline, recording, report) cannot be read or written."""


class DamagedError(StoreError):
    """The content of a file is damaged: it is not what its writer wrote."""


def of_system(error: OSError) -> str:
    """Return the sentence about an error of the system, such as a full disk."""
    if isinstance(error, FileNotFoundError) and not error.filename:
        # That is what `os.getcwd` raises.
        return "the working directory is not there any more; change to another one, then run the same command again."
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}; mend that, then run the same command again."


def as_bytes(error: BaseException) -> bytes:
    """Return an exception for another process to unpickle and raise, with its traceback as a note unless it is a sentence.

    One that cannot be pickled, or not unpickled, becomes a `RuntimeError` of its words.
    """
    import pickle
    import traceback

    if not isinstance(error, PerfguardError):
        error.add_note(f"In a process of its own:\n{''.join(traceback.format_exception(error))}")
    try:
        found = pickle.dumps(error)
        pickle.loads(found)
    except Exception as why:  # noqa: BLE001 -- whatever its class does; its words and its traceback are kept
        words = RuntimeError(f"{type(error).__name__}: {error} (it cannot be sent: {why})")
        words.__notes__ = error.__notes__
        return pickle.dumps(words)
    return found


def missing_package(user: str, package: str, extra: str, error: ImportError) -> UsageError:
    """Return the error for a package that is missing; `user` needs it, and perfguard's `extra` installs it."""
    from perfguard.version import install_command

    return UsageError(f"{user} needs {package}, and it cannot be imported ({error}). Run: {install_command(extra)}")


def nearest(name: str, known: Iterable[str], *, otherwise: str | None = None) -> str:
    """Return `did you mean 'x'?` for a similar known name, else `otherwise`, else the list of known names."""
    import difflib

    names = list(known)
    if near := difflib.get_close_matches(name, names, n=1):
        # Of equally similar names, take the one with the most equal characters in place: C1O1 is C101, not C112.
        likeness = difflib.SequenceMatcher(None, near[0], name).ratio()
        equal = [one for one in names if difflib.SequenceMatcher(None, one, name).ratio() == likeness]
        best = max(equal, key=lambda one: sum(a == b for a, b in zip(one, name, strict=False)))
        return f"did you mean {best!r}?"
    return otherwise if otherwise is not None else f"known are {', '.join(names)}."


def counted(count: int, noun: str, plural: str = "s") -> str:
    """Return `1 rank`, `2 ranks`, `2 processes`."""
    return f"{count} {noun}{'' if count == 1 else plural}"


def listed(names: Sequence[object], most: int = 8, *, separator: str = ", ") -> str:
    """Return the first names and the number of the others: `a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(map(str, names[:most])) + more
