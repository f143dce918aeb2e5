"""How far an adaptive sweep is: its error, what is left to do, and whether it is done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from medn.adaptive.curve import AT_THE_FLOOR, Forecast
from medn.adaptive.run_curve import KindCurve, RunCurve

AIM, FLOOR, POINTS, EXHAUSTED = "aim", "noise floor", "points", "layers"
"""Why a sweep ends by itself: it errs as little as was asked for, only noise is left, the budget of points is used up,
or all that the config can draw is measured."""

FACTORS = np.geomspace(1.0, 16.0, 65)
"""How far ahead the aim is looked for, in multiples of the layers there are."""


@dataclass(frozen=True)
class AdaptiveProgress:
    """How far it is after some points."""

    points: int
    curve: RunCurve
    wanting: frozenset[str]
    """The kinds that more points may help."""
    left_s: float | None = None
    """Measuring until the aim, by the forecast; None where there is no aim, or it is out of sight."""
    end: str = ""
    """Empty while it goes on."""

    @property
    def error(self) -> Forecast | None:
        """Over all kinds, with what is measured; None until a curve tells."""
        return self.curve.forecast(1.0)


def judge(curve: RunCurve, points: int, open_kinds: Collection[str], aim: float | None) -> AdaptiveProgress:
    """`open_kinds` are those of which there is more to measure."""
    wanting = frozenset(each.kind for each in curve.kinds if each.kind in open_kinds and _wants_more(each, aim))
    untold = [each for each in curve.kinds if each.kind in wanting and each.forecast(1.0) is None]
    error = curve.forecast(1.0)
    if aim is not None and error and error.error <= aim and not untold:
        return AdaptiveProgress(points, curve, wanting, 0.0, AIM)
    if not wanting:
        return AdaptiveProgress(
            points, curve, wanting, None, FLOOR if any(map(_at_the_floor, curve.kinds)) else EXHAUSTED
        )
    return AdaptiveProgress(points, curve, wanting, _left_s(curve, aim))


def _wants_more(each: KindCurve, aim: float | None) -> bool:
    """Not where nothing can be measured at all, nor where it is as good as was asked for or as noise allows."""
    now = each.forecast(1.0)
    if now is None:
        return each.layers > 0
    return not _at_the_floor(each) and (aim is None or now.error > aim)


def _at_the_floor(each: KindCurve) -> bool:
    now = each.forecast(1.0)
    return now is not None and each.curve is not None and now.error - each.curve.floor < AT_THE_FLOOR * now.error


def _left_s(curve: RunCurve, aim: float | None) -> float | None:
    if aim is None or not curve.told:
        return None
    expected = [sum(weight * law.expected(factor * law.layers)[0] for weight, law in curve.told) for factor in FACTORS]
    reached = np.array(expected) / sum(weight for weight, _ in curve.told) <= aim
    return float(FACTORS[reached.argmax()] - 1) * curve.measuring_s if reached.any() else None
