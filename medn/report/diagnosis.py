"""What is the matter with the predictor of a kind: the measurements, the choice, too few layers, or the tuning.

Each cause has its own evidence, and none is named without it. Measuring again is for what was measured badly, so the
noise, or visits that something slowed, must explain the error. A choice is wrong where another candidate errs less on
the same test layers, beyond luck. More layers help where the learning curve still falls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medn.report.content import Content, KindContent
from medn.report.verdicts import GOOD_ERROR, POOR_ERROR, is_near_noise, verdict

NOISY = 0.05
"""Noise up to this is no reason to measure again."""

MUCH_WORSE = 1.5
"""Points that were never calm are to blame where their error is so many times that of the others."""

CLEARLY = 0.1
"""The share of its error by which the chosen must exceed another to be called the wrong choice."""

STILL_FALLS = 0.1
"""The share of the error that twice the layers must take away, by the forecast, to be worth measuring, and that the
layers so far must have taken away since their first quarter: a forecast alone leans on how curves usually fall."""

FEW_LAYERS = 300
"""Where no learning curve tells, fewer layers than this are few."""

FEW_TRIALS = 5

UNTESTED, NOISE, DISTURBED, CHOICE = "few tests", "noise", "disturbed", "choice"
LAYERS, TUNING, UNEXPLAINED = "few layers", "tuning", "unexplained"


def causes(content: Content, kind: KindContent) -> tuple[str, ...]:
    """Of its error, the first thing to mend first; none where the error is small."""
    if verdict(kind) == "unclear":
        return (UNTESTED,)
    if verdict(kind) == "good":
        return ()
    if better_candidate(kind):  # noise is in both errors alike, and does not explain what lies between them
        return (CHOICE,)
    if is_near_noise(kind) and (kind.noise or 0.0) > NOISY:
        return (NOISE,)
    if _is_disturbed(kind):
        return (DISTURBED,)
    found = (LAYERS,) if wants_layers(content, kind) else ()
    return (*found, *((TUNING,) if is_hardly_tuned(kind) else ())) or (UNEXPLAINED,)


def better_candidate(kind: KindContent) -> str | None:
    """The regressor that errs clearly less than the chosen one on the same test layers; None where none does."""
    least = CLEARLY * kind.row["mape"]
    better = {name: each.value for name, each in kind.excess.items() if each.low > 0 and each.value >= least}
    return max(better, key=lambda name: better[name]) if better else None


def wants_layers(content: Content, kind: KindContent) -> bool:
    """Whether the learning curve still falls; where none was kept, or it does not tell, whether layers are few."""
    ahead = twice_the_layers(content, kind)
    if ahead is None:
        return kind.layers < FEW_LAYERS
    errors = _curve(content, kind)["errors"]
    has_fallen = errors[-1] <= (1 - STILL_FALLS) * errors[0]
    return bool(has_fallen and ahead[1] <= (1 - STILL_FALLS) * ahead[0])


def twice_the_layers(content: Content, kind: KindContent) -> tuple[float, float] | None:
    """What a kept learning curve says of the error now, and of that with twice the layers; None where it does not."""
    told = {each["factor"]: each["error"] for each in _curve(content, kind).get("forecasts", ())}
    return (told[1.0], told[2.0]) if {1.0, 2.0} <= told.keys() else None


def is_hardly_tuned(kind: KindContent) -> bool:
    """Whether the chosen regressor was searched with few settings; an ensemble as little as its least searched one."""
    members = kind.candidate.regressor.split("+")
    trials = [len(kind.searches[member].best) for member in members if member in kind.searches]
    return len(trials) == len(members) and 0 < min(trials) < FEW_TRIALS


def _is_disturbed(kind: KindContent) -> bool:
    """Whether the error would be of a better sort without the points that were never calm."""
    row = kind.row
    if not row.get("never_calm"):
        return False
    others, never_calm = row.get("calm_mape"), row.get("never_calm_mape")
    if others is None:  # nothing calm is left to judge by
        return True
    limit = POOR_ERROR if row["mape"] > POOR_ERROR else GOOD_ERROR
    return bool(others <= limit and never_calm is not None and never_calm > MUCH_WORSE * others)


def _curve(content: Content, kind: KindContent) -> Mapping[str, Any]:
    """The learning curve that was kept of a kind; empty where there is none."""
    kinds: list[Mapping[str, Any]] = content.curve["kinds"] if content.curve else []
    return next((each for each in kinds if (each["device"], each["kind"]) == (kind.device, kind.kind)), {})
