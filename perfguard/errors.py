"""What stops a run: each error is one sentence that names the next command.

What is wrong with the thing judged is a `perfguard.findings.Finding`, never an exception.
"""


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
