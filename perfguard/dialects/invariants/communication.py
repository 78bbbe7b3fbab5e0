"""Communication of an Ascend device: communication.json and communication_matrix.json, with each other and with the kernels.

Times are in ms, sizes in MB, bandwidths in GB/s (which is MB/ms). Source, unless a function says otherwise: real output of
torch_npu (msinsight test data, eight directories).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfguard.dialects.ascend.kernels import kernels_of
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

#: The entry beside the operators that adds them up.
TOTAL = "Total Op Info"
_TIMES = ("Elapse Time(ms)", "Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)", "Idle Time(ms)")
#: Full float64 is printed, so sums are as exact as adding is.
_EXACT = 1e-6
#: Ratios and bandwidths have four decimals.
_FOUR_DECIMALS = 1e-4
#: Links whose sum SDMA is.
_SDMA_LINKS = ("HCCS", "PCIE", "SIO")
#: Links that carry data between devices, each counted once.
_LINKS = ("RDMA", *_SDMA_LINKS)
_START_US = 0.5


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of communication.json, or of one rank in cluster_communication.json."""

    place: str
    group: tuple[str, ...]
    name: str
    info: Mapping[str, Any]

    @property
    def times(self) -> Mapping[str, Any]:
        """Start, and times in ms."""
        found: Mapping[str, Any] = self.info.get("Communication Time Info", {})
        return found

    @property
    def links(self) -> Mapping[str, Mapping[str, Any]]:
        """What went over each kind of link."""
        found: Mapping[str, Mapping[str, Any]] = self.info.get("Communication Bandwidth Info", {})
        return found


def json_place(place: str, *keys: str) -> str:
    """Word the place of a value in a JSON document: `communication.json $.step5.collective['hcom_send_@1']`."""
    path = "".join(f".{key}" if re.fullmatch(r"[A-Za-z_]\w*", key) else f"[{key!r}]" for key in keys)
    return f"{place} ${path}"


def operations(document: Any, place: str, *, depth: int = 2) -> Iterator[Operation]:
    """Yield every operation: step, kind, name (`depth` 2) or group, step, name, rank (`depth` 3 and one level more).

    `group` is what its total is kept apart for; of a cluster it ends with the rank.
    """
    if not isinstance(document, Mapping):
        return
    for outer, steps in document.items():
        for inner, found in _items(steps):
            for name, one in _items(found):
                if depth == 2:
                    yield Operation(json_place(place, outer, inner, name), (outer, inner), name, one)
                    continue
                for rank, info in _items(one):
                    keys = (outer, inner, name, rank)
                    yield Operation(json_place(place, *keys), (outer, inner, rank), name, info)


def _items(found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, Mapping):
        yield from found.items()


@invariant(needs=("communication",))
def communication_times_add_up(cycle: Cycle) -> Iterator[Finding]:
    """Idle = Elapse - Transit - Wait; Synchronization <= Wait; the two ratios follow from Wait, Synchronization, Transit.

    Exact (1e-6 ms); the ratios have four decimals (1e-4), and are 0 where nothing was sent or waited for.
    """
    artifact = cycle.artifacts["communication"]
    yield from times_add_up(artifact.place, list(operations(artifact.content.document, artifact.place)))


@invariant(needs=("communication",))
def communication_bandwidths_follow(cycle: Cycle) -> Iterator[Finding]:
    """Bandwidth = Transit Size / Transit Time (1e-4); the size distribution adds up to both; SDMA = HCCS + PCIE + SIO.

    Exact (1e-6) but for the bandwidth. Where a link has no distribution (SDMA never has one) there is nothing to add up.
    """
    artifact = cycle.artifacts["communication"]
    yield from bandwidths_follow(artifact.place, list(operations(artifact.content.document, artifact.place)))


@invariant(needs=("communication",))
def communication_total_is_the_sum(cycle: Cycle) -> Iterator[Finding]:
    """`Total Op Info` = the sum of the operations beside it: five times, and size, time and distribution of every link.

    Exact (1e-6).
    """
    artifact = cycle.artifacts["communication"]
    groups: dict[tuple[str, ...], list[Operation]] = defaultdict(list)
    for one in operations(artifact.content.document, artifact.place):
        groups[one.group].append(one)
    yield from disagreements(
        Code.I109,
        (found for group in groups.values() for found in _total_disagreements(group)),
        place=artifact.place,
    )


