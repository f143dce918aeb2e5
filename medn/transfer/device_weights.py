"""How much of each known device there is in one that is known by its data sheet alone.

What a layer takes, less a share of its time at the peaks, is taken to vary smoothly with the logarithms of the sheets'
numbers: between devices it is interpolated (ordinary kriging). How smoothly, and how large that share is, nobody knows
from few devices; so many ways are tried, each known device is left out in turn, and the ways are averaged, those that
did better counting more. Averages of such ways err less on whole new devices than the best of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from medn.core.table import Array

LENGTHS = (0.5, 1.0, 2.0, 4.0)
NUGGETS = (0.01, 0.03, 0.1, 0.3)
TRENDS = (0.0, 0.1, 1.0)
SHARES = (0.75, 1.0)

TEMPERATURE = 0.1
"""A way counts less by a factor of e for so much more error, as a share."""

WORST = 3.0
"""Logarithms that are off by more count as off by so much."""


class Way(NamedTuple):
    """One way to tell a device from others."""

    length: float
    """Within so many factors of e between their numbers, devices are alike."""
    nugget: float
    """The variance that no data sheet explains, as a share."""
    trend: float
    """How strongly what is not explained by the peaks may grow with the numbers."""
    share: float
    """Of the time at the peaks that is taken out before: of 0 the latency itself would be left. Smaller ones than these
    err as little between known devices, and far more beyond all of them."""


WAYS = tuple(itertools.starmap(Way, itertools.product(LENGTHS, NUGGETS, TRENDS, SHARES)))


@dataclass(frozen=True, eq=False)
class Blend:
    """What a new device takes: a weighted sum of the logarithms of what others take and of times at the peaks."""

    weights: Array
    """Of what each known device takes."""
    peak_weights: Array
    """Of the time at the peaks of each known device, and of the new one."""

    def logs(self, known: Array, peaks: Array) -> Array:
        """`known` has a column for each known device, `peaks` one more, that of the new one."""
        return np.asarray(known @ self.weights + peaks @ self.peak_weights)


def kriging_weights(new: Array, known: Array, way: Way) -> Array:
    """The weights of known devices, adding up to one; descriptors are rows of logarithms.

    >>> kriging_weights(np.array([1.0]), np.array([[0.0], [2.0]]), WAYS[0])
    array([0.5, 0.5])
    """
    middle = known.mean(axis=0)
    own, others = (new - middle)[None], known - middle
    covariance = _alike(others, others, way) + way.nugget * np.eye(len(others))
    solved = np.linalg.solve(covariance, np.column_stack([_alike(others, own, way)[:, 0], np.ones(len(others))]))
    simple, level = solved.T
    return np.asarray(simple + level * (1.0 - simple.sum()) / level.sum())


def _alike(left: Array, right: Array, way: Way) -> Array:
    apart = ((left[:, None] - right[None]) ** 2).sum(axis=-1)
    return np.asarray(np.exp(-0.5 * apart / way.length**2) + way.trend * (left @ right.T))


@dataclass(frozen=True, eq=False)
class LeftOut:
    """How ways did on known devices, each predicted by the others."""

    off: Array
    """Logarithms of what a device takes less what was predicted: by way, device and row."""

    @classmethod
    def of(cls, known: Array, peaks: Array, descriptors: Array) -> LeftOut:
        """The rows are layers; `known` and `peaks` have a column, `descriptors` a row for every known device."""
        count = known.shape[1]
        off = np.empty((len(WAYS), count, len(known)))
        for device in range(count):
            others = [place for place in range(count) if place != device]
            columns = [*others, device]
            for place, way in enumerate(WAYS):
                blend = _blend(descriptors[device], descriptors[others], [(way, 1.0)])
                off[place, device] = known[:, device] - blend.logs(known[:, others], peaks[:, columns])
        return cls(np.clip(off, -WORST, WORST))

    def shares(self, without: int | None = None) -> Array:
        """How much each way counts, one device's errors left aside."""
        errors = np.abs(np.expm1(-self.off)).mean(axis=2)
        errors = (errors if without is None else np.delete(errors, without, axis=1)).mean(axis=1)
        shares = np.exp(-(errors - errors.min()) / TEMPERATURE)
        return np.asarray(shares / shares.sum())

    @property
    def blended(self) -> Array:
        """How far each device is off in the mean of all ways, which count by how they did on the others."""
        few = self.off.shape[1] < 2
        rows = [self.shares(None if few else place) @ own for place, own in enumerate(self.off.swapaxes(0, 1))]
        return np.array(rows)


def blend_for(new: Array, descriptors: Array, left_out: LeftOut) -> Blend:
    """What the known devices make of a new one."""
    return _blend(new, descriptors, list(zip(WAYS, left_out.shares().tolist(), strict=True)))


def _blend(new: Array, known: Array, ways: list[tuple[Way, float]]) -> Blend:
    weights, peaks = np.zeros(len(known)), np.zeros(len(known) + 1)
    for way, share in ways:
        own = kriging_weights(new, known, way)
        weights += share * own
        peaks += share * way.share * np.append(-own, 1.0)
    return Blend(weights, peaks)


def interval_width(blended: Array, level: float) -> float:
    """What a share `level` of the layers of a new device is off by at most: on every known one, or where they are many
    on a share `level` of them."""
    each = np.sort(np.quantile(np.abs(blended), level, axis=1))
    return float(each[min(int(np.ceil(level * (len(each) + 1))), len(each)) - 1])
