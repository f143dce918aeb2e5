"""The lookup table of HAQ, which looks for the bits of every layer's weights and inputs.

HAQ reads a numpy array of layers x weight bits x activation bits, its convolutions and linear layers in order; the
entry of b bits stands at b - 1. It adds entries up and compares sums, so the unit is free: here it is milliseconds.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from medn.capture.captured_model import CapturedModel
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.errors import UsageError
from medn.core.parameters import Parameter, integer
from medn.core.table import Array
from medn.core.values import Layer
from medn.estimator.layer_predictor import LayerPredictor
from medn.exporting.exporter import Exporter, Options, exporters

QUANTISED = ("conv2d", "linear")
BITS = ("weight_bits", "activation_bits")
"""Columns of a bundle whose device was measured at various bits."""
WIDEST = 8


def haq_table(
    predictor: LayerPredictor, model: CapturedModel, dtypes: Sequence[str] = ("fp32",), widest: int = WIDEST
) -> Array:
    """Milliseconds by layer, weight bits - 1 and activation bits - 1.

    A bundle with columns of its own named weight_bits and activation_bits answers for each pair. Any other device
    computes in the narrowest of `dtypes` that holds both, and what is narrower than all of them takes as long.
    """
    layers = [(each, each.layer) for each in model.layers if each.layer is not None and each.layer.kind in QUANTISED]
    if not layers:
        raise UsageError("the model has no convolution or linear layer, and HAQ's table holds nothing else")
    bits = range(1, widest + 1)
    pairs = [(weight, activation) for weight in bits for activation in bits]
    rows = [
        _question(predictor, layer, pair, dtypes) | {"batch_size": each.batch_size}
        for each, layer in layers
        for pair in pairs
    ]
    seconds = predictor.predict(rows).latency_s
    return 1e3 * seconds.reshape(len(layers), widest, widest)


def _question(predictor: LayerPredictor, layer: Layer, pair: tuple[int, int], dtypes: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": layer.kind, **layer.values}
    if set(BITS) <= set(predictor.estimator(layer.kind).query.names):
        return row | dict(zip(BITS, pair, strict=True))
    return row | {"dtype": narrowest(dtypes, max(pair), predictor.estimator(layer.kind).query.element_bytes)}


def narrowest(dtypes: Sequence[str], bits: int, element_bytes: Mapping[str, float] = ELEMENT_BYTES) -> str:
    """The narrowest data type that holds so many bits.

    >>> narrowest(["fp32", "bf16"], 8), narrowest(["fp32", "bf16"], 17)
    ('bf16', 'fp32')
    """
    unknown = [name for name in dtypes if name not in element_bytes]
    if unknown:
        raise UsageError(f"dtypes: must be of {', '.join(element_bytes)} (got {', '.join(unknown)})")
    fitting = [name for name in dtypes if 8 * element_bytes[name] >= bits]
    if not fitting:
        raise UsageError(f"none of the data types {', '.join(dtypes)} holds {bits} bits")
    return min(fitting, key=lambda name: element_bytes[name])


@exporters.register
class Haq(Exporter):
    """HAQ looks for MODEL_DATASET_batchN_latency_table.npy among its tables."""

    name = "haq"
    description = "every layer of a model by the bits of its weights and inputs, for HAQ: .npy"
    to = "model_dataset_batch1_latency_table.npy"
    needs_model = True
    options = (
        Parameter("dtypes", "the data types of the device, with commas between them", str, default="fp32"),
        integer("widest", "the most bits", 1, 64, default=WIDEST),
    )

    def files(self, predictor: LayerPredictor, model: CapturedModel | None, options: Options) -> dict[str, bytes]:
        assert model is not None
        table = haq_table(predictor, model, [name.strip() for name in options.dtypes.split(",")], options.widest)
        content = io.BytesIO()
        np.save(content, table, allow_pickle=False)
        return {"": content.getvalue()}
