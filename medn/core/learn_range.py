"""Where was measured, learned from rows: their ends, what a few centres say of where they lie, and how far off a row of
the same origin may be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.ranges import DEVICE, MeasuredRange, squeezed
from medn.core.table import Array, Table

SLACK = (0.05, 0.15)
"""How far beyond the lowest and highest value seen still counts as inside, as a share of the logarithmic span: at
least the first; up to the second where few rows were seen, so that held-out rows of the same origin fall beyond too."""

CENTRES = 64
ROWS_PER_CENTRE = 2
COMPONENTS = 8
HELD_OUT_SHARE = 0.99
REACH_MARGIN = 1.25
"""The joint check lets pass this share of held-out rows of the same origin, and what lies this much farther still."""


class RangesInFolds(NamedTuple):
    """The range of rows in folds, and what each fold is seen from."""

    whole: MeasuredRange
    distance: Array
    """How far each row lies from the other folds, on the same scale as any row from the whole range."""
    others: tuple[MeasuredRange, ...]
    """For each fold the range of the other ones, which reaches as far beyond its rows as the whole one."""


def learn_range(train: Table, held_out: Table, seed: int = 0, free: Collection[str] = ()) -> MeasuredRange:
    """The range of `train`; `held_out` rows of the same origin tell how far from it a row may lie."""
    known = _without_reach(train, seed, free)
    return _reaching(known, train, known.distance(held_out.inputs), known.excess(held_out.inputs))


def learn_range_in_folds(
    rows: Table, folds: NDArray[np.int8], seed: int = 0, free: Collection[str] = ()
) -> RangesInFolds:
    """The range of all rows, where those of each fold tell how far from the others a row may lie."""
    distance, excess = np.empty(len(rows)), np.empty(len(rows))
    others = []
    for fold in range(int(folds.max()) + 1):
        own = folds == fold
        others.append(_without_reach(rows.take(~own), seed, free))
        distance[own], excess[own] = others[-1].distance(rows.inputs[own]), others[-1].excess(rows.inputs[own])
    whole = _reaching(_without_reach(rows, seed, free), rows, distance, excess)
    alike = tuple(replace(each, slack=whole.slack, reach=whole.reach) for each in others)
    return RangesInFolds(whole, distance / whole.reach, alike)


def _reaching(known: MeasuredRange, train: Table, distance: Array, excess: Array) -> MeasuredRange:
    """The same, as wide as these rows of the same origin call for, which it has not learned from."""
    reach = max(float(np.quantile(each, HELD_OUT_SHARE)) for each in (known.distance(train.inputs), distance))
    slack = float(np.clip(np.quantile(excess, HELD_OUT_SHARE), *SLACK))
    return replace(known, slack=slack, reach=max(REACH_MARGIN * reach, 1e-9))


def _without_reach(train: Table, seed: int, free: Collection[str]) -> MeasuredRange:
    """The range of rows, its distances on no scale yet."""
    schema, inputs = train.schema, train.inputs
    low, high = inputs.min(axis=0), inputs.max(axis=0)
    seen: dict[str, tuple[int, ...]] = {}
    for name in schema.categories:
        codes, counts = np.unique(train.column(name).astype(int), return_counts=True)
        seen[name] = tuple(int(code) for code in codes)
        low[schema.index(name)] = high[schema.index(name)] = codes[counts.argmax()]
    numbers = squeezed(inputs)
    shift = numbers.mean(axis=0)
    components = _single(_main_directions(numbers - shift, [schema.index(name) for name in schema.categories]))
    places = (numbers - shift) @ components
    centres = _single(_centres(places, min(CENTRES, max(1, len(places) // ROWS_PER_CENTRE)), seed))
    unbounded = tuple(name for name in free if name in schema.names)
    ends = _device_ends(train, low, high)
    return MeasuredRange(schema, low, high, 0.0, unbounded, seen, shift, components, centres, 1.0, ends)


def _device_ends(train: Table, low: Array, high: Array) -> Array | None:
    """The ends on each device; a device that was not learned from has those of all."""
    devices = train.schema.categories.get(DEVICE, ())
    if len(devices) < 2:
        return None
    own = [train.inputs[train.column(DEVICE) == code] for code in range(len(devices))]
    return np.array(
        [
            [rows.min(axis=0) if len(rows) else low for rows in own],
            [rows.max(axis=0) if len(rows) else high for rows in own],
        ]
    )


def _single(array: Array) -> Array:
    """Numbers that four bytes hold: they are most of a small bundle, and their last digits mean nothing."""
    return array.astype(np.float32).astype(np.float64)


def _main_directions(centred: Array, categories: list[int]) -> Array:
    """The directions in which the numbers vary most together, each column scaled to the same spread first."""
    spread = centred.std(axis=0)
    spread[categories] = 0.0  # codes have no distance; each is checked by itself
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9)
    _, _, directions = np.linalg.svd(centred * scale, full_matrices=False)
    return np.asarray(scale[:, None] * directions[:COMPONENTS].T)


def _centres(places: Array, count: int, seed: int) -> Array:
    """A few rounds of k-means from random rows: a light summary of where the rows lie."""
    centres = places[np.random.default_rng(seed).choice(len(places), count, replace=False)]
    for _ in range(10):
        squares = (centres**2).sum(axis=1) - 2 * places @ centres.T
        nearest = squares.argmin(axis=1)
        members = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, places)
        centres = np.where(members[:, None] > 0, sums / np.maximum(members, 1)[:, None], centres)
    return np.asarray(centres)