def times_add_up(place: str, found: list[Operation]) -> Iterator[Finding]:
    """Yield what breaks the identities of the times of communication operations."""
    yield from disagreements(
        Code.I109, ((one.place, message) for one in found for message in _time_messages(one.times)), place=place
    )


def _time_messages(times: Mapping[str, Any]) -> Iterator[str]:
    if not set(_TIMES) <= set(times):
        return
    elapse, transit, wait, synchronization, idle = (float(times[key]) for key in _TIMES)
    if _differs(idle, elapse - transit - wait):
        yield f"Idle is {idle:.9g} ms, Elapse - Transit - Wait is {elapse - transit - wait:.9g} ms"
    if synchronization > wait + _EXACT:
        yield f"Synchronization is {synchronization:.9g} ms, more than the whole Wait of {wait:.9g} ms"
    for key, part in (("Wait Time Ratio", wait), ("Synchronization Time Ratio", synchronization)):
        ratio = part / (part + transit) if part + transit else 0.0
        if key in times and abs(float(times[key]) - ratio) > _FOUR_DECIMALS:
            yield f"{key} is {times[key]}, {part:.6g} ms of it and {transit:.6g} ms of Transit make {ratio:.4f}"


def bandwidths_follow(place: str, found: list[Operation]) -> Iterator[Finding]:
    """Yield what breaks the identities of size, time and bandwidth of communication operations."""
    yield from disagreements(
        Code.I109, ((one.place, message) for one in found for message in _link_messages(one.links)), place=place
    )


