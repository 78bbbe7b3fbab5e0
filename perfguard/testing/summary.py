"""Summary files of SummaryCollector: TFRecord frames with checksums around protobuf events.

Format read on real output of MindSpore 2.0.0 and 2.10.0 (summary.proto, lineage.proto).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from perfguard.artifacts.readers.summary import masked_crc32c
from perfguard.testing.formats import Files, json_bytes
from perfguard.testing.truth import Operator, Output

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def summary_files(output: Output) -> Files:
    """Write the files of SummaryCollector of one rank: events, lineage and the metadata of the checkpoints."""
    truth, rank = output.truth, output.rank
    begin = rank.start_ns / 1e9
    name = f"events.out.events.summary.{rank.start_ns // 10**9}.{rank.number}.{truth.host}"
    records = [
        _event(begin, version="MindSpore.Event:1"),
        _event(begin + 0.001, graph=_graph(truth.operators)),
        *(_event(step.end_ns / 1e9, step=i, summary=_values(i)) for i, step in enumerate(rank.steps, start=1)),
    ]
    kind = _text(1, "op_type") + _text(2, "GeneratorDataset")
    workers = _text(1, "num_parallel_workers") + _field(2, _VARINT, 1)
    dataset = _field(2, _BYTES, _field(1, _BYTES, kind) + _field(4, _BYTES, workers))
    lineage = [
        _event(begin + 0.001, others=_field(9, _BYTES, dataset)),
        _event(rank.end_ns / 1e9, others=_field(6, _BYTES, _train_lineage(len(rank.steps)))),
    ]
    return {
        f"{name}_MS": b"".join(map(_record, records)),
        f"{name}_lineage": b"".join(map(_record, lineage)),
        "ckpt_dir/train_metadata.json": _metadata(len(rank.steps)),
    }


def _record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc32c(length)) + payload + struct.pack("<I", masked_crc32c(payload))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _field(number: int, kind: int, value: bytes | int | float) -> bytes:
    key = _varint(number << 3 | kind)
    if isinstance(value, bytes):
        return key + _varint(len(value)) + value
    if kind == _VARINT:
        return key + _varint(int(value))
    return key + struct.pack("<d" if kind == _DOUBLE else "<f", value)


def _text(number: int, text: str) -> bytes:
    return _field(number, _BYTES, text.encode())


def _event(
    wall_time: float, *, step: int = 0, version: str = "", graph: bytes = b"", summary: bytes = b"", others: bytes = b""
) -> bytes:
    found = _field(1, _DOUBLE, wall_time)
    if step:
        found += _field(2, _VARINT, step)
    for number, content in ((3, version.encode()), (4, graph), (5, summary)):
        if content:
            found += _field(number, _BYTES, content)
    return found + others


def _graph(operators: Iterable[Operator]) -> bytes:
    nodes = []
    for number, one in enumerate(operators, start=1):
        names = _text(2, str(number)) + _text(3, one.type) + _text(4, one.scope)
        nodes.append(_field(1, _BYTES, names + _text(8, one.full_name)))
    return b"".join(nodes)


def _values(step: int) -> bytes:
    loss = _text(1, "loss/auto") + _field(3, _FLOAT, 2.0 * math.exp(-step))
    weight = _text(1, "fc.weight/auto") + _field(9, _BYTES, _histogram(step))
    return _field(1, _BYTES, loss) + _field(1, _BYTES, weight)


def _histogram(step: int) -> bytes:
    edge = 1.0 + step / 8
    counts = (2, 2)
    buckets = b"".join(
        _field(1, _BYTES, _field(1, _DOUBLE, left) + _field(2, _DOUBLE, edge) + _field(3, _VARINT, count))
        for left, count in zip((-edge, 0.0), counts, strict=True)
    )
    odd = b"".join(_field(number, _VARINT, 0) for number in (2, 3, 4))
    ends = _field(5, _DOUBLE, edge) + _field(6, _DOUBLE, -edge) + _field(7, _DOUBLE, 0.0)
    return buckets + odd + ends + _field(8, _VARINT, sum(counts))


def _train_lineage(steps: int) -> bytes:
    hyper = _text(1, "Momentum") + _field(2, _FLOAT, 1.0) + _text(3, "SoftmaxCrossEntropyWithLogits")
    hyper += _field(4, _VARINT, 1) + _text(5, "stand_alone") + _field(6, _VARINT, 1) + _field(8, _VARINT, 2)
    dataset = _field(2, _VARINT, steps)
    algorithm = _text(1, "Net") + _field(2, _FLOAT, 2.0 * math.exp(-steps))
    model = _text(3, '{"ckpt": null}') + _field(4, _VARINT, 0)
    parts = (hyper, dataset, algorithm, model)
    return b"".join(_field(number, _BYTES, part) for number, part in enumerate(parts, start=1))


def _metadata(steps: int) -> bytes:
    numbers = range(1, steps + 1)
    document = {
        # SummaryCollector refuses a shorter interval (_check_intervals).
        "epoch_group": {"0": list(range(1, max(steps, 3) + 1))},
        "model_params_file_map": {str(i): f"/home/user/out_summary/ckpt_dir/Net_{i}_step.ckpt" for i in numbers},
        "step_per_epoch": steps,
        "unit": "step",
        "num_samples": 2048,
        "landscape_size": 40,
        "create_landscape": {"train": True, "result": True},
    }
    return json_bytes(document)
