"""The step window: which steps are settled, waited for, warmed up and profiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import Enum

from perfguard.errors import UsageError


class Phase(Enum):
    """The purpose of a step of a capture."""

    SETTLE = "settle"
    TIMED = "timed"
    WAIT = "wait"
    WARMUP = "warmup"
    ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Which steps are profiled, in the words of torch's and MindSpore's `schedule()`.

    `skip_first` steps settle unprofiled, then the profiler runs `wait`, `warmup` and `active` steps, `repeat` times.
    Only `active` steps are recorded. Raises `UsageError` for values out of range.
    """

    skip_first: int = 2
    wait: int = 0
    warmup: int = 1
    active: int = 5
    repeat: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 1 if field.name in ("active", "repeat") else 0
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(
                    f"StepWindow({field.name}={value!r}) is not a window: {field.name} must be an integer of at "
                    f"least {least}."
                )

    @classmethod
    def from_start_stop(cls, start_step: int, stop_step: int) -> StepWindow:
        """Build the window of MindSpore callbacks and MindFormers: first step is 1, `stop_step` is included.

        Source: MindSpore `Callback.cur_step_num`; MindFormers `profile_start_step`, `profile_stop_step`.
        """
        if not _are_integers(start_step, stop_step) or start_step < 1 or stop_step < start_step:
            raise UsageError(
                f"start_step={start_step}, stop_step={stop_step} is not a window: steps count from 1 and the stop "
                "step is included, so it must be 1 <= start_step <= stop_step."
            )
        return cls(skip_first=start_step - 1, wait=0, warmup=0, active=stop_step - start_step + 1)

    @classmethod
    def from_start_end(cls, start_step: int, end_step: int) -> StepWindow:
        """Build the window of MindSpeed-MM's tools.json: first step is 0, `end_step` is excluded.

        Source: mindspeed_mm/tools/profiler.py, `active = end_step - start_step, skip_first = start_step`.
        """
        if not _are_integers(start_step, end_step) or start_step < 0 or end_step <= start_step:
            raise UsageError(
                f"start_step={start_step}, end_step={end_step} is not a window: steps count from 0 and the end "
                "step is excluded, so it must be 0 <= start_step < end_step."
            )
        return cls(skip_first=start_step, wait=0, warmup=0, active=end_step - start_step)

    @classmethod
    def from_text(cls, text: str) -> StepWindow:
        """Parse `10:20` of a command line: steps 10 to 20, the first step is 1 and the last is included."""
        first, colon, last = text.partition(":")
        if not colon or not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
            raise UsageError(
                f"{text!r} is not a window. Write START:STOP, such as 10:20 (the first step is 1, STOP is included)."
            )
        return cls.from_start_stop(int(first), int(last))

    @property
    def steps_per_cycle(self) -> int:
        """Number of profiler steps in one cycle."""
        return self.wait + self.warmup + self.active

    @property
    def profiler_steps(self) -> int:
        """Number of profiler steps in all cycles."""
        return self.steps_per_cycle * self.repeat

    def profiler_phases(self) -> Iterator[tuple[Phase, int]]:
        """Yield (phase, cycle) of every profiler step, in order."""
        for cycle in range(self.repeat):
            for phase, count in ((Phase.WAIT, self.wait), (Phase.WARMUP, self.warmup), (Phase.ACTIVE, self.active)):
                yield from [(phase, cycle)] * count

    def phases(self, timed_steps: int, *, timed_first: bool = False) -> Iterator[tuple[Phase, int]]:
        """Yield (phase, cycle) of every step of a whole capture: settle, the profiler's, then timed.

        The timed steps follow the profiler's, so that the same steps are profiled however many are timed. They come first,
        taken from the steps before the window, where the caller names the profiled steps by their numbers in a training.
        """
        timed = [(Phase.TIMED, 0)] * timed_steps
        yield from [(Phase.SETTLE, 0)] * self.skip_first
        yield from timed if timed_first else ()
        yield from self.profiler_phases()
        yield from () if timed_first else timed

    def first_profiled_step(self, timed_before: int = 0) -> int:
        """Return the number of the first recorded step, from 1, if so many timed steps precede the profiler."""
        return self.skip_first + timed_before + self.wait + self.warmup + 1

    def as_dict(self) -> dict[str, int]:
        """Plain form, as recordings and baselines keep it."""
        return asdict(self)


def _are_integers(*values: object) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
