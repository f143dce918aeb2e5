"""How good the predictor of a kind is, in one word, and whether the measurements explain its error."""

from __future__ import annotations

from medn.report.content import KindContent

GOOD_ERROR = 0.05
"""A mean error up to this is good, whatever the machine: noise is a reason for an error, not an excuse."""

POOR_ERROR = 0.15
"""A mean error above this misleads an optimizer."""

FEWEST_TESTED = 5
"""A mean over fewer test layers says little of others."""

NEAR_NOISE = 2.0
"""A mean error of at most this many times the noise is about as good as the measurements allow."""

VERDICTS = {"good": "circle", "fair": "diamond", "poor": "triangle", "unclear": "square"}
"""From the best to what is not known, with the symbol of each in plots."""


def verdict(kind: KindContent) -> str:
    """By the error alone, so that a noisier machine never makes it better.

    Of few layers only what is sure is told: that they are poor, if all of the confidence interval is.
    """
    error = kind.row["mape"]
    if kind.tested_layers < FEWEST_TESTED and (kind.row.get("mape_low") or 0.0) <= POOR_ERROR:
        return "unclear"
    if error > POOR_ERROR:
        return "poor"
    return "good" if error <= GOOD_ERROR else "fair"


def is_near_noise(kind: KindContent) -> bool:
    """Whether the measurements themselves explain the error; where their noise is not known, nothing does."""
    return kind.noise is not None and kind.row["mape"] <= NEAR_NOISE * kind.noise
