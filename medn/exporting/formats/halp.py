"""The lookup table of HALP, a pruner that solves a knapsack of channels: milliseconds of every smaller convolution.

HALP reads a pickled dict. Its keys say batch, input and output channels, size of the input, kernel, stride and groups,
joined by underscores: everything is square, and a convolution has one group or is depthwise. Beside it, HALP wants
the input size of each convolution and the multiple of channels to keep or drop together, both as JSON.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.errors import UsageError
from medn.core.parameters import Parameter, integer
from medn.core.values import Layer
from medn.estimator.layer_predictor import LayerPredictor
from medn.exporting.exporter import Exporter, Options, exporters

KEY = ("batch_size", "in_channels", "out_channels", "in_h", "kernel_h", "stride_h", "groups")
SQUARE = ("in", "kernel", "stride", "padding", "dilation")
UNSAID = ("padding_h", "dilation_h")
"""What changes a latency and is not in a key."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Convolutions to ask for: one key and one entry of each column for each."""

    keys: tuple[str, ...]
    columns: dict[str, NDArray[Any]]


def halp_grid(model: CapturedModel, step: int) -> Grid:
    """Every convolution that pruning a model in multiples of `step` channels can come to."""
    if step < 1:
        raise UsageError(f"step: must be at least 1 (got {step})")
    found: dict[str, dict[str, Any]] = {}
    for each, layer in _convolutions(model):
        for channels in _smaller(layer, step):
            row = {**layer.values, **channels, "batch_size": each.batch_size, "dtype": each.dtype}
            key = "_".join(str(row[name]) for name in KEY)
            same = found.setdefault(key, row)
            if any(same[name] != row[name] for name in UNSAID):
                raise UsageError(
                    f"layer {each.name!r}: HALP cannot tell it from a convolution of another padding or dilation"
                )
    if not found:
        raise UsageError("the model has no convolution over height and width, and HALP's table holds nothing else")
    names = next(iter(found.values()))
    return Grid(tuple(found), {name: np.array([row[name] for row in found.values()]) for name in names})


def _convolutions(model: CapturedModel) -> Iterator[tuple[CapturedLayer, Layer]]:
    for each in model.layers:
        layer = each.layer
        if layer is None or layer.kind != "conv2d":
            continue
        values = layer.values
        uneven = [part for part in SQUARE if values[f"{part}_h"] != values[f"{part}_w"]]
        if uneven:
            raise UsageError(f"layer {each.name!r}: HALP knows square convolutions only; {', '.join(uneven)} is not")
        if values["groups"] != 1 and not values["groups"] == values["in_channels"] == values["out_channels"]:
            raise UsageError(f"layer {each.name!r}: HALP knows convolutions of one group and depthwise ones only")
        yield each, layer


def _smaller(layer: Layer, step: int) -> Iterator[dict[str, int]]:
    outputs = _multiples(int(layer.values["out_channels"]), step)
    if layer.values["groups"] != 1:
        yield from ({"in_channels": count, "out_channels": count, "groups": count} for count in outputs)
        return
    for inputs in _multiples(int(layer.values["in_channels"]), step):
        yield from ({"in_channels": inputs, "out_channels": count} for count in outputs)


def _multiples(channels: int, step: int) -> list[int]:
    """The counts of channels to keep, all of them included.

    >>> _multiples(20, 8)
    [8, 16, 20]
    """
    return sorted({*range(step, channels + 1, step), channels})


def halp_table(predictor: LayerPredictor, grid: Grid) -> dict[str, float]:
    """Milliseconds by key."""
    seconds = predictor.predict(grid.columns, "conv2d").latency_s
    return dict(zip(grid.keys, (1e3 * seconds).tolist(), strict=True))


@exporters.register
class Halp(Exporter):
    name = "halp"
    description = "every smaller convolution of a model, for HALP: a folder of three files"
    to = "halp"
    needs_model = True
    options = (
        integer("step", "the multiple of channels to keep or drop together", 1, 65_536, default=8),
        Parameter("prefix", "what HALP's layer names begin with", str, default="module."),
    )

    def files(self, predictor: LayerPredictor, model: CapturedModel | None, options: Options) -> dict[str, bytes]:
        assert model is not None
        named = {f"{options.prefix}{each.name}": layer for each, layer in _convolutions(model)}
        sizes = {name: layer.values["in_h"] for name, layer in named.items()}
        return {
            "latency.pkl": pickle.dumps(halp_table(predictor, halp_grid(model, options.step))),
            "feature_sizes.json": _json(sizes),
            "group_sizes.json": _json(dict.fromkeys(named, options.step)),
        }


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
