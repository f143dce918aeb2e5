"""A captured model on a predictor's device: prepared once, predicted under every new condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from medn.capture.captured_model import CapturedModel
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.estimator.prediction import Predictions
from medn.estimator.query import condition
from medn.model.composition import COVERAGE, HOT, Composition
from medn.model.conditioned_rows import remembered
from medn.model.fused_model import as_run
from medn.model.model_queries import Asked, ask
from medn.model.prediction import ModelPrediction, combined
from medn.model.unknown_operators import FACTOR, Generic

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor


class PreparedModel:
    """Predicts one model.

    >>> prepared = PreparedModel(predictor, capture(net, example_inputs))             # doctest: +SKIP
    >>> [prepared.predict(utilization=share / 10).latency_s for share in range(10)]   # doctest: +SKIP
    """

    def __init__(self, predictor: LayerPredictor, model: CapturedModel, fused: bool = True) -> None:
        self.predictor = predictor
        self.model = model
        self.running = as_run(predictor, model, fused)
        """Its layers as the backend runs them, several in one where it fuses them."""
        self._generic: Generic | None = None
        self._asked: dict[int, Asked] = {}
        self._told: dict[tuple[int, float, Composition], ModelPrediction] = {}

    def predict(
        self, batch_size: int | None = None, utilization: float = 0.0, composition: Composition = HOT
    ) -> ModelPrediction:
        """What the model costs. Left out, the batch size is that at which the model was captured."""
        batch_size = condition("batch_size", self.model.batch_size if batch_size is None else batch_size)
        key = (batch_size, condition("utilization", utilization), composition)
        return remembered(self._told, key, lambda: self._predict(*key))

    def _predict(self, batch_size: int, utilization: float, composition: Composition) -> ModelPrediction:
        asked = self._ask(batch_size)
        cold_share = composition.cold_share(self.running.parameter_bytes + asked.peak_bytes)
        found = self._answers(asked, utilization, composition, cold_share)
        for seconds in (found.latency_s, found.low_s, found.high_s):
            seconds += composition.overhead_s
        known = np.ones(len(found), dtype=np.bool_)
        known[asked.work_places] = False
        streaming = np.zeros(len(found), dtype=np.bool_)
        for group in asked.groups:
            streaming[group.places] = group.streams({"utilization": utilization})
        latency_s = float(found.latency_s @ asked.counts)
        # Equal layers are predicted by one answer, so they err alike.
        below_s, above_s = found.latency_s - found.low_s, found.high_s - found.latency_s
        below_s, above_s = below_s * asked.counts, above_s * asked.counts
        unlike = ~(found.in_range & known)

        def error_s(of_layers: Array) -> float:
            """Measured models tell how far off a whole is, but not for layers unlike theirs."""
            if not composition.error:
                return combined(of_layers)
            return composition.error_s(latency_s, combined(of_layers * unlike), batch_size)

        return ModelPrediction(
            latency_s=latency_s,
            low_s=max(latency_s - error_s(below_s), 0.0),
            high_s=latency_s + error_s(above_s),
            unlike_s=combined(above_s * unlike),
            batch_doublings=composition.doublings(batch_size) if composition.error else 0.0,
            level=COVERAGE
            if composition.error
            else min((group.estimator.level for group in asked.groups), default=0.0),
            weight_bytes=self.running.parameter_bytes,
            peak_activation_bytes=asked.peak_bytes,
            energy_j=_energy(found, known, asked.counts),
            batch_size=batch_size,
            utilization=utilization,
            cold_share=cold_share,
            captured=self.running,
            layers=_spread(found, asked),
            known=known[asked.question_of],
            streaming=streaming[asked.question_of],
            generic=self._generic.source if self._generic else "",
        )

    def _ask(self, batch_size: int) -> Asked:
        return remembered(self._asked, batch_size, lambda: ask(self.predictor, self.running, batch_size))

    def _answers(self, asked: Asked, utilization: float, composition: Composition, cold_share: float) -> Predictions:
        """The answer to each question."""
        energies = any("energy_j" in group.estimator.further for group in asked.groups)
        result = Predictions.empty(len(asked.counts), ["energy_j"] if energies else [])
        for group in asked.groups:
            found, places = group.estimate({"utilization": utilization}, composition, cold_share), group.places
            result.latency_s[places], result.low_s[places], result.high_s[places] = found[:3]
            result.level[places], result.in_range[places] = group.estimator.level, found.in_range
            if result.energy_j is not None and "energy_j" in found.further:
                result.energy_j[places] = found.further["energy_j"]
        if len(asked.works):
            self._generic = self._generic or Generic(self.predictor)
            places = asked.work_places
            seconds = composition.stretch * self._generic.speed(utilization).seconds(*asked.works.T)
            result.latency_s[places], result.low_s[places] = seconds, seconds / FACTOR
            result.high_s[places], result.level[places], result.in_range[places] = seconds * FACTOR, 0.0, False
        return result


def predict_model(
    predictor: LayerPredictor,
    captured: CapturedModel,
    *,
    batch_size: int | None = None,
    utilization: float = 0.0,
    composition: Composition = HOT,
) -> ModelPrediction:
    """What a captured model costs on the predictor's device; to ask for it again, keep a `PreparedModel`."""
    return PreparedModel(predictor, captured).predict(batch_size, utilization, composition)


def _spread(answers: Predictions, asked: Asked) -> Predictions:
    """The answers in the order of the layers that asked, each for all runs of its layer."""
    columns = {name: column[asked.question_of] for name, column in answers.columns.items() if column is not None}
    for name in ("latency_s", "low_s", "high_s", "energy_j"):
        if name in columns:
            columns[name] *= asked.repeats
    return Predictions(**columns)


def _energy(found: Predictions, known: Flags, counts: Array) -> float | None:
    """Of all layers, if that of every predicted one is known; the others are taken to draw the same power."""
    if found.energy_j is None or np.isnan(found.energy_j[known]).any():
        return None
    seconds, joules = found.latency_s * counts, (found.energy_j * counts)[known]
    return float(joules.sum() * seconds.sum() / seconds[known].sum())
