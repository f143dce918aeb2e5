"""The prediction of a whole model in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medn.core.outside import told
from medn.core.quantities import FURTHER
from medn.core.units import format_bytes, format_latency, percent
from medn.model.prediction import ModelPrediction

LISTED_GUESSES = 5
"""More are only counted."""


def sentences(model: ModelPrediction) -> Iterator[str]:
    yield (
        f"{format_latency(model.latency_s)} in all, {format_latency(model.low_s)} to {format_latency(model.high_s)} "
        f"by intervals of {percent(model.level)}, at batch size {model.batch_size}"
    )
    weights, activations = format_bytes(model.weight_bytes), format_bytes(model.peak_activation_bytes)
    yield f"{weights} of weights, {activations} of tensors at most"
    yield from (FURTHER[name].formatted(value) for name, value in model.further.items() if value is not None)
    yield from _guesses(model)
    yield from model.captured.notes
    if model.composition.elsewhere:
        yield "layers run among one another as was fitted on another machine: medn compose fits it to models on yours"
    if model.batch_doublings:
        times = f"{model.batch_doublings:.2g} times doubled or halved"
        yield f"the batch size lies beyond those that the composition was fitted to, {times}: the interval is wider"
    if model.outside_share:
        yield f"{percent(model.outside_share)} of the time in layers outside what was measured: extrapolated"
        longest = int(np.where(model.known & ~model.layers.in_range, model.layers.latency_s, 0.0).argmax())
        yield f"  {model.rows[longest].name} takes most of it: {told(model.layers[longest].outside)}"
    if model.streaming_share:
        yield (
            f"{percent(model.streaming_share)} of the time in layers that read more than the caches hold: "
            "no faster than the fastest that was measured from memory"
        )
    if model.unknown:
        yield f"{percent(model.unknown_share)} of the time in layers that are not predicted, estimated: {model.generic}"
    for row in model.unknown:
        yield (
            f"  {row.layers} x {row.operator}: {percent(row.time_share)} of the time, "
            f"{percent(row.flops_share)} of the FLOPs, {percent(row.bytes_share)} of the bytes"
        )


def _guesses(model: ModelPrediction) -> Iterator[str]:
    if model.guesses:
        values = "1 value was" if model.guesses == 1 else f"{model.guesses} values were"
        yield f"{values} guessed for what the model's code reads and only a real run could tell: the work may differ"
    for guess in model.guessed[:LISTED_GUESSES]:
        yield f"  {guess}"
    if len(model.guessed) > LISTED_GUESSES:
        yield f"  and at {len(model.guessed) - LISTED_GUESSES} other places"
