"""The gate: a training step, and a loop of the test's own."""

import torch
from model import Encoder, training_step


def test_training(perfguard):
    perfguard(training_step())


def test_inference(perfguard):
    torch.manual_seed(0)
    model = Encoder().eval()
    loader = torch.utils.data.DataLoader(torch.randint(100, (2000, 16)), batch_size=8)
    with torch.inference_mode():
        for tokens in perfguard.steps(loader):
            model(tokens)
