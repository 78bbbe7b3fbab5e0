"""Callbacks for trainings of other frameworks: transformers' Trainer, Lightning's Trainer, and accelerate's own loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.installed import needs

needs("transformers", "trainer")
needs("lightning", "lightning")
# Runs of pytest that train.
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
#: 1 settle + 1 warmup + 2 active + 3 timed = 7 steps; the profiler is on from the second step to the fourth.
HEAD = """
import os

import perfguard as pg
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.perfguard(
    backend="torch", timed_steps=3, window=pg.StepWindow(skip_first=1, warmup=1, active=2)
)

class Tokens(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, number):
        row = (torch.arange(8) + number) % 20
        return {"input_ids": row, "labels": row}

def loader():
    return DataLoader(Tokens(), batch_size=2)
"""

TRAINER = """
from transformers.trainer import Trainer, TrainingArguments

class Tiny(torch.nn.Module):
    def __init__(self, breaks_at=0):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
        self.left = breaks_at

    def forward(self, input_ids, labels=None):
        self.left -= 1
        if not self.left:
            raise ArithmeticError("no loss")
        logits = self.head(self.embed(input_ids))
        if os.environ.get("SLOWER"):
            logits = logits @ torch.eye(20)
        return {"loss": torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}

@pytest.fixture
def train(tmp_path):
    def train(*callbacks, model=None, trainings=1, **more):
        known = {"max_steps": 100, "per_device_train_batch_size": 2, "use_cpu": True, "disable_tqdm": True}
        arguments = TrainingArguments(output_dir=str(tmp_path), **{**known, "report_to": [], **more})
        data = {"train_dataset": Tokens(), "eval_dataset": Tokens()}
        trainer = Trainer(model=model or Tiny(), args=arguments, callbacks=[*callbacks], **data)
        for _ in range(trainings):
            trainer.train()
        return trainer.state.global_step
    return train

def test_steps(perfguard, train):
    assert train(perfguard.trainer_callback()) == int(os.environ.get("STEPS", 7))

def test_accumulates(perfguard, train):
    train(perfguard.trainer_callback(), gradient_accumulation_steps=3)

def test_two(perfguard, train):
    train(perfguard.trainer_callback(name="first"))
    train(perfguard.trainer_callback(name="second"))

def test_evaluates_before_and_after(perfguard, train, tmp_path):
    train(perfguard.trainer_callback(), eval_strategy="steps", eval_steps=7, eval_delay=7, save_strategy="epoch")
    assert not list(tmp_path.glob("checkpoint*"))

def test_epoch_ends_before(perfguard, train):
    train(perfguard.trainer_callback(), per_device_train_batch_size=16)

def test_epoch_ends_inside(perfguard, train):
    train(perfguard.trainer_callback(), per_device_train_batch_size=20, dataloader_drop_last=True)

def test_is_short(perfguard, train):
    train(perfguard.trainer_callback(), max_steps=6)

def test_evaluates_inside(perfguard, train):
    train(perfguard.trainer_callback(), eval_strategy="steps", eval_steps=3)

def test_raises(perfguard, train):
    train(perfguard.trainer_callback(), model=Tiny(breaks_at=6))

def test_hides_what_it_raises(perfguard, train):
    with pytest.raises(ArithmeticError):
        train(perfguard.trainer_callback(), model=Tiny(breaks_at=6))

def test_trains_again(perfguard, train):
    train(perfguard.trainer_callback(), trainings=2)

def test_two_at_once(perfguard, train):
    train(perfguard.trainer_callback(name="first"), perfguard.trainer_callback(name="second"))

def test_never_trains(perfguard):
    perfguard.trainer_callback()
"""

LIGHTNING = """
import warnings

from lightning.pytorch import LightningModule, Trainer

