"""The networks of the quickstart, in plain torch: residual networks for images and small transformers for text.

Their structures are published ones: ResNet-18 (He et al., 2016), and the encoder of four layers of 256 features among
the compact BERTs (Turc et al., 2019). Weights are random: they do not change how long a layer takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

Made = tuple[nn.Module, Tensor]
"""A network and an example of its input."""


class ResidualBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        same = before == after and stride == 1
        convolution = nn.Conv2d(before, after, 1, stride, bias=False)
        self.shortcut = nn.Identity() if same else nn.Sequential(convolution, nn.BatchNorm2d(after))

    def forward(self, images: Tensor) -> Tensor:
        inner = torch.relu_(self.first_norm(self.first(images)))
        return torch.relu_(self.second_norm(self.second(inner)) + self.shortcut(images))


class ResidualNetwork(nn.Module):
    """Four stages of blocks, each twice as wide as the one before."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = nn.Sequential()
        before = width
        for stage in range(4):
            after = width * 2**stage
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                self.stages.append(ResidualBlock(before, after, stride))
                before = after
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(before, 1000)

    def forward(self, images: Tensor) -> Tensor:
        classes: Tensor = self.classifier(self.pool(self.stages(self.stem(images))).flatten(1))
        return classes


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = (
            projected(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projected in (self.query, self.key, self.value)
        )
        attended = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        tokens = self.attention_norm(tokens + self.output(attended))
        normalised: Tensor = self.norm(tokens + self.narrow(gelu(self.widen(tokens))))
        return normalised


def resnet(width: int, blocks: int, size: int) -> Made:
    return ResidualNetwork(width, blocks).eval(), torch.zeros(1, 3, size, size)


def encoder(layers: int, width: int, tokens: int, heads: int = 4) -> Made:
    """A transformer from embedded tokens on."""
    stacked = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(layers)))
    return stacked.eval(), torch.zeros(1, tokens, width)


def resnet18() -> Made:
    return resnet(width=64, blocks=2, size=224)


def transformer() -> Made:
    return encoder(layers=4, width=256, tokens=128)


PREDICTED: Mapping[str, Callable[[], Made]] = {"resnet18": resnet18, "transformer": transformer}
"""The networks whose layers are measured, and which are predicted."""

OTHERS: Mapping[str, Callable[[], Made]] = {
    "narrow resnet": partial(resnet, width=48, blocks=1, size=192),
    "wide resnet": partial(resnet, width=80, blocks=1, size=160),
    "narrow transformer": partial(encoder, layers=2, width=192, tokens=160),
    "wide transformer": partial(encoder, layers=2, width=320, tokens=96),
}
"""Networks of other sizes, which tell how layers compose on this machine. Their own layers are not in the sweep."""
