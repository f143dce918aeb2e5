"""What to ask a predictor about a captured model at one batch size, each question once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.capture.values import CapturedLayer, CapturedModel
from medn.core.table import Array
from medn.core.values import ELEMENT_BYTES, Layer, Scalar
from medn.model.schedule import batch_factors, peak_activation_bytes
from medn.predictor.estimator import Estimates, Estimator, Rows

if TYPE_CHECKING:
    from medn.predictor.predictor import Predictor


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

    estimator: Estimator
    rows: Rows
    places: NDArray[np.int_]
    """Where they stand among all questions."""

    def estimate(self, conditions: Mapping[str, Scalar], cold_share: float) -> Estimates:
        """Between what a hot and a cold cache give, for kinds that were measured with both."""
        if "cache" not in self.estimator.range.schema.names:
            return self._at(conditions)
        if cold_share in (0.0, 1.0):
            return self._at({**conditions, "cache": "cold" if cold_share else "hot"})
        hot, cold = (self._at({**conditions, "cache": cache}) for cache in ("hot", "cold"))

        def between(ours: Array, theirs: Array) -> Array:
            return (1 - cold_share) * ours + cold_share * theirs

        return Estimates(
            between(hot.latency_s, cold.latency_s),
            between(hot.low_s, cold.low_s),
            between(hot.high_s, cold.high_s),
            hot.in_range & cold.in_range,
            {name: between(values, cold.further[name]) for name, values in hot.further.items()},
        )

    def _at(self, conditions: Mapping[str, Scalar]) -> Estimates:
        return self.estimator.estimate(self.estimator.under(self.rows, conditions))


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
    counts: Array
    """How many layers ask each question."""
    peak_bytes: float
    """What tensors between layers hold at most."""


def ask(predictor: Predictor, model: CapturedModel, batch_size: int) -> Asked:
    numbers: dict[Question | Work, int] = {}
    question_of = [
        numbers.setdefault(_question(layer, factor, predictor.kinds), len(numbers))
        for layer, factor in zip(model.layers, batch_factors(model, batch_size).tolist(), strict=True)
    ]
    by_kind: dict[str, list[tuple[int, Question]]] = {}
    works: list[tuple[int, Work]] = []
    for question, place in numbers.items():
        if isinstance(question, Work):
            works.append((place, question))
        else:
            by_kind.setdefault(question.layer.kind, []).append((place, question))
    return Asked(
        groups=tuple(_group(predictor.estimator(kind), questions) for kind, questions in by_kind.items()),
        works=np.array([work for _, work in works], dtype=np.float64).reshape(-1, 2),
        work_places=np.array([place for place, _ in works], dtype=np.int_),
        question_of=np.array(question_of, dtype=np.int_),
        counts=np.bincount(question_of, minlength=len(numbers)).astype(np.float64),
        peak_bytes=peak_activation_bytes(model, batch_size),
    )


def _question(captured: CapturedLayer, factor: float, kinds: Collection[str]) -> Question | Work:
    layer = captured.layer
    if layer is not None and layer.kind in kinds and captured.dtype in ELEMENT_BYTES:
        return Question(layer, round(captured.batch_size * factor), captured.dtype)
    # Parameters are read once, however large the batch is.
    fixed = min(captured.parameter_bytes, captured.moved_bytes)
    return Work(fixed + (captured.moved_bytes - fixed) * factor, captured.flops * factor)


def _group(estimator: Estimator, questions: Sequence[tuple[int, Question]]) -> Group:
    rows = [{**each.layer.values, "batch_size": each.batch_size, "dtype": each.dtype} for _, each in questions]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Group(estimator, estimator.prepare(columns, len(rows)), np.array([place for place, _ in questions]))
