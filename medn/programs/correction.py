"""What a search has measured of a task, as a correction of what was predicted for it.

A line through what was measured sets the scale of the scores; what is left is smoothed over programs alike by kernel
ridge regression. Far from all that was measured the prediction stands.
"""

from __future__ import annotations

import numpy as np

from medn.core.table import Array
from medn.programs.encodings import ENCODINGS, HEAD, as_tokens

NOISE = 0.1
"""Variance of what cannot be told by programs alike, over that of what can."""
FEWEST = 4
"""Programs below which nothing is corrected."""
LEAST_SLOPE = 0.1


def whole_rows(rows: Array, encoding: str) -> Array:
    """Rows that can be compared: of sequences, the sums and the maxima over tokens."""
    size = ENCODINGS[encoding].token_size
    if not size:
        return np.asarray(rows[:, HEAD:], dtype=np.float64)
    _, mask, _, vectors = as_tokens(rows, size)
    kept = vectors * mask[..., None]
    return np.hstack([kept.sum(axis=1), kept.max(axis=1)]).astype(np.float64)


class TaskCorrection:
    """Learns from every batch of trials of one task."""

    def __init__(self) -> None:
        self._rows: list[Array] = []
        self._scores: list[Array] = []
        self._measured: list[Array] = []
        self._slope, self._shift = 1.0, 0.0
        self._weights: Array = np.empty(0)
        self._known: Array = np.empty((0, 0))
        self._centre: Array = np.empty(0)
        self._spread: Array = np.empty(0)
        self._reach = 1.0

    def __len__(self) -> int:
        return sum(map(len, self._measured))

    def learn(self, rows: Array, scores: Array, latency_s: Array) -> None:
        """Trials with what was predicted for them; those that failed take the longest of all."""
        good = np.isfinite(latency_s) & (latency_s > 0)
        if not good.any():
            return
        self._rows.append(rows)
        self._scores.append(scores)
        self._measured.append(-np.log(np.where(good, latency_s, latency_s[good].max())))
        if len(self) >= FEWEST:
            self._refit()

    def _refit(self) -> None:
        rows, scores, measured = (np.concatenate(each) for each in (self._rows, self._scores, self._measured))
        varied = scores - scores.mean()
        slope = float(varied @ measured / max(float(varied @ varied), 1e-12))
        self._slope = max(slope, LEAST_SLOPE)
        self._shift = float(measured.mean() - self._slope * scores.mean())
        self._centre, spread = np.asarray(rows.mean(axis=0)), np.asarray(rows.std(axis=0))
        self._spread = np.where(spread > 1e-6, spread, np.inf)  # what never varied here tells nothing
        self._known = (rows - self._centre) / self._spread
        distances = _distances(self._known, self._known)
        self._reach = max(float(np.median(distances)), 1e-6)
        kernel = np.exp(-distances / self._reach) + NOISE * np.eye(len(rows))
        left = measured - self._slope * scores - self._shift
        self._weights = np.asarray(np.linalg.solve(kernel, left), dtype=np.float64)

    def corrected(self, rows: Array, scores: Array) -> Array:
        """The scores with what was measured taken into account; higher is still faster."""
        if not len(self._weights):
            return scores
        near = np.exp(-_distances((rows - self._centre) / self._spread, self._known) / self._reach)
        return self._slope * scores + self._shift + near @ self._weights


def _distances(some: Array, others: Array) -> Array:
    """Squared."""
    squares = (some**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)[None] - 2 * some @ others.T
    return np.asarray(np.maximum(squares, 0.0), dtype=np.float64)
