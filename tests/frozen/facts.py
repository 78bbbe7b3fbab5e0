"""Facts: all that perfguard says of one directory, a line each."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfguard.capture.replay import replay
from perfguard.contract import Contract, Expectation, inspect
from perfguard.findings import Finding
from perfguard.measure import Measurement, measure, operators_of
from perfguard.measure.census import Counted, censuses

#: Sums of times may be added in another order; nothing that is counted has so many digits.
_DIGITS = 12


def facts_of(directory: Path, expected: Expectation | None) -> list[str]:
    """Return what is found in a directory and measured of it, sorted; an exception is a fact as well."""
    try:
        contract = inspect(replay(directory), expected)
        return sorted(_facts(contract))
    except Exception as error:  # noqa: BLE001 - a crash is what must not change silently
        return [f"raises {type(error).__name__}: {error}".partition("\n")[0]]


def _facts(contract: Contract) -> Iterator[str]:
    yield f"layouts {' '.join(contract.layouts)}"
    yield "read " + " ".join(f"{name}={count}" for name, count in contract.read.items())
    for fact, count in Counter(map(_finding, contract.findings)).items():
        yield fact if count == 1 else f"{fact} x{count}"
    for measurement in measure(contract):
        yield from _measured(measurement)
    for one in operators_of(contract):
        shapes = hashlib.sha256(json.dumps(one.shapes, sort_keys=True).encode()).hexdigest()[:8]
        times = f"total_us={_number(one.total_us)} self_us={_number(one.self_us)}"
        yield f"op rank={one.rank} {one.operator} calls={one.occurrences} {times} shapes={shapes}"
    for census in censuses(contract):
        if census.counted is Counted.GRAPH:
            yield from (f"graph rank={census.rank} {name} nodes={count}" for name, count in census.counts.items())


def _finding(finding: Finding) -> str:
    more = f" and {finding.more} more" if finding.more else ""
    rank = "" if finding.rank is None else f" rank={finding.rank}"
    return f"finding {finding.severity.value} {finding.code.name} {finding.check or '-'}{rank} at {finding.place}{more}"


def _measured(measurement: Measurement) -> Iterator[str]:
    subject = f"[{measurement.subject}]" if measurement.subject else ""
    name, value = f"metric {measurement.metric}{subject}", measurement.value
    if isinstance(value, dict):
        yield from (f"{name} {key} = {_number(count)}" for key, count in value.items())
    elif isinstance(value, list):
        yield from (f"{name} has {one}" for one in value)
    else:
        several = measurement.samples
        samples = f" ({len(several)} samples, median {_number(statistics.median(several))})" if several else ""
        yield f"{name} = {_number(value)}{samples}"


def _number(value: Any) -> str:
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)
