"""Processes of a trace_view: what they are called, and which thread is of which; what the folds of such a trace share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Raw

from perfguard.artifacts.readers.events import Words
from perfguard.dialects.folds import grown
from perfguard.dialects.trace_view import PROCESS_LABEL, PROCESS_NAME

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events

_NAME, _LABEL = re.compile(PROCESS_NAME), re.compile(PROCESS_LABEL)


class Classes:
    """A small number for each text of a vocabulary, found out once a text."""

    def __init__(self, classify: Callable[[Any], int]) -> None:
        self._classify = classify
        self._table = np.zeros(0, np.int8)
        self._count = 0

    def of(self, words: Words) -> Any:
        """Return the numbers of all texts, by the number of the text."""
        if (count := len(words)) > self._count:
            self._table = grown(self._table, count)
            for place, text in enumerate(words.since(self._count), start=self._count):
                self._table[place] = self._classify(text)
            self._count = count
        return self._table


class Processes:
    """Names and labels of processes, as metadata gives them, and the process of each thread."""

    def __init__(self) -> None:
        #: By process: all its names in the order of the trace, and the first of its labels.
        self.names: dict[Any, list[str]] = {}
        self._labels: dict[Any, str] = {}
        self._numbers = Words()
        self._of_thread = np.zeros(0, np.int32)
        self._threads = 0

    def see(self, events: Events) -> None:
        """Take in the metadata of a chunk."""
        told = events.of("M").named("process_name", "process_labels")
        for what, process, text in told.derived(_told) if len(told) else ():
            if what == "process_name" and (name := _NAME.search(text)):
                self.names.setdefault(process, []).append(name[1])
            elif what == "process_labels" and (label := _LABEL.search(text)):
                self._labels.setdefault(process, label[1])

    def of_threads(self, threads: Words) -> Any:
        """Return the number of the process of each thread, by the number of the thread in the vocabulary."""
        if (count := len(threads)) > self._threads:
            self._of_thread = grown(self._of_thread, count)
            for place, key in enumerate(threads.since(self._threads), start=self._threads):
                self._of_thread[place] = self._numbers[key[0]]
            self._threads = count
        return self._of_thread

    @property
    def all(self) -> list[Any]:
        """The processes that have threads, in the order of their numbers."""
        return list(self._numbers)

    def called(self, process: Any) -> str | None:
        """Return the first name of a process, or None where it has none."""
        return next(iter(self.names.get(process, ())), None)

    def device_of(self, process: Any) -> str | None:
        """Return the number of the device that the label of a process names: `NPU 0` is 0."""
        found = re.search(r"\d+", self._labels.get(process, ""))
        return found[0] if found else None


def _told(metadata: Events) -> list[tuple[str, Any, str]]:
    """Return what each event tells: its name, the process, and the arguments as JSON."""
    return [(event.name, event.pid, _text(event.args)) for event in metadata.events]


def _text(arguments: Any) -> str:
    # Metadata is an open kind, and keeps its arguments as they are.
    plain = bytes(arguments) if type(arguments) is Raw else msgspec.json.encode(arguments)
    return plain.decode("utf-8", "replace")
