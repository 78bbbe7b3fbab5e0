"""Work: what operators that changed weigh."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import thresholds
from perfguard.judge.work import Work, call_work, moves_no_data, operations_of, work_of
from perfguard.measure import Measurement
from tests.facts import measured

CALL = thresholds.CALL_ELEMENTS


def side(prefix: str = "", **operators: tuple[float, float]) -> list[Measurement]:
    """Return one rank's calls and times of operators, with the shares that follow from the times."""
    total = sum(time for _, time in operators.values())
    return [
        *(measured("operator_calls", calls, prefix + name) for name, (calls, _) in operators.items()),
        *(measured("operator_share", time / total, prefix + name) for name, (_, time) in operators.items()),
    ]


def shaped(*measurements: Measurement, **shapes: dict[str, float]) -> list[Measurement]:
    return [*measurements, *(measured("operator_shapes", value, name) for name, value in shapes.items())]


def work(before: list[Measurement], now: list[Measurement]) -> Work:
    return work_of(now, before)[""]


@pytest.mark.parametrize(
    ("before", "now", "growth"),
    [
        pytest.param(side(a=(1, 100)), side(a=(1, 100)), 0.0, id="nothing changed"),
        pytest.param(side(a=(1, 100)), side(a=(1, 100), b=(1, 10)), 1.0, id="a new operator weighs as the others"),
        pytest.param(side(a=(2, 100)), side(a=(3, 150)), 0.5, id="one more call"),
        pytest.param(side(a=(1, 80), b=(1, 20)), side(a=(1, 1), b=(2, 99)), 0.2, id="by the baseline's shares"),
        pytest.param(side(a=(1, 100), b=(1, 10)), side(a=(1, 100)), 0.0, id="one operator fewer"),
        pytest.param(side(a=(1, 50), b=(1, 50)), side(a=(1, 50), c=(1, 60)), 0.0, id="replaced by one"),
        pytest.param(side(a=(1, 50), b=(1, 50)), side(a=(1, 50), c=(3, 60)), 0.875, id="replaced by three"),
        pytest.param(side(a=(1, 50)), side(b=(9, 5000)), 0.0, id="nothing in common, so nothing to compare by"),
        pytest.param(side(a=(1, 7), b=(1, 93)), side(a=(1, 7), c=(9, 279)), 0.0, id="next to nothing in common"),
        pytest.param(
            shaped(*side(mm=(1, 100)), mm={"[8,6]": 1}),
            shaped(*side(mm=(3, 100)), mm={"[8,2]": 3}),
            3 * (CALL + 16) / (CALL + 48) - 1,
            id="one small product cut in three",
        ),
        pytest.param(
            shaped(*side(mm=(1, 100)), mm={"[3000, 4096]": 1}),
            shaped(*side(mm=(3, 100)), mm={"[1000, 4096]": 3}),
            2 / 3001,
            id="one large product cut in three",
        ),
        pytest.param(
            shaped(*side(a=(1, 100)), a={"float[8192, 4096]": 1}),
            shaped(*side(a=(2, 100)), a={"c10::BFloat16[8192, 4096]": 2}),
            1 / 8193,
            id="twice as often, of half the bytes",
        ),
        pytest.param(
            shaped(*side(a=(1, 90), t=(1, 10)), a={"float[4096]": 1}),
            shaped(*side(a=(1, 90), t=(1, 10)), measured("operator_calls", 2, "aten::view"), a={"float[4096]": 1}),
            0.2,
            id="views cost as the cheapest call",
        ),
    ],
)
def test_how_much_the_work_of_a_step_grew(before, now, growth):
    assert work(before, now).growth == pytest.approx(growth, abs=1e-9)


@pytest.mark.parametrize(
    ("before", "now", "is_gone"),
    [
        pytest.param(side(a=(1, 40), b=(1, 60)), side(a=(1, 40)), True, id="more than half"),
        pytest.param(side(a=(1, 60), b=(1, 40)), side(a=(1, 60)), False, id="less than half"),
        pytest.param(side(a=(1, 10), b=(9, 90)), side(a=(1, 10), c=(1, 5)), False, id="replaced by a fused one"),
        pytest.param(side(a=(12, 100)), side(a=(1, 8)), True, id="fewer calls of the same"),
        pytest.param(side(a=(12, 100)), side(a=(7, 8)), False, id="half of the calls"),
        pytest.param(
            side(a=(1, 20), mm=(12, 78), addmm=(1, 2)), side(a=(1, 20), addmm=(13, 80)), False, id="more of another"
        ),
        pytest.param(
            shaped(*side(a=(1, 100)), a={"float[64, 65536]": 1}),
            shaped(*side(a=(1, 100)), a={"float[1, 65536]": 1}),
            True,
            id="one of a batch of 64",
        ),
        pytest.param(
            shaped(*side(a=(1, 100)), a={"double[64, 65536]": 1}),
            shaped(*side(a=(1, 100)), a={"c10::BFloat16[64, 65536]": 1}),
            False,
            id="in a smaller type",
        ),
    ],
)
def test_most_of_the_work_is_gone(before, now, is_gone):
    assert work(before, now).is_mostly_gone is is_gone


