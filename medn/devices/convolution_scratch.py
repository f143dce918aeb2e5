"""What convolutions of torch on the CPU take of memory while they run, beside input, weights and output.

torch gives most convolutions to oneDNN, which copies input, weights and output into blocks of channels; the others
unfold their input into a matrix. Read off the allocations of torch 2.13 on a CPU with vectors of 16 numbers.
"""

from __future__ import annotations

import math

from medn.core.values import Layer
from medn.layer_generators.kind import Values, layer_kinds

KINDS = ("conv1d", "conv2d", "conv3d")
BLOCK = 16
"""Channels that oneDNN keeps together; a number that is no multiple is padded."""
FEWEST_CHANNELS = 5
"""An input with fewer, as an image has, stays as it is."""
SMALL_INPUT = 20_480
SMALL_BATCH = 16
"""By torch's own rule, a single small input is unfolded, and so are convolutions that are plain matrix products."""


def convolution_scratch(layer: Layer, batch_size: int, element_bytes: float, threads: int) -> float:
    """Nothing for layers of other kinds."""
    if layer.kind not in KINDS:
        return 0.0
    kind = layer_kinds[layer.kind]
    values = kind.values_of(layer)
    costs = kind.costs(values, batch_size, element_bytes)
    if not _is_given_to_onednn(values, batch_size, costs.input_bytes / element_bytes, threads):
        window = math.prod(_sizes(values, "kernel"))
        inner = values.in_channels // values.groups * window
        positions = costs.output_bytes / values.out_channels / batch_size  # of one input: they are unfolded in turn
        return 0.0 if window == 1 and _is_plain(values) else float(inner * positions * batch_size)
    # The channels of a group are not padded, unless each is a group.
    alone = values.groups == 1 or values.groups == values.in_channels
    inputs, outputs = (_padded(values.in_channels), _padded(values.out_channels)) if alone else (1.0, 1.0)
    has_blocks = values.in_channels >= FEWEST_CHANNELS
    weights = costs.parameter_bytes * ((inputs if has_blocks else 1.0) * outputs if values.groups == 1 else 1.0)
    blocked_output = costs.output_bytes * outputs
    blocked_input = costs.input_bytes * inputs if has_blocks else 0.0
    # The plain output is made once the blocked input is gone.
    return float(max(blocked_input + weights + blocked_output - costs.output_bytes, blocked_output))


def _padded(channels: int) -> float:
    """How many times as many channels there are once they are padded."""
    return -(-channels // BLOCK) * BLOCK / channels


def _is_given_to_onednn(values: Values, batch_size: int, elements: float, threads: int) -> bool:
    kernel = _sizes(values, "kernel")
    more_than_a_product = not _is_plain(values) or max(kernel) > 1 or batch_size >= SMALL_BATCH or threads > 1
    large = values.groups > 1 or min(kernel[-2:]) > 3 or batch_size > 1 or elements > SMALL_INPUT
    return more_than_a_product and large


def _is_plain(values: Values) -> bool:
    return max(_sizes(values, "stride")) == 1 and max(_sizes(values, "dilation")) == 1


def _sizes(values: Values, name: str) -> list[int]:
    return [int(value) for key, value in vars(values).items() if key.startswith(name)]
