"""What is predicted of a layer beside its latency, each declared once: name, words, and what is learned of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from medn.core.units import format_bytes, format_latency


@dataclass(frozen=True)
class Quantity:
    """Something measured beside the latency. Its name has the unit, and names the column and the field alike."""

    name: str
    words: str
    shown: Callable[[float], str]
    over_latency: bool = False
    """Learned and shipped as a multiple of the latency: never below it, and small where the latency's form is large."""
    swept: str = ""
    """The column that must have varied while measuring for the quantity to say more than the latency does."""


FURTHER: Mapping[str, Quantity] = {
    each.name: each
    for each in (
        Quantity("memory_bytes", "memory", format_bytes),
        Quantity("energy_j", "energy", lambda joules: f"{joules:.3g} J"),
        # On an idle device the slow calls are disturbances; under load they are what one has to plan for.
        Quantity("latency_p90_s", "9 of 10 calls within", format_latency, over_latency=True, swept="utilization"),
        Quantity("latency_p99_s", "99 of 100 calls within", format_latency, over_latency=True, swept="utilization"),
    )
}
"""In the order of a prediction's fields; of the multiples of the latency, none is below the one before."""


def from_learned(latency_s: Any, learned: Mapping[str, Any], larger: Callable[..., Any] = np.maximum) -> dict[str, Any]:
    """The quantities themselves from what forms give, for one row or for columns.

    >>> from_learned(2.0, {"memory_bytes": 64.0, "latency_p90_s": 1.5, "latency_p99_s": 1.25}, larger=max)
    {'memory_bytes': 64.0, 'latency_p90_s': 3.0, 'latency_p99_s': 3.0}
    """
    found, least = dict(learned), latency_s
    for name, quantity in FURTHER.items():
        if quantity.over_latency and name in found:
            least = found[name] = larger(latency_s * found[name], least)
    return found
