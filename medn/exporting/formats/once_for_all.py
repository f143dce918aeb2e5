"""The lookup table of once-for-all: milliseconds of every block of its MobileNetV3 space at one image size.

once-for-all reads YAML. A key joins the sort of block, `input:HxWxC` and `output:HxWxC`, and for inverted residual
blocks the channels between, kernel, stride, shortcut, squeeze-and-excite and hard swish; `mean` is the latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import yaml

from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.core.parameters import Parameter, integer
from medn.core.values import Layer
from medn.estimator.layer_predictor import LayerPredictor
from medn.exporting.exporter import Exporter, Options, exporters
from medn.exporting.layer_list import listed_model
from medn.layer_generators.kind import layer_kinds
from medn.model.prepared_model import predict_model

DIVISOR = 8
SQUEEZE = 4
CLASSES = 1000


class NetworkStage(NamedTuple):
    """Blocks of one width, before it is multiplied."""

    width: int
    stride: int
    squeezes: bool
    hard_swish: bool


STEM, FINAL, MIXED = 16, 960, 1280
STAGES = (
    NetworkStage(24, 2, False, False),
    NetworkStage(40, 2, True, False),
    NetworkStage(80, 2, False, True),
    NetworkStage(112, 1, True, True),
    NetworkStage(160, 2, True, True),
)
KERNELS = (3, 5, 7)
EXPANSIONS = (3, 4, 6)


def divisible(channels: float) -> int:
    """The nearest multiple of eight that is not more than a tenth below.

    >>> [divisible(width) for width in (19.2, 28.8, 134.4)]
    [24, 32, 136]
    """
    near = max(DIVISOR, int(channels + DIVISOR / 2) // DIVISOR * DIVISOR)
    return near + DIVISOR if near < 0.9 * channels else near


@dataclass(frozen=True)
class Block:
    """An inverted residual block."""

    size: int
    in_channels: int
    between: int
    out_channels: int
    kernel: int
    stride: int = 1
    shortcut: bool = False
    squeezes: bool = False
    hard_swish: bool = False

    @property
    def out_size(self) -> int:
        return (self.size - 1) // self.stride + 1

    @property
    def key(self) -> str:
        facts = {
            "expand": self.between,
            "kernel": self.kernel,
            "stride": self.stride,
            "idskip": int(self.shortcut),
            "se": int(self.squeezes),
            "hs": int(self.hard_swish),
        }
        shapes = ((self.size, self.size, self.in_channels), (self.out_size, self.out_size, self.out_channels))
        return "-".join([_key("expanded_conv", *shapes), *(f"{name}:{value}" for name, value in facts.items())])

    def layers(self) -> Iterator[Layer]:
        function = "hardswish" if self.hard_swish else "relu"
        between = self.between
        if between != self.in_channels:
            yield from _convolution(self.size, self.in_channels, between, 1, function=function)
        yield from _convolution(
            self.size, between, between, self.kernel, self.stride, groups=between, function=function
        )
        if self.squeezes:
            yield from _squeeze(self.out_size, between)
        yield from _convolution(self.out_size, between, self.out_channels, 1)
        if self.shortcut:
            yield _layer("elementwise", operation="add", rows=self.out_channels, columns=self.out_size**2)


def _key(sort: str, before: Sequence[int], after: Sequence[int]) -> str:
    return f"{sort}-input:{'x'.join(map(str, before))}-output:{'x'.join(map(str, after))}"


def _layer(kind: str, **parameters: int | str | bool) -> Layer:
    return layer_kinds[kind].layer(**parameters)


def _convolution(
    size: int, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1, function: str | None = None
) -> Iterator[Layer]:
    """A convolution, its normalisation and what follows."""
    out_size = (size - 1) // stride + 1
    yield _layer(
        "conv2d",
        in_channels=before,
        out_channels=after,
        in_size=size,
        kernel_size=kernel,
        stride=stride,
        padding=kernel // 2,
        groups=groups,
        bias=False,
    )
    yield _layer("batch_norm2d", channels=after, in_size=out_size)
    if function:
        yield _layer("activation", function=function, elements=after * out_size**2)


def _squeeze(size: int, channels: int) -> Iterator[Layer]:
    """Squeeze and excite: a weight for each channel, made from the means of all."""
    few = divisible(channels // SQUEEZE)
    yield _layer("adaptive_avg_pool2d", channels=channels, in_size=size)
    yield _layer("conv2d", in_channels=channels, out_channels=few, in_size=1, kernel_size=1)
    yield _layer("activation", function="relu", elements=few)
    yield _layer("conv2d", in_channels=few, out_channels=channels, in_size=1, kernel_size=1)
    yield _layer("activation", function="hardsigmoid", elements=channels)
    yield _layer("elementwise", operation="mul", rows=channels, columns=size**2, broadcast="per_row")


def mobilenet_v3_blocks(image_size: int, multiplier: float = 1.0) -> Iterator[Block]:
    """Every inverted residual block that a network of the space can have at this image size."""
    size, before = (image_size + 1) // 2, divisible(STEM * multiplier)
    yield Block(size, before, before, before, kernel=3, shortcut=True)
    for width, stride, squeezes, hard_swish in STAGES:
        after = divisible(width * multiplier)
        for kernel in KERNELS:
            for expansion in EXPANSIONS:
                sort = {"squeezes": squeezes, "hard_swish": hard_swish}
                first = Block(size, before, before * expansion, after, kernel, stride, **sort)
                yield first
                yield Block(first.out_size, after, after * expansion, after, kernel, shortcut=True, **sort)
        size, before = (size - 1) // stride + 1, after


def mobilenet_v3_entries(image_size: int, multiplier: float = 1.0) -> dict[str, list[Layer]]:
    """The layers behind every key of the table."""
    if image_size < 32:
        raise UsageError(f"image_size: must be at least 32 (got {image_size})")
    blocks = list(mobilenet_v3_blocks(image_size, multiplier))
    stem, half, last = blocks[0].in_channels, blocks[0].size, blocks[-1]
    final, mixed = divisible(FINAL * multiplier), divisible(MIXED * multiplier)
    size, width = last.out_size, last.out_channels
    return {
        _key("Conv", (image_size, image_size, 3), (half, half, stem)): list(
            _convolution(image_size, 3, stem, 3, 2, function="hardswish")
        ),
        **{block.key: list(block.layers()) for block in blocks},
        _key("Conv_1", (size, size, width), (size, size, final)): list(
            _convolution(size, width, final, 1, function="hardswish")
        ),
        _key("AvgPool2D", (size, size, final), (1, 1, final)): [
            _layer("adaptive_avg_pool2d", channels=final, in_size=size)
        ],
        _key("Conv_2", (1, 1, final), (1, 1, mixed)): [
            _layer("conv2d", in_channels=final, out_channels=mixed, in_size=1, kernel_size=1, bias=False),
            _layer("activation", function="hardswish", elements=mixed),
        ],
        _key("Logits", (1, 1, mixed), (CLASSES,)): [_layer("linear", in_features=mixed, out_features=CLASSES)],
    }


def once_for_all_table(
    predictor: LayerPredictor, entries: Mapping[str, Sequence[Layer]], batch_size: int = 1
) -> dict[str, dict[str, float]]:
    """Milliseconds of every entry, the sum of its layers."""
    model = listed_model((layer for layers in entries.values() for layer in layers), batch_size)
    seconds = predict_model(predictor, model).layers.latency_s
    entry = np.repeat(np.arange(len(entries)), [len(layers) for layers in entries.values()])
    sums = np.bincount(entry, seconds, len(entries))
    return {key: {"mean": 1e3 * total} for key, total in zip(entries, sums.tolist(), strict=True)}


@exporters.register
class OnceForAll(Exporter):
    name = "once-for-all"
    description = "every block of a MobileNetV3 space at one image size, for once-for-all: YAML"
    to = "lookup_table.yaml"
    options = (
        integer("image_size", "height and width of the images", 32, 8192, default=224),
        Parameter("multiplier", "of all widths", float, low=0.1, high=10.0, default=1.0),
        integer("batch_size", "images at a time", 1, 65_536, default=1),
    )

    def files(self, predictor: LayerPredictor, model: CapturedModel | None, options: Options) -> dict[str, bytes]:
        if model is not None:
            raise UsageError("once-for-all has a space of models of its own: give no model")
        entries = mobilenet_v3_entries(options.image_size, options.multiplier)
        table = once_for_all_table(predictor, entries, options.batch_size)
        return {"": yaml.safe_dump(table, sort_keys=False).encode()}
