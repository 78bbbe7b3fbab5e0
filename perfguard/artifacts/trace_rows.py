"""Rows of a trace: puts its events and the document around them into the tables of a batch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw

from perfguard.artifacts.table import Unreadable
from perfguard.artifacts.table_definitions import NULL, TABLES
from perfguard.artifacts.tables import MAX_CHARACTERS, Batch

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events, Words

#: The largest id, size or address: larger numbers become this one.
BEYOND = 10**18
#: Arguments by column: integers, integers as digits, and texts as JSON.
NUMBERS = {
    "event_index": "Ev Idx",
    "external_id": "External id",
    "bytes": "Bytes",
    "total_bytes": "Total Allocated",
    "reserved_bytes": "Total Reserved",
    "device_type": "Device Type",
    "device_number": "Device Id",
}
DIGITS = {"address": "Addr", "correlation": "correlation"}
TEXTS = {"input_shapes": "Input Dims", "input_types": "Input type"}
#: The tables of what Kineto and torch write of some events only, by the categories of these.
CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
DETAILS: Mapping[str, tuple[str, ...]] = {
    "device_details": ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", *CALLS),
    "python_calls": ("python_function",),
    "device_waits": ("cuda_sync",),
}
#: Their arguments by column: integers as digits, fractions, and texts as JSON.
OF_DETAILS = {
    "device": "device",
    "stream": "stream",
    "cbid": "cbid",
    "copied_bytes": "bytes",
    "registers": "registers per thread",
    "shared_memory": "shared memory",
    "python_id": "Python id",
    "parent_id": "Python parent id",
    "module_id": "Python module id",
}
FRACTIONS = {
    "bandwidth": "memory bandwidth (GB/s)",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    # Negative of a device that Kineto does not know.
    "occupancy": "est. achieved occupancy %",
}
TEXTS_OF_DETAILS = {
    "grid": "grid",
    "block": "block",
    "kernel": "kernel",
    "wait": "cuda_sync_kind",
    "collective": "Collective name",
    "dtype": "dtype",
}
#: Integers that may be negative: -1 is what Kineto does not know.
SIGNED = {
    "wait_stream": "stream",
    "event": "wait_on_cuda_event_id",
    "recorded_on": "wait_on_stream",
    "recorded_by": "wait_on_cuda_event_record_corr_id",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group_size": "Group size",
}
#: The operator that torch records of a collective.
COLLECTIVE = "record_param_comms"
#: Arguments that no schema names but are read, by kind of event (`*`: all), of a torch trace and of a trace_view.
OF_TORCH: Mapping[str, tuple[str, ...]] = {
    "i": ("Addr",),
    "X": (
        "correlation", "Addr", *OF_DETAILS.values(), *FRACTIONS.values(), *TEXTS_OF_DETAILS.values(), *SIGNED.values(),
    ),
}  # fmt: skip
_OTHERS = ("C", "i", "I", "B", "E", "b", "e", "n", "t")
OF_VIEW: Mapping[str, tuple[str, ...]] = {"X": ("level",), "M": ("*",), **dict.fromkeys(_OTHERS, ("*",))}
#: Levels of CANN whose events are about a graph, and have the time at which it was loaded.
_GRAPH_LEVELS = (b'"model"', b'"node"')
#: The length to which the arguments of a counter are shown.
_SHOWN = 80
_LARGEST = 2**63 - 1
#: The latest end of a span: later ends are errors, and queries fail beyond 64 bits.
_LAST_END_NS = 92 * 10**17
#: The largest numbers of threads, and of names and labels of processes; a job of 1000 ranks has a few thousand.
MAX_THREADS = MAX_PROCESSES = 100_000
#: The largest number of different texts: names, shapes, text ids. Each takes some 300 bytes of memory; a real trace of 50 MB
#: has a thousand.
MAX_TEXTS = 500_000
#: Counters of a device's clock: msprof's (freq_assembler.cpp), which MindSpore and torch_npu copy.
CLOCKS = ("AI Core Freq",)
#: The tables that are filled.
FILLED = (
    "spans", "view_spans", "instants", "flows", "others", "clocks", "processes", "traces", "devices", "host_details",
    "lane_marks", "collective_details", *DETAILS,
)  # fmt: skip
_NO_WORDS = np.empty(0, np.int64)
_NO_FLAGS = np.empty(0, np.bool_)
_Row = TypeVar("_Row")
_NAMED = re.compile(r"\.([0-9]{19})\.pt\.trace\.json(\.gz)?$")


class TraceRows:
    """Puts the events of one trace into the tables of a batch, chunk by chunk.

    `kind` is the argument that has the kind of a span in a trace_view; None for a torch trace.
    """

    def __init__(self, batch: Batch, cycle: int, kind: str | None = None) -> None:
        self._batch = batch
        self._cycle = cycle
        self._kind = kind
        self._numbers: dict[str, Any] = {}
        self._processes: set[str] = set()
        #: Names and labels of processes, and what was read of lanes: MTIA's traces repeat them.
        self._named: set[tuple[str, str, str | None]] = set()
        self._lanes: set[tuple[str, str, str, str | None, int]] = set()
        #: Numbers of texts that are not in the vocabulary of the trace.
        self._rare: set[int] = set()

    def consume(self, events: Events) -> None:
        """Add the events of the next chunk. Raises `Unreadable` for too many threads, processes or texts."""
        spans, at_once = self._divided(events.of("X"))
        if len(at_once):
            self._add("instants", at_once, time_ns=_ns(at_once, "ts"))
        if len(spans):
            starts, lasts = _ns(spans, "ts"), _ns(spans, "dur")
            times = {"start_ns": starts, "duration_ns": np.minimum(lasts, _LAST_END_NS - starts.clip(0))}
            self._add_spans(spans, times)
        if self._kind is None and len(instants := events.of("i")):
            self._add("instants", instants, time_ns=_ns(instants, "ts"))
        if len(flows := events.of("s", "f") if self._kind is not None else events.of("s", "t", "f")):
            self._add("flows", flows, time_ns=_ns(flows, "ts"), is_start=flows.is_of("s"), **self._ids(flows))
        if len(others := events.of(*_OTHERS) if self._kind is not None else events.of("C", "b", "e")):
            phases = np.array([self._batch.word(kind.ph) for kind in others.schema.kinds], np.int64)
            self._add(
                "others", others, time_ns=_ns(others, "ts"), phase=phases[others.kinds], **self._arguments(others)
            )
        if self._kind is not None and len(clocks := events.of("C").named(*CLOCKS)):
            self._add("clocks", clocks, time_ns=_ns(clocks, "ts"), mhz=clocks.derived(readings))
        self._add_processes(events.of("M").named("process_name", "process_labels"))
        if self._kind is None:
            self._add_lanes(events.of("M").named(*LANES))
        words = events.vocabulary
        texts = len(words.names) + len(words.categories) + sum(map(len, words.texts.values())) + len(self._rare)
        if texts > MAX_TEXTS:
            raise Unreadable(f"it has more than {MAX_TEXTS} different names, shapes and other texts")
        if words.characters > MAX_CHARACTERS:
            raise Unreadable(
                f"its names, shapes and other texts have more than the {MAX_CHARACTERS} characters that are read"
            )

    def _divided(self, spans: Events) -> tuple[Events, Events]:
        """Return the spans of a chunk, and events at one time that are written as spans.

        torch's exporter in Python writes memory events as spans that last until the window ends (2.13,
        torch/profiler/_chrome_trace_export.py); Kineto's writes them as instants.
        """
        is_instant = spans.is_of_category("cpu_instant_event") if self._kind is None else _NO_FLAGS
        if not is_instant.any():
            return spans, spans.at(_NO_WORDS)
        return spans.at(np.flatnonzero(~is_instant)), spans.at(np.flatnonzero(is_instant))

    def _rare_words(self, texts: Iterable[str]) -> list[int]:
        numbers = list(map(self._batch.word, texts))
        self._rare.update(numbers)
        return numbers

    def _known_words(self, texts: Sequence[str | None]) -> Any:
        """Return the numbers of texts that are not in the vocabulary, `NULL` for none."""
        numbers = iter(self._rare_words(text for text in texts if text is not None))
        return np.array([NULL if text is None else next(numbers) for text in texts], np.int64)

    def _add_spans(self, spans: Events, times: Mapping[str, Any]) -> None:
        if self._kind is None:
            self._add("spans", spans, **times)
            self._add_details(spans)
            return
        numbers = spans.texts(self._kind)
        kinds = self._global("kind", spans.vocabulary.texts[self._kind], numbers, self._json)
        self._add("view_spans", spans, kind=kinds, of_graph=spans.has_text("level", *_GRAPH_LEVELS), **times)

    def _add_details(self, spans: Events) -> None:
        # torch's exporter in Python gives the kernel of a collective the arguments of its operator.
        hosts = spans.of_category("cpu_op", "user_annotation")
        sequences = hosts.derived(integers, "Sequence number")
        calls = hosts.derived(integers, "Record function id")
        if (places := np.flatnonzero((sequences != NULL) | (calls > 0))).size:
            forward = hosts.derived(integers, "Fwd thread id")
            self._batch.add(
                "host_details", self._cycle, row=hosts.rows[places], sequence=sequences[places],
                forward_thread=forward[places], recorded_call=calls[places],
            )  # fmt: skip
        for table, categories in DETAILS.items():
            self._add_columns(table, spans.of_category(*categories))
        kernels = spans.of_category("kernel", "Kernel")
        copied = kernels.derived(signed, SIGNED["group_size"]) != NULL
        for some in (hosts.of_category("cpu_op").named(COLLECTIVE), kernels.at(np.flatnonzero(copied))):
            self._add_columns("collective_details", some)

    def _add_columns(self, table: str, some: Events) -> None:
        if not len(some):
            return
        columns: dict[str, Any] = {"row": some.rows}
        for name in TABLES[table]:
            if name in OF_DETAILS:
                columns[name] = some.derived(digits, OF_DETAILS[name])
            elif name in SIGNED:
                columns[name] = some.derived(signed, SIGNED[name])
            elif name in FRACTIONS:
                columns[name] = some.derived(fractions, FRACTIONS[name])
            elif name in TEXTS_OF_DETAILS:
                key = TEXTS_OF_DETAILS[name]
                numbers = some.texts(key)
                columns[name] = self._global(name, some.vocabulary.texts[key], numbers, self._json)
        self._batch.add(table, self._cycle, **columns)

    def _arguments(self, others: Events) -> dict[str, Any]:
        odd = np.full(len(others), NULL, np.int64)
        if self._kind is None:
            return {"arguments": odd, "odd_arguments": odd}
        counters = others.of("C")
        if len(counters) and (places := np.flatnonzero(counters.derived(are_odd))).size:
            texts = counters.column("args")
            among = np.flatnonzero(others.is_of("C"))[places]
            odd[among] = self._rare_words(bytes(texts[place]).decode()[:_SHOWN] for place in places.tolist())
        return {"arguments": others.derived(hashed_arguments), "odd_arguments": odd}

    def _add_processes(self, metadata: Events) -> None:
        if not len(metadata):
            return
        found = [(as_json(process), name, text) for name, process, text in metadata.derived(names_of_processes)]
        places = _new(found, self._named)
        self._processes.update(process for process, _, _ in found)
        if len(self._processes) > MAX_PROCESSES:
            raise Unreadable(f"it names more than {MAX_PROCESSES} processes")
        if not places:
            return
        processes, names, texts = zip(*(found[place] for place in places), strict=True)
        self._batch.add(
            "processes",
            self._cycle,
            row=metadata.rows[places],
            process=np.array(processes, dtype=object),
            is_name=np.array([name == "process_name" for name in names], np.bool_),
            text=self._known_words(texts),
        )

    def _add_lanes(self, metadata: Events) -> None:
        if not len(metadata):
            return
        found = [(kind, as_json(a), as_json(b), text, order) for kind, a, b, text, order in metadata.derived(lanes_of)]
        places = _new(found, self._lanes)
        if len(self._lanes) > 3 * MAX_THREADS:
            raise Unreadable(f"it names more than {MAX_THREADS} threads")
        if not places:
            return
        kinds, processes, lanes, texts, orders = zip(*(found[place] for place in places), strict=True)
        self._batch.add(
            "lane_marks",
            self._cycle,
            row=metadata.rows[places],
            kind=np.array(list(map(self._batch.word, kinds)), np.int64),
            process=np.array(processes, dtype=object),
            lane=np.array(lanes, dtype=object),
            label=self._known_words(texts),
            place=np.array(orders, np.int64),
        )

    def _add(self, table: str, events: Events, **columns: Any) -> None:
        words = events.vocabulary
        columns |= {
            "row": events.rows,
            "name": self._global("name", words.names, events.names, self._batch.word),
            "thread": self._global("thread", words.threads, events.threads, self._thread),
        }
        if len(words.threads) > MAX_THREADS:
            raise Unreadable(f"it has events of more than {MAX_THREADS} threads")
        for name in TABLES[table]:
            if name == "category":
                columns[name] = self._global(name, words.categories, events.categories, self._word)
            elif name in NUMBERS:
                columns[name] = events.derived(integers, NUMBERS[name])
            elif name in DIGITS:
                columns[name] = events.derived(digits, DIGITS[name])
            elif name in TEXTS:
                numbers = events.texts(TEXTS[name])
                columns[name] = self._global(name, words.texts[TEXTS[name]], numbers, self._json)
        self._batch.add(table, self._cycle, **columns)

    def _ids(self, flows: Events) -> dict[str, Any]:
        """Return the ids of flows as integers; as texts if they are not integers, or too large."""
        numbers = flows.derived(flow_ids)
        texts = np.full(len(numbers), NULL, np.int64)
        if (others := np.flatnonzero(numbers == NULL)).size:
            ids = flows.column("id")
            texts[others] = self._rare_words(as_json(ids[place]) for place in others.tolist())
        return {"id": numbers, "id_text": texts}

    def _global(self, column: str, words: Words, numbers: Any, number_of: Callable[[Any], int]) -> Any:
        """Translate numbers of this trace's words to those of the batch, as int64; `NULL` for none."""
        known = self._numbers.get(column, _NO_WORDS)
        if (more := len(words) - len(known)) > 0:
            new = np.fromiter(map(number_of, words.since(len(known))), np.int64, count=more)
            known = self._numbers[column] = np.concatenate([known, new])
        return known[numbers]

    def _word(self, text: Any) -> int:
        return NULL if text is UNSET else self._batch.word(text)

    def _json(self, text: Any) -> int:
        return NULL if text is UNSET else self._batch.word(text.decode())

    def _thread(self, key: tuple[Any, Any]) -> int:
        return self._batch.thread((as_json(key[0]), as_json(key[1])))

    def undo(self) -> None:
        """Delete the rows: the trace violates its schema."""
        self._batch.without(self._cycle, FILLED)

    def end(self, document: Mapping[str, Any], file_name: str) -> None:
        """Add the document around the events, after the last of them."""
        base, named = document.get("baseTimeNanoseconds"), _NAMED.search(file_name)
        name = document.get("traceName")
        written = _NAMED.search(name) if isinstance(name, str) else None
        self._batch.add(
            "traces",
            self._cycle,
            base_ns=_one(base if isinstance(base, int) and base <= _LARGEST else None),
            named_ns=_one(int(named[1]) if named and int(named[1]) <= _LARGEST else None),
            written_ns=_one(int(written[1]) if written and int(written[1]) <= _LARGEST else None),
            profile_memory=_one(document.get("profile_memory")),
            record_shapes=_one(document.get("record_shapes")),
        )
        if devices := list(map(_multiprocessors, _listed(document.get("deviceProperties")))):
            numbers, counts = zip(*devices, strict=True)
            self._batch.add(
                "devices", self._cycle, device=np.array(numbers, np.int64), multiprocessors=np.array(counts, np.int64)
            )


