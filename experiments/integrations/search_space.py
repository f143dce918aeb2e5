"""The networks that searches choose from: four stages of convolutions, each with a width, a depth and a kernel.

A whole population is asked for at once: arrays with one row per network and one column per stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from medn.core.table import Array
from medn.integrations.pymoo import layers_latency_s
from medn.predictor.predictor import Predictor

Whole = NDArray[np.int_]
STAGES = 4
WIDTH_STEP = 16
WIDEST = 16
"""The widest stage, in steps."""
DEEPEST = 3
KERNELS = (3, 5)
IMAGE = (1, 3, 64, 64)
CLASSES = 10


class Population(NamedTuple):
    """Networks: rows are networks, columns stages."""

    widths: Whole
    depths: Whole
    kernels: Whole

    def __len__(self) -> int:
        return len(self.widths)

    def take(self, rows: Any) -> Population:
        return Population(self.widths[rows], self.depths[rows], self.kernels[rows])


def decode(genes: NDArray[Any]) -> Population:
    """Networks of whole numbers: widths in steps, then depths, then places among the kernels.

    >>> decode(np.array([[1, 2, 4, 8, 1, 1, 2, 1, 0, 0, 0, 1]])).widths.tolist()
    [[16, 32, 64, 128]]
    """
    widths, depths, kernels = np.split(genes.astype(np.int_), 3, axis=1)
    return Population(WIDTH_STEP * widths, depths, np.array(KERNELS)[kernels])


LOWEST = np.repeat([1, 1, 0], STAGES)
HIGHEST = np.repeat([WIDEST, DEEPEST, len(KERNELS) - 1], STAGES)
HAND_MADE = np.array([[2, 4, 8, 12, *[2] * STAGES, *[0] * STAGES]])
"""What one would write down without a search: twice the width at half the size."""


class Convolutions(NamedTuple):
    """Every convolution of every network, in the order of the stages."""

    network: Whole
    columns: Mapping[str, NDArray[Any]]


def convolutions(population: Population) -> Convolutions:
    before = np.hstack([np.full((len(population), 1), IMAGE[1]), population.widths[:, :-1]])
    layers = []
    for stage in range(STAGES):
        size = IMAGE[-1] // 2**stage
        width, kernel = population.widths[:, stage], population.kernels[:, stage]
        for place in range(DEEPEST):
            network = np.flatnonzero(population.depths[:, stage] > place)
            # The first convolution of a stage halves the size.
            still = {"in_size": size if place == 0 else size // 2, "stride": 2 if place == 0 else 1}
            layers.append(
                {
                    "network": network,
                    "in_channels": (before[:, stage] if place == 0 else width)[network],
                    "out_channels": width[network],
                    "kernel_size": kernel[network],
                    "padding": kernel[network] // 2,
                    **{name: np.full(len(network), value) for name, value in still.items()},
                }
            )
    joined = {name: np.concatenate([each[name] for each in layers]) for name in layers[0]}
    return Convolutions(joined.pop("network"), joined)


def questions(population: Population) -> tuple[Whole, dict[str, dict[str, Any]]]:
    """What to ask a predictor: for each kind the columns of all layers, and the network that each layer belongs to."""
    network, columns = convolutions(population)
    sizes = columns["in_size"] // columns["stride"]
    channels = columns["out_channels"]
    last = IMAGE[-1] // 2**STAGES
    queries = {
        "conv2d": {**columns, "bias": False},
        "batch_norm2d": {"channels": channels, "in_size": sizes},
        "activation": {"function": "relu", "elements": channels * sizes**2},
        "max_pool2d": {"channels": population.widths[:, -1], "in_size": last, "kernel_size": last, "stride": last},
        "linear": {"in_features": population.widths[:, -1], "out_features": CLASSES},
    }
    heads = np.arange(len(population))
    return np.concatenate([network, network, network, heads, heads]), queries


def latency_s(population: Population, predictor: Predictor) -> Array:
    """Seconds of every network: one question for each kind of layer, whatever the size of the population."""
    network, queries = questions(population)
    return layers_latency_s(predictor, network, queries, len(population))


def rows(queries: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same questions one layer at a time."""
    for kind, columns in queries.items():
        spread = np.broadcast_arrays(*columns.values())
        for values in zip(*(column.tolist() for column in spread), strict=True):
            yield kind, dict(zip(columns, values, strict=True))


def expressiveness(population: Population) -> Array:
    """A score that needs no training: the entropy of what a network of random weights can tell apart.

    Each convolution adds the logarithm of the inputs of one of its outputs; what is left at the end weighs the sum.
    """
    network, columns = convolutions(population)
    entropy: Array = np.log(columns["in_channels"] * columns["kernel_size"] ** 2)
    last = IMAGE[-1] // 2**STAGES
    weight: Array = np.log(population.widths[:, -1] * last**2)
    return weight * np.bincount(network, entropy, len(population))


def build(population: Population, row: int) -> nn.Module:
    """One of the networks, as torch runs it."""
    layers: list[nn.Module] = []
    before = IMAGE[1]
    for width, depth, kernel in zip(*(each[row].tolist() for each in population), strict=True):
        for place in range(depth):
            stride = 2 if place == 0 else 1
            layers += [nn.Conv2d(before, width, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(width)]
            layers.append(nn.ReLU())
            before = width
    last = IMAGE[-1] // 2**STAGES
    return nn.Sequential(*layers, nn.MaxPool2d(last), nn.Flatten(), nn.Linear(before, CLASSES)).eval()


def told(population: Population, row: int) -> str:
    """A network in few words: width x depth (kernel) of every stage."""
    stages = zip(*(each[row].tolist() for each in population), strict=True)
    return " ".join(f"{width}x{depth}({kernel})" for width, depth, kernel in stages)


def example() -> torch.Tensor:
    return torch.rand(IMAGE, generator=torch.Generator().manual_seed(0))
