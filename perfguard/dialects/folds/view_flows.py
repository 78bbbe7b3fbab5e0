"""Flows and counters of torch_npu's trace_view: flows have two ends, counters carry numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from perfguard.artifacts.spool import Rows, Spool
from perfguard.dialects.folds import fold, hashed, look_again
from perfguard.dialects.invariants import ascend_joins, ascend_trace
from perfguard.dialects.worded import WordedRows
from perfguard.findings import Code, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

#: Ids that are texts, or too large, are numbered from here downwards, by their hash.
_TEXTS = 2**62
#: Stands for such an id.
_TEXT = -(2**63)
_NEVER = 2**63 - 1
#: Both ends of it lie in one step, so that no window cuts it.
_EXACT = "fwdbwd"


@fold(slots=("trace_view",), layouts=("pt-npu",))
class ViewFlows:
    """Both ends of the flows whose two ends the same profiler writes.

    * `flows_have_two_ends`: As many flows begin as end, with the same ids: async_task_queue, fwdbwd and async_npu. Exact
      for fwdbwd, whose two ends lie in one step; of the others the window can cut the first and the last, which is only
      remarkable. Not HostToDevice: 210 begin and 215 end in a correct trace.
    """

    checks: ClassVar = ("flows_have_two_ends",)

    def __init__(self) -> None:
        self._ends = Spool({"key": "u8", "id": "i8", "at": "i8", "row": "i8", "category": "i1", "begins": "i1"})

    def see(self, events: Events) -> None:
        """Put the ends of flows into the spool."""
        flows = events.of("s", "f")
        if not len(flows):
            return
        numbers, known = flows.categories, flows.vocabulary.categories
        categories = np.full(len(known), -1, np.int8)
        for number, name in enumerate(ascend_trace.PAIRED_FLOWS):
            if name in known:
                categories[known[name]] = number
        category = categories[numbers]
        places = np.flatnonzero(category >= 0)
        if not places.size:
            return
        ids = flows.derived(_numbers_of_ids)[places]
        self._ends.add(
            key=_mixed(ids, category[places]), id=ids, at=flows.times("ts").ns[places], row=flows.rows[places],
            category=category[places], begins=flows.is_of("s")[places],
        )  # fmt: skip

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which flows have one end."""
        broken = Spool(
            {"row": "i8", "id": "i8", "category": "i1", "begins": "i8", "ends": "i8", "begin": "i8", "end": "i8"}
        )
        #: By category: where the last flow that is whole begins, and the first of them ends.
        last: dict[int, int] = {}
        first: dict[int, int] = {}
        for rows in self._ends.in_order():
            balance = _balance(rows)
            whole = balance["begins"] == balance["ends"]
            for category in np.unique(balance["category"][whole]).tolist():
                own = whole & (balance["category"] == category)
                last[category] = max(last.get(category, -_NEVER), int(balance["begin"][own].max()))
                first[category] = min(first.get(category, _NEVER), int(balance["end"][own].min()))
            broken.add(**{name: column[~whole] for name, column in balance.items()})
        exact, cut = WordedRows(), WordedRows()
        for rows in broken.in_order():
            for flow in zip(*(rows[name].tolist() for name in broken.columns), strict=True):
                row, number, category, begins, ends, begin, end = flow
                name = ascend_trace.PAIRED_FLOWS[category]
                is_cut = (not ends and begin > last.get(category, -_NEVER)) or (
                    not begins and end < first.get(category, _NEVER)
                )
                message = ascend_trace.unbalanced_flow(_text_of(number), name, begins, ends)
                (cut if is_cut and name != _EXACT else exact).add([(row, message)])
        self._name_texts(artifact, exact, cut)
        yield from exact.findings(Code.I110, artifact, check=self.checks[0])
        yield from cut.findings(Code.I110, artifact, check=self.checks[0], severity=Severity.WARNING)
        self._ends.close()
        broken.close()

    def _name_texts(self, artifact: Artifact, *found: WordedRows) -> None:
        """Put in the ids that are texts: the trace is looked at once more for them."""
        rows = {row for one in found for row, message in one.kept if _UNNAMED in message}
        if not rows:
            return
        wanted, ids = np.array(sorted(rows)), {}

        def see(events: Events) -> None:
            for place in np.flatnonzero(np.isin(events.rows, wanted)).tolist():
                ids[int(events.rows[place])] = json.dumps(events.events[place].id_, ensure_ascii=False).strip('"')

        look_again(artifact, see)
        for one in found:
            one.kept = [(row, text.replace(_UNNAMED, ids[row], 1) if row in ids else text) for row, text in one.kept]


