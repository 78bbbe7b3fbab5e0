"""Traits: what a directory that nobody recorded tells of what its fingerprint would be.

A recording of perfguard's own has a fingerprint. A plain profiler directory has layouts, conditions and ranks; they say as
much as is needed not to compare an NPU of one framework with a CPU of another. What they do not say is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfguard.contract import Contract, Extract
from perfguard.recording import Fingerprint

#: How the ids of layouts begin that one framework's profiler writes.
_BACKENDS = {
    "mindspore": ("ms-", "mf-", "minddata", "summary", "ir", "memtrack"),
    "torch": ("pt-",),
}
#: How each framework calls what the conditions call npu and gpu.
_DEVICES = {
    "mindspore": {"npu": "ascend", "gpu": "gpu"},
    "torch": {"npu": "npu", "gpu": "cuda"},
}


def traits_of(contract: Contract) -> dict[str, Any]:
    """Return what is known of backend, device, mode and number of ranks."""
    known = {
        "backend": _common(_backend(extract) for extract in contract.extracts),
        "device": _common(_device(extract) for extract in contract.extracts),
        "mode": _common(_mode(extract) for extract in contract.extracts),
        "ranks": len({extract.rank for extract in contract.extracts}) or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def trait_differences(
    now: tuple[Fingerprint | None, Mapping[str, Any]], before: tuple[Fingerprint | None, Mapping[str, Any]]
) -> list[str]:
    """Name what differs of what must be equal, as `key: before → now`; what one of the two does not know is equal.

    Each side is a fingerprint, where there is one, and its traits.
    """
    if now[0] is not None and before[0] is not None:
        return now[0].differences(before[0])
    mine, theirs = _known(*now), _known(*before)
    return [f"{key}: {theirs[key]} → {mine[key]}" for key in mine if key in theirs and mine[key] != theirs[key]]


def _known(fingerprint: Fingerprint | None, traits: Mapping[str, Any]) -> dict[str, Any]:
    told = fingerprint.as_dict() if fingerprint is not None else {}
    return {key: value for key, value in {**traits, **told}.items() if key != "workload"}


def _common(values: Iterable[str | None]) -> str | None:
    """Return the one value that all cycles that know it have."""
    found = {value for value in values if value is not None}
    return found.pop() if len(found) == 1 else None


def _backend(extract: Extract) -> str | None:
    return next((name for name, beginnings in _BACKENDS.items() if extract.layout.startswith(beginnings)), None)


def _device(extract: Extract) -> str | None:
    on = extract.conditions
    kind = "cpu" if on.get("cpu_device") else next((one for one in ("gpu", "npu") if on.get(one)), None)
    return _DEVICES.get(_backend(extract) or "", {}).get(kind, kind) if kind is not None else None


def _mode(extract: Extract) -> str | None:
    graph = extract.conditions.get("graph")
    return None if graph is None or _backend(extract) != "mindspore" else "graph" if graph else "pynative"
