"""One fit with given settings: how long it may take, when it is hopeless, and what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from medn.core.errors import MednError, reason_of
from medn.regressors.regressor import Effort, Settings

Result = TypeVar("Result")

STEP_GROWTH = 1.25
"""Errors of a fit under way are compared at steps that grow by this factor: often enough to stop a hopeless one."""

PLACES_TO_WARM_UP = 4
"""Errors of the first steps say little."""


class NotFinite(MednError):
    """A fit whose predictions are no numbers."""


class Hopeless(Exception):
    """A fit under way errs more than others did at the same step."""


@dataclass(frozen=True)
class Attempt:
    """A fit that is to be made."""

    number: int
    """Of its trial; -1 for one that no study counts."""
    settings: Settings
    seconds: float
    error_to_beat: float = math.inf
    """What was learned is worth sending back if it errs less."""
    hopeless_above: Mapping[int, float] = field(default_factory=dict)
    """By the place of a report, the error above which a fit is stopped."""
    is_only: bool = False
    """Whether no other follows, so that whoever made it goes on with what it has learned."""


@dataclass(frozen=True)
class Tried(Generic[Result]):
    """What came of an attempt: an error, or the reason why there is none; neither where it was hopeless."""

    seconds: float
    error: float | None = None
    result: Result | None = None
    reports: Mapping[int, float] = field(default_factory=dict)
    reason: str = ""


def attempted(
    attempt: Attempt, fit: Callable[[Settings, Effort], Result], judge: Callable[[Result], float], seed: int
) -> Tried[Result]:
    """Fit and judge. Whatever goes wrong is the reason that is told."""
    began = time.monotonic()
    reports: dict[int, float] = {}

    def report(step: int, error: float) -> None:
        """At places that all trials share, however often their family reports."""
        place = int(math.log(max(step, 0) + 1, STEP_GROWTH))
        if place > max(reports, default=-1):
            reports[place] = error
            if min(reports.values()) > attempt.hopeless_above.get(place, math.inf):
                raise Hopeless

    def told(error: float | None = None, result: Result | None = None, reason: str = "") -> Tried[Result]:
        return Tried(time.monotonic() - began, error, result, reports, reason)

    try:
        result = fit(attempt.settings, Effort(attempt.seconds, seed, report=report))
        error = judge(result)
        if not math.isfinite(error):
            raise NotFinite("its predictions are not all finite")
    except Hopeless:
        return told()
    except Exception as failure:  # a family may fail in any way its library does
        return told(reason=reason_of(failure))
    return told(error, result)
