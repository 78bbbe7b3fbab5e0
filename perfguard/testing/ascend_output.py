"""ASCEND_PROFILER_OUTPUT: the deliverables torch_npu and MindSpore (2.5 and later) share, as text.

Formats: real output of torch_npu level 0 to 2 (msinsight test data), torch_npu source (_trace_step_time_parser.py),
MindSpore 2.10 source (mindspore/profiler/analysis/viewer). Where both write a file, most of it is a copy of CANN's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from statistics import pvariance

from perfguard.testing.counters import counter_cells, counters
from perfguard.testing.formats import csv_bytes, json_bytes, microseconds, rounded_microseconds, us
from perfguard.testing.mindspore_cpu import memory_totals
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Collective, Kernel, Link, Rank, Truth

_SHAPES = (
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
)

#: Bytes the process holds before the window, of the framework's pool and of the graph engine.
_POOL_BEFORE = 981_462_016
#: What it reserved by then.
POOL_RESERVED = 1452 << 20
_ENGINE_RESERVED = 78_381_056

#: Components npu_module_mem knows; the real file has 77, sampled in turn.
MODULES = ("SLOG", "DEVMM", "RUNTIME", "AICPU", "HCCL", "APP", "GE", "MBUFF")

#: Kinds of links communication.json always lists.
_TRANSPORTS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")


def group_number(truth: Truth) -> str:
    """The three digits that names of collective operations carry of their group."""
    return truth.group[-3:]


def collective_name(truth: Truth, one: Collective) -> str:
    """Name of one collective operation: `hcom_allReduce__586_0_1`."""
    return f"hcom_{one.type}__{group_number(truth)}_{one.index}_1"


def kernel_name(one: Kernel) -> str:
    """Name of a kernel, as CANN gives it."""
    return f"{one.operator.type}_{one.operator.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time on the device, and the step it is counted to."""

    start_ns: int
    end_ns: int
    step: int

    @property
    def duration_ns(self) -> int:
        """How long it is."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The lanes of "Overlap Analysis": what the device did, every nanosecond between its first and last task."""

    computing: tuple[Span, ...]
    communication: tuple[Span, ...]
    not_overlapped: tuple[Span, ...]
    free: tuple[Span, ...]

    def lanes(self) -> tuple[tuple[str, tuple[Span, ...]], ...]:
        """The lanes with their names, in the order of their threads."""
        return (
            ("Computing", self.computing),
            ("Communication", self.communication),
            ("Communication(Not Overlapped)", self.not_overlapped),
            ("Free", self.free),
        )


def overlap(rank: Rank) -> Overlap:
    """Return how computing and communication lie over each other. A gap belongs to the step it begins in."""
    computing = [Span(start_ns=one.start_ns, end_ns=one.end_ns, step=one.step) for one in rank.kernels]
    communication = [Span(start_ns=one.start_ns, end_ns=one.end_ns, step=one.step) for one in rank.collectives]
    bare: list[Span] = []
    ends = [work.end_ns for work in computing]
    for one in communication:
        at = one.start_ns
        for work in computing[bisect_right(ends, at) :]:
            if work.start_ns >= one.end_ns:
                break
            if work.start_ns > at:
                bare.append(Span(start_ns=at, end_ns=work.start_ns, step=one.step))
            at = max(at, work.end_ns)
        if at < one.end_ns:
            bare.append(Span(start_ns=at, end_ns=one.end_ns, step=one.step))
    free: list[Span] = []
    busy = sorted([*computing, *communication], key=lambda span: span.start_ns)
    until, step = busy[0].end_ns, busy[0].step
    for span in busy[1:]:
        if span.start_ns > until:
            free.append(Span(start_ns=until, end_ns=span.start_ns, step=step))
        if span.end_ns > until:
            until, step = span.end_ns, span.step
    return Overlap(
        computing=tuple(computing), communication=tuple(communication), not_overlapped=tuple(bare), free=tuple(free)
    )


# --- kernel_details, op_statistic, l2_cache, api_statistic


