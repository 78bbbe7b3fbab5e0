"""Collectives: which operators are communication, and those that torch annotates beside its operators."""

from __future__ import annotations

import re

#: Collectives on a host: MindSpore's kernels, and what torch's gloo, mpi and nccl backends annotate with its duration.
HOST_COLLECTIVE = re.compile(
    r"^((gloo|mpi|nccl|ucc):\w+|All(Reduce|Gather|ToAll)\w*|ReduceScatter\w*|Reduce|Broadcast|Barrier|(Neighbor|All)\w*Exchange\w*"
    r"|CollectiveScatter|CollectiveGather|Send|Receive)$"
)
#: Beside them a device's own: HCCL's operations (`hcom_allReduce_`), NCCL's kernels (`ncclDevKernel_AllReduce_Sum_f32(...)`).
COLLECTIVE = re.compile(rf"{HOST_COLLECTIVE.pattern}|^hcom_|^nccl(Dev)?Kernel")
