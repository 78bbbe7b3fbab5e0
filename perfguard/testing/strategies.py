"""Hypothesis strategies of generated directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfguard.errors import UsageError, nearest
from perfguard.testing.generation import LAYOUTS, generate
from perfguard.testing.tree import Tree

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import DrawFn, SearchStrategy
except ModuleNotFoundError as missing:
    raise UsageError("Strategies need hypothesis; run: pip install perfguard[testing]") from missing


def directories_of(
    layout: str | None,
    *,
    ranks: int | Sequence[int],
    steps: int | Sequence[int],
    operators: int | Sequence[int],
    conditions: Mapping[str, bool],
) -> SearchStrategy[Tree]:
    """Return the strategy `perfguard.testing.directories` documents."""
    if layout is not None and layout not in LAYOUTS:
        raise UsageError(f"No layout {layout!r} can be generated: {nearest(layout, LAYOUTS)}")
    names = sorted(LAYOUTS) if layout is None else [layout]
    return _tree(names, _choice(ranks), _choice(steps), _choice(operators), dict(conditions))


def _choice(numbers: int | Sequence[int]) -> SearchStrategy[int]:
    return st.just(numbers) if isinstance(numbers, int) else st.sampled_from(list(numbers))


@st.composite
def _tree(
    draw: DrawFn,
    names: list[str],
    ranks: SearchStrategy[int],
    steps: SearchStrategy[int],
    operators: SearchStrategy[int],
    fixed: dict[str, bool],
) -> Tree:
    name = draw(st.sampled_from(names))
    layout = LAYOUTS[name]
    on = {key: fixed.get(key, draw(st.booleans())) for key in layout.conditions if key not in layout.forms}
    # What is analysed can be read; a directory that was only collected has nothing to read.
    if "analysed" in on and "analysed" not in fixed:
        on["analysed"] = True
    if layout.forms:
        form = next((form for form in layout.forms if fixed.get(form)), None) or draw(st.sampled_from(layout.forms))
        on[form] = True
    if on.get("level2") and "level1" not in fixed:
        on["level1"] = True
    if "db" in on and not on["db"]:
        on["text"] = True
    return generate(
        name,
        seed=draw(st.integers(0, 2**32 - 1)),
        ranks=draw(ranks),
        steps=draw(steps),
        operators=draw(operators),
        cycles=draw(st.integers(1, 2)) if layout.repeats else 1,
        conditions=on,
    )