def kernel_details(
    truth: Truth, rank: Rank, *, mindspore: bool, level: int, scheduled: bool, variant: str = ""
) -> bytes:
    """Write kernel_details.csv. Level 0 has neither shapes nor, for torch_npu, operator types and counters.

    `variant` names the columns: of older or newer writers (`block-dim`, `block-num`, `device-id`, `2023`), or the counters.
    """
    header = _kernel_header(mindspore=mindspore, level=level, variant=variant)
    found = _kernel_cells(truth, rank, mindspore=mindspore, level=level, variant=variant)
    step = "Step ID" if mindspore else "Step Id"
    columns = [step, *header] if scheduled else header
    rows = []
    before_ns: int | None = None
    for start_ns, end_ns, cells in sorted(found, key=lambda one: one[0]):
        # A kernel waits from the end of the one that began before it, on whatever stream that was.
        wait_ns = 0 if before_ns is None else max(0, start_ns - before_ns)
        cells |= {step: cells["step"], "Wait Time(us)": us(wait_ns)}
        rows.append([cells.get(column, "N/A") for column in columns])
        before_ns = end_ns
    return csv_bytes([columns, *rows])


def _kernel_header(*, mindspore: bool, level: int, variant: str) -> list[str]:
    times = ["Start Time(us)", "Duration(us)", "Wait Time(us)"]
    is_number = variant != "block-dim" if mindspore else variant == "block-num"
    blocks = ["Block Num", "Mix Block Num"] if is_number else ["Block Dim", "Mix Block Dim"]
    device = ["Device_id"] if variant == "device-id" else []
    if level == 0 and not mindspore:
        return [*device, "Name", "Type", "Accelerator Core", *times, blocks[0]]
    state = [] if variant == "2023" else ["OP State"]
    names = [*device, "Model ID", "Task ID", "Stream ID", "Name", "Type", *state, "Accelerator Core"]
    if level == 0:
        return [*names, *times, blocks[0]]
    return [*names, *times, *blocks, "HF32 Eligible", *_SHAPES, "Context ID", *counters(variant)]


def _kernel_cells(
    truth: Truth, rank: Rank, *, mindspore: bool, level: int, variant: str
) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Yield start [ns], end [ns] and the cells of every kernel and collective, by their columns."""

    def start_time(ns: int) -> str:
        return rounded_microseconds(ns) if variant == "2023" else f"{microseconds(ns)}\t"

    for one in rank.kernels:
        name = kernel_name(one)
        found: dict[str, object] = {
            "step": one.step,
            "Device_id": rank.number,
            "Model ID": 4294967295,
            "Task ID": one.task,
            "Stream ID": 2,
            "Name": f"{one.operator.full_name}/{name}" if mindspore else name,
            "Type": "N/A" if level == 0 else one.operator.type,
            "OP State": "N/A" if level == 0 else "dynamic",
            "Accelerator Core": one.operator.kind.core,
            "Start Time(us)": start_time(one.start_ns),
            "Duration(us)": us(one.duration_ns),
            "Block Dim": 32,
            "Block Num": 32,
            "Mix Block Dim": 0,
            "Mix Block Num": 0,
            "HF32 Eligible": "YES" if one.operator.kind.core == "AI_CORE" else "NO",
            "Context ID": "N/A",
            **_shape_cells(one),
            **counter_cells(one, variant),
        }
        yield one.start_ns, one.end_ns, found
    for collective in rank.collectives:
        name = collective_name(truth, collective)
        cells: dict[str, object] = {
            "step": collective.step,
            "Device_id": rank.number,
            "Model ID": 4294967295,
            "Name": name,
            "Type": f"hcom_{collective.type}_",
            "Accelerator Core": "HCCL",
            "Start Time(us)": start_time(collective.start_ns),
            "Duration(us)": us(collective.elapse_ns),
            "Block Dim": 0,
            "Block Num": 0,
        }
        yield collective.start_ns, collective.start_ns + collective.elapse_ns, cells


def _shape_cells(one: Kernel) -> dict[str, object]:
    shapes = [",".join(map(str, shape)) for shape in one.operator.inputs if shape]
    return {
        # The quotes are part of the text.
        "Input Shapes": f'"{";".join(shapes)}"',
        "Input Data Types": ";".join("FLOAT" for _ in shapes),
        "Input Formats": ";".join("ND" for _ in shapes),
        "Output Shapes": f'"{",".join(map(str, one.operator.output))}"',
        "Output Data Types": "FLOAT",
        "Output Formats": "ND",
    }


def op_statistic(rank: Rank, *, with_device: bool) -> bytes:
    """Write op_statistic.csv: kernels by type and core, the longest first; collective operations are not in it."""
    groups: dict[tuple[str, str], list[int]] = {}
    for one in rank.kernels:
        groups.setdefault((one.operator.type, one.operator.kind.core), []).append(one.duration_ns)
    whole = sum(map(sum, groups.values()))
    rows: list[list[object]] = []
    for (kind, core), durations in sorted(groups.items(), key=lambda item: -sum(item[1])):
        total = sum(durations)
        # Newer CANN cuts the average off, older rounds it.
        average = total // len(durations) / 1000 if with_device else round(total / len(durations) / 1000, 3)
        low, high = us(min(durations)), us(max(durations))
        rows.append([kind, core, len(durations), us(total), low, average, high, round(100 * total / whole, 3)])
    header = [
        "OP Type",
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
        "Ratio(%)",
    ]
    return _from_cann(header, rows, device=rank.number if with_device else None)


def _from_cann(header: list[str], rows: list[list[object]], *, device: int | str | None) -> bytes:
    """Write a file CANN made; newer ones begin with the device, or `host`."""
    if device is not None:
        header, rows = ["Device_id", *header], [[device, *row] for row in rows]
    return csv_bytes([header, *rows], newline="\n")


def l2_cache(rank: Rank, *, with_device: bool) -> bytes:
    """Write l2_cache.csv; the hit rate is not available on the hardware whose files are known."""
    rows: list[list[object]] = [
        [2, one.task, "N/A", round(one.task % 97 / 100, 6), kernel_name(one)] for one in rank.kernels
    ]
    header = ["Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"]
    return _from_cann(header, rows, device=rank.number if with_device else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call into CANN on the host."""

    level: str
    name: str
    start_ns: int
    duration_ns: int
    #: Joins the call with the device's task.
    connection: int