@pytest.mark.parametrize(
    ("operator", "shapes", "elements"),
    [
        ("aten::exp", "float[64, 256]", CALL + 64 * 256),
        ("aten::exp", "double[64, 256]", CALL + 2 * 64 * 256),
        ("aten::exp", "Scalar[];ScalarList[]", CALL),
        ("aten::exp", "", CALL),
        ("aten::view", "float[64, 256];ScalarList[]", CALL),
        ("AddmmBackward0", "float[64, 256]", CALL),
        ("aten::mm", "float[64, 256];float[256, 32]", CALL + 64 * 256 + 256 * 32 + 2 * 64 * 256 * 32 / 10),
        ("MatMul", "[64, 256];[32, 256]", CALL + 64 * 256 + 256 * 32 + 2 * 64 * 256 * 32 / 10),
        ("aten::bmm", "float[4, 64, 256];float[4, 256, 32]", CALL + 4 * (64 * 256 + 256 * 32 + 2 * 64 * 256 * 32 / 10)),
        ("aten::conv2d", "[1]", CALL),
        ("Conv2D", "[2, 3, 8, 8];[5, 3, 3, 3]", CALL + 384 + 135 + 2 * 2 * 64 * 135 / 10),
        ("aten::upsample_bilinear2d", "float[2, 3, 8, 8];float[2, 3, 8, 8]", CALL + 2 * 384),
        # The weight's own size is unknown, and the gradient of a batch is no product of two batches.
        ("Conv2DBackpropFilter", "[2, 5, 8, 8];[2, 3, 8, 8]", CALL + 640 + 384),
    ],
)
def test_what_a_call_does(operator, shapes, elements):
    expected = CALL if moves_no_data(operator) else elements + (1 if shapes == "[1]" and elements == CALL else 0)
    assert call_work(operator, shapes, by_type=True) == pytest.approx(expected)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_what_moves_no_data_is_a_view_or_calls_others_by_torch_itself():
    """The list is that of torch's own registry, where the installed torch has the operator."""
    import torch

    views, composed, own = set(), set(), set()
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or "out" in schema.overload_name:
            continue
        name = f"{schema.name}.{schema.overload_name}".rstrip(".")
        if any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns):
            views.add(schema.name)
        elif _is_composed(torch, name):
            composed.add(schema.name)
        else:
            own.add(schema.name)
    assert {"aten::view", "aten::linear", "aten::matmul"} <= {name for name in views | composed if moves_no_data(name)}
    only_own = own - views - composed
    assert len(only_own) > 500
    assert [name for name in sorted(only_own) if moves_no_data(name) and "_backward" not in name] == []


def _is_composed(torch, name: str) -> bool:
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    except RuntimeError:
        # It is of TorchScript alone, and not in the dispatcher.
        return False


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("aten::mm", ([4, 8], [8, 10])),
        ("aten::addmm", ([10], [4, 8], [8, 10])),
        # The added matrix is no factor, not even where its columns are as many as the rows of one.
        ("aten::addmm", ([4, 8], [4, 8], [8, 8])),
        ("aten::bmm", ([3, 4, 8], [3, 8, 10])),
        ("aten::baddbmm", ([3, 4, 8], [3, 4, 8], [3, 8, 8])),
        ("aten::convolution", ([2, 3, 8, 8], [5, 3, 1, 1], [5])),
        ("aten::convolution_backward", ([2, 5, 8, 8], [2, 3, 8, 8], [5, 3, 1, 1])),
        ("aten::_scaled_dot_product_flash_attention", ([2, 3, 16, 8], [2, 3, 20, 8], [2, 3, 20, 8])),
        ("aten::_scaled_dot_product_flash_attention_backward", ([2, 3, 16, 8], *([2, 3, 16, 8],) * 3)),
    ],
)
def test_the_operations_of_a_product_are_those_of_torchs_own_formulas(operator, shapes):
    import torch
    from torch.utils.flop_counter import flop_registry

    count = flop_registry[getattr(torch.ops.aten, operator.removeprefix("aten::"))]
    if operator == "aten::convolution":
        expected = count(*shapes[:2], None, [1], [0], [1], False, out_val=torch.empty(2, 5, 8, 8))
    elif operator == "aten::convolution_backward":
        outputs = [torch.empty(one) for one in (shapes[1], shapes[2], [5])]
        expected = count(*shapes, None, [1], [0], [1], False, [0], 1, [True, True, False], out_val=outputs)
    else:
        expected = count(*shapes)
    text = ";".join(f"float{sizes}" for sizes in shapes)
    assert operations_of(operator, text) == expected


