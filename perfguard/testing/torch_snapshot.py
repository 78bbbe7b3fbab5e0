"""The snapshot of a caching allocator of torch: a small allocator hands out the blocks of a run, and says what it did.

As CUDACachingAllocator does: sizes are rounded to 512 bytes, the smallest free block that fits is split, freed neighbours are
merged, and a segment has 2 MiB for blocks up to 1 MiB and 20 MiB, or more, for larger ones.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from perfguard.testing.formats import Files
from perfguard.testing.truth import Output, memory_totals

_MIB = 1024**2
_ROUNDING, _SMALL = 512, 1 * _MIB
_FIRST_ADDRESS = 0x7F00_0000_0000
_FRAMES = [
    {"name": "forward", "filename": "train.py", "line": 12},
    {"name": "<module>", "filename": "train.py", "line": 40},
]


@dataclass(slots=True, eq=False)
class _Block:
    address: int
    size: int
    requested: int = 0
    is_used: bool = False


@dataclass(slots=True, eq=False)
class _Segment:
    address: int
    size: int
    blocks: list[_Block] = field(default_factory=list)

    @property
    def is_small(self) -> bool:
        return self.size == 2 * _MIB


class _Allocator:
    """Segments of one device, and what happened to them."""

    def __init__(self) -> None:
        self.segments: list[_Segment] = []
        self.history: list[dict[str, Any]] = []

    def allocate(self, requested: int, time_us: int) -> _Block:
        size = -(-max(requested, 1) // _ROUNDING) * _ROUNDING
        fitting = [
            (block.size, block.address, segment, block)
            for segment in self.segments
            for block in segment.blocks
            if not block.is_used and block.size >= size and segment.is_small == (size <= _SMALL)
        ]
        if not fitting:
            segment = self._grown(size, time_us)
            block = segment.blocks[0]
        else:
            *_, segment, block = min(fitting, key=lambda one: one[:2])
        if block.size > size:
            rest = _Block(block.address + size, block.size - size)
            segment.blocks.insert(segment.blocks.index(block) + 1, rest)
            block.size = size
        block.is_used, block.requested = True, requested
        self._say("alloc", block.address, requested, time_us)
        return block

    def _grown(self, size: int, time_us: int) -> _Segment:
        total = 2 * _MIB if size <= _SMALL else max(20 * _MIB, -(-size // (2 * _MIB)) * 2 * _MIB)
        last = self.segments[-1] if self.segments else _Segment(_FIRST_ADDRESS, 0)
        address = last.address + last.size + 2 * _MIB
        segment = _Segment(address, total, [_Block(address, total)])
        self.segments.append(segment)
        self._say("segment_alloc", address, total, time_us)
        return segment

    def free(self, block: _Block, time_us: int) -> None:
        self._say("free_requested", block.address, block.requested, time_us)
        self._say("free_completed", block.address, block.requested, time_us)
        block.is_used = False
        (segment,) = (one for one in self.segments if block in one.blocks)
        at = segment.blocks.index(block)
        for first, second in ((at, at + 1), (at - 1, at)):
            pair = segment.blocks[first : second + 1] if first >= 0 else []
            if len(pair) == 2 and not any(one.is_used for one in pair):
                pair[0].size += pair[1].size
                segment.blocks.remove(pair[1])

    def _say(self, action: str, address: int, size: int, time_us: int) -> None:
        self.history.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us, "frames": _FRAMES}
        )


def snapshot_file(output: Output) -> Files:
    """Write the snapshot of one rank, at the end of its run, as MindSpeed-MM names it."""
    allocator, blocks = _Allocator(), dict[int, _Block]()
    for at_ns, one, _ in memory_totals(output.rank.allocations):
        if id(one) in blocks:
            allocator.free(blocks.pop(id(one)), at_ns // 1000)
        else:
            blocks[id(one)] = allocator.allocate(one.size, at_ns // 1000)
    document = {
        "segments": [_segment(one) for one in allocator.segments],
        "device_traces": [allocator.history],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False},
        "external_annotations": [],
    }
    return {f"snapshot_2026-01-01-00-00_{output.number}.pickle": pickle.dumps(document, protocol=4)}


def _segment(segment: _Segment) -> dict[str, Any]:
    used = [block for block in segment.blocks if block.is_used]
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": sum(block.size for block in used),
        "active_size": sum(block.size for block in used),
        "requested_size": sum(block.requested for block in used),
        "stream": 0,
        "segment_type": "small" if segment.is_small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": _FRAMES,
        "blocks": [
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": "active_allocated" if block.is_used else "inactive",
                "frames": _FRAMES,
            }
            for block in segment.blocks
        ],
    }
