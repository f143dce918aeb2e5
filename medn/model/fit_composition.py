"""How layer times compose into a model's time, fitted to whole models that were measured, and how far off that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from medn.capture.captured_model import CapturedModel
from medn.core.environment import largest_cache_bytes
from medn.core.errors import UsageError
from medn.core.intervals import LEVEL
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.model.composition import BATCH_ERROR, CONVERTED, HOT, Composition, everywhere
from medn.model.prepared_model import PreparedModel

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor

Coefficient = Literal["stretch", "conversion_share", "small_share", "large_share", "overhead_s"]
BOUNDS: Mapping[Coefficient, tuple[float, float]] = {
    "stretch": (-0.5, 1.0),
    "conversion_share": (0.0, 1.0),
    "small_share": (0.0, 1.0),
    "large_share": (0.0, 1.0),
    "overhead_s": (0.0, math.inf),
}
"""What is fitted, and between which bounds: the stretch less 1, the overhead in times of a usual layer."""

FEWEST_NETWORKS = 3
"""With fewer nothing is left to fit when one of them is left out."""

RIDGE = 1e-4
"""How much a share of 1 counts beside a relative error of 1: what the measurements cannot tell stays at nothing."""


class Prior(NamedTuple):
    """What is known of a composition before anything is fitted, and how much it counts beside a relative error."""

    composition: Composition = HOT
    weight: float = RIDGE

    def coefficients(self, usual_s: float) -> Array:
        """As they are fitted, in the order of `BOUNDS`."""
        told = self.composition
        shares = (told.conversion_share, told.small_share, told.large_share)
        return np.array([told.stretch - 1, *shares, told.overhead_s / usual_s])


AS_ALONE = Prior()


class LeftOutModel(NamedTuple):
    """A model, predicted when others are fitted."""

    predicted_s: float
    excess_s: float
    """How far off that is, beyond what its own layers outside of what was measured explain."""

    @property
    def error(self) -> float:
        return self.excess_s / self.predicted_s


def fit_composition(
    predictor: LayerPredictor,
    measured: Iterable[tuple[CapturedModel | PreparedModel, float]],
    cache_bytes: float | None = None,
    coefficients: Collection[Coefficient] = tuple(BOUNDS),
    networks: Sequence[Hashable] | None = None,
    prior: Prior = AS_ALONE,
    working_bytes: Sequence[float] | None = None,
    error_of: Callable[[LeastSquaresProblem], float] | None = None,
) -> Composition:
    """The composition under which whole models take as long as they were measured to, by least squares on the
    relative error. Left out, `cache_bytes` is the largest cache of the machine that was measured. Coefficients that
    are not named stay as if layers ran alone. `networks` says which of the models are one network at several batch
    sizes; left out, each is another one. What the models cannot tell stays as the `prior` says; left out, as if layers
    ran alone. `working_bytes` are of what surrounds each model where it is a part of a larger one; `error_of` tells
    then how far off the larger one is. Left out, it is `model_error`.

    >>> import medn, torch
    >>> predictor = medn.load("runs/laptop/laptop.medn")
    >>> captured = [medn.capture(torch.nn.Linear(size, 100), torch.zeros(1, size)) for size in (100, 200, 400)]
    >>> seconds = [1.5 * predictor.model(each).latency_s for each in captured]     # yours are measured
    >>> fitted = fit_composition(predictor, list(zip(captured, seconds)), coefficients=["stretch"])
    >>> round(fitted.stretch, 1)
    1.5
    """
    problem = least_squares_problem(predictor, measured, cache_bytes, coefficients, networks, prior, working_bytes)
    sizes = problem.batch_sizes
    everything = np.ones(len(problem.models), dtype=np.bool_)
    fitted = replace(problem.solve(everything), smallest_batch=float(sizes.min()), largest_batch=float(sizes.max()))
    if len(set(problem.networks)) < FEWEST_NETWORKS:
        return fitted
    error = (error_of or model_error)(problem)
    return replace(fitted, error=error, batch_error=batch_error(problem, error))


def leave_one_network_out(
    predictor: LayerPredictor,
    measured: Sequence[tuple[PreparedModel, float]],
    coefficients: Collection[Coefficient] = tuple(BOUNDS),
    networks: Sequence[Hashable] | None = None,
) -> Iterator[Composition]:
    """For each model the composition fitted to all other networks: no other can tell how far off a prediction is."""
    names = list(range(len(measured)) if networks is None else networks)
    fitted: dict[Hashable, Composition] = {}
    for name in names:
        if name not in fitted:
            others = [index for index, other in enumerate(names) if other != name]
            fitted[name] = fit_composition(
                predictor, [measured[index] for index in others], None, coefficients, [names[index] for index in others]
            )
        yield fitted[name]


@dataclass(frozen=True, eq=False)
class LeastSquaresProblem:
    """Measured models, and what each coefficient adds to their time."""

    start: Composition
    models: tuple[PreparedModel, ...]
    networks: tuple[Hashable, ...]
    seconds: Array
    terms: Array
    """By model and coefficient, as a share of the measured time."""
    missing: Array
    """The share of the measured time that the layers alone do not explain."""
    usual_s: float
    """The time of a layer, so that all coefficients are about 1."""
    prior: Prior

    @property
    def batch_sizes(self) -> Array:
        return np.array([model.model.batch_size for model in self.models], dtype=np.float64)

    def solve(self, models: Flags) -> Composition:
        """Fitted to some of the models."""
        found = _bounded_least_squares(self.terms[models], self.missing[models], *self._prior)
        solution: dict[str, Any] = dict(zip(BOUNDS, found, strict=True))
        solution |= {"stretch": 1 + solution["stretch"], "overhead_s": self.usual_s * solution["overhead_s"]}
        return replace(self.start, **solution)

    @property
    def _prior(self) -> tuple[Array, float]:
        return self.prior.coefficients(self.usual_s), self.prior.weight

    def other_networks(self, model: int) -> Flags:
        return np.array([network != self.networks[model] for network in self.networks])

    def left_out(self, model: int, fitted: Flags) -> LeftOutModel | None:
        """A model by a fit to others; None where no other is left."""
        if not fitted.any():
            return None
        composition = self.solve(fitted)
        solution = Prior(composition).coefficients(self.usual_s)
        measured_s = float(self.seconds[model])
        predicted_s = measured_s * float(1 - self.missing[model] + self.terms[model] @ solution)
        unlike_s = self.models[model].predict(composition=composition).unlike_s
        return LeftOutModel(predicted_s, beyond(abs(measured_s - predicted_s), unlike_s))

    def each_left_out(self) -> list[LeftOutModel]:
        """Every model by a fit to the other networks, as far as there are any."""
        found = (self.left_out(model, self.other_networks(model)) for model in range(len(self.models)))
        return [each for each in found if each is not None]


def beyond(error: float, explained: float) -> float:
    """What is left of an error, the parts of which add up in quadrature.

    >>> beyond(5.0, 4.0), beyond(3.0, 4.0)
    (3.0, 0.0)
    """
    return math.sqrt(max(error**2 - explained**2, 0.0))


def least_squares_problem(
    predictor: LayerPredictor,
    measured: Iterable[tuple[CapturedModel | PreparedModel, float]],
    cache_bytes: float | None = None,
    coefficients: Collection[Coefficient] = tuple(BOUNDS),
    networks: Sequence[Hashable] | None = None,
    prior: Prior = AS_ALONE,
    working_bytes: Sequence[float] | None = None,
) -> LeastSquaresProblem:
    """As `fit_composition` takes them."""
    levels = [predictor.estimator(kind).deployed.interval.level for kind in predictor.kinds]
    start = Composition(
        cache_bytes=cache_bytes or largest_cache_bytes(predictor.bundle.environments), level=min(levels, default=LEVEL)
    )
    models, times, rows = [], [], []
    for number, (model, seconds) in enumerate(measured):
        if not 0 < seconds < math.inf:
            raise UsageError(f"measured seconds: must be above 0 (got {seconds})")
        prepared = model if isinstance(model, PreparedModel) else PreparedModel(predictor, model)
        models.append(prepared)
        times.append(seconds)
        around = None if working_bytes is None else working_bytes[number]
        rows.append([term_s / seconds for term_s in _terms_s(prepared, start, around)])
    if not rows:
        raise UsageError("a composition is fitted to measured models: give at least one")
    names = tuple(range(len(models)) if networks is None else networks)
    if len(names) != len(models):
        raise UsageError(f"networks: must be as many as the measured models, {len(models)} (got {len(names)})")
    terms, measured_s = np.array(rows), np.array(times)
    alone_s = np.array([model.predict(composition=HOT).latency_s for model in models])
    usual_s = float(1 / terms[:, -1].mean())
    terms[:, -1] *= usual_s
    terms[:, [name not in coefficients for name in BOUNDS]] = 0
    missing = 1 - alone_s / measured_s
    return LeastSquaresProblem(start, tuple(models), names, measured_s, terms, missing, usual_s, prior)


def model_error(problem: LeastSquaresProblem) -> float:
    """How far off models are when other networks are fitted."""
    return _covering([each.error for each in problem.each_left_out()], problem.start.level)


def whole_error(problem: LeastSquaresProblem) -> float:
    """How far off a model is whose parts err as these do when others are fitted, should all err to the same side.

    A part by itself may be off by far more: what it takes is little of the whole.
    """
    parts = problem.each_left_out()
    predicted_s = sum(part.predicted_s for part in parts)
    return sum(part.excess_s for part in parts) / predicted_s if parts else 0.0


def batch_error(problem: LeastSquaresProblem, error: float) -> float:
    """What a doubling of the batch size adds to the error: from models whose own batch size is not fitted, nor is their
    network at another one. Only sizes that lie beyond all others can tell."""
    sizes = problem.batch_sizes
    errors: list[float] = []
    for size in sorted({sizes.min(), sizes.max()}):
        others = sizes != size
        if not others.any():
            return BATCH_ERROR
        doublings = abs(math.log2(size / sizes[others][np.abs(np.log(sizes[others] / size)).argmin()]))
        for model in np.flatnonzero(~others):
            left_out = problem.left_out(int(model), others & problem.other_networks(int(model)))
            errors += [beyond(left_out.error, error) / doublings] if left_out else []
    return _covering(errors, problem.start.level) if len(errors) >= FEWEST_NETWORKS else BATCH_ERROR


def _covering(errors: Sequence[float], level: float) -> float:
    """The error that this share of such models stay below."""
    return sorted(errors)[min(len(errors), math.ceil(level * (len(errors) + 1))) - 1]


def _bounded_least_squares(terms: Array, missing: Array, prior: Array, weight: float) -> list[float]:
    """The coefficients within their bounds."""
    from scipy.optimize import lsq_linear

    low, high = zip(*BOUNDS.values(), strict=True)
    root = math.sqrt(weight)
    solution = lsq_linear(np.vstack([terms, root * np.eye(len(BOUNDS))]), np.append(missing, root * prior), (low, high))
    return [float(value) for value in np.clip(solution.x, low, high)]


def _terms_s(prepared: PreparedModel, start: Composition, working_bytes: float | None) -> tuple[float, ...]:
    """What each coefficient adds to a model's seconds where it is 1, in the order of `BOUNDS`."""
    alone, cold, converted = (prepared.predict(composition=way) for way in (HOT, everywhere(1.0), CONVERTED))
    largeness = start.largeness(alone.memory_bytes if working_bytes is None else working_bytes)
    cold_s, converting_s = cold.latency_s - alone.latency_s, converted.latency_s - alone.latency_s
    runs = sum(layer.repeats for layer in prepared.executed.layers)
    return alone.latency_s, converting_s, cold_s * (1 - largeness), cold_s * largeness, runs
