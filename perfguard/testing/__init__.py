"""Profiler output to test with: whole directories, in the formats the profilers document, that keep every promise.

Who writes a reader for these files rarely has an Ascend device at hand, and a file typed by hand has the format its
author believes in. Here a run is drawn from a seed, and the files are its projections: what two of them say about the
same thing agrees to the last digit.

    from perfguard.testing import generate

    def test_my_reader(tmp_path):
        generate("pt-npu", ranks=2, steps=3, conditions={"level2": True}).write(tmp_path)
        assert len(my_reader(tmp_path)) == 2

With hypothesis (`pip install perfguard[testing]`), any directory of a layout, in any size and under any condition:

    from hypothesis import given
    from perfguard.testing import directories

    @given(directories("ms-2.5+"))
    def test_my_reader_stands_them_all(tree):
        with tempfile.TemporaryDirectory() as folder:
            my_reader(tree.write(Path(folder)))

A `Tree` also says what is true of it (`layout`, `ranks`, `steps`, `conditions`), which is what a reader has to find.

Versions rename columns, devices have other counters, runs go over a network: those are variants, `variants_of("pt-npu")`
names them, and `generate("pt-npu", variant="2023")` writes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perfguard.errors import UsageError
from perfguard.testing.generation import LAYOUTS, Tree, conditions_of, generate, variants_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LAYOUTS", "Tree", "conditions_of", "directories", "generate", "variants_of"]


def directories(
    layout: str | None = None,
    *,
    ranks: int | Sequence[int] = (1, 2, 3),
    steps: int | Sequence[int] = (1, 2, 3),
    operators: int | Sequence[int] = (1, 8, 11),
    conditions: Mapping[str, bool] | None = None,
    variant: str | None = None,
) -> SearchStrategy[Tree]:
    """Return a hypothesis strategy of directories: of one layout, or of all.

    `ranks`, `steps` and `operators` are a number, or the numbers to choose from; `conditions` are held fixed where the
    layout knows them, all others are drawn. So is the variant unless one is named; `""` is none of them. Raises
    `UsageError` when hypothesis is missing, and where no layout or variant has that name.
    """
    try:
        from hypothesis import strategies as st
    except ModuleNotFoundError as missing:
        raise UsageError("Strategies need hypothesis; run: pip install perfguard[testing]") from missing
    if layout is not None:
        conditions_of(layout, variant or "")
    names = [
        name
        for name in (sorted(LAYOUTS) if layout is None else [layout])
        if not variant or variant in LAYOUTS[name].variants
    ]
    if not names:
        raise UsageError(f"No layout has a variant {variant!r}; variants_of names those of a layout.")

    def tree(draw: Callable[[SearchStrategy[Any]], Any]) -> Tree:
        name = draw(st.sampled_from(names))
        drawn = draw(st.sampled_from(["", *LAYOUTS[name].variants])) if variant is None else variant
        on = _conditions(draw, name, drawn, conditions or {})
        sizes = {"ranks": ranks, "steps": steps, "operators": operators}
        return generate(
            name,
            seed=draw(st.integers(0, 2**32 - 1)),
            **{key: size if isinstance(size, int) else draw(st.sampled_from([*size])) for key, size in sizes.items()},
            cycles=draw(st.integers(1, 2)) if LAYOUTS[_inner(name, drawn)].repeats else 1,
            conditions=on,
            variant=drawn,
        )

    return st.composite(tree)()


def _inner(name: str, variant: str) -> str:
    """Return the layout whose conditions and files a variant has."""
    return (LAYOUTS[name].variants[variant].inner if variant else "") or name


def _conditions(
    draw: Callable[[SearchStrategy[Any]], Any], name: str, variant: str, requested: Mapping[str, bool]
) -> dict[str, bool]:
    """Draw the conditions of a directory that are not fixed, and add what follows from them."""
    from hypothesis import strategies as st

    layout = LAYOUTS[_inner(name, variant)]
    fixed = {**requested, **(LAYOUTS[name].variants[variant].conditions if variant else {})}
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
    return on
