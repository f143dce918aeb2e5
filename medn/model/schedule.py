"""The memory of a model while its layers run one after the other."""

from __future__ import annotations

import numpy as np

from medn.capture.captured_model import CapturedModel, input_index
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.table import Array
from medn.devices.backend import Backend, backends


def batch_factors(model: CapturedModel, batch_size: int) -> Array:
    """How much larger the work of each layer gets when the model has another batch size.

    A layer whose batch is no multiple of the model's works on something else than the batch, and stays as it is.
    """
    grows = np.array([layer.batch_size % model.batch_size == 0 for layer in model.layers], dtype=np.bool_)
    return np.where(grows, batch_size / model.batch_size, 1.0)


def peak_activation_bytes(model: CapturedModel, batch_size: int, backend: str = "", threads: int = 1) -> float:
    """The most bytes that tensors beside the weights hold at once, inputs of the model among them.

    Where the model's code was run, by what it held after each layer, and by what the backend takes for itself while it
    runs the layer. Elsewhere, as where a backend runs several layers as one, by the graph alone.
    """
    held = [layer.held_bytes for layer in model.layers]
    if not held or any(each is None for each in held):
        return peak_graph_bytes(model, batch_size)
    factor = batch_size / model.batch_size
    inputs = sum(port.size_bytes for port in model.inputs)  # whoever calls the model holds them
    fixed = np.array([layer.held_fixed_bytes for layer in model.layers], dtype=np.float64)
    needed = factor * (np.array(held, dtype=np.float64) - fixed) + fixed
    if backend in backends:
        needed += _scratch(model, batch_size, backends[backend], threads)
    return float(needed.max() + factor * inputs)


def _scratch(model: CapturedModel, batch_size: int, backend: Backend, threads: int) -> Array:
    factors = batch_factors(model, batch_size).tolist()
    return np.array(
        [
            backend.scratch_bytes(layer.layer, round(layer.batch_size * factor), ELEMENT_BYTES[layer.dtype], threads)
            if layer.layer is not None and layer.dtype in ELEMENT_BYTES
            else 0.0
            for layer, factor in zip(model.layers, factors, strict=True)
        ]
    )


def peak_graph_bytes(model: CapturedModel, batch_size: int) -> float:
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
