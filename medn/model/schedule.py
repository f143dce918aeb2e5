"""The memory of a model while its layers run one after the other."""

from __future__ import annotations

import numpy as np

from medn.capture.captured_model import CapturedModel, input_index
from medn.core.table import Array


def batch_factors(model: CapturedModel, batch_size: int) -> Array:
    """How much larger the work of each layer gets when the model has another batch size.

    A layer whose batch is no multiple of the model's works on something else than the batch, and stays as it is.
    """
    grows = np.array([layer.batch_size % model.batch_size == 0 for layer in model.layers], dtype=np.bool_)
    return np.where(grows, batch_size / model.batch_size, 1.0)


def peak_activation_bytes(model: CapturedModel, batch_size: int) -> float:
    """The most bytes that tensors between layers hold at once: each lives from its producer to its last reader.

    What goes into the model lives from the start, what comes out of it to the end. A layer that works in place counts
    as one that does not.
    """
    if not model.layers:
        return 0.0
    end = len(model.layers) - 1
    last = {edge.source: edge.target for edge in model.edges}  # edges come in the order of their targets
    last |= {source: end for port in model.outputs for source in port.producers}
    change = np.zeros(len(model.layers) + 1)

    def hold(source: int, size_bytes: float) -> None:
        change[max(source, 0)] += size_bytes
        change[last.get(source, max(source, 0)) + 1] -= size_bytes

    for index, (layer, factor) in enumerate(zip(model.layers, batch_factors(model, batch_size), strict=True)):
        hold(index, layer.output_bytes * factor)
    for position, port in enumerate(model.inputs):
        hold(input_index(position), port.size_bytes * batch_size / model.batch_size)
    return float(np.cumsum(change)[:-1].max())
