"""A small convolutional network for images, and what is done to images before it."""

import torch
from torch import nn

BATCH, SIZE, CLASSES = 16, 16, 10
KERNEL, CHANNELS = 3, 16


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, CHANNELS, KERNEL, padding="same"),
            nn.BatchNorm2d(CHANNELS),
            nn.ReLU(inplace=True),
            nn.Conv2d(CHANNELS, 2 * CHANNELS, KERNEL, padding="same"),
            nn.BatchNorm2d(2 * CHANNELS),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(4),
        )
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(2 * CHANNELS * (SIZE // 4) ** 2, CLASSES)

    def forward(self, images):
        x = self.features(images).flatten(1)
        return self.head(self.dropout(x))


def pictures():
    torch.manual_seed(0)
    return torch.rand(BATCH, 3, SIZE, SIZE), torch.arange(BATCH) % CLASSES


def train_step():
    images, labels = pictures()
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    history = []  # noqa: F841 (some of the planted changes keep something here)

    def step():
        optimizer.zero_grad()
        logits = model(images)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()

    return step


def inference_step():
    images, _ = pictures()
    model = Network().eval()

    def step():
        with torch.no_grad():
            return model(images).argmax(dim=1)

    return step


def augment_step():
    images = torch.rand(64, 3, 32, 32)

    def step():
        return augmented(images)

    return step


def augmented(images):
    mean = images.mean(dim=(-2, -1), keepdim=True)
    deviation = images.std(dim=(-2, -1), keepdim=True)
    normal = (images - mean) / (deviation + 1e-6)
    return torch.nn.functional.pad(normal.flip(-1), (2, 2, 2, 2))[..., 1:33, 1:33].contiguous()
