"""What recipes of networks are made of: descriptions of layers, and the bricks that image networks repeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from medn.core.values import Scalar

Description = tuple[str, Mapping[str, Scalar]]
Recipe = Iterator[Description]

SAME: Mapping[str, Scalar] = {"same_padding": True}


def reduced(size: int, stride: int) -> int:
    return -(-size // stride)


def convolution(in_channels: int, out_channels: int, size: int, kernel: int = 3, **more: Scalar) -> Description:
    sizes: dict[str, Scalar] = {"in_channels": in_channels, "out_channels": out_channels, "in_size": size}
    return "conv2d", {**sizes, "kernel_size": kernel, "same_padding": True, **more}


def activation(function: str, channels: int, size: int) -> Description:
    return "activation", {"function": function, "elements": channels * size * size}


def normalised(
    in_channels: int,
    out_channels: int,
    size: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    function: str | None = "relu",
) -> Recipe:
    """Convolution, batch normalisation and, mostly, an activation: the brick of nearly every image network."""
    yield convolution(in_channels, out_channels, size, kernel, stride=stride, groups=groups, bias=False)
    size = reduced(size, stride)
    yield "batch_norm2d", {"channels": out_channels, "in_size": size}
    if function:
        yield activation(function, out_channels, size)


def residual(channels: int, size: int, operation: str = "add", broadcast: str = "none") -> Description:
    shape: dict[str, Scalar] = {"rows": channels, "columns": size * size}
    return "elementwise", {"operation": operation, "broadcast": broadcast, **shape}


def squeeze_excite(channels: int, squeezed: int, size: int, function: str, gate: str) -> Recipe:
    """One gate for each channel, from the average of the channel."""
    yield "adaptive_avg_pool2d", {"channels": channels, "in_size": size}
    yield convolution(channels, squeezed, 1, kernel=1)
    yield activation(function, squeezed, 1)
    yield convolution(squeezed, channels, 1, kernel=1)
    yield activation(gate, channels, 1)
    yield residual(channels, size, "mul", "per_row")


def classifier(channels: int, size: int, *hidden: int) -> Recipe:
    yield "adaptive_avg_pool2d", {"channels": channels, "in_size": size}
    widths = (channels, *hidden, 1000)
    for before, after in pairwise(widths):
        yield "linear", {"in_features": before, "out_features": after}
    yield "softmax", {"features": 1000}
