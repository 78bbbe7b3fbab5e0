"""The planted changes: edits of the project's sources, the tests that run them, and the verdict a maintainer expects."""

from __future__ import annotations

from dataclasses import dataclass

#: A file of the project, a text that is in it once, and what replaces it.
Edit = tuple[str, str, str]

ENCODER, CNN, MLP, DECODER, TESTS = (
    "app/encoder.py",
    "app/cnn.py",
    "app/mlp.py",
    "app/decoder.py",
    "tests/test_speed.py",
)
ALL = ("encoder_train", "encoder_inference", "cnn_train", "cnn_inference", "augment")
ALL += ("mlp_train", "loader_train", "evaluate", "rank", "generate")

GREEN = frozenset({"PASSED", "CHANGED"})
RED = frozenset({"FAILED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """A change of the project, and the verdict it should get."""

    name: str
    kind: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    expected: frozenset[str]
    #: Regular expressions that the terminal's output must, and must not, hold.
    says: tuple[str, ...] = ()
    is_silent_on: tuple[str, ...] = ()
    #: Whether only time, or the host's memory over the timed steps, shows it.
    needs_time: bool = False
    #: Whether it is accepted by `--perfguard-ratchet`, and by `--perfguard-update` without a reason.
    is_accepted: bool = False
    #: Whether terminal, JUnit, Markdown and report must agree on one step time and one percentage.
    has_one_time: bool = False
    #: Busy processes beside it.
    busy: int = 0


def improvement(name: str, tests: str, *edits: Edit) -> Plant:
    return Plant(
        name=name,
        kind="improvement",
        tests=tuple(tests.split()),
        edits=edits,
        expected=GREEN,
        says=(r"\b[1-9]\d* better\b",),
        is_accepted=True,
    )


def regression(name: str, test: str, *edits: Edit, needs_time: bool = False, says: tuple[str, ...] = ()) -> Plant:
    return Plant(
        name=name, kind="regression", tests=(test,), edits=edits, expected=RED, says=says, needs_time=needs_time
    )


def refactoring(name: str, tests: str, *edits: Edit) -> Plant:
    return Plant(name=name, kind="refactoring", tests=tuple(tests.split()), edits=edits, expected=GREEN)


#: The measured numbers of a change (`R101`, the time) come before what explains them, and a view is no headline.
CAUSE_FIRST = (r"(?m)^(E +)?(Failed: )?perfguard FAILED: (?!.*aten::(view|t|transpose|as_strided|reshape)\b)",)
#: What is left when operators do not add up to the step is no cause.
FALSE_CAUSES = (r"largest part is in no operator", r"profiler's time \(correction\)")
WIDER = (MLP, "HIDDEN, CLASSES = 128, 128, 512, 10", "HIDDEN, CLASSES = 128, 128, 1024, 10")

PLANTS = (
    improvement(
        "fused attention",
        "encoder_train encoder_inference",
        (
            ENCODER,
            "mixed = attend(query, key, value, self.mask)",
            "mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)",
        ),
    ),
    improvement("fused AdamW", "encoder_train", (ENCODER, "lr=1e-3)", "lr=1e-3, fused=True)")),
    improvement("narrower layer", "mlp_train", (MLP, "128, 512, 10", "128, 384, 10")),
    improvement("one layer fewer", "encoder_train encoder_inference", (ENCODER, "HEADS = 3,", "HEADS = 2,")),
    Plant(
        name="wider layer",
        kind="regression",
        tests=("mlp_train",),
        edits=(WIDER,),
        expected=RED,
        says=CAUSE_FIRST,
        is_silent_on=FALSE_CAUSES,
        has_one_time=True,
    ),
    Plant(
        name="wider layer, busy machine",
        kind="regression",
        tests=("mlp_train",),
        edits=(WIDER,),
        expected=RED,
        says=CAUSE_FIRST,
        is_silent_on=FALSE_CAUSES,
        busy=3,
    ),
    regression(
        "sleep of 20 ms",
        "cnn_train",
        (CNN, "        optimizer.step()\n", "        optimizer.step()\n        time.sleep(0.02)\n"),
        (CNN, "import torch\n", "import time\n\nimport torch\n"),
        needs_time=True,
    ),
    regression(
        "2 ms a batch in the loader",
        "loader_train",
        (MLP, "    rows, labels = zip(*samples", "    time.sleep(0.002)\n    rows, labels = zip(*samples"),
        (MLP, "import torch\n", "import time\n\nimport torch\n"),
        needs_time=True,
    ),
    regression(
        "64 KiB of bytes kept",
        "mlp_train",
        (MLP, "        optimizer.step()\n", "        optimizer.step()\n        seen.append(rows.numpy().tobytes())\n"),
        needs_time=True,
    ),
    regression("extra layer", "encoder_train", (ENCODER, "HEADS = 3,", "HEADS = 4,")),
    regression("larger kernel", "cnn_train", (CNN, "KERNEL, CHANNELS = 3,", "KERNEL, CHANNELS = 5,")),
    regression(
        "activations cloned",
        "encoder_inference",
        (ENCODER, "            x = block(x)\n", "            x = block(x).clone()\n"),
    ),
    regression(
        "forward twice",
        "mlp_train",
        (MLP, "        loss.backward()\n", "        loss.backward()\n        model(rows).argmax(dim=1)\n"),
    ),
    regression(
        "float64", "augment", (CNN, "    mean = images.mean(", "    images = images.double()\n    mean = images.mean(")
    ),
    regression(
        "loop over the batch",
        "augment",
        (CNN, "return augmented(images)", "return torch.stack([augmented(image) for image in images])"),
    ),
    regression(
        "item() of every loss",
        "evaluate",
        (MLP, "return losses.mean().item()", "return sum(loss.item() for loss in losses) / len(losses)"),
    ),
    regression("mask at every step", "encoder_inference", (ENCODER, "value, self.mask)", "value, causal_mask())")),
    regression("training mode in inference", "cnn_inference", (CNN, "Network().eval()", "Network()")),
    regression(
        "gradients in inference", "encoder_inference", (ENCODER, "with torch.no_grad():", "with torch.enable_grad():")
    ),
    regression("graph retained", "encoder_train", (ENCODER, "loss.backward()", "loss.backward(retain_graph=True)")),
    regression(
        "outputs kept",
        "cnn_train",
        (CNN, "        loss.backward()\n", "        loss.backward()\n        history.append(logits.detach())\n"),
    ),
    regression(
        "graphs kept",
        "cnn_train",
        (CNN, "        loss.backward()\n", "        loss.backward()\n        history.append(loss)\n"),
    ),
    regression(
        "rows logged with tolist()",
        "mlp_train",
        (MLP, "        optimizer.step()\n", "        optimizer.step()\n        str(rows.tolist())\n"),
        needs_time=True,
    ),
    regression(
        "cache not used",
        "generate",
        (DECODER, "logits, past = model(tokens, past)", "logits, _ = model(tokens, None)"),
        (
            DECODER,
            "        tokens = best(logits)\n        found.append(tokens)",
            "        found.append(best(logits))\n        tokens = torch.cat([tokens, found[-1]], dim=1)",
        ),
    ),
    regression(
        "full sort",
        "generate",
        (DECODER, "logits.topk(1, dim=-1).indices", "logits.sort(dim=-1, descending=True).indices[:, :1]"),
    ),
    regression(
        "order of products", "rank", (MLP, "documents @ (projection @ query)", "(documents @ projection) @ query")
    ),
    regression(
        "ReLU not in place",
        "cnn_inference",
        (
            CNN,
            "            nn.ReLU(inplace=True),\n            nn.MaxPool2d",
            "            nn.ReLU(),\n            nn.MaxPool2d",
        ),
    ),
    refactoring(
        "functions and classes renamed",
        "encoder_train",
        (ENCODER, "class Block(nn.Module):", "class EncoderLayer(nn.Module):"),
        (ENCODER, "nn.ModuleList(Block() for", "nn.ModuleList(EncoderLayer() for"),
        (ENCODER, "def attend(", "def attention("),
        (ENCODER, "mixed = attend(", "mixed = attention("),
    ),
    refactoring(
        "F.linear for nn.Linear",
        "encoder_train",
        (
            ENCODER,
            "return self.head(x.mean(dim=1))",
            "return nn.functional.linear(x.mean(dim=1), self.head.weight, self.head.bias)",
        ),
    ),
    refactoring(
        "view to reshape",
        "encoder_train encoder_inference",
        (ENCODER, "self.project(x).view(", "self.project(x).reshape("),
    ),
    refactoring(
        "function split in two",
        "augment",
        (
            CNN,
            "    normal = (images - mean) / (deviation + 1e-6)\n    return torch",
            "    return framed((images - mean) / (deviation + 1e-6))\n\n\ndef framed(normal):\n    return torch",
        ),
    ),
    refactoring(
        "Sequential to explicit calls",
        "mlp_train evaluate",
        (
            MLP,
            "return self.layers(rows)",
            "first, _, second, _, last = self.layers\n        return last(torch.relu(second(torch.relu(first(rows)))))",
        ),
    ),
    refactoring(
        "einsum for matmul",
        "encoder_train encoder_inference",
        (ENCODER, "    return weights @ value", '    return torch.einsum("bhqk,bhkd->bhqd", weights, value)'),
    ),
    Plant(
        name="checkpointed: less memory, more work",
        kind="trade",
        tests=("encoder_train",),
        edits=(
            (ENCODER, "            x = block(x)\n", "            x = checkpoint(block, x, use_reentrant=False)\n"),
            (
                ENCODER,
                "from torch import nn\n",
                "from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n",
            ),
        ),
        expected=RED,
        says=("Better and worse at once",),
    ),
    Plant(
        name="model not called",
        kind="broken test",
        tests=("encoder_train",),
        edits=((ENCODER, "nn.functional.cross_entropy(model(tokens), labels)", "next(model.parameters()).sum()"),),
        expected=RED,
    ),
    Plant(name="unchanged", kind="unchanged", tests=ALL, expected=frozenset({"PASSED"})),
    # Whether a busy machine is judged or said to be busy, it never fails unchanged code.
    Plant(
        name="unchanged, busy machine",
        kind="unchanged",
        tests=("mlp_train", "encoder_inference", "cnn_train"),
        expected=frozenset({"PASSED", "INCONCLUSIVE"}),
        needs_time=True,
        busy=6,
    ),
    Plant(
        name="test renamed",
        kind="renamed",
        tests=("rank_documents",),
        edits=((TESTS, "def test_rank(", "def test_rank_documents("),),
        expected=frozenset({"INCONCLUSIVE"}),
        says=(r"test_rank\b", r"perfguard baseline move"),
    ),
)