MLP = {"aten::mm": {"float[4, 32];float[32, 8]": 1, "float[4, 8];float[8, 10]": 1}}
ADDMM = {"float[8];float[4, 32];float[32, 8];Scalar[];Scalar[]": 2}


def mlp(**more: dict[str, float]) -> list[Measurement]:
    """Return a step whose products take little of its time, as those of a tiny model."""
    step = side(**{"aten::mm": (2, 3), "aten::add_": (20, 50), "aten::exp": (20, 50)})
    shapes = {"aten::add_": {"float[4, 8];float[4, 8]": 20}, "aten::exp": {"float[4, 8]": 20}}
    calls = (measured("operator_calls", sum(one.values()), name) for name, one in more.items())
    return shaped(*step, *calls, **{**MLP, **shapes, **more})


def test_two_more_products_in_a_tiny_model_are_more_work():
    found = work(mlp(), mlp(**{"aten::addmm": ADDMM}))
    assert found.growth < thresholds.OPERATOR_WEIGHT
    assert (found.is_worse, found.carriers) == (True, {"aten::addmm"})
    # 2 x 4 x 32 x 8 twice, where 2 x 4 x 32 x 8 and 2 x 4 x 8 x 10 were.
    assert found.text == f"+{100 * 4096 / 2688:.1f} % operations of matrix products in the step, all together"


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(mlp(**{"aten::exp2": {"float[4, 8]": 1}}), id="an operator that is no product"),
        pytest.param(mlp(**{"aten::addmm": {"float[8];float[1, 1];float[1, 8]": 1}}), id="a product of almost nothing"),
        pytest.param([*mlp(), measured("operator_calls", 2, "aten::addmm")], id="a product of unknown shapes"),
        pytest.param(mlp(**{"aten::linear": {"float[4, 32];float[8, 32];float[8]": 2}}), id="one that calls others"),
    ],
)
def test_a_little_more_work_without_more_operations_is_no_evidence(now):
    found = work(mlp(), now)
    assert 0 < found.growth < thresholds.OPERATOR_WEIGHT
    assert not found.is_worse


def test_more_operations_that_weigh_next_to_nothing_are_no_evidence():
    large = side(**{"aten::mm": (1, 1), "aten::exp": (1, 10_000)})
    before = shaped(*large, **{"aten::mm": {"float[4, 8];float[8, 8]": 1}, "aten::exp": {"float[4, 8]": 1}})
    now = [*before, *shaped(measured("operator_calls", 1, "aten::addmm"), **{"aten::addmm": ADDMM})]
    found = work(before, now)
    assert found.operations > 1
    assert not found.is_worse


def test_ranks_are_weighed_one_by_one():
    before = side("rank0:", a=(1, 100)) + side("rank1:", a=(2, 100)) + [measured("operator_calls", 3, "ranks:a")]
    now = side("rank0:", a=(1, 100)) + side("rank1:", a=(3, 100)) + [measured("operator_calls", 1, "ranks:b")]
    found = work_of(now, before)
    assert list(found) == ["rank0:", "rank1:"]
    assert {rank: one.growth for rank, one in found.items()} == pytest.approx({"rank0:": 0.0, "rank1:": 0.5})


def test_the_operators_that_carry_the_work_are_those_with_a_part_worth_telling():
    before = side(a=(1, 100), b=(1, 96), view=(9, 4))
    assert work(before, side(a=(1, 1), b=(2, 1), view=(10, 9))).carriers == {"b"}
    # Where none has, the largest carry it: many small operators are work as well.
    many = {f"op{number}": (1, 1.0) for number in range(40)}
    assert len(work(side(a=(1, 100)), side(a=(1, 100), **many)).carriers) == 20


TIMES = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(1, 20), st.floats(1, 1e4)), min_size=1)


@given(before=TIMES, now=TIMES, times=st.lists(st.floats(0, 1e6), min_size=8, max_size=8))
def test_no_time_of_the_current_run_matters(before, now, times):
    other = [replace(one, value=time) for one, time in zip(side(**now)[len(now) :], times, strict=False)]
    assert work(side(**before), side(**now)) == work(side(**before), [*side(**now)[: len(now)], *other])


@given(before=TIMES, now=TIMES)
def test_less_of_everything_is_never_worse(before, now):
    fewer = dict.fromkeys(before.keys() & now.keys(), (1, 1.0)) or {min(before): (1, 1.0)}
    assert work(side(**before), side(**fewer)).growth <= thresholds.OPERATOR_WEIGHT
