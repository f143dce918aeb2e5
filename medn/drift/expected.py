"""Points to measure again, each with what it should take: from the bundle's own kinds and ranges, or from its run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medn.core.domains import Choices, Domain, Fixed, LogRange, OneOf, log_range
from medn.core.domains import Range as EvenRange
from medn.core.errors import NothingMeasured, UsageError
from medn.core.parameters import Parameter
from medn.core.sequential import promised_spread
from medn.core.statistic import noise_floors
from medn.core.values import Condition, Layer, Point, Scalar
from medn.estimator.columns import read_columns
from medn.estimator.estimator import Estimator
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.space import Space
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured

DRAWN = 600
"""Layers of a kind that are drawn; of those like what was measured, as many as are wanted are measured again."""

NEAREST = 4
"""One in so many of those that lie inside is taken: those farther from what was measured are less like it."""

LONGEST_S = 1.0
"""A layer that takes longer than this is left alone: a check is to be quick."""

DRAWN_CONDITIONS = ("batch_size", "cache", "dtype")
"""Conditions that cost nothing to change; all others are as they usually were."""

Pair = tuple[Layer, Condition]


@dataclass(frozen=True)
class Expected:
    """A point, and what it should take."""

    point: Point
    latency_s: float
    spread: float
    """The usual size of log ratios, as promised."""


def expected_from_bundle(predictor: Predictor, count: int, seed: int = 0) -> list[Expected]:
    """Points inside the range of each kind with what the bundle predicts, one kind after the other in turn."""
    measurable = [kind for kind in predictor.kinds if kind in layer_kinds]
    if not measurable:
        raise UsageError(
            f"the layer kinds of {predictor.bundle.name} were declared by an imported table ({_few(predictor.kinds)}): "
            "medn cannot measure them"
        )
    drawn = [_drawn(predictor, kind, count, seed) for kind in measurable]
    return list(itertools.islice(_in_turn(drawn), count))


def expected_from_run(predictor: Predictor, run: Path, count: int, seed: int = 0) -> list[Expected]:
    """Points of the run that the bundle was made from, with what was measured of them then, one kind after the other.

    What was measured repeats better than it is predicted, so such a check needs fewer points.
    """
    with RunFolder(run).store(must_exist=True) as store:
        measurements, chosen = read_measured(store)
    target = chosen.target
    floors = noise_floors(measurements, target)
    by_kind: dict[str, list[Expected]] = {}
    for measurement in measurements:
        point = measurement.point
        floor = floors.get((point.device, point.layer.kind, point.condition.utilization > 0))
        if point.device != predictor.device or not measurement.good_visits or floor is None:
            continue
        latency_s = target.latency_s(measurement)
        if latency_s <= LONGEST_S:
            by_kind.setdefault(point.layer.kind, []).append(Expected(point, latency_s, floor.mean))
    if not by_kind:
        raise NothingMeasured(f"{run} holds no point on {predictor.device} that was visited twice")
    shuffled = [
        [own[place] for place in seeded(seed, "check", kind).permutation(len(own))]
        for kind, own in sorted(by_kind.items())
    ]
    return list(itertools.islice(_in_turn(shuffled), count))


def _in_turn(lists: Sequence[Sequence[Expected]]) -> Iterator[Expected]:
    for each in itertools.zip_longest(*lists):
        yield from (expected for expected in each if expected is not None)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _drawn(predictor: Predictor, kind: str, count: int, seed: int) -> list[Expected]:
    """Points of one kind that are like those that were measured, those nearest to them of many."""
    estimator = predictor.estimator(kind)
    pairs = _pairs(estimator, seed)
    if not pairs:
        return []
    columns, rows = read_columns(pairs)
    # A kind of today may have parameters that it did not have when the bundle was made.
    known = {name: column for name, column in columns.items() if name in estimator.query.names}
    prepared = estimator.prepare(known, rows, gaps=True)
    found = estimator.estimate(prepared, further=())
    # Remainders have no edges, and what never varied of them was not learned.
    free = [name in estimator.range.free for name in estimator.range.schema.names]
    remainders = prepared.inputs[:, free]
    learned = ((remainders >= estimator.range.low[free]) & (remainders <= estimator.range.high[free])).all(axis=1)
    good = np.flatnonzero(found.in_range & learned & (found.latency_s <= LONGEST_S))
    distance = estimator.range.distance(prepared.inputs[good])
    nearest = np.sort(good[np.argsort(distance)[: max(count, len(good) // NEAREST)]])[:count]
    return [
        Expected(
            Point(pairs[place][0], pairs[place][1], predictor.device),
            float(found.latency_s[place]),
            promised_spread(float(found.low_s[place]), float(found.high_s[place]), estimator.level),
        )
        for place in nearest.tolist()
    ]


def _pairs(estimator: Estimator, seed: int) -> list[Pair]:
    """Layers and conditions drawn as a sweep does where nothing else is said, between the ends of what was measured."""
    kind, random = layer_kinds[estimator.kind.name], seeded(seed, "check", estimator.kind.name)
    ends = {name: domain for name in kind.sweep if (domain := _measured_together(estimator, kind, name)) is not None}
    conditions = {name: _condition_domain(estimator, name) for name in estimator.query.conditions}
    try:
        drawing = Drawing(samplers["random"], Space(kind, ends), random)
        layers = list(itertools.islice(drawing, DRAWN))
    except UsageError:  # ends of single columns that no layer has together
        return []
    return [
        (layer, Condition(**{name: domain.at(random.random()) for name, domain in conditions.items()}))
        for layer in layers
    ]


def _measured_together(estimator: Estimator, kind: LayerKind, name: str) -> Domain | None:
    """What was measured of all parameters that a name of a sweep sets; None where that is not one and the same."""
    if name in kind.conveniences:
        return None
    found = {_measured(estimator, parameter) for parameter in kind.meaning(name)}
    measured = found.pop() if len(found) == 1 else None
    usual = kind.sweep[name]
    if not isinstance(usual, (OneOf, Choices)) or not isinstance(measured, (LogRange, EvenRange)):
        return measured
    # A kernel of 1 and one of 3 were measured, and hardly one of 2.
    inside = [value for value in usual.grid() if measured.nearest(value) == value]
    return OneOf(tuple(inside)) if inside else measured


def _condition_domain(estimator: Estimator, name: str) -> Domain:
    usual = Fixed(estimator.query.defaults[name])
    if name not in DRAWN_CONDITIONS:
        return usual
    return _measured(estimator, estimator.query.conditions[name]) or usual


def _measured(estimator: Estimator, parameter: Parameter) -> Domain | None:
    """What was measured of a parameter or a condition; None where nobody knows."""
    known, name = estimator.range, parameter.name
    if name in estimator.constants:
        return Fixed(parameter.fitted(estimator.constants[name]))
    if name in known.seen:
        seen = [known.schema.categories[name][code] for code in known.seen[name]]
        return OneOf(tuple(_typed(parameter, text) for text in seen))
    if name not in known.schema.names:
        return None
    place = known.schema.index(name)
    low, high = float(known.low[place]), float(known.high[place])
    if parameter.type is bool:
        return OneOf(tuple(dict.fromkeys((bool(low), bool(high)))))
    if parameter.type is int:
        return log_range(round(low), round(high)) if low >= 1 else EvenRange((round(low), round(high)))
    return EvenRange((low, high))


def _typed(parameter: Parameter, text: str) -> Scalar:
    """A category as the parameter has it."""
    if parameter.type is str:
        return text
    if parameter.type is bool:
        return text in ("True", "true", "1")
    return parameter.type(float(text))  # type: ignore[no-any-return]
