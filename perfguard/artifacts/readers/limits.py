"""Limits of what a trace may hold, whichever way it is read."""

from __future__ import annotations

#: Empty objects are quickly written and costly to hold, so many of them must be at least as long as an event can be.
MANY, SHORTEST_EVENT = 100_000, 24

#: Keys of an event that its arguments have no use for, so that counting them in the text finds a repeated one.
UNREPEATED = ("ph", "ts", "dur", "pid", "tid", "cat")
