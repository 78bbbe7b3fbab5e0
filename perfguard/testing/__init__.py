"""Profiler output to test with: whole directories, in the formats that the profilers document, valid and consistent.

Readers of these files are often written without an Ascend device. Here a run is drawn from a seed, and every file is
derived from it: two files that state the same fact agree to the last digit.

    from perfguard.testing import generate


    def test_my_reader(tmp_path):
        generate("pt-npu", ranks=2, steps=3, conditions={"level2": True}).write(tmp_path)
        assert len(my_reader(tmp_path)) == 2

With hypothesis (`pip install '/path/to/perfguard[testing]'`), any directory of a layout, in any size and under any condition:

    from hypothesis import given
    from perfguard.testing import directories


    @given(directories("ms-2.5+"))
    def test_my_reader_accepts_any_directory(tree):
        with tempfile.TemporaryDirectory() as folder:
            my_reader(tree.write(Path(folder)))

A `Tree` also states what a reader has to find: `layout`, `ranks`, `steps`, `conditions`.

Other versions, device counters and networks are variants: `variants_of("pt-npu")` names them, and
`generate("pt-npu", variant="2023")` writes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perfguard.errors import UsageError
from perfguard.testing.generation import (
    LAYOUTS,
    Layout,
    Tree,
    conditions_of,
    generate,
    known_layout,
    variants_of,
)
from perfguard.version import install_command

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
    layout knows them, all others are drawn. The variant is drawn as well unless one is named; `""` selects none. Raises
    `UsageError` if hypothesis is missing, and for an unknown layout or variant.
    """
    try:
        from hypothesis import strategies as st
    except ModuleNotFoundError as missing:
        raise UsageError(f"Strategies need hypothesis; run: {install_command('testing')}") from missing
    if layout is not None:
        conditions_of(layout, variant or "")
    names = [
        name
        for name in (sorted(LAYOUTS) if layout is None else [layout])
        if not variant or variant in LAYOUTS[name].variants
    ]
    if not names:
        raise UsageError(f"No layout has a variant {variant!r}; variants_of names those of a layout.")
    sizes = {"ranks": ranks, "steps": steps, "operators": operators}

    def tree(draw: Callable[[SearchStrategy[Any]], Any]) -> Tree:
        name = draw(st.sampled_from(names))
        drawn = draw(st.sampled_from(["", *LAYOUTS[name].variants])) if variant is None else variant
        known, other = known_layout(name, drawn)
        on = _conditions(draw, known, {**(conditions or {}), **other.conditions})
        return generate(
            name,
            seed=draw(st.integers(0, 2**32 - 1)),
            **{key: size if isinstance(size, int) else draw(st.sampled_from([*size])) for key, size in sizes.items()},
            cycles=draw(st.integers(1, 2)) if known.repeats else 1,
            conditions=on,
            variant=drawn,
        )

    return st.composite(tree)()


def _conditions(
    draw: Callable[[SearchStrategy[Any]], Any], layout: Layout, fixed: Mapping[str, bool]
) -> dict[str, bool]:
    """Draw the conditions of a directory that are not fixed, and add what follows from them."""
    from hypothesis import strategies as st

    on = {key: fixed.get(key, draw(st.booleans())) for key in layout.conditions if key not in layout.forms}
    # Analysed directories can be read; a directory that was only collected has nothing to read.
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
