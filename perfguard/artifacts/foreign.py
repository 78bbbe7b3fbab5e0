"""Foreign output: files of profilers that perfguard does not read, told by name or beginning, and what makes them readable.

Sources: CANN, Profile Data File Reference (raw PROF_*, mindstudio_profiler_output, msprof_<timestamp>.db); Nsight Systems User
Guide (.nsys-rep, before 2021 .qdrep) and its SQLite schema; rocprofv3 (rocpd: <pid>_results.db, CSV, JSON, .pftrace); JAX and
TensorFlow (.xplane.pb); pickles that are no snapshot of torch's allocator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

_TORCH = "record with torch.profiler and export_chrome_trace (or tensorboard_trace_handler), and check that trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """One kind of output: how a path or the beginning of the file tells it, what it is, and what makes it readable."""

    #: Matches a whole name of the path, of a folder or of the file.
    name: str
    #: Is in the first bytes; empty: the name tells it.
    text: str = ""
    what: str
    then: str


#: The first that fits counts.
KINDS = (
    Foreign(
        name=r"mindstudio_profiler_output",
        what="is what msprof exports",
        then="check the *_ascend_pt or *_ascend_ms directory that torch_npu's or MindSpore's profiler writes around it",
    ),
    Foreign(
        name=r"PROF_\d+_\d+_\w+",
        what="is raw data of CANN",
        then="name the *_ascend_ms or *_ascend_pt directory around it, and if that has no ASCEND_PROFILER_OUTPUT, "
        "run: perfguard analyse DIR",
    ),
    Foreign(
        name=r"msprof_.*\.db",
        what="is a database of msprof",
        then="record with torch_npu's or MindSpore's profiler, which write ascend_pytorch_profiler_*.db or "
        "ascend_mindspore_profiler_*.db",
    ),
    Foreign(name=r".*\.(nsys-rep|qdrep)", what="is a report of Nsight Systems", then=_TORCH),
    Foreign(name=r".*\.(sqlite|db)", text="CUPTI_ACTIVITY_KIND_", what="is a database of Nsight Systems", then=_TORCH),
    Foreign(name=r".*\.db", text="rocpd_", what="is a database of rocprofv3 (rocpd)", then=_TORCH),
    Foreign(name=r".*\.json", text='"rocprofiler-sdk-tool"', what="is written by rocprofv3", then=_TORCH),
    Foreign(
        name=r".*_(kernel|hip_api|hsa_api|memory_copy|agent)_(trace|info)\.csv",
        what="is written by rocprofv3",
        then=_TORCH,
    ),
    Foreign(name=r".*\.pftrace", what="is a trace in Perfetto's binary format", then=_TORCH),
    Foreign(
        name=r".*\.xplane\.pb",
        what="is a profile of JAX or TensorFlow",
        then="install a dialect of perfguard for it (examples/perfguard-jax in perfguard's repository is one)",
    ),
    Foreign(
        name=r".*\.(pickle|pkl)",
        what="is a pickle, and not one of torch.cuda.memory._dump_snapshot",
        then=f"{_TORCH}, or dump a snapshot of the allocator",
    ),
)


def described(paths: Iterable[str], read: Callable[[str], str]) -> str:
    """Return what the first known path is and what makes it readable, or an empty text.

    `paths` are relative; `read` returns the beginning of a file as text.
    """
    for path in paths:
        parts = PurePosixPath(path).parts
        for kind in KINDS:
            found = next((at for at, name in enumerate(parts) if re.fullmatch(kind.name, name)), None)
            if found is not None and (not kind.text or kind.text in read(path)):
                shown = "/".join(parts[: found + 1])
                return f"{shown} {kind.what}: {kind.then}"
    return ""
