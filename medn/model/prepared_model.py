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
from medn.model.conditioned_rows import cached
from medn.model.fused_model import executed_model
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
        predicted = self._predictions_of(queries, utilization, composition, cold_share)
        for seconds in (predicted.latency_s, predicted.low_s, predicted.high_s):
            seconds += composition.overhead_s
        known = np.ones(len(predicted), dtype=np.bool_)
        known[queries.work_indices] = False
        streaming = np.zeros(len(predicted), dtype=np.bool_)
        for rows in queries.kinds:
            streaming[rows.indices] = rows.streams({"utilization": utilization})
        latency_s = float(predicted.latency_s @ queries.counts)
        # Equal layers share one prediction, so they err alike.
        below_s, above_s = predicted.latency_s - predicted.low_s, predicted.high_s - predicted.latency_s
        below_s, above_s = below_s * queries.counts, above_s * queries.counts
        unlike = ~(predicted.in_range & known)

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
            further={name: _total(predicted, name, known, queries.counts) for name in adding_up()},
            batch_size=batch_size,
            utilization=utilization,
            cold_share=cold_share,
            composition=composition,
            captured=self.executed,
            layers=_by_layer(predicted, queries, utilization),
            known=known[queries.query_of_layer],
            streaming=streaming[queries.query_of_layer],
            generic=self._speed.source if self._speed else "",
        )

    def _queries_at(self, batch_size: int) -> ModelQueries:
        return cached(self._queries, batch_size, lambda: model_queries(self.predictor, self.executed, batch_size))

    def _predictions_of(
        self, queries: ModelQueries, utilization: float, composition: Composition, cold_share: float
    ) -> Predictions:
        """The prediction of each query."""
        further = [name for name in adding_up() if any(name in rows.estimator.further for rows in queries.kinds)]
        result = Predictions.empty(len(queries.counts), further)
        for rows in queries.kinds:
            estimates, indices = rows.estimate({"utilization": utilization}, composition, cold_share), rows.indices
            result.latency_s[indices], result.low_s[indices], result.high_s[indices] = estimates[:3]
            result.level[indices], result.in_range[indices] = rows.estimator.level, estimates.in_range
            for name, values in estimates.further.items():
                result.further[name][indices] = values
        if len(queries.works):
            self._speed = self._speed or DeviceSpeed(self.predictor)
            indices = queries.work_indices
            seconds = composition.stretch * self._speed.speed(utilization).seconds(*queries.works.T)
            result.latency_s[indices], result.low_s[indices] = seconds, seconds / FACTOR
            result.high_s[indices], result.level[indices], result.in_range[indices] = seconds * FACTOR, 0.0, False
        return result


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


def _by_layer(predictions: Predictions, queries: ModelQueries, utilization: float) -> Predictions:
    """The predictions in the order of the model's layers, each for all runs of its layer."""
    order = queries.query_of_layer
    return Predictions(
        latency_s=predictions.latency_s[order] * queries.repeats,
        low_s=predictions.low_s[order] * queries.repeats,
        high_s=predictions.high_s[order] * queries.repeats,
        level=predictions.level[order],
        in_range=predictions.in_range[order],
        further={name: values[order] * queries.repeats for name, values in predictions.further.items()},
        explain=lambda layer: queries.outside(layer, {"utilization": utilization}),
    )


def _total(predicted: Predictions, name: str, known: Flags, counts: Array) -> float | None:
    """Of all layers, if that of every predicted one is known; others are taken to draw the same power."""
    values = predicted.further.get(name)
    if values is None or np.isnan(values[known]).any():
        return None
    seconds = predicted.latency_s * counts
    return float((values * counts)[known].sum() * seconds.sum() / seconds[known].sum())


def _level(composition: Composition, queries: ModelQueries) -> float:
    """Measured models tell the level of their own error; where those of layers add to it, the lower of both holds."""
    if not composition.error:
        return queries.level
    return min(composition.level, queries.level) if composition.elsewhere and queries.kinds else composition.level