def calls(rank: Rank) -> list[Call]:
    """Return the calls that launched kernels and collective operations, in the order of time."""
    found = []
    for number, one in enumerate(rank.kernels):
        start, length = one.launch.start_ns, one.launch.duration_ns
        found.append(
            Call(level="node", name="launch", start_ns=start, duration_ns=length // 2, connection=900 + number)
        )
        found.append(
            Call(
                level="acl",
                name=f"aclnn{one.operator.type}_Tiling",
                start_ns=start,
                duration_ns=length // 4,
                connection=900 + number,
            )
        )
    first = 900 + len(rank.kernels)
    for number, collective in enumerate(rank.collectives, start=first):
        found.append(
            Call(level="node", name="launch", start_ns=collective.launch_ns, duration_ns=4_010, connection=number)
        )
        found.append(
            Call(
                level="hccl",
                name="Launch_Ffts",
                start_ns=collective.launch_ns + 500,
                duration_ns=3_120,
                connection=number,
            )
        )
    return sorted(found, key=lambda call: (call.start_ns, -call.duration_ns))


def api_statistic(rank: Rank, *, with_device: bool) -> bytes:
    """Write api_statistic.csv: calls by level and name."""
    groups: dict[tuple[str, str], list[int]] = {}
    for call in calls(rank):
        groups.setdefault((call.level, call.name), []).append(call.duration_ns)
    rows: list[list[object]] = []
    for (level, name), durations in groups.items():
        times = [us(one) for one in durations]
        total = us(sum(durations))
        average = round(total / len(times), 3)
        variance = round(pvariance(times), 3)
        rows.append([level, name, total, len(times), average, min(times), max(times), variance])
    header = ["Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"]
    return _from_cann(header, rows, device="host" if with_device else None)


# --- step_trace_time

_STEP_TIMES = (
    "Step",
    "Computing",
    "Communication(Not Overlapped)",
    "Overlapped",
    "Communication",
    "Free",
    "Stage",
    "Bubble",
    "Communication(Not Overlapped and Exclude Receive)",
    "Preparing",
)


def step_trace_time(rank: Rank, *, mindspore: bool, scheduled: bool, variant: str = "") -> bytes:
    """Write step_trace_time.csv: one row a step, or one for all where no schedule was set."""
    rows = mindspore_step_rows(rank, scheduled=scheduled) if mindspore else torch_step_rows(rank, scheduled=scheduled)
    table: list[list[object]] = [list(_STEP_TIMES), *rows]
    if variant == "2023":
        # `Preparing` came later.
        table = [row[:-1] for row in table]
    if variant == "device-id":
        table = [["Device_id" if row is table[0] else rank.number, *row] for row in table]
    return csv_bytes(table)


def torch_step_rows(rank: Rank, *, scheduled: bool) -> list[list[object]]:
    """Return the rows of step_trace_time as torch_npu computes them: in floats, `Stage` from rounded UNIX times."""
    spans = overlap(rank)
    rows: list[list[object]] = []
    for step in rank.steps if scheduled else rank.steps[:1]:
        inside = _inside(spans, step.number if scheduled else None)
        computing, communication, bare, free = (sum(us(one.duration_ns) for one in lane) for lane in inside)
        tasks = [one for lane in inside for one in lane]
        first, last = us(min(one.start_ns for one in tasks)), max(us(o.start_ns) + us(o.duration_ns) for o in tasks)
        before = us(min(one.start_ns for one in (*inside[0], *inside[1]))) - us(step.start_ns)
        number = step.number if scheduled else ""
        bubble = _bubble(rank, step.number if scheduled else None)
        stage = last - first - bubble
        times = [computing, bare, communication - bare, communication, free, stage, bubble, bare - bubble, before]
        rows.append([number, *times])
    return rows


def mindspore_step_rows(rank: Rank, *, scheduled: bool) -> list[list[object]]:
    """Return the rows of step_trace_time as MindSpore computes them.

    They are decimals of three places. A gap is cut at the bounds of the step, and `Stage` reaches from the first
    collective operation to the end of the last one: it is 0 without communication.
    """
    spans = overlap(rank)
    rows: list[list[object]] = []
    for step in rank.steps if scheduled else rank.steps[:1]:
        inside = _inside(spans, step.number if scheduled else None)
        computing, communication, bare = (Decimal(sum(one.duration_ns for one in lane)) / 1000 for lane in inside[:3])
        free = Decimal(sum(one.duration_ns for one in inside[3])) / 1000
        if scheduled:
            cut = (min(one.end_ns, step.end_ns) - max(one.start_ns, step.start_ns) for one in spans.free)
            free = Decimal(sum(length for length in cut if length > 0)) / 1000
        stage = Decimal(0)
        if inside[1]:
            stage = Decimal(inside[1][-1].end_ns - inside[1][0].start_ns) / 1000
        before = Decimal(min(one.start_ns for one in (*inside[0], *inside[1])) - step.start_ns) / 1000
        places = Decimal("0.000")
        numbers = [computing, bare, communication - bare, communication, free]
        quantized: list[object] = [str(one.quantize(places)) for one in numbers]
        tail: list[object] = [
            str(stage.quantize(places)) if stage else "0",
            "0",
            str(bare.quantize(places)),
            str(before.quantize(places)),
        ]
        rows.append([step.number if scheduled else 0, *quantized, *tail])
    return rows


def _bubble(rank: Rank, step: int | None) -> float:
    """Time in which a stage of a pipeline waits for another: all of its receive operations, in microseconds."""
    return sum(us(one.elapse_ns) for one in rank.collectives if one.type == "receive" and step in (None, one.step))


def _inside(spans: Overlap, step: int | None) -> list[list[Span]]:
    return [[one for one in lane if step in (None, one.step)] for _, lane in spans.lanes()]


# --- communication


def communication(truth: Truth, rank: Rank, *, mindspore: bool, scheduled: bool, variant: str = "") -> bytes:
    """Write communication.json: times and bandwidths of each collective operation, by step."""
    document = {
        key: {kind: with_total(truth, part, variant) for kind, part in by_kind(ones).items()}
        for key, ones in collectives_by_step(rank, mindspore=mindspore, scheduled=scheduled)
    }
    return json_bytes(document)


def by_kind(ones: Iterable[Collective]) -> dict[str, list[Collective]]:
    """Part what is between two ranks from what is between all of a group."""
    kinds: dict[str, list[Collective]] = {"p2p": [], "collective": []}
    for one in ones:
        kinds["p2p" if one.is_point_to_point else "collective"].append(one)
    return kinds


def collectives_by_step(rank: Rank, *, mindspore: bool, scheduled: bool) -> Iterator[tuple[str, list[Collective]]]:
    """Give the collective operations by the key communication.json has for their step."""
    if not scheduled:
        yield "step0" if mindspore else "step", list(rank.collectives)
        return
    for step in rank.steps:
        yield f"step{step.number}", [one for one in rank.collectives if one.step == step.number]


def time_info(one: Collective) -> dict[str, float]:
    """Return the times of one operation; UNIX time in microseconds, durations in milliseconds."""
    transit, wait, sync = (ns / 1_000_000 for ns in (one.transit_ns, one.wait_ns, one.sync_ns))
    elapse = one.elapse_ns / 1_000_000
    return {
        "Start Timestamp(us)": us(one.start_ns),
        "Elapse Time(ms)": elapse,
        "Transit Time(ms)": transit,
        "Wait Time(ms)": wait,
        "Synchronization Time(ms)": sync,
        "Idle Time(ms)": elapse - transit - wait,
        "Wait Time Ratio": ratio(wait, wait + transit),
        "Synchronization Time Ratio": ratio(sync, sync + transit),
    }


def ratio(part: float, whole: float) -> float:
    """Divide, to four places; 0 where there is nothing to divide by."""
    return round(part / whole, 4) if whole else 0


def packets(links: Iterable[Link]) -> dict[str, list[float]]:
    """Return the distribution of packet sizes: size in MB, count and time in milliseconds."""
    found: dict[str, list[float]] = {}
    for link in links:
        entry = found.setdefault(repr(link.packet_bytes / 1_000_000), [0, 0])
        entry[0] += link.packets
        entry[1] += link.duration_ns / 1_000_000
    return found


def bandwidth_info(one: Collective, variant: str = "") -> dict[str, dict[str, object]]:
    """Return sizes and speeds by kind of link; SDMA counts what HCCS moved once more, without the packets."""
    found: dict[str, dict[str, object]] = {}
    for transport in _TRANSPORTS:
        if transport == "SIO" and variant == "2023":
            continue
        wire = packets(link for link in one.links if link.transport == ("HCCS" if transport == "SDMA" else transport))
        size = sum(float(key) * count for key, (count, _) in wire.items())
        time = sum(spent for _, spent in wire.values())
        counted = wire if transport != "SDMA" else {}
        found[transport] = {
            "Transit Size(MB)": size,
            "Transit Time(ms)": time,
            "Bandwidth(GB/s)": ratio(size, time),
            "Large Packet Ratio": 0.0 if counted else 0,
            "Size Distribution": counted,
        }
    return found


def with_total(truth: Truth, ones: list[Collective], variant: str = "") -> dict[str, object]:
    """Return the operations by name, and `Total Op Info`, which adds them up; empty without any."""
    document: dict[str, object] = {}
    times = dict.fromkeys(list(time_info(ones[0]))[1:6], 0.0) if ones else {}
    links: dict[str, dict[str, object]] = {}
    for one in ones:
        info, bandwidth = time_info(one), bandwidth_info(one, variant)
        document[f"{collective_name(truth, one)}@{truth.group}"] = {
            "Communication Time Info": info,
            "Communication Bandwidth Info": bandwidth,
        }
        times = {name: total + info[name] for name, total in times.items()}
        for transport, part in bandwidth.items():
            _add_link(links.setdefault(transport, {}), part)
    if ones:
        wait, transit = times["Wait Time(ms)"], times["Transit Time(ms)"]
        sync = times["Synchronization Time(ms)"]
        ratios = {
            "Wait Time Ratio": ratio(wait, wait + transit),
            "Synchronization Time Ratio": ratio(sync, sync + transit),
        }
        document["Total Op Info"] = {
            "Communication Time Info": {**times, **ratios},
            "Communication Bandwidth Info": links,
        }
    return document


def _add_link(total: dict[str, object], part: dict[str, object]) -> None:
    for name in ("Transit Time(ms)", "Transit Size(MB)"):
        before, more = total.get(name, 0), part[name]
        assert isinstance(before, (int, float))
        assert isinstance(more, (int, float))
        total[name] = before + more
    sizes = total.setdefault("Size Distribution", {})
    more_sizes = part["Size Distribution"]
    assert isinstance(sizes, dict)
    assert isinstance(more_sizes, dict)
    for size, (count, time) in more_sizes.items():
        entry = sizes.setdefault(size, [0, 0])
        entry[0] += count
        entry[1] += time


def communication_matrix(truth: Truth, rank: Rank, *, mindspore: bool, scheduled: bool, variant: str = "") -> bytes:
    """Write communication_matrix.json: for each link the fastest, middle and slowest operations, and all together.

    In 2023 it had every operation instead.
    """
    document: dict[str, dict[str, dict[str, dict[str, object]]]] = {}
    for key, ones in collectives_by_step(rank, mindspore=mindspore, scheduled=scheduled):
        document[key] = {"p2p": {}, "collective": {}}
        for kind, part in by_kind(ones).items():
            found = document[key][kind]
            if variant == "2023":
                for one in part:
                    name = f"{collective_name(truth, one)}@{truth.group}"
                    found[name] = {f"{link.source}-{link.target}": _link_entry([link]) for link in one.links}
            for name, link, entry in matrix_entries(truth, part, mindspore=mindspore):
                if variant != "2023":
                    found.setdefault(f"{name}@{truth.group}", {})[link] = entry
                elif name.endswith("-total"):
                    found.setdefault("Total Op Info", {})[link] = entry
    return json_bytes(document)


def _link_entry(links: list[Link]) -> dict[str, object]:
    """Say what went over links of one kind."""
    size = sum(link.packet_bytes * link.packets / 1_000_000 for link in links)
    time = sum(link.duration_ns / 1_000_000 for link in links)
    return {
        "Transport Type": links[0].transport,
        "Transit Size(MB)": size,
        "Transit Time(ms)": time,
        "Bandwidth(GB/s)": ratio(size, time),
    }


def matrix_entries(
    truth: Truth, ones: list[Collective], *, mindspore: bool = False
) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Give the entries of the matrix: name (`allreduce-top1`, `-middle`, ... `-total`), link (`0-1`), what it moved.

    `ones` are of one type.
    """
    by_link: dict[tuple[int, int], list[tuple[Collective, Link]]] = {}
    for one in ones:
        for link in one.links:
            by_link.setdefault((link.source, link.target), []).append((one, link))
    places: tuple[tuple[str, Callable[[int], int]], ...] = (
        ("top1", lambda count: 0),
        ("middle", lambda count: count // 2),
        ("bottom1", lambda count: count - 1),
        ("bottom2", lambda count: max(count - 2, 0)),
        ("bottom3", lambda count: max(count - 3, 0)),
    )
    key = "op_name" if mindspore else "Op Name"
    for (source, target), pairs in by_link.items():
        entries = [{**_link_entry([link]), key: collective_name(truth, one)} for one, link in pairs]
        entries.sort(key=lambda entry: -float(str(entry["Bandwidth(GB/s)"])))
        kind, name = pairs[0][0].type.lower(), f"{source}-{target}"
        for place, of in places:
            yield f"{kind}-{place}", name, dict(entries[of(len(entries))])
        yield f"{kind}-total", name, _link_entry([link for _, link in pairs])


# --- memory


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One reading of device memory, in bytes; None where the component does not know."""

    component: str
    at_ns: int
    allocated: int | None
    reserved: int
    active: int | None


def memory_rows(rank: Rank, *, mindspore: bool) -> list[MemoryRow]:
    """Return what memory_record.csv tells: the process as a whole, the framework's pool, the engine's, both together."""
    pool = "MindSpore" if mindspore else "PTA"
    rows = [
        MemoryRow(component="APP", at_ns=at, allocated=None, reserved=2_212_077_568, active=None)
        for at in range(rank.start_ns, rank.end_ns, 20_000_000)
    ]
    engine = engine_reserved = 0
    both = []
    for number, (at, _, total) in enumerate(memory_totals(rank.allocations)):
        allocated = _POOL_BEFORE + total
        both.append(MemoryRow(component=pool, at_ns=at, allocated=allocated, reserved=POOL_RESERVED, active=allocated))
        both.append(_together(pool, at, allocated, engine, engine_reserved))
        if number % 5 == 4:
            engine, engine_reserved = 0 if engine else 51_511_296, _ENGINE_RESERVED
            later = at + 1
            both.append(
                MemoryRow(component="GE", at_ns=later, allocated=engine, reserved=_ENGINE_RESERVED, active=None)
            )
            both.append(_together(pool, later, allocated, engine, engine_reserved))
    # torch_npu puts the readings of the process first, MindSpore last.
    return [*both, *rows] if mindspore else [*rows, *both]


def _together(pool: str, at_ns: int, allocated: int, engine: int, engine_reserved: int) -> MemoryRow:
    reserved = POOL_RESERVED + engine_reserved
    return MemoryRow(
        component=f"{pool}+GE", at_ns=at_ns, allocated=allocated + engine, reserved=reserved, active=allocated
    )


def memory_record(rank: Rank, *, mindspore: bool, variant: str = "") -> bytes:
    """Write memory_record.csv. MindSpore makes a MB of 1000 KB of 1024 bytes; torch_npu of 1024."""
    device = f"NPU:{rank.number}"
    header = ["Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)"]
    rows: list[list[object]] = []
    if mindspore:
        for one in memory_rows(rank, mindspore=True):
            sizes = [(size or 0) / 1024 / 1000 for size in (one.allocated, one.reserved, one.active)]
            # The framework's own times are decimals without trailing zeros, those copied from CANN keep their TAB.
            at = f"{microseconds(one.at_ns)}\t" if one.component == "GE" else str(Decimal(one.at_ns) / 1000)
            rows.append([one.component, at, *sizes, device])
        return csv_bytes([[*header, "Device Type"], *rows])
    for one in memory_rows(rank, mindspore=False):
        megabytes = ["" if size is None else size / (1 << 20) for size in (one.allocated, one.reserved, one.active)]
        if variant == "2023":
            rows.append([one.component, rounded_microseconds(one.at_ns), *megabytes[:2], device])
            continue
        stream = 897357296 if one.active is not None else ""
        rows.append([one.component, f"{microseconds(one.at_ns)}\t", *megabytes, stream, device])
    tail = ["Device Type"] if variant == "2023" else ["Total Active(MB)", "Stream Ptr", "Device Type"]
    return csv_bytes([[*header[:-1], *tail], *rows])


_OPERATOR_MEMORY = (
    "Name",
    "Size(KB)",
    "Allocation Time(us)",
    "Release Time(us)",
    "Active Release Time(us)",
    "Duration(us)",
    "Active Duration(us)",
    "Allocation Total Allocated(MB)",
    "Allocation Total Reserved(MB)",
    "Allocation Total Active(MB)",
    "Release Total Allocated(MB)",
    "Release Total Reserved(MB)",
    "Release Total Active(MB)",
    "Stream Ptr",
    "Device Type",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRow:
    """The life of one block of device memory, with the pool's totals in bytes when it was taken and freed."""

    name: str
    size: int
    start_ns: int
    end_ns: int | None
    total_at_start: int
    total_at_end: int | None


def block_rows(rank: Rank, *, mindspore: bool) -> list[BlockRow]:
    """Return the blocks in the order in which they were taken."""
    totals: dict[tuple[int, int], int] = {}
    for at, block, total in memory_totals(rank.allocations):
        totals[id(block), at] = _POOL_BEFORE + total
    return [
        BlockRow(
            name=one.operator.type if mindspore else one.operator.kind.torch,
            size=one.size,
            start_ns=one.start_ns,
            end_ns=one.end_ns,
            total_at_start=totals[id(one), one.start_ns],
            total_at_end=None if one.end_ns is None else totals[id(one), one.end_ns],
        )
        for one in rank.allocations
    ]


def operator_memory(rank: Rank, *, mindspore: bool, variant: str = "") -> bytes:
    """Write operator_memory.csv; a block that was not freed leaves cells blank (torch_npu) or `N/A` (MindSpore)."""
    if variant == "2023":
        return _operator_memory_of_2023(rank)
    rows: list[list[object]] = []
    for one in block_rows(rank, mindspore=mindspore):
        freed = one.end_ns is not None and one.total_at_end is not None
        end, at_end = one.end_ns or 0, (one.total_at_end or 0) / (1 << 20)
        at_start, reserved = one.total_at_start / (1 << 20), float(POOL_RESERVED / (1 << 20))
        if mindspore:
            times: list[object] = [one.start_ns / 1000, *["N/A"] * 4]
            if freed:
                times = [one.start_ns / 1000, end / 1000, "N/A", (end - one.start_ns) / 1000, "N/A"]
            gone: list[object] = [at_end, reserved, at_end] if freed else ["N/A"] * 3
        else:
            times = [f"{microseconds(one.start_ns)}\t", "", "", "", ""]
            if freed:
                release, length = f"{microseconds(end)}\t", f"{microseconds(end - one.start_ns)}\t"
                times = [times[0], release, release, length, length]
            gone = [at_end, reserved, at_end] if freed else ["", "", ""]
        rows.append(
            [
                one.name,
                one.size / 1024,
                *times,
                at_start,
                reserved,
                at_start,
                *gone,
                897357296,
                f"NPU:{rank.number}",
            ]
        )
    return csv_bytes([_OPERATOR_MEMORY, *rows])


def _operator_memory_of_2023(rank: Rank) -> bytes:
    """Write operator_memory.csv as torch_npu did in 2023: floats, and nothing of what is active."""
    header = [name for name in _OPERATOR_MEMORY if "Active" not in name and name != "Stream Ptr"]
    reserved = float(POOL_RESERVED / (1 << 20))
    rows: list[list[object]] = []
    for one in block_rows(rank, mindspore=False):
        times: list[object] = [rounded_microseconds(one.start_ns), "", ""]
        gone: list[object] = ["", ""]
        if one.end_ns is not None and one.total_at_end is not None:
            times[1:] = [rounded_microseconds(one.end_ns), us(one.end_ns - one.start_ns)]
            gone = [one.total_at_end / (1 << 20), reserved]
        taken = (one.total_at_start / (1 << 20), reserved)
        rows.append([one.name, one.size / 1024, *times, *taken, *gone, f"NPU:{rank.number}"])
    return csv_bytes([header, *rows])


def npu_module_mem(rank: Rank, *, mindspore: bool) -> bytes:
    """Write npu_module_mem.csv: MB in torch_npu's file, KB in CANN's, which MindSpore copies."""
    device = f"NPU:{rank.number}"
    rows: list[list[object]] = []
    for number, module in enumerate(MODULES):
        for reading in range(4):
            at = f"{microseconds(rank.start_ns + 20_000_000 * reading)}\t"
            size = 1024.0 * number
            rows.append([rank.number, module, at, size, device] if mindspore else [module, at, size / 1024, device])
    if mindspore:
        return csv_bytes([["Device_id", "Component", "Timestamp(us)", "Total Reserved(KB)", "Device"], *rows])
    return csv_bytes([["Component", "Timestamp(us)", "Total Reserved(MB)", "Device"], *rows], newline="\n")


def static_op_mem(truth: Truth, rank: Rank) -> bytes:
    """Write static_op_mem.csv: memory of operators in graphs of fixed shapes."""
    header = ["Device_id", "Op Name", "Model Name", "Graph ID", "Node Index Start", "Node Index End", "Size(KB)"]
    rows: list[list[object]] = [
        ["host", one.full_name, "kernel_graph0", truth.graph, number, number + 1, 64.0 * (number + 1)]
        for number, one in enumerate(truth.operators)
    ]
    return csv_bytes([header, *rows], newline="\n")


# --- operator_details


def operator_details(rank: Rank, *, mindspore: bool, shapes: bool, stack: bool) -> bytes:
    """Write operator_details.csv. torch_npu's cells of shapes and stacks hold line ends of their own."""
    if mindspore:
        rows: list[list[object]] = [[one.operator.full_name, _mindspore_shapes(one)] for one in rank.kernels]
        return csv_bytes([["Name", "Input Shapes"], *rows])
    header = ["Name", "Input Shapes", "Call Stack"]
    header += [f"{side} Duration(us)" for side in ("Host Self", "Host Total", "Device Self", "Device Total")]
    header += [f"Device {side} Duration With AICore(us)" for side in ("Self", "Total")]
    kernels = {one.launch.start_ns: one for one in rank.kernels}
    rows = []
    for one, inner, own, below in _device_times(host_operations(rank), kernels):
        cubes = [sum(k.duration_ns for k in ks if k.operator.kind.core == "AI_CORE") for ks in (own, below)]
        whole = [sum(kernel.duration_ns for kernel in ks) for ks in (own, below)]
        host = one.end_ns - one.start_ns
        rows.append(
            [
                one.name,
                torch_shapes(one) if shapes else "",
                call_stack(one) if stack else "",
                *(us(time) for time in (host - inner, host)),
                *(us(time) if time else 0 for time in (*whole, *cubes)),
            ]
        )
    return csv_bytes([header, *rows])


def _device_times(
    operations: list[HostOperation], kernels: dict[int, Kernel]
) -> Iterator[tuple[HostOperation, int, list[Kernel], list[Kernel]]]:
    """Give each operation with the time of those directly in it, its own kernels, and those of all in it."""
    for place, one in enumerate(operations):
        inside = []
        for other in operations[place + 1 :]:
            if other.start_ns >= one.end_ns:
                break
            inside.append(other)
        direct, until = 0, 0
        for other in inside:
            if other.end_ns > until:
                direct, until = direct + other.end_ns - other.start_ns, other.end_ns
        own = [kernels[one.launch_ns]] if one.is_kernel_launch else []
        below = [kernels[other.launch_ns] for other in inside if other.is_kernel_launch]
        yield one, direct, own, [*own, *below]


def torch_shapes(one: HostOperation) -> str:
    """Input shapes as torch_npu prints them: `32,64;\\r\\n64;\\r\\n`."""
    if one.operator is None:
        return ""
    return ";\r\n".join(",".join(map(str, shape or ())) for shape in one.operator.inputs)


def call_stack(one: HostOperation) -> str:
    """A call stack as torch_npu prints it, the innermost call first."""
    if one.is_backward:
        return ""
    return ";\r\n".join(
        (
            "/usr/lib/python3/torch/nn/modules/module.py(1527): _call_impl",
            f"/home/user/train.py({100 + len(one.name)}): train",
            "<string>(1): <module>",
        )
    )


def _mindspore_shapes(one: Kernel) -> str:
    return str([list(shape) for shape in one.operator.inputs if shape is not None])
