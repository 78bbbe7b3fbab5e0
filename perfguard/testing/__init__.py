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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perfguard.testing.generation import LAYOUTS, conditions_of, generate, variants_of
from perfguard.testing.tree import Tree

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
    from perfguard.testing.strategies import directories_of

    return directories_of(
        layout, ranks=ranks, steps=steps, operators=operators, conditions=conditions or {}, variant=variant
    )
