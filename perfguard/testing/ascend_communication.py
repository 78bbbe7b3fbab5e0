"""communication.json and communication_matrix.json of torch_npu and MindSpore (2.5 and later).

Formats: real output of torch_npu level 1 (msinsight test data), MindSpore 2.10 source (mindspore/profiler/analysis/viewer).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perfguard.testing.formats import Files, json_bytes, us
from perfguard.testing.truth import Collective, Link, Output, grouped, of_step, summed

#: Kinds of links that communication.json always lists.
_TRANSPORTS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")


def communication_files(output: Output) -> Files:
    """Write communication.json: times and bandwidths of each collective operation, by step; and the matrix of links."""
    document = {
        key: {kind: with_total(output, part) for kind, part in by_kind(ones).items()}
        for key, ones in collectives_by_step(output)
    }
    return {"communication.json": json_bytes(document), "communication_matrix.json": _matrix(output)}


def by_kind(ones: Iterable[Collective]) -> dict[str, list[Collective]]:
    """Split operations into those between two ranks and those between all ranks of a group."""
    return {"p2p": [], "collective": [], **grouped(ones, lambda one: "p2p" if one.is_point_to_point else "collective")}


def collectives_by_step(output: Output) -> Iterator[tuple[str, list[Collective]]]:
    """Yield the collective operations of each step, with the step's key in communication.json."""
    rank = output.rank
    if not output.is_scheduled:
        yield "step0" if output.version else "step", list(rank.collectives)
        return
    for step in rank.steps:
        yield f"step{step.step}", of_step(rank.collectives, step.step)


def time_info(one: Collective) -> dict[str, float]:
    """Return the times of one operation; UNIX time in microseconds, durations in milliseconds."""
    elapse, transit, wait, sync = (ns / 1_000_000 for ns in (one.duration_ns, one.transit_ns, one.wait_ns, one.sync_ns))
    times = {
        "Elapse Time(ms)": elapse,
        "Transit Time(ms)": transit,
        "Wait Time(ms)": wait,
        "Synchronization Time(ms)": sync,
        "Idle Time(ms)": elapse - transit - wait,
    }
    return {"Start Timestamp(us)": us(one.start_ns), **_with_ratios(times)}


def _with_ratios(times: dict[str, float]) -> dict[str, float]:
    transit = times["Transit Time(ms)"]
    ratios = {
        f"{name} Ratio": _ratio(times[f"{name}(ms)"], times[f"{name}(ms)"] + transit)
        for name in ("Wait Time", "Synchronization Time")
    }
    return {**times, **ratios}


def _ratio(part: float, whole: float) -> float:
    """Divide to four places; 0 if the whole is 0."""
    return round(part / whole, 4) if whole else 0


def _packets(links: Iterable[Link]) -> dict[str, list[float]]:
    """Return the distribution of packet sizes: size in MB, count and time in milliseconds."""
    return summed((repr(link.packet_bytes / 1_000_000), (link.packets, link.duration_ns / 1_000_000)) for link in links)


def bandwidth_info(one: Collective, variant: str = "") -> dict[str, dict[str, Any]]:
    """Return sizes and bandwidths by kind of link; SDMA repeats the totals of HCCS, without the packets."""
    found: dict[str, dict[str, Any]] = {}
    for transport in _TRANSPORTS:
        if transport == "SIO" and variant == "2023":
            continue
        wire = _packets(link for link in one.links if link.transport == ("HCCS" if transport == "SDMA" else transport))
        size = sum(float(key) * count for key, (count, _) in wire.items())
        time = sum(spent for _, spent in wire.values())
        counted = wire if transport != "SDMA" else {}
        found[transport] = {
            "Transit Size(MB)": size,
            "Transit Time(ms)": time,
            "Bandwidth(GB/s)": _ratio(size, time),
            "Large Packet Ratio": 0.0 if counted else 0,
            "Size Distribution": counted,
        }
    return found


