"""Tables of the device's own counters, which torch_npu and MindSpore copy from CANN: memory, network, buses, tasks.

Formats: CANN 8 documents of the msprof data files. No real sample is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from perfguard.testing.ascend_operators import COMPUTE_STREAM, cann_csv, kernel_name
from perfguard.testing.formats import Files, tabbed_microseconds, us
from perfguard.testing.truth import Rank

_NETWORK = (
    "Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,rxError rate(%),rxDropped rate(%),"
    "Tx Bandwidth efficiency(%),txPacket/s,txError rate(%),txDropped rate(%),funcId"
)


def memory_bandwidth(rank: Rank) -> Files:
    """Write hbm.csv: the mean, then each stack of memory."""
    random = _random(rank)
    stacks = [(f"hbmId{i}", *_sample(random, 2, 4_000)) for i in range(4)]
    mean = ("Average", *(round(sum(column) / len(stacks), 3) for column in zip(*(s[1:] for s in stacks), strict=True)))
    return {"hbm.csv": _table(rank, "Metric,Read(MB/s),Write(MB/s)", [mean, *stacks])}


def network(rank: Rank) -> Files:
    """Write nic.csv and roce.csv (`sys_io`), a row every 10 ms."""
    random = _random(rank)
    files = {}
    for name in ("nic.csv", "roce.csv"):
        rows = []
        for at in range(rank.start_ns, rank.end_ns, 10_000_000):
            bandwidth = _sample(random, 1, 200)
            both = [(*_sample(random, 1, 100), random.randrange(9_000), 0.0, 0.0) for _ in range(2)]
            rows.append((tabbed_microseconds(at), *bandwidth, *both[0], *both[1], 0))
        files[name] = _table(rank, _NETWORK, rows)
    return files


def buses(rank: Rank) -> Files:
    """Write pcie.csv and hccs.csv (`sys_interconnection`)."""
    random = _random(rank)
    pcie, hccs = [], []
    for mode in ("Tx_p_avg(MB/s)", "Tx_np_avg(MB/s)", "Rx_p_avg(MB/s)", "Rx_np_avg(MB/s)"):
        low, mean, high = sorted(_sample(random, 3, 900))
        pcie.append((mode, low, high, mean))
    for mode in ("Tx(MB/s)", "Rx(MB/s)"):
        low, mean, high = sorted(_sample(random, 3, 900))
        hccs.append((mode, high, low, mean))
    return {
        "pcie.csv": _table(rank, "Mode,Min,Max,Avg", pcie),
        "hccs.csv": _table(rank, "Mode,Max,Min,Average", hccs),
    }


def tasks(rank: Rank) -> Files:
    """Write task_time.csv: every task of the device, also at level 0."""
    rows = []
    for one in rank.kernels:
        times = (us(one.duration_ns), tabbed_microseconds(one.start_ns), tabbed_microseconds(one.end_ns))
        rows.append((kernel_name(one), one.operator.kind.core, COMPUTE_STREAM, one.task, *times))
    header = "kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
    return {"task_time.csv": _table(rank, header, rows)}


def translation(rank: Rank) -> Files:
    """Write soc_pmu.csv: hits of the translation buffer, by task."""
    rows = []
    for one in rank.kernels:
        hits = round(one.task % 89 / 100, 6)
        rows.append((COMPUTE_STREAM, one.task, hits, round(1 - hits, 6), kernel_name(one)))
    header = "Stream Id,Task Id,TLB Hit Rate,TLB Miss Rate,Op Name"
    return {"soc_pmu.csv": _table(rank, header, rows)}


def _random(rank: Rank) -> Random:
    return Random(f"counters {rank.start_ns} {rank.number}")


def _sample(random: Random, count: int, most: int) -> tuple[float, ...]:
    return tuple(round(random.uniform(0, most), 3) for _ in range(count))


def _table(rank: Rank, header: str, rows: Sequence[Sequence[object]]) -> bytes:
    return cann_csv(header, rows, device=rank.number)
