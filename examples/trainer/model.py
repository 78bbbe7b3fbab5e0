"""A tiny GPT-2 with random weights, and a Trainer for it. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

LAYERS = 2
TOKENS = 64


class Sequences(Dataset):
    """1000 sequences of 16 tokens."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        tokens = (torch.arange(16) * 7 + number) % TOKENS
        return {"input_ids": tokens, "labels": tokens}


def trainer(output: Path, callback: TrainerCallback) -> Trainer:
    """Return a Trainer on the CPU, with more steps than any window needs."""
    set_seed(0)
    config = GPT2Config(
        vocab_size=TOKENS, n_positions=16, n_embd=32, n_layer=LAYERS, n_head=2, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        output_dir=str(output), max_steps=10_000, per_device_train_batch_size=4, use_cpu=True, report_to=[]
    )
    return Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Sequences(), callbacks=[callback])
