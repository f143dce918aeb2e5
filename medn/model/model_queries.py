"""What to ask a predictor about a captured model at one batch size, each question once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.core.values import ELEMENT_BYTES, Layer, Scalar
from medn.devices.cache import largest_cache_bytes
from medn.estimator.estimator import Estimates, Estimator
from medn.model.conditioned_rows import Repeated
from medn.model.schedule import batch_factors, peak_activation_bytes
from medn.model.unmeasured_conditions import widened

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor
    from medn.model.composition import Composition


FURTHER = ("energy_j",)
"""What a model adds up beside the latency; its memory is told by its tensors."""


CONVERTING, COOLING = ("inside", "hot"), ("hot", "cold")
"""States of the cache of which the second adds to the first what converting layouts, or fetching from memory, takes."""


class Question(NamedTuple):
    """A layer that the predictor knows."""

    layer: Layer
    batch_size: int
    dtype: str


class Work(NamedTuple):
    """What any other operator has to do."""

    moved_bytes: float
    flops: float


@dataclass(frozen=True, eq=False)
class Group:
    """The questions of one kind."""

    rows: Repeated
    places: NDArray[np.int_]
    """Where they stand among all questions."""
    floor_s: Array
    """What reading from memory takes at least, where a layer reads more than the caches hold."""

    @property
    def estimator(self) -> Estimator:
        return self.rows.estimator

    @property
    def states(self) -> tuple[str, ...]:
        """The states of the cache that were measured, if several were."""
        return tuple(self.estimator.range.schema.categories.get("cache", ()))

    @property
    def alone(self) -> str:
        """The state in which a layer takes least."""
        return "inside" if "inside" in self.states else "hot"

    def estimate(self, conditions: Mapping[str, Scalar], composition: Composition, cold_share: float) -> Estimates:
        """Among other layers: what they take alone, and what the composition and a share of a cold cache add to it."""
        alone = self._found(self.alone, conditions)
        latency_s = composition.stretch * alone.latency_s
        for share, (low, high) in ((composition.conversion_share, CONVERTING), (cold_share, COOLING)):
            if share and {low, high} <= set(self.states):
                less, more = (self._found(state, conditions).latency_s for state in (low, high))
                latency_s = latency_s + share * np.maximum(more - less, 0)
        longer = latency_s / alone.latency_s
        further = {name: values * longer for name, values in alone.further.items()}
        found = Estimates(latency_s, alone.low_s * longer, alone.high_s * longer, alone.in_range, further)
        return widened(found, {**self.rows.rows.columns, **conditions}, self.estimator.constants)

    def streams(self, conditions: Mapping[str, Scalar]) -> Flags:
        """Which layers take as long as memory does: other layers would have them take less."""
        return np.asarray(self._learned(self.alone, conditions).latency_s < self.floor_s)

    def _found(self, state: str, conditions: Mapping[str, Scalar]) -> Estimates:
        """With the cache in a state, and never faster than memory."""
        found = self._learned(state, conditions)
        longer = np.maximum(self.floor_s / found.latency_s, 1.0)
        return found._replace(
            latency_s=found.latency_s * longer, low_s=found.low_s * longer, high_s=found.high_s * longer
        )

    def _learned(self, state: str, conditions: Mapping[str, Scalar]) -> Estimates:
        return self.rows.under({**conditions, "cache": state} if self.states else conditions)


@dataclass(frozen=True, eq=False)
class Asked:
    """All questions about a model."""

    groups: tuple[Group, ...]
    works: Array
    """Moved bytes and FLOPs of the operators that are not predicted."""
    work_places: NDArray[np.int_]
    """Where they stand among all questions."""
    question_of: NDArray[np.int_]
    """The question of each layer of the model."""
    repeats: Array
    """How often each layer of the model runs."""
    counts: Array
    """How often each question is asked, by all layers in all their runs."""
    peak_bytes: float
    """What tensors between layers hold at most."""


def ask(predictor: LayerPredictor, model: CapturedModel, batch_size: int) -> Asked:
    numbers: dict[Question | Work, int] = {}
    question_of = [
        numbers.setdefault(_question(layer, factor, predictor), len(numbers))
        for layer, factor in zip(model.layers, batch_factors(model, batch_size).tolist(), strict=True)
    ]
    repeats = np.array([layer.repeats for layer in model.layers], dtype=np.float64)
    by_kind: dict[str, list[tuple[int, Question]]] = {}
    works: list[tuple[int, Work]] = []
    for question, place in numbers.items():
        if isinstance(question, Work):
            works.append((place, question))
        else:
            by_kind.setdefault(question.layer.kind, []).append((place, question))
    return Asked(
        groups=tuple(_group(predictor, kind, questions) for kind, questions in by_kind.items()),
        works=np.array([work for _, work in works], dtype=np.float64).reshape(-1, 2),
        work_places=np.array([place for place, _ in works], dtype=np.int_),
        question_of=np.array(question_of, dtype=np.int_),
        repeats=repeats,
        counts=np.bincount(question_of, weights=repeats, minlength=len(numbers)).astype(np.float64),
        peak_bytes=peak_activation_bytes(model, batch_size),
    )


def _question(captured: CapturedLayer, factor: float, predictor: LayerPredictor) -> Question | Work:
    layer = captured.layer
    if layer is not None and _knows(predictor, layer) and captured.dtype in ELEMENT_BYTES:
        return Question(layer, round(captured.batch_size * factor), captured.dtype)
    # Parameters are read once, however large the batch is.
    fixed = min(captured.parameter_bytes, captured.moved_bytes)
    return Work(fixed + (captured.moved_bytes - fixed) * factor, captured.flops * factor)


def _knows(predictor: LayerPredictor, layer: Layer) -> bool:
    """Whether a layer can be asked for. What was learned before its kind had a parameter knows nothing of it."""
    if layer.kind not in predictor.kinds:
        return False
    return layer.values.keys() <= predictor.estimator(layer.kind).question.parameters.keys()


def _group(predictor: LayerPredictor, kind: str, questions: Sequence[tuple[int, Question]]) -> Group:
    estimator = predictor.estimator(kind)
    rows = [
        {**estimator.kind.complete(each.layer.values), "batch_size": each.batch_size, "dtype": each.dtype}
        for _, each in questions
    ]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    prepared = estimator.prepare(columns, len(rows))
    bundle = predictor.bundle
    from_memory = np.asarray(prepared.columns["bytes_read"]) - largest_cache_bytes(bundle.environments)
    floor_s = np.maximum(from_memory, 0.0) / bundle.streaming.get(predictor.device, math.inf)
    return Group(Repeated(estimator, prepared, FURTHER), np.array([place for place, _ in questions]), floor_s)
