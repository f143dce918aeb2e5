"""Which devices meet limits for a model, which of those is the cheapest, and why the others do not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from medn.capture.captured_model import CapturedModel
from medn.core.errors import MednError
from medn.core.sequential import student_quantile
from medn.core.table import Array
from medn.core.units import format_bytes, format_latency, percent
from medn.devices.mig import MigGpu, MigProfile, gpu_of
from medn.model.prediction import ModelPrediction
from medn.model.prepared_model import PreparedModel
from medn.predictor.predictor import Predictor
from medn.recommending.prices import Prices, check_names

CONFIDENCE = 0.9
MEMORY_MARGIN = 1.1
"""What a model is taken to need of memory, over what its tensors add up to: allocators round up and keep blocks."""


@dataclass(frozen=True)
class ModelLimits:
    max_s: float = math.inf
    """Of one call of the whole batch."""
    max_bytes: float = math.inf
    confidence: float = CONFIDENCE
    """The probability, by the interval of the prediction, with which the latency is to stay within its limit."""


@dataclass(frozen=True)
class JudgedDevice:
    """A model at one batch size on one device or slice."""

    name: str
    batch_size: int
    latency_s: float | None = None
    confident_s: float | None = None
    """The latency stays below this with the confidence that was asked for."""
    memory_bytes: float | None = None
    """With the margin."""
    share: float = 1.0
    """Of the device: below 1 for a slice."""
    scaled: bool = False
    """Whether the latency was scaled from that of the whole device, and not learned from measurements."""
    outside_share: float | None = None
    """Of the time: layers that are extrapolated or not predicted."""
    price: float | None = None
    reasons: tuple[str, ...] = ()
    """Why it does not meet the limits; none where it does."""

    @property
    def meets(self) -> bool:
        return not self.reasons

    @property
    def order(self) -> tuple[Any, ...]:
        """Those that meet the limits first; of them the cheapest, the smallest slice, the most inputs a second."""
        per_input = math.inf if self.latency_s is None else self.latency_s / self.batch_size
        return not self.meets, math.inf if self.price is None else self.price, self.share, per_input

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "meets": self.meets, "reasons": list(self.reasons)}


@dataclass(frozen=True)
class Recommendation:
    options: tuple[JudgedDevice, ...]
    """The best first."""
    limits: ModelLimits

    @property
    def best(self) -> JudgedDevice | None:
        return self.options[0] if self.options and self.options[0].meets else None

    @property
    def sentence(self) -> str:
        best = self.best
        if best is None:
            return f"none of {len(self.options)} options meets the limits; the nearest is {self._nearest()}"
        how = f"{format_latency(best.latency_s or 0)}, below {format_latency(best.confident_s or 0)} with "
        how += f"{percent(self.limits.confidence)} confidence, {format_bytes(best.memory_bytes or 0)}"
        unpriced = any(each.meets and each.price is None for each in self.options)
        cheapest = "recommended" if unpriced else "the cheapest that meets the limits"
        told = f"{cheapest}: {best.name} at batch size {best.batch_size} ({how})"
        return f"{told}; --prices says which is cheapest" if unpriced and best.price is None else told

    def _nearest(self) -> str:
        predicted = [each for each in self.options if each.confident_s is not None]
        if not predicted:
            return f"{self.options[0].name}: {'; '.join(self.options[0].reasons)}"
        nearest = min(predicted, key=lambda each: _excess(each, self.limits))
        return f"{nearest.name} at batch size {nearest.batch_size}: {'; '.join(nearest.reasons)}"


def _excess(option: JudgedDevice, limits: ModelLimits) -> float:
    """How many times as much as is allowed an option needs, of what it is worst in."""
    return max((option.confident_s or 0) / limits.max_s, (option.memory_bytes or 0) / limits.max_bytes)


def recommend_device(
    model: CapturedModel,
    predictors: Mapping[str, Predictor],
    limits: ModelLimits,
    *,
    batch_sizes: Sequence[int] = (),
    prices: Prices | None = None,
    slices: bool = True,
) -> Recommendation:
    """Every device, by the name it has here, and the MIG slices of those that can be cut, judged and put in order."""
    options: list[JudgedDevice] = []
    for name, predictor in predictors.items():
        gpu = gpu_of(predictor.device)
        for batch_size in batch_sizes or (model.batch_size,):
            options += _on_device(name, predictor, model, batch_size, limits, gpu, slices)
    check_names(prices or {}, list(dict.fromkeys(each.name for each in options)))
    priced = [_with_price(each, prices or {}) for each in options]
    return Recommendation(tuple(sorted(priced, key=lambda each: each.order)), limits)


def _on_device(
    name: str,
    predictor: Predictor,
    model: CapturedModel,
    batch_size: int,
    limits: ModelLimits,
    gpu: MigGpu | None,
    slices: bool,
) -> list[JudgedDevice]:
    try:
        prepared = PreparedModel(predictor, model)
        found = prepared.predict(batch_size)
    except MednError as error:
        return [JudgedDevice(name, batch_size, reasons=(f"cannot be predicted: {error}",))]
    whole = _judged(name, found, limits, 1.0, gpu.memory_bytes if gpu else math.inf, 1.0, scaled=False)
    if gpu is None or not slices:
        return [whole]
    return [
        whole,
        *(
            _judged(
                f"{name}/{profile.name}",
                found,
                limits,
                slice_factor(found, profile, _balance(predictor)),
                profile.memory_bytes,
                profile.share,
                scaled=True,
            )
            for profile in gpu.profiles
        ),
    ]


def _judged(
    name: str,
    found: ModelPrediction,
    limits: ModelLimits,
    factor: float,
    device_bytes: float,
    share: float,
    *,
    scaled: bool,
) -> JudgedDevice:
    latency_s, confident_s = factor * found.latency_s, factor * confident_latency_s(found, limits.confidence)
    memory_bytes = MEMORY_MARGIN * found.memory_bytes
    reasons = []
    if confident_s > limits.max_s:
        sure = f"only below {format_latency(confident_s)} with {percent(limits.confidence)} confidence"
        told = format_latency(latency_s) if latency_s > limits.max_s else f"{format_latency(latency_s)}, but {sure}"
        reasons.append(f"takes {told}, more than {format_latency(limits.max_s)}")
    if memory_bytes > limits.max_bytes:
        reasons.append(f"needs {format_bytes(memory_bytes)}, more than {format_bytes(limits.max_bytes)}")
    if memory_bytes > device_bytes:
        reasons.append(f"needs {format_bytes(memory_bytes)}, and it has {format_bytes(device_bytes)}")
    outside = found.unknown_share + found.outside_share
    return JudgedDevice(
        name, found.batch_size, latency_s, confident_s, memory_bytes, share, scaled, outside, reasons=tuple(reasons)
    )


def confident_latency_s(found: ModelPrediction, confidence: float) -> float:
    """What the latency stays below with this probability, from the interval of the prediction.

    Errors are taken to have the heavy tails of a Student distribution with 4 degrees of freedom on the logarithmic
    scale, as in a check.
    """
    if not 0 < found.level < 1:
        return found.high_s if confidence > 0.5 else found.latency_s
    width = math.log(found.high_s / found.latency_s)
    return found.latency_s * math.exp(width * student_quantile(confidence) / student_quantile((1 + found.level) / 2))


def slice_factor(found: ModelPrediction, profile: MigProfile, balance: float | None) -> float:
    """How many times as long a model takes on a slice, by the descriptors of the slice.

    Arithmetic takes as much longer as there are fewer multiprocessors, memory as much as there is less bandwidth. A
    layer takes as much longer as its roofline time does, where the balance of the device (FLOPs that it can do for each
    byte it can move) is known; otherwise as the worse of both says.
    """
    slower_compute, slower_memory = 1 / profile.compute_share, 1 / profile.memory_share
    if balance is None:
        return max(slower_compute, slower_memory)
    layers = found.captured.layers
    compute = np.array([layer.flops / balance for layer in layers], dtype=np.float64)
    memory = np.array([layer.moved_bytes for layer in layers], dtype=np.float64)
    whole = np.maximum(np.maximum(compute, memory), 1e-30)
    factors: Array = np.maximum(np.maximum(compute * slower_compute, memory * slower_memory) / whole, 1.0)
    return float(factors @ found.layers.latency_s / found.layers.latency_s.sum())


def _balance(predictor: Predictor) -> float | None:
    """FLOPs for each byte, by the data sheet that the bundle has of its device; None where it has none."""
    for entry in predictor.bundle.on(predictor.device):
        sheet = entry.latency.facts.sheets.get(predictor.device, {})
        if "peak_gflops" in sheet and "bandwidth_gb_s" in sheet:
            return float(sheet["peak_gflops"]) / float(sheet["bandwidth_gb_s"])
    return None


def _with_price(option: JudgedDevice, prices: Prices) -> JudgedDevice:
    """A slice without a price of its own costs its share of the whole device's."""
    whole = prices.get(option.name.partition("/")[0])
    own = prices.get(option.name, None if whole is None else whole * option.share)
    return replace(option, price=own)
