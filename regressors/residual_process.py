"""A Gaussian process: its length scales by the marginal likelihood, and how sure it is of points it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array, Table
from medn.regressors.distances import Points
from medn.regressors.encoding import Encoding
from medn.regressors.forms.kernel import MATERN, Kernel, matern
from medn.regressors.regressor import Effort

LIKELIHOOD_ROWS = 400
"""Length scales are found on so many rows: more of them hardly move the scales, and cost the cube of their number."""

MOST_STEPS = 25
"""More of them find better length scales for the rows at hand, but not a smaller error on others."""

SMALLEST_NOISE = 1e-6
"""Added to the variance of every row, so that equal rows do not make the matrix singular."""

TYPICAL_NOISE = 0.03
"""The variance of the noise, in variances of what is learned, that few rows are drawn towards."""

MOST_POINTS = 1000
"""So many points are kept, and asked about for every prediction. Where rows are more, each still tells them something:
with all rows of large tables such points err a tenth less than twice as many that know only their own rows."""

ROWS_AT_ONCE = 2000


@dataclass(frozen=True, eq=False)
class ResidualProcess:
    """What was learned of the logarithms of one table."""

    encoding: Encoding
    points: NDArray[np.float32]
    """Encoded inputs in length scales, as they are saved: so that what is deployed is what was fitted."""
    found: Hyperparameters
    targets: Array
    """With mean zero and variance one."""
    order: NDArray[np.intp]
    """Of the rows, at random: those that come first are kept where not all are."""
    middle: float
    size: float

    @classmethod
    def fit(
        cls,
        table: Table,
        logs: Array,
        spread: float,
        effort: Effort,
        likelihood_rows: int = LIKELIHOOD_ROWS,
    ) -> ResidualProcess:
        encoding = Encoding.fit(table.schema, table.inputs)
        encoded = encoding.transform(table.inputs)
        middle, size = float(logs.mean()), float(logs.std()) or 1.0
        targets = (logs - middle) / size
        order = np.random.default_rng(effort.seed).permutation(len(table))
        rows = order[:likelihood_rows]
        found = Likelihood(encoded[rows], targets[rows], spread).maximise(effort)
        return cls(encoding, (encoded / found.lengths).astype(np.float32), found, targets, order, middle, size)

    def scaled(self, inputs: Array) -> Array:
        """Inputs of a table in length scales."""
        return np.asarray(self.encoding.transform(inputs) / self.found.lengths)

    def covariance(self, first: Array, second: Array) -> Array:
        """Between points in length scales, before anything was measured; 1 is the variance of the targets."""
        return np.asarray(self.found.variance * matern(Points(second).squared(first))[0])

    @cached_property
    def _measured(self) -> Array:
        """The covariance of what was measured, noise included."""
        saved = self.points.astype(np.float64)
        covariance = self.covariance(saved, saved)
        covariance[np.diag_indices(len(saved))] += self.found.noise
        return covariance

    def explained(self, points: Array) -> Array:
        """What measured points tell of others, a column for each: the covariance of two others is lowered by the
        product of their columns."""
        from scipy.linalg import solve_triangular

        factor = np.linalg.cholesky(self._measured)
        return np.asarray(solve_triangular(factor, self.covariance(self.points.astype(np.float64), points), lower=True))

    def kernel(self) -> Kernel:
        """The form that predicts the logarithms."""
        if len(self.points) <= MOST_POINTS:
            points, solved = self.points, np.linalg.solve(self._measured, self.targets)
        else:
            points = self.points[self.order[:MOST_POINTS]]
            solved = self._projected(points.astype(np.float64))
        weights = np.asarray(self.size * self.found.variance * solved, dtype=np.float64)
        scale = 1.0 / self.found.lengths
        return Kernel(self.encoding, points, weights, self.middle, 1.0, scale=scale, shape=MATERN)

    def _projected(self, points: Array) -> Array:
        """What each point weighs if it speaks for all rows (subset of regressors)."""
        from scipy.linalg import solve_triangular

        covariance = self.covariance(points, points)
        covariance[np.diag_indices(len(points))] += SMALLEST_NOISE * self.found.variance
        factor = np.linalg.cholesky(covariance)
        system, right = self.found.noise * np.eye(len(points)), np.zeros(len(points))
        for start in range(0, len(self.order), ROWS_AT_ONCE):
            rows = self.order[start : start + ROWS_AT_ONCE]
            # Towards orthogonal points: the same system in them is well conditioned, however close points may lie.
            told = solve_triangular(factor, self.covariance(points, self.points[rows].astype(np.float64)), lower=True)
            system += told @ told.T
            right += told @ self.targets[rows]
        return np.asarray(solve_triangular(factor, np.linalg.solve(system, right), lower=True, trans="T"))


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Of a process whose targets have mean zero and variance one."""

    lengths: Array
    variance: float
    noise: float

    @classmethod
    def from_vector(cls, vector: Array) -> Hyperparameters:
        return cls(np.exp(vector[:-2]), float(np.exp(vector[-2])), float(np.exp(vector[-1])) + SMALLEST_NOISE)


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The marginal likelihood of the targets, with mild priors: few rows leave most length scales open."""

    points: Array
    targets: Array
    spread: float

    @property
    def typical_length(self) -> float:
        """In logarithms: over so far, points with all inputs drawn at random are about one length scale apart."""
        return 0.5 * float(np.log(max(self.points.shape[1], 1)))

    def maximise(self, effort: Effort) -> Hyperparameters:
        from scipy.optimize import minimize

        width = self.points.shape[1]
        start = np.array([self.typical_length] * width + [0.0, np.log(TYPICAL_NOISE)])
        bounds = [(-3.0, 8.0)] * width + [(-6.0, 6.0), (-14.0, 2.0)]
        best = start

        def stop_in_time(xk: Array) -> None:
            nonlocal best
            best = xk.copy()
            if effort.seconds_left <= 0:
                raise StopIteration

        minimize(
            self.loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=stop_in_time,
            options={"maxiter": MOST_STEPS},
        )
        return Hyperparameters.from_vector(best)

    def loss(self, vector: Array) -> tuple[float, Array]:
        """The negative logarithm of the posterior, and its gradient by the logarithms of the hyperparameters."""
        from scipy.linalg import cho_factor, cho_solve

        assumed = Hyperparameters.from_vector(vector)
        scaled = self.points / assumed.lengths
        correlation, slope = matern(Points(scaled).squared(scaled))
        covariance = assumed.variance * correlation
        covariance[np.diag_indices(len(scaled))] += assumed.noise
        factor = cho_factor(covariance, lower=True)
        inverse = cho_solve(factor, np.eye(len(scaled)))
        weights = inverse @ self.targets
        loss = 0.5 * self.targets @ weights + np.log(np.diag(factor[0])).sum()
        by_covariance = np.outer(weights, weights) - inverse
        by_distance = by_covariance * (assumed.variance * slope)
        # Of a sum over pairs of rows of their squared differences, without a matrix for each input.
        by_squares = by_distance.sum(axis=1) @ scaled**2 - np.einsum("ik,ik->k", scaled, by_distance @ scaled)
        gradient = np.empty_like(vector)
        gradient[:-2] = 2.0 * by_squares
        gradient[-2] = -0.5 * assumed.variance * (by_covariance * correlation).sum()
        gradient[-1] = -0.5 * np.trace(by_covariance) * (assumed.noise - SMALLEST_NOISE)
        prior = np.append((vector[:-2] - self.typical_length) / self.spread, (vector[-1] - np.log(TYPICAL_NOISE)) / 2)
        gradient[:-2] += prior[:-1] / self.spread
        gradient[-1] += prior[-1] / 2
        return float(loss + 0.5 * prior @ prior), gradient
