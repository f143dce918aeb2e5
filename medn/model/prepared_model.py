"""A captured model on a predictor's device: prepared once, predicted under every new condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from medn.capture.captured_model import CapturedModel, check_captured
from medn.core.quantities import adding_up
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.estimator.prediction import Predictions
from medn.estimator.query import condition
from medn.model.composition import Composition
from medn.model.conditioned_rows import IN_RANGE, cached
from medn.model.fused_model import executed_model
from medn.model.known_queries import FURTHER, LATENCY
from medn.model.model_queries import ModelQueries, model_queries
from medn.model.prediction import ModelPrediction, combined
from medn.model.unknown_operators import FACTOR, DeviceSpeed
from medn.model.usual_composition import usual_composition

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor


class PreparedModel:
    """Predicts one model under many conditions; it is turned into queries once.

    >>> import medn, torch
    >>> captured = medn.capture(torch.nn.Linear(200, 100), torch.zeros(1, 200))
    >>> prepared = PreparedModel(medn.load("runs/laptop/laptop.medn"), captured)
    >>> one, eight = (prepared.predict(batch_size=size).latency_s for size in (1, 8))
    >>> one < eight
    True
    """

    def __init__(self, predictor: LayerPredictor, model: CapturedModel, fused: bool = True) -> None:
        check_captured(model)
        self.predictor = predictor
        self.model = model
        self.executed = executed_model(predictor, model, fused)
        """Its layers as the backend runs them, several in one where it fuses them."""
        self._usual = usual_composition(predictor)
        self._speed: DeviceSpeed | None = None
        self._queries: dict[int, ModelQueries] = {}
        self._predictions: dict[tuple[int, float, Composition], ModelPrediction] = {}

    def predict(
        self, batch_size: int | None = None, utilization: float = 0.0, composition: Composition | None = None
    ) -> ModelPrediction:
        """What the model costs. Left out, the batch size is the one it was captured with, and layers compose as they
        usually do on the backend."""
        batch_size = condition("batch_size", self.model.batch_size if batch_size is None else batch_size)
        key = (batch_size, condition("utilization", utilization), composition or self._usual)
        return cached(self._predictions, key, lambda: self._predict(*key))

    def _predict(self, batch_size: int, utilization: float, composition: Composition) -> ModelPrediction:
        queries = self._queries_at(batch_size)
        cold_share = composition.cold_share(self.executed.parameter_bytes + queries.graph_bytes)
        predicted, streaming = self._numbers(queries, utilization, composition, cold_share)
        predicted[:IN_RANGE] += composition.overhead_s
        seconds, low_s, high_s = predicted[:IN_RANGE]
        latency_s = float(seconds @ queries.counts)
        # Equal layers share one prediction, so they err alike.
        below_s, above_s = (seconds - low_s) * queries.counts, (high_s - seconds) * queries.counts
        unlike = ~((predicted[IN_RANGE] != 0) & queries.is_known)

        def error_s(of_layers: Array) -> float:
            """Measured models tell how far off a whole is, but not for layers unlike theirs."""
            if not composition.error:
                return combined(of_layers)
            own = of_layers if composition.elsewhere else of_layers * unlike
            return composition.error_s(latency_s, combined(own), batch_size)

        return ModelPrediction(
            latency_s=latency_s,
            low_s=max(latency_s - error_s(below_s), 0.0),
            high_s=latency_s + error_s(above_s),
            unlike_s=combined(above_s * unlike),
            batch_doublings=composition.doublings(batch_size) if composition.error else 0.0,
            level=_level(composition, queries),
            weight_bytes=self.executed.parameter_bytes,
            peak_activation_bytes=queries.peak_bytes,
            further=_totals(predicted, queries),
            batch_size=batch_size,
            utilization=utilization,
            cold_share=cold_share,
            composition=composition,
            captured=self.executed,
            layers=_by_layer(predicted, queries, utilization),
            known=queries.known_layers.copy(),
            streaming=streaming[queries.query_of_layer],
            generic=self._speed.source if self._speed else "",
        )

    def _queries_at(self, batch_size: int) -> ModelQueries:
        return cached(self._queries, batch_size, lambda: model_queries(self.predictor, self.executed, batch_size))

    def _numbers(
        self, queries: ModelQueries, utilization: float, composition: Composition, cold_share: float
    ) -> tuple[Array, Flags]:
        """Of each query: latency, low, high, whether it is in range, further quantities; and whether it streams."""
        found, streaming = queries.known.estimate({"utilization": utilization}, composition, cold_share)
        if not len(queries.works):
            return found, streaming
        self._speed = self._speed or DeviceSpeed(self.predictor)
        seconds = composition.stretch * self._speed.speed(utilization).seconds(*queries.works.T)
        generic = np.full((len(found), len(seconds)), np.nan)
        generic[: IN_RANGE + 1] = seconds, seconds / FACTOR, seconds * FACTOR, np.zeros(len(seconds))
        streams = np.concatenate([streaming, np.zeros(len(seconds), dtype=np.bool_)])
        return np.concatenate([found, generic], axis=1), streams


def predict_model(
    predictor: LayerPredictor,
    captured: CapturedModel,
    *,
    batch_size: int | None = None,
    utilization: float = 0.0,
    composition: Composition | None = None,
) -> ModelPrediction:
    """What a captured model costs on the predictor's device; to predict it again, keep a `PreparedModel`."""
    return PreparedModel(predictor, captured).predict(batch_size, utilization, composition)


def _by_layer(predicted: Array, queries: ModelQueries, utilization: float) -> Predictions:
    """The predictions in the order of the model's layers, each for all runs of its layer."""
    found = predicted[:, queries.query_of_layer]
    in_range = found[IN_RANGE] != 0
    found *= queries.repeats
    latency_s, low_s, high_s, _, *further = found
    return Predictions(
        latency_s=latency_s,
        low_s=low_s,
        high_s=high_s,
        level=queries.layer_levels.copy(),
        in_range=in_range,
        further=dict(zip(queries.known.further, further, strict=True)),
        explain=lambda layer: queries.outside(layer, {"utilization": utilization}),
    )


def _totals(predicted: Array, queries: ModelQueries) -> dict[str, float | None]:
    """Quantities that add up, of all layers; None unless that of every predicted one is known. Others are taken to
    draw the same power."""
    totals: dict[str, float | None] = dict.fromkeys(adding_up())
    known = queries.is_known
    for name, values in zip(queries.known.further, predicted[FURTHER:], strict=True):
        if not np.isnan(values[known]).any():
            seconds = predicted[LATENCY] * queries.counts
            totals[name] = float((values * queries.counts)[known].sum() * seconds.sum() / seconds[known].sum())
    return totals


def _level(composition: Composition, queries: ModelQueries) -> float:
    """Measured models tell the level of their own error; where those of layers add to it, the lower of both holds."""
    if not composition.error:
        return queries.known.level
    return (
        min(composition.level, queries.known.level)
        if composition.elsewhere and len(queries.known)
        else composition.level
    )
