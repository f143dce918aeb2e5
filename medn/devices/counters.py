"""Quantities that are counted while layers run, such as joules: what a counter grew by, per call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from medn.core.errors import reason_of
from medn.core.quantities import FURTHER, all_quantities
from medn.devices.energy import EnergyMeter

Counter = Callable[[], float]
Readings = Mapping[str, float | str]
"""By quantity what its counter says, or why it says nothing."""


def counters(meter: EnergyMeter | None, reason: str) -> tuple[dict[str, Counter], dict[str, str]]:
    """A counter for each quantity that is counted, the backend's own for energy; and why there is none, by quantity."""
    found = {name: quantity.counter for name, quantity in all_quantities().items() if quantity.counter}
    if meter is None:
        return found, {"energy_j": reason}
    return {"energy_j": meter.joules, **found}, {}


def readings(known: Mapping[str, Counter]) -> dict[str, float | str]:
    """What they say now: a counter may be somebody else's code, and must not end what it is read beside."""
    found: dict[str, float | str] = {}
    for name, counter in known.items():
        try:
            found[name] = float(counter())
        except Exception as error:
            found[name] = reason_of(error)
    return found


def growth(before: Readings, after: Readings, calls: int, kept: float) -> dict[str, float | str]:
    """What each grew by per call, as much of it as a call keeps; the reason where a reading failed.

    >>> growth({"energy_j": 1.0}, {"energy_j": 3.0}, calls=4, kept=0.5)
    {'energy_j': 0.25}
    >>> growth({"energy_j": 1.0}, {"energy_j": "no permission"}, calls=4, kept=0.5)
    {'energy_j': 'no permission'}
    """
    found: dict[str, float | str] = {}
    for name, first in before.items():
        last = after[name]
        if isinstance(first, str) or isinstance(last, str):
            found[name] = first if isinstance(first, str) else last
            continue
        found[name] = FURTHER[name].reading(kept * (last - first) / calls)
    return found
