"""Traits: the parts of a fingerprint that the files of a foreign profiler directory show.

They come from layouts, conditions and ranks, and prevent a comparison of an NPU of one framework with a CPU of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfguard.contract import Contract, Extract
from perfguard.recording import Fingerprint

#: Beginnings of the ids of the layouts of each framework.
_BACKENDS = {
    "mindspore": ("ms-", "mf-", "minddata", "summary", "ir", "memtrack"),
    "torch": ("pt-",),
}
#: The names of each framework for the conditions npu and gpu.
_DEVICES = {
    "mindspore": {"npu": "ascend", "gpu": "gpu"},
    "torch": {"npu": "npu", "gpu": "cuda"},
}


def traits_of(contract: Contract) -> dict[str, Any]:
    """Return backend, device, mode and number of ranks, as far as known."""
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
    """Return the differences as `key: before → now`, ignoring properties that one side does not know.

    Each side is a fingerprint or None, and its traits.
    """
    if now[0] is not None and before[0] is not None:
        return now[0].differences(before[0])
    mine, theirs = _known(*now), _known(*before)
    return [f"{key}: {theirs[key]} → {mine[key]}" for key in mine if key in theirs and mine[key] != theirs[key]]


def _known(fingerprint: Fingerprint | None, traits: Mapping[str, Any]) -> dict[str, Any]:
    recorded = fingerprint.as_dict() if fingerprint is not None else {}
    return {key: value for key, value in {**traits, **recorded}.items() if key != "workload"}


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all cycles with a value have in common."""
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