def _link_messages(links: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for link, values in links.items():
        size, time = _size_and_time(values)
        yield from bandwidth_messages(values, link)
        distribution = values.get("Size Distribution")
        if not isinstance(distribution, Mapping) or not distribution:
            continue
        sizes = sum(float(each) * entry[0] for each, entry in distribution.items())
        times = sum(float(entry[1]) for entry in distribution.values())
        if _differs(size, sizes):
            yield f"{link}: Transit Size is {size:.9g} MB, the packets of its distribution add up to {sizes:.9g} MB"
        if _differs(time, times):
            yield f"{link}: Transit Time is {time:.9g} ms, the packets of its distribution add up to {times:.9g} ms"
    if "SDMA" in links:
        sums = [sum(one) for one in zip(*(_size_and_time(links[x]) for x in _SDMA_LINKS if x in links), strict=True)]
        for name, unit, own, parts in zip(
            ("Size", "Time"), ("MB", "ms"), _size_and_time(links["SDMA"]), sums or (0.0, 0.0), strict=True
        ):
            if _differs(own, parts):
                yield f"SDMA: Transit {name} is {own:.9g} {unit}, {', '.join(_SDMA_LINKS)} add up to {parts:.9g} {unit}"


def bandwidth_messages(values: Mapping[str, Any], link: str) -> Iterator[str]:
    """Yield a message where Bandwidth is not size / time. `values` has Transit Size, Transit Time and perhaps Bandwidth."""
    size, time = _size_and_time(values)
    bandwidth = size / time if time else 0.0
    if "Bandwidth(GB/s)" in values and abs(float(values["Bandwidth(GB/s)"]) - bandwidth) > max(
        _FOUR_DECIMALS, 1e-6 * bandwidth
    ):
        yield (
            f"{link}: Bandwidth is {values['Bandwidth(GB/s)']} GB/s, {size:.9g} MB in {time:.9g} ms are {bandwidth:.4f}"
        )


def _total_disagreements(group: list[Operation]) -> Iterator[tuple[str, str]]:
    parts = [one for one in group if one.name != TOTAL]
    for total in (one for one in group if one.name == TOTAL):
        for key in _TIMES:
            own, summed = float(total.times.get(key, 0)), sum(float(one.times.get(key, 0)) for one in parts)
            if _differs(own, summed):
                yield total.place, f"{key} is {own:.9g}, the {len(parts)} operations add up to {summed:.9g}"
        for link, values in total.links.items():
            sizes = [_size_and_time(one.links.get(link, {})) for one in parts]
            for name, own, summed in zip(
                ("Size(MB)", "Time(ms)"),
                _size_and_time(values),
                (sum(size for size, _ in sizes), sum(time for _, time in sizes)),
                strict=True,
            ):
                if _differs(own, summed):
                    yield (
                        total.place,
                        f"{link}: Transit {name} is {own:.9g}, the {len(parts)} operations add up to {summed:.9g}",
                    )
            yield from ((total.place, message) for message in _distribution_messages(link, values, parts))


def _distribution_messages(link: str, total: Mapping[str, Any], parts: list[Operation]) -> Iterator[str]:
    summed: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in parts:
        for size, entry in one.links.get(link, {}).get("Size Distribution", {}).items():
            summed[size][0] += entry[0]
            summed[size][1] += entry[1]
    own = total.get("Size Distribution", {})
    for size in sorted(summed.keys() | own.keys()):
        count, time = own.get(size, (0, 0.0))
        if _differs(count, summed[size][0]) or _differs(time, summed[size][1]):
            yield (
                f"{link}: {count} packets of {size} MB in {time:.9g} ms, the operations have {summed[size][0]:g} in "
                f"{summed[size][1]:.9g} ms"
            )


def _size_and_time(values: Mapping[str, Any]) -> tuple[float, float]:
    return float(values.get("Transit Size(MB)", 0)), float(values.get("Transit Time(ms)", 0))


def _differs(one: float, other: float) -> bool:
    return abs(one - other) > _EXACT + 1e-9 * max(abs(one), abs(other))


@invariant(needs=("communication_matrix",))
def matrix_bandwidths_follow(cycle: Cycle) -> Iterator[Finding]:
    """Bandwidth = Transit Size / Transit Time for every link of communication_matrix (1e-4)."""
    artifact = cycle.artifacts["communication_matrix"]
    yield from disagreements(
        Code.I109,
        (
            (one.place, message)
            for one in operations(artifact.content.document, artifact.place)
            for link, values in _items(one.info)
            for message in bandwidth_messages(values, link)
        ),
        place=artifact.place,
    )


@invariant(needs=("communication", "communication_matrix"))
def matrix_agrees_with_communication(cycle: Cycle) -> Iterator[Finding]:
    """What communication_matrix sends over the links between devices = what communication.json says of the same operations.

    An entry is one operation (older versions), `Total Op Info`, or `<type>-total` of a group, which adds up all of its type;
    `<type>-top1` and the like pick single links, whose `Op Name` must be an operation. Size and time, exact (1e-6), over all
    links but LOCAL: of an entry that mixes kinds, one pair of ranks carries the name of one kind only. Holds on three real
    directories.
    """
    matrix, table = cycle.artifacts["communication_matrix"], cycle.artifacts["communication"]
    known = {(one.group, one.name): one for one in operations(table.content.document, table.place)}
    yield from disagreements(
        Code.I109,
        (
            (entry.place, message)
            for entry in operations(matrix.content.document, matrix.place)
            for message in _matrix_messages(entry, known, table.path.name)
        ),
        place=matrix.place,
    )


def _matrix_messages(
    entry: Operation, known: Mapping[tuple[tuple[str, ...], str], Operation], file: str
) -> Iterator[str]:
    kind, _, group_hash = entry.name.partition("@")
    for link, values in _items(entry.info):
        # MindSpore spells the key its own way.
        named = values.get("Op Name") or values.get("op_name")
        if named and (entry.group, f"{named}@{group_hash}") not in known:
            yield f"{link} is of {named}, which {file} does not have in {'.'.join(entry.group)}"
    if (entry.group, entry.name) in known:
        parts = [known[entry.group, entry.name]]
    elif kind.endswith("-total"):
        parts = [
            one
            for (group, name), one in known.items()
            if group == entry.group and name != TOTAL and _type_of(name) == (kind.removesuffix("-total"), group_hash)
        ]
    else:
        return
    links = [values for _, values in _items(entry.info) if values.get("Transport Type") != "LOCAL"]
    if not parts or any(values.get("Transport Type") not in _LINKS for values in links):
        return
    carried = [one.links.get(link, {}) for one in parts for link in _LINKS]
    for index, (name, unit) in enumerate((("Size", "MB"), ("Time", "ms"))):
        here = sum(_size_and_time(values)[index] for values in links)
        there = sum(_size_and_time(values)[index] for values in carried)
        if _differs(here, there):
            yield f"Transit {name} of its links is {here:.9g} {unit}, {file} says {there:.9g} {unit}"


def _type_of(name: str) -> tuple[str, str]:
    """Return type and group: `hcom_allReduce__586_0_1@1752` is ("allreduce", "1752")."""
    operation, _, group_hash = name.partition("@")
    found = re.match(r"(?:hcom_)?([A-Za-z]+)", operation)
    return (found[1].lower() if found else "", group_hash)


@invariant(needs=("communication", "kernel_details"))
def communication_is_in_the_kernels(cycle: Cycle) -> Iterator[Finding]:
    """Operations of communication.json = communication rows of kernel_details, by name; they start at the same time (0.5 us).

    The counts hold on six real directories and not on two old ones, which were cut by hand: where most names are in one file
    only, that is said once as a warning, since then nothing tells what is missing. Starts hold on all.
    """
    artifact, kernels = cycle.artifacts["communication"], cycle.artifacts["kernel_details"]
    table = kernels_of(kernels.content).collectives
    found = [one for one in operations(artifact.content.document, artifact.place) if one.name != TOTAL]
    here = Counter(one.name.partition("@")[0] for one in found)
    there = Counter(dict(table.select("name", "calls").iter_rows()))
    common = sum((here & there).values())
    if 2 * common < max(here.total(), there.total()):
        message = (
            f"{here.total()} operations here, {there.total()} in {kernels.path.name}, of which {common} have the same "
            "name: one of the two was cut, or is of another run"
        )
        yield Finding(code=Code.I109, place=artifact.place, message=message, severity=Severity.WARNING)
    else:
        differing = sorted(name for name in here.keys() | there.keys() if here[name] != there[name])
        # communication.json is cut by step: a collective outside of every step is among the kernels only.
        outside = Counter(dict(table.select("name", "outside").iter_rows()))
        for severity, names in (
            (Severity.ERROR, [name for name in differing if not 0 < there[name] - here[name] <= outside[name]]),
            (Severity.WARNING, [name for name in differing if 0 < there[name] - here[name] <= outside[name]]),
        ):
            yield from disagreements(
                Code.I109,
                (
                    (artifact.place, f"{name}: {here[name]} here, {there[name]} kernels in {kernels.path.name}")
                    for name in names
                ),
                count=len(names),
                place=artifact.place,
                severity=severity,
            )
    starts = dict(table.select("name", "start_ns").iter_rows())
    yield from disagreements(
        Code.I109,
        (
            (
                one.place,
                f"it starts at {float(start):.3f} us here, its kernel at {starts[name] / 1000:.3f} us in {kernels.path.name}",
            )
            for one in found
            if here[name := one.name.partition("@")[0]] == there[name] == 1
            and (start := one.times.get("Start Timestamp(us)")) is not None
            and starts[name] is not None
            and abs(float(start) - starts[name] / 1000) > _START_US
        ),
        place=artifact.place,
    )


@invariant(needs=("communication_matrix",))
def summed_operations_have_a_slowest(cycle: Cycle) -> Iterator[Finding]:
    """Where operations are summed up by type (`allreduce-total@group`), the slowest of them is named too (`-top1`). Exact.

    Source: torch_npu: _communication_matrix_parser.py; real output of level 1.
    """
    artifact = cycle.artifacts["communication_matrix"]
    for step, groups in artifact.content.document.items():
        for group, found in _items(groups):
            names = {name for name, _ in _items(found)}
            for name in sorted(names):
                slowest = name.replace("-total@", "-top1@")
                if slowest != name and slowest not in names:
                    message = f"{slowest} is missing beside {name}"
                    yield Finding(code=Code.I109, place=json_place(artifact.place, step, group), message=message)
