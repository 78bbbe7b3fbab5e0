"""A classifier of rows, its data loader and its evaluation."""

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

BATCH, FEATURES, HIDDEN, CLASSES = 128, 128, 512, 10
SAMPLES = 512


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, CLASSES),
        )

    def forward(self, rows):
        return self.layers(rows)


def data(count):
    torch.manual_seed(0)
    return torch.randn(count, FEATURES), torch.arange(count) % CLASSES


def trainer():
    """Return a function that trains on a batch."""
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []  # noqa: F841 (some of the planted changes keep something here)

    def train(rows, labels):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows), labels)
        loss.backward()
        optimizer.step()

    return train


def train_step():
    rows, labels = data(BATCH)
    train = trainer()
    return lambda: train(rows, labels)


def collated(samples):
    rows, labels = zip(*samples, strict=True)
    return torch.stack(rows), torch.stack(labels)


def loader(batches=5000):
    """Return a loader of so many batches, drawn from a few samples."""
    samples = TensorDataset(*data(SAMPLES))
    sampler = RandomSampler(samples, replacement=True, num_samples=batches * BATCH)
    return DataLoader(samples, batch_size=BATCH, sampler=sampler, collate_fn=collated)


def evaluate_step():
    model = Classifier().eval()
    rows, labels = data(BATCH)

    def step():
        with torch.no_grad():
            losses = nn.functional.cross_entropy(model(rows), labels, reduction="none")
        return mean_of(losses)

    return step


def mean_of(losses):
    return losses.mean().item()


def rank_step():
    """Rank documents by a projected query."""
    torch.manual_seed(0)
    documents, projection, query = torch.randn(16384, 128), torch.randn(128, 128), torch.randn(128, 1)

    def step():
        return scores(documents, projection, query).topk(10, dim=0)

    return step


def scores(documents, projection, query):
    return documents @ (projection @ query)