class Tiny(LightningModule):
    def __init__(self, breaks_at=0, manual=False):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20)
        self.left, self.automatic_optimization = breaks_at, not manual

    def training_step(self, batch, number):
        self.left -= 1
        if not self.left:
            raise ArithmeticError("no loss")
        logits = self.head(self.embed(batch["input_ids"]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
        if not self.automatic_optimization:
            loss.backward()
            for one in self.optimizers():
                one.step()
                one.zero_grad()
        return loss

    validation_step = training_step

    def configure_optimizers(self):
        made = [torch.optim.SGD(part.parameters(), 0.1) for part in (self.embed, self.head)]
        return made if not self.automatic_optimization else torch.optim.SGD(self.parameters(), 0.1)

def fit(*callbacks, model=None, validates=False, fits=1, **more):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    trainer = Trainer(
        max_epochs=-1, accelerator="cpu", enable_checkpointing=False, callbacks=[*callbacks], **quiet, **more
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(fits):
            trainer.fit(model or Tiny(), loader(), loader() if validates else None)
    return trainer.global_step

def test_steps(perfguard):
    assert fit(perfguard.lightning_callback()) == int(os.environ.get("STEPS", 7))

def test_accumulates(perfguard):
    assert fit(perfguard.lightning_callback(), accumulate_grad_batches=3) == 7

def test_two(perfguard):
    fit(perfguard.lightning_callback(name="first"))
    fit(perfguard.lightning_callback(name="second"))

def test_two_optimizers(perfguard):
    assert fit(perfguard.lightning_callback(), model=Tiny(manual=True)) == 14

def test_validates_before_and_after(perfguard):
    fit(perfguard.lightning_callback(), validates=True, limit_val_batches=1)

def test_epoch_ends_inside(perfguard):
    fit(perfguard.lightning_callback(), limit_train_batches=3)

def test_is_short(perfguard):
    fit(perfguard.lightning_callback(), max_steps=6)

def test_validates_inside(perfguard):
    fit(perfguard.lightning_callback(), validates=True, val_check_interval=3)

def test_raises(perfguard):
    fit(perfguard.lightning_callback(), model=Tiny(breaks_at=6))

def test_hides_what_it_raises(perfguard):
    with pytest.raises(ArithmeticError):
        fit(perfguard.lightning_callback(), model=Tiny(breaks_at=6))

def test_fits_again(perfguard):
    fit(perfguard.lightning_callback(), fits=2)

def test_never_fits(perfguard):
    perfguard.lightning_callback()
"""

ACCELERATE = """
from accelerate import Accelerator

def test_loop(perfguard):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Embedding(20, 8), torch.nn.Linear(8, 20))
    model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), loader())
    batches = iter(data)
    for pair in perfguard.steps(zip(batches, batches)):
        for batch in pair:
            with accelerator.accumulate(model):
                logits = model(batch["input_ids"])
                loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
