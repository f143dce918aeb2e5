"""What was measured of layers that had been predicted: rolling errors against the intervals, and when to adapt."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from medn.core.errors import UsageError
from medn.core.notebook import html_table
from medn.core.sequential import TOLD, ChangeDetector, promised_spread
from medn.core.text import shown
from medn.core.units import percent
from medn.core.values import Condition, Layer
from medn.estimator.prediction import Prediction

KEPT = 256
"""Observations of each kind that rolling errors are over: the last ones."""


class Observation(NamedTuple):
    log_ratio: float
    """The logarithm of measured over predicted."""
    covered: bool
    """Whether it was measured inside the interval."""


@dataclass(frozen=True)
class KindDrift:
    """How the predictions of one kind have fared lately."""

    kind: str
    observations: int
    """In all, those outside of what was measured for the bundle left out."""
    outside: int
    """Those: an extrapolation that errs says nothing of the machine."""
    error: float
    """The median of how far measured and predicted are apart, of the last ones."""
    factor: float
    """The median of measured over predicted, of the last ones."""
    covered: float
    promised: float
    """The shares of the last ones that the intervals held, and that they promise to hold."""
    change: str
    """Which change was found: slower, faster or scattered; empty where none was."""


@dataclass(frozen=True)
class Drift:
    """Whether a predictor still describes its device, by what was observed.

    >>> Drift(())
    <Drift: nothing was observed yet>
    """

    kinds: tuple[KindDrift, ...]

    @property
    def should_adapt(self) -> bool:
        """Whether the predictions of some kind do not fit any more."""
        return any(each.change for each in self.kinds)

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(
            f"{each.kind}: {TOLD[each.change]} ({each.factor:.2f} times, {percent(each.covered)} in the intervals "
            f"instead of {percent(each.promised)})"
            for each in self.kinds
            if each.change
        )

    def __repr__(self) -> str:
        count = sum(each.observations for each in self.kinds)
        if not count:
            return "<Drift: nothing was observed yet>"
        if not self.should_adapt:
            return f"<Drift: {count:,} observations fit what is predicted>"
        return f"<Drift: adapt, as {'; '.join(self.reasons)}>"

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], [asdict(each) for each in self.kinds])

    def as_json(self) -> dict[str, Any]:
        return {
            "should_adapt": self.should_adapt,
            "reasons": list(self.reasons),
            "kinds": [asdict(each) for each in self.kinds],
        }


class _Kind:
    """What is kept of one kind: numbers of a bounded count, however much is observed."""

    def __init__(self) -> None:
        self.last: deque[Observation] = deque(maxlen=KEPT)
        self.detector = ChangeDetector()
        self.count = 0
        self.outside = 0
        self.promised = 0.0

    def add(self, prediction: Prediction, measured_s: float) -> None:
        if not prediction.in_range:
            self.outside += 1
            return
        log_ratio = math.log(measured_s / prediction.latency_s)
        self.count += 1
        self.promised = prediction.level
        self.last.append(Observation(log_ratio, prediction.low_s <= measured_s <= prediction.high_s))
        self.detector.add(log_ratio, promised_spread(prediction.low_s, prediction.high_s, prediction.level))

    def told(self, kind: str) -> KindDrift:
        ratios = [each.log_ratio for each in self.last]
        middle = median(ratios) if ratios else 0.0
        found = self.detector.found
        return KindDrift(
            kind,
            self.count,
            self.outside,
            math.expm1(median(map(abs, ratios))) if ratios else 0.0,
            math.exp(middle),
            sum(each.covered for each in self.last) / len(ratios) if ratios else 0.0,
            self.promised,
            found and self.detector.hypotheses.change(found, middle),
        )


class Observed:
    """Gathers observations from any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: dict[str, _Kind] = {}

    def add(self, kind: str, prediction: Prediction, measured_s: float) -> None:
        with self._lock:
            self._kinds.setdefault(kind, _Kind()).add(prediction, measured_s)

    def drift(self) -> Drift:
        with self._lock:
            return Drift(tuple(each.told(kind) for kind, each in sorted(self._kinds.items())))


def read_layer(layer: object) -> tuple[str, dict[str, Any]]:
    """The kind and the parameters of a layer in any of the ways that rows of a table are given."""
    if isinstance(layer, Layer):
        return layer.kind, dict(layer.values)
    if isinstance(layer, tuple) and list(map(type, layer)) == [Layer, Condition]:
        return layer[0].kind, {**layer[0].values, **layer[1].values}
    if isinstance(layer, Mapping) and isinstance(layer.get("kind"), str):
        return layer["kind"], {name: value for name, value in layer.items() if name != "kind"}
    wanted = 'a dict with its kind, as in {"kind": "linear", "in_features": 512, "out_features": 512}'
    raise UsageError(f"a layer is {wanted}, a Layer, or a Layer with its Condition (got {shown(layer)})")


def read_seconds(measured_s: object) -> float:
    is_number = isinstance(measured_s, (int, float)) and not isinstance(measured_s, bool)
    try:
        found = float(measured_s) if is_number or hasattr(measured_s, "item") else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not 0 < found < math.inf:
        raise UsageError(f"measured_s: must be seconds, a number above 0 (got {shown(measured_s)})")
    return found