def with_total(output: Output, ones: list[Collective]) -> dict[str, dict[str, Any]]:
    """Return the operations by name, and their sum as `Total Op Info`; nothing without operations."""
    document: dict[str, dict[str, Any]] = {}
    infos = [(time_info(one), bandwidth_info(one, output.variant)) for one in ones]
    for one, (info, bandwidth) in zip(ones, infos, strict=True):
        document[full_name(output, one)] = _entry(info, bandwidth)
    if ones:
        times = {name: sum(info[name] for info, _ in infos) for name in list(infos[0][0])[1:6]}
        links: dict[str, dict[str, Any]] = {}
        for transport in infos[0][1]:
            parts = [bandwidth[transport] for _, bandwidth in infos]
            total = {name: sum(part[name] for part in parts) for name in ("Transit Time(ms)", "Transit Size(MB)")}
            sizes = summed(item for part in parts for item in part["Size Distribution"].items())
            links[transport] = {**total, "Size Distribution": sizes}
        document["Total Op Info"] = _entry(_with_ratios(times), links)
    return document


def full_name(output: Output, one: Collective) -> str:
    """Return the name of one operation with its group."""
    return f"{output.truth.name_of(one)}@{output.truth.group}"


def _entry(times: dict[str, float], links: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {"Communication Time Info": times, "Communication Bandwidth Info": links}


def _matrix(output: Output) -> bytes:
    """Write communication_matrix.json: the fastest, middle and slowest operations of each link, and their sum.

    torch_npu of 2023 wrote every operation instead.
    """
    document: dict[str, dict[str, dict[str, dict[str, object]]]] = {}
    is_old = output.variant == "2023"
    key = "op_name" if output.version else "Op Name"
    for step, ones in collectives_by_step(output):
        document[step] = {"p2p": {}, "collective": {}}
        for kind, part in by_kind(ones).items():
            found = document[step][kind]
            for one in part if is_old else ():
                links: dict[str, object] = {f"{link.source}-{link.target}": _link_entry([link]) for link in one.links}
                found[full_name(output, one)] = links
            for name, link, entry, operation in matrix_entries(output, part):
                if not is_old:
                    named = {**entry, key: operation} if operation else entry
                    found.setdefault(f"{name}@{output.truth.group}", {})[link] = named
                elif not operation:
                    found.setdefault("Total Op Info", {})[link] = entry
    return json_bytes(document)


def _link_entry(links: list[Link]) -> dict[str, Any]:
    """Return size, time and bandwidth of links of one kind."""
    size = sum(link.size / 1_000_000 for link in links)
    time = sum(link.duration_ns / 1_000_000 for link in links)
    return {
        "Transport Type": links[0].transport,
        "Transit Size(MB)": size,
        "Transit Time(ms)": time,
        "Bandwidth(GB/s)": _ratio(size, time),
    }


def matrix_entries(output: Output, ones: list[Collective]) -> Iterator[tuple[str, str, dict[str, Any], str]]:
    """Yield name (`allreduce-top1`, `-middle`, ... `-total`), link (`0-1`), traffic and operation ("" for the total).

    `ones` are of one type.
    """
    pairs = ((one, link) for one in ones for link in one.links)
    for (source, target), same in grouped(pairs, lambda pair: (pair[1].source, pair[1].target)).items():
        entries = [(_link_entry([link]), output.truth.name_of(one)) for one, link in same]
        entries.sort(key=lambda entry: -entry[0]["Bandwidth(GB/s)"])
        count, kind, name = len(entries), same[0][0].type.lower(), f"{source}-{target}"
        places = {"top1": 0, "middle": count // 2, "bottom1": count - 1}
        places |= {f"bottom{i}": max(count - i, 0) for i in (2, 3)}
        for place, at in places.items():
            yield f"{kind}-{place}", name, *entries[at]
        yield f"{kind}-total", name, _link_entry([link for _, link in same]), ""
