"""What whole models that were measured say about how layers run among one another, and how far off that leaves them."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.devices.cache import largest_cache_bytes
from medn.model.composition import BATCH_ERROR, BOUNDS, CONVERTED, COVERED, FEWEST, HOT, Placement, Unknown, everywhere
from medn.model.prepared_model import PreparedModel

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor

RIDGE = 1e-4
"""How much a share of 1 counts beside a relative error of 1: what the measurements cannot tell stays at nothing."""


@dataclass(frozen=True, eq=False)
class Lessons:
    """Measured models, and what each unknown adds to their time."""

    start: Placement
    models: tuple[PreparedModel, ...]
    networks: tuple[Hashable, ...]
    seconds: Array
    terms: Array
    """By model and unknown, as a share of the measured time."""
    missing: Array
    """The share of the measured time that the layers alone do not explain."""
    usual_s: float
    """The time of a layer, so that all unknowns are about 1."""

    @property
    def batch_sizes(self) -> Array:
        return np.array([model.model.batch_size for model in self.models], dtype=np.float64)

    def taught(self, by: Flags) -> Placement:
        """What some of the models teach."""
        fitted = dict(zip(BOUNDS, _solved(self.terms[by], self.missing[by]).tolist(), strict=True))
        fitted |= {"stretch": 1 + fitted["stretch"], "overhead_s": self.usual_s * fitted["overhead_s"]}
        return replace(self.start, **fitted)

    def of_other_networks(self, place: int) -> Flags:
        return np.array([network != self.networks[place] for network in self.networks])

    def excess(self, place: int, teachers: Flags) -> float | None:
        """How far off a model is when others teach it, relative to its prediction, beyond what its own layers outside
        of what was measured explain. None where nobody teaches."""
        if not teachers.any():
            return None
        found = self.models[place].predict(placement=self.taught(teachers))
        off_s = abs(self.seconds[place] - found.latency_s)
        return beyond(off_s, found.unlike_s) / found.latency_s


def beyond(error: float, explained: float) -> float:
    """What is left of an error, the parts of which add up in quadrature.

    >>> beyond(5.0, 4.0), beyond(3.0, 4.0)
    (3.0, 0.0)
    """
    return math.sqrt(max(error**2 - explained**2, 0.0))


def learn(
    predictor: LayerPredictor,
    measured: Iterable[tuple[CapturedModel | PreparedModel, float]],
    cache_bytes: float | None = None,
    unknowns: Collection[Unknown] = tuple(BOUNDS),
    networks: Sequence[Hashable] | None = None,
) -> Lessons:
    """As `fit_placement` takes them."""
    start = Placement(cache_bytes=cache_bytes or largest_cache_bytes(predictor.bundle.environments))
    models, times, rows = [], [], []
    for model, seconds in measured:
        if not 0 < seconds < math.inf:
            raise UsageError(f"measured seconds: must be above 0 (got {seconds})")
        prepared = model if isinstance(model, PreparedModel) else PreparedModel(predictor, model)
        models.append(prepared)
        times.append(seconds)
        rows.append([part_s / seconds for part_s in _parts_s(prepared, start)])
    if not rows:
        raise UsageError("a placement is fitted to measured models: give at least one")
    names = tuple(range(len(models)) if networks is None else networks)
    if len(names) != len(models):
        raise UsageError(f"networks: must be as many as the measured models, {len(models)} (got {len(names)})")
    terms, seconds_of = np.array(rows), np.array(times)
    alone = np.array([model.predict().latency_s for model in models])
    usual_s = float(1 / terms[:, -1].mean())
    terms[:, -1] *= usual_s
    terms[:, [name not in unknowns for name in BOUNDS]] = 0
    return Lessons(start, tuple(models), names, seconds_of, terms, 1 - alone / seconds_of, usual_s)


def model_error(lessons: Lessons) -> float:
    """How far off models are when other networks teach."""
    found = [lessons.excess(place, lessons.of_other_networks(place)) for place in range(len(lessons.models))]
    return _covering([each for each in found if each is not None])


def batch_error(lessons: Lessons, error: float) -> float:
    """What a doubling of the batch size adds to the error: from models whose own batch size teaches nothing, nor does
    their network at another one. Only sizes that lie beyond all others can tell."""
    sizes = lessons.batch_sizes
    found: list[float] = []
    for size in sorted({sizes.min(), sizes.max()}):
        others = sizes != size
        if not others.any():
            return BATCH_ERROR
        doublings = abs(math.log2(size / sizes[others][np.abs(np.log(sizes[others] / size)).argmin()]))
        for place in np.flatnonzero(~others):
            excess = lessons.excess(int(place), others & lessons.of_other_networks(int(place)))
            found += [] if excess is None else [beyond(excess, error) / doublings]
    return _covering(found) if len(found) >= FEWEST else BATCH_ERROR


def _covering(errors: Sequence[float]) -> float:
    """The error that `COVERED` of such models stay below."""
    return sorted(errors)[min(len(errors), math.ceil(COVERED * (len(errors) + 1))) - 1]


def _solved(terms: Array, missing: Array) -> Array:
    """The unknowns within their bounds, by least squares."""
    from scipy.optimize import lsq_linear

    low, high = zip(*BOUNDS.values(), strict=True)
    penalty = math.sqrt(RIDGE) * np.eye(len(BOUNDS))
    found = lsq_linear(np.vstack([terms, penalty]), np.append(missing, np.zeros(len(BOUNDS))), (low, high)).x
    return np.clip(found, low, high)


def _parts_s(prepared: PreparedModel, start: Placement) -> tuple[float, ...]:
    """What each unknown adds to a model's seconds where it is 1, in the order of `BOUNDS`."""
    alone, cold, converted = (prepared.predict(placement=each) for each in (HOT, everywhere(1.0), CONVERTED))
    largeness, cold_s = start.largeness(alone.memory_bytes), cold.latency_s - alone.latency_s
    converting_s = converted.latency_s - alone.latency_s
    runs = sum(layer.repeats for layer in prepared.running.layers)
    return alone.latency_s, converting_s, cold_s * (1 - largeness), cold_s * largeness, runs