def _new(found: Sequence[_Row], known: set[_Row]) -> list[int]:
    """Return the positions of the rows that are not known, of equal ones the first; all are known then."""
    first = {one: place for place, one in reversed(list(enumerate(found)))}
    places = sorted(place for one, place in first.items() if one not in known)
    known.update(first)
    return places


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _multiprocessors(device: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of a device and how many multiprocessors it has; `NULL` for what is unknown."""
    found = [device.get(key) for key in ("id", "numSms")]
    number, count = (one if isinstance(one, int) and abs(one) <= BEYOND else NULL for one in found)
    return number, count


def _one(value: Any) -> Any:
    return np.array([value if isinstance(value, int) else NULL], np.int64)


def _ns(events: Events, key: str) -> Any:
    times = events.times(key)
    return times.ns if times.is_known.all() else np.where(times.is_known, times.ns, NULL)


def as_json(value: Any) -> str:
    """Return a process, a thread or an id as JSON; null for none."""
    return "null" if value is UNSET else json.dumps(value)


# The second process of a large trace also calls these functions.


def integers(events: Events, key: str) -> Any:
    """Return an argument of each event as int64: `NULL` for none, at most ±`BEYOND`."""
    values = events.arguments(key)
    known = values if UNSET not in values else [NULL if one is UNSET else one for one in values]
    try:
        found = np.fromiter(known, np.int64, count=len(known))
    except OverflowError:
        near = (one if one == NULL else max(-BEYOND, min(one, BEYOND)) for one in known)
        found = np.fromiter(near, np.int64, count=len(known))
    is_far = (np.abs(found) > BEYOND) & (found != NULL)
    found[is_far] = np.sign(found[is_far]) * BEYOND
    return found


def digits(events: Events, key: str) -> Any:
    """Return an argument that no schema names, if it is an integer of up to 18 digits; else `NULL`."""
    from perfguard.artifacts.readers.events import known_texts

    there, texts = known_texts(events.arguments(key))
    found = np.full(len(there), NULL, np.int64)
    if not (b"".join(texts).isdigit() and max(map(len, texts)) <= 18):
        texts = [one if one.isdigit() and len(one) <= 18 else _NONE for one in texts]
    found[there] = list(map(int, texts))
    return found


_NONE = str(NULL).encode()


def signed(events: Events, key: str) -> Any:
    """Return an argument that no schema names, if it is an integer of up to 18 digits with or without a sign; else `NULL`."""
    from perfguard.artifacts.readers.events import known_texts

    there, texts = known_texts(events.arguments(key))
    found = np.full(len(there), NULL, np.int64)
    found[there] = [int(one) if _SIGNED.fullmatch(one) else NULL for one in texts]
    return found


_SIGNED = re.compile(rb"-?[0-9]{1,18}")


def fractions(events: Events, key: str) -> Any:
    """Return an argument that no schema names, if it is a number; else NaN."""
    from perfguard.artifacts.readers.events import known_texts

    there, texts = known_texts(events.arguments(key))
    found = np.full(len(there), np.nan)
    found[there] = [float(one) if _FRACTION.fullmatch(one) else np.nan for one in texts]
    return found


_FRACTION = re.compile(rb"-?[0-9]{1,18}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")


def flow_ids(flows: Events) -> Any:
    """Return the id of each end of a flow, an integer or its text; `NULL` for other texts and large numbers."""
    ids = flows.column("id")
    if set(map(type, ids)) == {int} and max(map(abs, ids)) <= _LARGEST:
        return np.array(ids, np.int64)
    return np.fromiter(map(_flow_id, ids), np.int64, count=len(ids))


def _flow_id(value: Any) -> int:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    return value if isinstance(value, int) and abs(value) <= _LARGEST else NULL


_NUMBER = re.compile(r"(0|[1-9][0-9]{0,18})", re.ASCII)


def names_of_processes(metadata: Events) -> list[tuple[str, Any, str | None]]:
    """Return for each metadata event `process_name` or `process_labels`, the process, and the text or None."""
    return [(event.name, event.pid, _text_of(event.name, event.args)) for event in metadata.events]


def _text_of(name: str, arguments: Any) -> str | None:
    text = _object(arguments).get("name" if name == "process_name" else "labels")
    return text if isinstance(text, str) else None


def _object(arguments: Any) -> Mapping[str, Any]:
    if type(arguments) is not Raw:
        return {}
    try:
        found = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


#: The metadata events about lanes.
LANES = ("thread_name", "thread_sort_index", "process_sort_index")


def lanes_of(metadata: Events) -> list[tuple[str, Any, Any, str | None, int]]:
    """Return for each metadata event of `LANES` its name, process, thread, and the text and the integer in its arguments."""
    return [(event.name, event.pid, event.tid, *_lane(_object(event.args))) for event in metadata.events]


def _lane(arguments: Mapping[str, Any]) -> tuple[str | None, int]:
    text, place = arguments.get("name"), arguments.get("sort_index")
    number = place if isinstance(place, int) and abs(place) <= BEYOND else NULL
    return text if isinstance(text, str) else None, number


def hashed_arguments(events: Events) -> Any:
    """Return a 64-bit hash of the arguments of each event; it is the same in every process."""
    from perfguard.artifacts.readers.events import known_texts

    there, texts = known_texts(events.column("args"))
    found = np.full(len(there), hashed([b""])[0])
    found[there] = hashed(texts)
    return found


def hashed(values: Sequence[bytes]) -> Any:
    """Return the hash of each text, as `hashed_arguments` does."""
    import polars as pl

    return pl.Series(values, dtype=pl.Binary).hash().to_numpy().view(np.int64)


def readings(counters: Events) -> Any:
    """Return the number of each counter that has one alone; NaN for others."""
    found = np.full(len(counters), np.nan)
    for place, text in enumerate(counters.column("args")):
        values = list(msgspec.json.decode(bytes(text)).values())
        if len(values) == 1 and isinstance(values[0], (int, float)) and not isinstance(values[0], bool):
            found[place] = values[0]
    return found


def are_odd(counters: Events) -> Any:
    """Return which counters have arguments that are not numbers."""
    arguments = counters.column("args")
    if _are_numbers(arguments):
        return np.zeros(len(arguments), np.bool_)
    import polars as pl

    texts = pl.Series([bytes(one).decode() for one in arguments], dtype=pl.String)
    return ~texts.str.contains(_ONLY_NUMBERS).to_numpy()


_ONLY_NUMBERS = r'^\{\s*("[^"]*":\s*-?[0-9][0-9.eE+-]*\s*,?\s*)+\}$'
#: The characters outside strings in an object whose values are numbers; `_COLON` and `_OPEN` are counted.
_PLAIN = np.zeros(256, np.bool_)
_PLAIN[np.frombuffer(b"{}:,0123456789.eE+- \t\n\r", np.uint8)] = True
_QUOTE, _COLON, _OPEN = b'":{'


def _are_numbers(arguments: Sequence[Any]) -> bool:
    """Whether JSON objects certainly contain only numbers, and each at least one.

    Then no letter is outside a string (except in 1e5), no bracket opens an array or an inner object, and each string is a key.
    """
    text = b",".join(arguments)
    if b"\\" in text or text.count(b'{"') != len(arguments):
        return False
    letters = np.frombuffer(text, np.uint8)
    quotes = letters == _QUOTE
    outside = letters[~(quotes | np.logical_xor.accumulate(quotes))]
    return (
        bool(_PLAIN[outside].all())
        and 2 * np.count_nonzero(outside == _COLON) == np.count_nonzero(quotes)
        and np.count_nonzero(outside == _OPEN) == len(arguments)
    )