#: Stands for an id that was not kept.
_UNNAMED = "\0"


def _numbers_of_ids(flows: Events) -> Any:
    """Return ids as numbers, texts of numbers too: the file may write either. Other texts are hashed."""
    told = flows.column("id")
    found = np.fromiter(map(_number_of, told), np.int64, count=len(told))
    if (texts := np.flatnonzero(found == _TEXT)).size:
        found[texts] = -_TEXTS - (hashed([str(told[place]) for place in texts.tolist()]) & (_TEXTS - 1))
    return found


def _number_of(value: Any) -> int:
    if type(value) is str:
        if not value.isdecimal() or not value.isascii() or len(value) > 19 or (value[0] == "0" and len(value) > 1):
            return _TEXT
        value = int(value)
    return value if type(value) is int and -_TEXTS < value < _TEXTS else _TEXT


def _text_of(number: int) -> str:
    return str(number) if number > -_TEXTS else _UNNAMED


def _mixed(ids: Any, categories: Any) -> Any:
    """Return a key in which equal ids of one category are equal, and hardly any others."""
    key = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return key ^ (key >> np.uint64(29)) ^ (categories.astype(np.uint64) << np.uint64(56))


def _balance(rows: Rows) -> Rows:
    """Return the flows of a batch: first row, begins and ends, and where the first begins and the first ends [ns]."""
    order = np.lexsort((rows["row"], rows["category"], rows["id"]))
    ids, categories = rows["id"][order], rows["category"][order]
    begins = rows["begins"][order].astype(bool)
    at = rows["at"][order]
    firsts = np.flatnonzero(np.concatenate(([True], (ids[1:] != ids[:-1]) | (categories[1:] != categories[:-1]))))
    return {
        "row": rows["row"][order][firsts],
        "id": ids[firsts],
        "category": categories[firsts],
        "begins": np.add.reduceat(begins.astype(np.int64), firsts),
        "ends": np.add.reduceat((~begins).astype(np.int64), firsts),
        "begin": np.minimum.reduceat(np.where(begins, at, _NEVER), firsts),
        "end": np.minimum.reduceat(np.where(begins, _NEVER, at), firsts),
    }


@fold(slots=("trace_view",), layouts=("pt-npu",), wanted={"C": ("*",)})
class ViewCounters:
    """What counters carry.

    * `counters_count`: What a counter (C) carries is numbers and nothing else.
    """

    checks: ClassVar = ("counters_count",)

    def __init__(self) -> None:
        self._wrong = WordedRows()

    def see(self, events: Events) -> None:
        """Look at the arguments of the counters of a chunk."""
        counters = events.of("C")
        if not len(counters):
            return
        places = np.flatnonzero(counters.derived(_are_odd)).tolist()
        if not places:
            return
        texts, names = counters.column("args"), counters.column("name")
        self._wrong.add(
            (
                int(counters.rows[place]),
                ascend_joins.odd_counter(json.dumps(names[place], ensure_ascii=False), bytes(texts[place]).decode()),
            )
            for place in places
        )

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which counters carry something else than numbers."""
        yield from self._wrong.findings(Code.S103, artifact, check=self.checks[0])


def _are_odd(counters: Events) -> Any:
    """Return which counters carry something else than numbers."""
    arguments = counters.column("args")
    if _are_numbers(arguments):
        return np.zeros(len(arguments), np.bool_)
    import polars as pl

    texts = pl.Series([bytes(one).decode() for one in arguments], dtype=pl.String)
    return ~texts.str.contains(ascend_joins.NUMBERS).to_numpy()


#: What stands outside of the texts of an object whose values are numbers; `_COLON` and `_OPEN` are counted.
_PLAIN = np.zeros(256, np.bool_)
_PLAIN[np.frombuffer(b"{}:,0123456789.eE+- \t\n\r", np.uint8)] = True
_QUOTE, _COLON, _OPEN = b'":{'


def _are_numbers(arguments: Sequence[Any]) -> bool:
    """Whether objects of JSON certainly hold numbers, and each at least one; False means that they have to be looked at.

    Then no letter stands outside of a text (but in 1e5), no bracket opens a list or a second object, and each text is a key.
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
