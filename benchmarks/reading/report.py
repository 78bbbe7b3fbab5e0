"""The table of a run: medians, the ratio to the reference of the group, and what the issue asks for beside it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any


def text(document: Mapping[str, Any]) -> str:
    """Return the tables of a run as text: one of all groups, one of how the cost grows with the size."""
    from tabulate import tabulate

    machine = document["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 1e9:.0f} GB, {machine['system']}, "
        f"Python {machine['python']}; medians of {document['rounds']} rounds",
        ", ".join(f"{name} {version}" for name, version in document["packages"].items()),
        "peers: " + (", ".join(f"{name} {version}" for name, version in document["peers"].items()) or "none"),
        "",
    ]
    for case in document["cases"]:
        lines += [case["title"], tabulate(_rows(case), headers=_HEADERS, disable_numparse=True, colalign=_ALIGNED), ""]
    if growth := _growth(document["cases"]):
        lines += ["growth with size", tabulate(growth, headers=_GROWTH_HEADERS, disable_numparse=True), ""]
    lines += [f"left out: {one}" for one in document["left_out"]]
    return "\n".join(lines)


_HEADERS = (
    "",
    "CPU s",
    "of the reference",
    "asked",
    "without start-up",
    "range of CPU s",
    "wall s (of the reference)",
    "peak MB",
    "MB/CPU s",
)
_ALIGNED = ("left", *("right",) * 8)
_GROWTH_HEADERS = ("", "from", "to", "size", "CPU", "CPU over size", "wall over size", "peak")


def _rows(case: Mapping[str, Any]) -> list[list[str]]:
    """Return a row a candidate; one that failed says why, and counts no figure of it."""
    medians = {one["name"]: _median(one) for one in case["candidates"]}
    base = medians.get(case["reference"])
    work = {one["name"]: _work_s(one) for one in case["candidates"]}
    base_work = work.get(case["reference"])
    rows = []
    for one in case["candidates"]:
        middle = medians[one["name"]]
        if middle is None:
            rows.append([one["name"], one["failure"] or "-", *[""] * 7])
            continue
        sampled = "sampled" in one["rounds"][0]["found"]
        cpu = [measured["cpu_s"] for measured in one["rounds"]]
        ratio = middle["cpu_s"] / base["cpu_s"] if base else None
        asked = case["target"].get(one["name"])
        alone = work[one["name"]]
        rows.append(
            [
                one["name"],
                f"{'≈ ' if sampled else ''}{_figure(middle['cpu_s'])}",
                "-" if ratio is None else _ratio(ratio),
                "" if asked is None else _ratio(asked),
                "" if sampled or alone is None or base_work is None else _ratio(alone / base_work),
                f"{_figure(min(cpu))} - {_figure(max(cpu))}",
                "" if sampled else _wall(middle, base),
                _peak(middle),
                "" if sampled else f"{case['mb'] / middle['cpu_s']:.1f}",
            ]
        )
    return rows


def _wall(middle: Mapping[str, float], base: Mapping[str, float] | None) -> str:
    return _figure(middle["wall_s"]) + (f" ({_ratio(middle['wall_s'] / base['wall_s'])})" if base else "")


def _peak(middle: Mapping[str, float]) -> str:
    one, together = middle["peak_bytes"] / 1e6, middle["tree_peak_bytes"] / 1e6
    # Several processes: the largest, and all together.
    return f"{one:.0f}" if together < 1.1 * one else f"{one:.0f} ({together:.0f})"


def _median(candidate: Mapping[str, Any]) -> dict[str, float] | None:
    if candidate["failure"] is not None or not candidate["rounds"]:
        return None
    figures = ("cpu_s", "wall_s", "peak_bytes", "tree_peak_bytes")
    return {name: statistics.median(one[name] for one in candidate["rounds"]) for name in figures}


def _work_s(candidate: Mapping[str, Any]) -> float | None:
    """Return the CPU seconds of the work alone, where a candidate says what start-up and imports had taken before."""
    if candidate["failure"] is not None or not candidate["rounds"]:
        return None
    before = [one["cpu_before_s"] for one in candidate["rounds"]]
    if None in before:
        return None
    return statistics.median(one["cpu_s"] - spent for one, spent in zip(candidate["rounds"], before, strict=True))


def _growth(cases: list[Mapping[str, Any]]) -> list[list[str]]:
    """Compare each size with the next smaller one of the same kind: 1.00 is linear."""
    rows = []
    last: dict[tuple[str, str], tuple[float, dict[str, float]]] = {}
    for case in cases:
        if case["job"] not in ("trace", "kernels", "gpu", "ranks"):
            continue
        kind = f"{case['job']} {case['title'].split()[0]}" if case["job"] == "trace" else case["job"]
        for one in case["candidates"]:
            middle = _median(one)
            if middle is None or "sampled" in one["rounds"][0]["found"]:
                continue
            key = (kind, one["name"])
            if key in last and case["mb"] > 1.5 * last[key][0]:
                before_mb, before = last[key]
                size = case["mb"] / before_mb
                rows.append(
                    [
                        f"{kind}: {one['name']}",
                        f"{before_mb:.0f} MB",
                        f"{case['mb']:.0f} MB",
                        f"x {size:.1f}",
                        f"x {middle['cpu_s'] / before['cpu_s']:.1f}",
                        f"{middle['cpu_s'] / before['cpu_s'] / size:.2f}",
                        f"{middle['wall_s'] / before['wall_s'] / size:.2f}",
                        f"x {middle['peak_bytes'] / before['peak_bytes']:.1f}",
                    ]
                )
            last[key] = (case["mb"], middle)
    return sorted(rows, key=lambda row: row[0])


def _figure(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _ratio(value: float) -> str:
    """Write a ratio below a fifth as a part: 1/12."""
    return f"1/{1 / value:.1f}".removesuffix(".0") if value < 0.2 else f"{value:.2f} x"
