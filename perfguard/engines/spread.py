"""Spread work over an engine: a bounded number of calls at a time, ordered results, retries after lost workers."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from itertools import islice
from operator import itemgetter
from typing import TypeVar

from perfguard.engines import Engine

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Computes the results of some items; function, items and results can be pickled.
Work = Callable[[Sequence[Item]], list[Result]]
#: A batch and its number.
_Batch = tuple[int, Sequence[Item]]

#: Submitted calls per running call, so that no worker is idle.
_AHEAD = 2
#: Seconds without a result until the engine is checked.
_PATIENCE_S = 5.0


def spread(
    work: Work[Item, Result],
    batches: Iterable[Sequence[Item]],
    engine: Engine,
    *,
    lost: Callable[[Item], Result],
    done: Callable[[Sequence[Item]], None] | None = None,
) -> Iterator[Result]:
    """Run work on batches of items, and yield the results in the order of the items.

    If a worker dies, the batches that were running are retried item by item, one at a time: this identifies the item that
    kills a worker again, and `lost` returns its result. Any other exception of a call is raised here. `done` is called with
    every finished batch. The engine's workers are ended in any case.
    """
    waiting = enumerate(batches)
    running: dict[Future[list[Result]], _Batch[Item]] = {}
    results: dict[int, list[Result]] = {}
    following = 0
    is_whole = False
    try:
        executor = engine.open(engine.jobs)
        while True:
            suspects: list[_Batch[Item]] = []
            for batch in islice(waiting, max(0, _AHEAD * engine.jobs - len(running))):
                try:
                    running[executor.submit(_called, work, batch[1])] = batch
                except BrokenExecutor:
                    suspects.append(batch)
            if not running and not suspects:
                break
            ready, lost_now, is_broken = _ended(running, engine)
            if is_broken or suspects:
                # All calls of a pool end with the process that died; those of a cluster continue.
                while running:
                    more_ready, more_lost, _ = _ended(running, engine)
                    ready += more_ready
                    lost_now += more_lost
            if suspects := sorted([*suspects, *lost_now], key=itemgetter(0)):
                ready += [(batch, list(_alone(work, batch[1], engine, lost))) for batch in suspects]
                executor = engine.open(engine.jobs)
            for (number, items), of_batch in ready:
                results[number] = of_batch
                if done is not None:
                    done(items)
            while following in results:
                yield from results.pop(following)
                following += 1
        is_whole = True
    finally:
        engine.end(at_once=not is_whole)


def _called(work: Work[Item, Result], items: Sequence[Item]) -> list[Result]:
    """Do some work in a worker; replace an exception that cannot be pickled by its text.

    Otherwise such an exception would look like a dead worker.
    """
    try:
        return work(items)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - its own methods may raise anything
            raise RuntimeError("".join(traceback.format_exception(error))) from None
        raise


def _ended(
    running: dict[Future[list[Result]], _Batch[Item]], engine: Engine
) -> tuple[list[tuple[_Batch[Item], list[Result]]], list[_Batch[Item]], bool]:
    """Wait for the next finished calls; return those with results, those whose worker died, and whether the pool broke."""
    ended, _ = wait(running, timeout=_PATIENCE_S, return_when=FIRST_COMPLETED)
    if not ended:
        engine.check()
    ready, lost, is_broken = [], [], False
    for future in ended:
        batch = running.pop(future)
        try:
            ready.append((batch, future.result()))
        except (Exception, CancelledError) as error:
            if not engine.is_loss(error):
                raise
            lost.append(batch)
            is_broken |= isinstance(error, BrokenExecutor)
    return ready, lost, is_broken


def _alone(
    work: Work[Item, Result], items: Sequence[Item], engine: Engine, lost: Callable[[Item], Result]
) -> Iterator[Result]:
    """Yield the result of each item, one call at a time."""
    executor: Executor | None = None
    for item in items:
        executor = executor or engine.open(1)
        running: dict[Future[list[Result]], _Batch[Item]] = {executor.submit(_called, work, [item]): (0, [item])}
        ready: list[tuple[_Batch[Item], list[Result]]] = []
        while running:
            ready, _, _ = _ended(running, engine)
        if not ready:
            executor = None
        yield from ready[0][1] if ready else [lost(item)]
