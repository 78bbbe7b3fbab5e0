"""Hypothesis strategies of generated directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfguard.errors import UsageError
from perfguard.testing.generation import LAYOUTS, Variant, conditions_of, generate
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
    variant: str | None,
) -> SearchStrategy[Tree]:
    """Return the strategy `perfguard.testing.directories` documents."""
    if layout is not None:
        conditions_of(layout, variant or "")
    names = sorted(LAYOUTS) if layout is None else [layout]
    if variant:
        names = [name for name in names if variant in LAYOUTS[name].variants]
        if not names:
            raise UsageError(f"No layout has a variant {variant!r}; variants_of names those of a layout.")
    return _tree(names, variant, _choice(ranks), _choice(steps), _choice(operators), dict(conditions))


def _choice(numbers: int | Sequence[int]) -> SearchStrategy[int]:
    return st.just(numbers) if isinstance(numbers, int) else st.sampled_from(list(numbers))


@st.composite
def _tree(
    draw: DrawFn,
    names: list[str],
    variant: str | None,
    ranks: SearchStrategy[int],
    steps: SearchStrategy[int],
    operators: SearchStrategy[int],
    fixed: dict[str, bool],
) -> Tree:
    name = draw(st.sampled_from(names))
    if variant is None:
        variant = draw(st.sampled_from(["", *LAYOUTS[name].variants]))
    mine = LAYOUTS[name].variants[variant] if variant else Variant(title="")
    layout = LAYOUTS[mine.inner or name]
    fixed = {**fixed, **mine.conditions}
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
        variant=variant,
    )
