"""The page of the formats that perfguard writes: reports, and its own documents key by key."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

from docs.generate.signatures import docstring
from perfguard.documents import schema
from perfguard.measure import METRICS
from perfguard.reports import REPORTERS
from perfguard.reports.catalogue import column_table, columns, slug
from perfguard.reports.openmetrics import STEP
from perfguard.reports.prose import code, prose, sentence, table
from perfguard.reports.sarif import report_sarif

#: perfguard's own documents, and where they are.
_DOCUMENTS = {
    "report": "`--perfguard-report FILE`, `--report FILE`, `--out json:FILE`",
    "baseline": "a file for each test in the folder `baselines`",
    "calibration": "`calibration.json` in the folder `baselines`, written by `perfguard calibrate`",
    "recording": "`recording.json` in a recording (`--perfguard-recordings DIR`)",
    "steps": "`steps.json` in a recording",
    "timing": "what a controlled process leaves; a report has them in `timings`",
    "history": "`perfguard history export`",
}


def page() -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Report formats\n",
            "`--perfguard-out FORMAT:FILE` (pytest) and `--out FORMAT:FILE` (commands) write a report in any of these "
            "formats, or in that of another distribution. Options such as `--perfguard-html FILE` name the format "
            "themselves: [options](settings.md), [commands](command-line.md).\n",
            table(("format", "what it is"), _formats()),
            *_junit(),
            *_openmetrics(),
            "\n## SARIF\n",
            f"{docstring(report_sarif)}\n",
            *(line for name in _DOCUMENTS for line in _document(name)),
        ]
    )


def _formats() -> Iterator[tuple[str, str]]:
    for name, place in REPORTERS.built_in.items():
        about = inspect.getdoc(import_module(place.partition(":")[0])) or ""
        yield code(name), sentence(" ".join(about.split("\n\n")[0].split()))


def _junit() -> Iterator[str]:
    yield "\n## JUnit\n"
    yield (
        "`pytest --junitxml FILE` writes these properties into the test case. A named measurement has its name in brackets: "
        "`perfguard[decode].outcome`.\n"
    )
    rows = [("perfguard.outcome", "The outcome."), *((f"perfguard.{name}", about) for name, about in STEP.items())]
    rows += [
        ("perfguard.steps", METRICS["steps"].meaning),
        ("perfguard.peak_memory_bytes[DEVICE]", METRICS["peak_memory_bytes"].meaning),
    ]
    yield table(("property", "meaning"), ((code(name), prose(about)) for name, about in rows))


def _openmetrics() -> Iterator[str]:
    yield "\n## OpenMetrics\n"
    yield (
        "A gauge for each metric, with the labels `workload`, `subject` if the metric has subjects, and `origin` if reports "
        "were joined.\n"
    )
    rows = [("perfguard_outcome", "", "1 for the outcome of a workload, in the label `outcome`.")]
    rows += [(f"perfguard_{name}", "", about) for name, about in STEP.items()]
    rows += [
        (f"perfguard_{name}", METRICS[name].unit, METRICS[name].meaning)
        for name in sorted(name for name, one in METRICS.items() if one.of_workload)
    ]
    yield table(("gauge", "unit", "meaning"), ((code(name), prose(unit), prose(about)) for name, unit, about in rows))


def _document(name: str) -> Iterator[str]:
    found = schema(name)
    yield f"\n(format-{slug(name)})=\n## {found['title']}\n"
    yield f"Where: {_DOCUMENTS[name]}.\n"
    yield f"`perfguard schema show {name} --json` prints the schema. {sentence(found['$comment'].partition('; ')[2])}\n"
    parts: dict[str, list[tuple[str, str, str, str, str]]] = {}
    meanings = {}
    for path, kind, unit, needed, about in columns(name):
        parent, _, key = path.rpartition(".")
        parts.setdefault(parent, []).append((key, kind, unit, needed, about))
        meanings[path] = about
    for parent, rows in parts.items():
        if parent:
            yield f"\n### {code(parent)}\n"
            yield f"{sentence(meanings[parent.removesuffix('[]')])}\n"
        # A part has a section of its own.
        yield column_table([(key.removesuffix("[]"), *others) for key, *others in rows], "key")
