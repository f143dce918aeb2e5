"""What is predicted of a whole model, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from medn.core.units import bytes_words, latency_words, percent
from medn.model.prediction import ModelPrediction

PLACES = 5
"""Of guesses, that are told one by one."""


def sentences(found: ModelPrediction) -> Iterator[str]:
    """The whole model in words."""
    yield (
        f"{latency_words(found.latency_s)} in all, {latency_words(found.low_s)} to {latency_words(found.high_s)} "
        f"by intervals of {percent(found.level)}, at batch size {found.batch_size}"
    )
    yield f"{bytes_words(found.weight_bytes)} of weights, {bytes_words(found.peak_activation_bytes)} of tensors at most"
    if found.energy_j is not None:
        yield f"{found.energy_j:.3g} J"
    yield from _guesses(found)
    yield from found.captured.notes
    if found.batch_doublings:
        times = f"{found.batch_doublings:.2g} times doubled or halved"
        yield f"the batch size lies beyond those that the composition was fitted to, {times}: the interval is wider"
    if found.outside_share:
        yield f"{percent(found.outside_share)} of the time in layers outside what was measured: extrapolated"
    if found.streaming_share:
        yield (
            f"{percent(found.streaming_share)} of the time in layers that read more than the caches hold: "
            "no faster than the fastest that was measured from memory"
        )
    if found.unknown:
        yield f"{percent(found.unknown_share)} of the time in layers that are not predicted, estimated: {found.generic}"
    for row in found.unknown:
        yield (
            f"  {row.layers} x {row.operator}: {percent(row.time_share)} of the time, "
            f"{percent(row.flops_share)} of the FLOPs, {percent(row.bytes_share)} of the bytes"
        )


def _guesses(found: ModelPrediction) -> Iterator[str]:
    if found.guesses:
        values = "1 value was" if found.guesses == 1 else f"{found.guesses} values were"
        yield f"{values} guessed that the model's code asks for and only a real run would know: its work may be another"
    for guess in found.guessed[:PLACES]:
        yield f"  {guess}"
    if len(found.guessed) > PLACES:
        yield f"  and at {len(found.guessed) - PLACES} other places"