"""

PASSED = ("PASSED", "")
#: Outcome and first error of each workload that was measured.
MEASURED = {
    "test_accelerate.py::test_loop": PASSED,
    "test_hf.py::test_steps": PASSED,
    "test_hf.py::test_accumulates": PASSED,
    "test_hf.py::test_two#first": PASSED,
    "test_hf.py::test_two#second": PASSED,
    "test_hf.py::test_evaluates_before_and_after": PASSED,
    "test_hf.py::test_epoch_ends_before": PASSED,
    "test_hf.py::test_epoch_ends_inside": ("INVALID", "C106"),
    "test_hf.py::test_is_short": ("INVALID", "C106"),
    "test_hf.py::test_evaluates_inside": ("INVALID", "C106"),
    "test_hf.py::test_raises": ("INVALID", "C105"),
    # The Trainer has no event for an error, so perfguard sees only that the window is still open.
    "test_hf.py::test_hides_what_it_raises": ("INVALID", "C108"),
    "test_hf.py::test_two_at_once#first": ("INVALID", "C108"),
    "test_hf.py::test_trains_again": ("none", "this callback has measured a training already"),
    "test_hf.py::test_never_trains": ("none", "B105"),
    "test_li.py::test_steps": PASSED,
    "test_li.py::test_accumulates": PASSED,
    "test_li.py::test_two#first": PASSED,
    "test_li.py::test_two#second": PASSED,
    "test_li.py::test_two_optimizers": PASSED,
    "test_li.py::test_validates_before_and_after": PASSED,
    "test_li.py::test_epoch_ends_inside": ("INVALID", "C106"),
    "test_li.py::test_is_short": ("INVALID", "C106"),
    "test_li.py::test_validates_inside": ("INVALID", "C106"),
    "test_li.py::test_raises": ("INVALID", "C105"),
    "test_li.py::test_hides_what_it_raises": ("INVALID", "C105"),
    "test_li.py::test_fits_again": ("none", "this callback has measured a training already"),
    "test_li.py::test_never_fits": ("none", "B105"),
}
#: Why a window is INVALID, as the failure of the test says it.
REASONS = {
    "test_hf.py::test_epoch_ends_inside": "an epoch ended inside the profiled window, after 3 steps",
    "test_hf.py::test_is_short": "the training ended after 6 optimizer steps, the window needs 7",
    "test_hf.py::test_evaluates_inside": "3 steps were run before an evaluation began inside the window",
    "test_hf.py::test_hides_what_it_raises": "the training was left before its window was over",
    "test_li.py::test_epoch_ends_inside": "an epoch ended inside the profiled window, after 3 steps",
    "test_li.py::test_validates_inside": "3 steps were run before an evaluation began inside the window",
    "test_li.py::test_hides_what_it_raises": "step 6 of 7: ArithmeticError: no loss",
}


@pytest.fixture(scope="module")
def stored(module_project):
    project = module_project("trainings")
    project.write("test_hf.py", HEAD + TRAINER)
    project.write("test_li.py", HEAD + LIGHTNING)
    project.write("test_accelerate.py", HEAD + ACCELERATE)
    return project, project.run("--perfguard-update", "--perfguard-report", "report.json")


def test_how_trainings_end(stored):
    project, run = stored
    found = {name: (outcome, (codes or [""])[0]) for name, (outcome, codes) in project.findings().items()}
    for name, (outcome, why) in MEASURED.items():
        if outcome == "none" and why in run.line(f"FAILED {name} - "):
            found.setdefault(name, (outcome, why))
    assert {name: found.get(name) for name in MEASURED.keys() | found.keys()} == MEASURED
    assert sorted(project.workloads) == sorted(name for name, ending in MEASURED.items() if ending == PASSED)
    lines = {name: run.line(f"FAILED {name} - ") for name in REASONS}
    assert {name: reason for name, reason in REASONS.items() if reason not in lines[name]} == {}


def test_the_documentation_shows_these_reasons():
    pages = {
        one: (HOW_TO / f"{page}.md").read_text() for one, page in (("test_hf", "trainer"), ("test_li", "lightning"))
    }
    shown = {name: reason for name, reason in REASONS.items() if "C105" not in MEASURED[name]}
    assert {name: reason for name, reason in shown.items() if reason not in pages[name.partition(".")[0]]} == {}


def test_a_step_is_an_optimizer_step(stored):
    """Three accumulated batches are three times the calls of one, also in accelerate's own loop of two."""
    project, _ = stored
    calls = {
        one["workload"]: {m["subject"]: m["value"] for m in one["measurements"] if m["metric"] == "operator_calls"}
        for one in project.report()["workloads"]
    }
    embeddings = {name: of["aten::embedding"] for name, of in calls.items() if MEASURED[name] == PASSED}
    expected = {name: 3 if "accumulates" in name else 2 if "accelerate" in name else 1 for name in embeddings}
    assert embeddings == expected


def test_an_added_operator_fails(stored):
    project, _ = stored
    run = project.run("--perfguard", "--perfguard-report", "again.json", "-k", "test_steps", env={"SLOWER": "1"})
    assert run.counts["failed"] == run.counts["passed"] == 1, run.text
    found = project.findings("again.json")
    assert found["test_li.py::test_steps"] == ("PASSED", [])
    assert found["test_hf.py::test_steps"][0] == "FAILED"
    assert "R102" in found["test_hf.py::test_steps"][1]


def test_without_the_option_a_training_is_one_step(stored):
    project, _ = stored
    run = project.run("-k", "test_steps or test_two_at_once", env={"STEPS": "1"})
    assert run.counts == {"passed": 3, "deselected": len(MEASURED) - 5}, run.text


@pytest.mark.exhaustive
def test_trainings_are_timed_in_fresh_processes(stored):
    project, _ = stored
    names = "test_steps or test_two and not once and not optimizers"
    run = project.run("--perfguard-update", "--perfguard-runs", "1", "-k", names)
    timed = {
        one["workload"]
        for one in map(json.loads, project.baselines.values())
        if "run_cpu_time" in json.dumps(one["measurements"])
    }
    tests = ("steps", "two#first", "two#second")
    assert timed == {f"test_{which}.py::test_{one}" for which in ("hf", "li") for one in tests}, run.text
