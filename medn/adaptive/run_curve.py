"""The learning curves of a run, by kind and together, kept in the run for its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.adaptive.cross_validation import growing_errors
from medn.adaptive.curve import Forecast, LearningCurve, learning_curve
from medn.core.atomic import atomic_write
from medn.core.errors import MednError, StoreError, reason_of
from medn.core.store import JOURNAL_NAME
from medn.core.table import Table
from medn.runs.folder import RunFolder
from medn.runs.tables import Source, kind_table, read_source

CURVE_FILE = "learning_curve.json"

ADAPTIVE_NOTE = "adaptive"
"""Under which a run keeps the points that were chosen while it was measured, and the shares of its kinds."""

FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Multiples of the layers there are for which forecasts are kept."""

MOST_LAYERS = 1000
"""Of more layers some are drawn: the curve is told well by these, and in a second."""

SPANS_S = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 86_400)
FARTHEST = 4.0
"""A forecast for more than so many times the layers says little."""


@dataclass(frozen=True, eq=False)
class KindCurve:
    device: str
    kind: str
    points: int
    layers: int
    """That can be learned from."""
    weight: float
    """In the error of all kinds."""
    curve: LearningCurve | None
    reason: str = ""
    """Why there is no curve."""

    def forecast(self, factor: float) -> Forecast | None:
        """With so many times the layers there are; None where the curve says nothing."""
        told = self.curve is not None and self.curve.has_forecast
        return self.curve.forecast(factor * self.curve.layers) if self.curve and told else None


@dataclass(frozen=True, eq=False)
class RunCurve:
    kinds: tuple[KindCurve, ...]
    measuring_s: float
    """How long all visits took; 0 where that is not known."""

    @property
    def told(self) -> list[tuple[float, LearningCurve]]:
        """The curves that have a forecast, with their weights."""
        return [(each.weight, each.curve) for each in self.kinds if each.curve and each.curve.has_forecast]

    def forecast(self, factor: float) -> Forecast | None:
        """The weighted mean over kinds, of those whose curves tell."""
        if not self.told:
            return None
        whole = sum(weight for weight, _ in self.told)
        parts = [weight / whole * curve.expected(factor * curve.layers) for weight, curve in self.told]
        return Forecast.of(np.sum(parts, axis=0))

    @property
    def floor(self) -> float:
        """What noise alone leaves, over the same kinds."""
        whole = sum(weight for weight, _ in self.told) or 1.0
        return sum(weight / whole * curve.floor for weight, curve in self.told)

    @property
    def span_s(self) -> float | None:
        """A round time, about as long as was measured already; None where that is not known."""
        if not self.measuring_s:
            return None
        return float(max((span for span in SPANS_S if span <= self.measuring_s), default=SPANS_S[0]))

    @property
    def factor(self) -> float:
        """How many times the layers there are after that time."""
        return 2.0 if self.span_s is None else min(1 + self.span_s / self.measuring_s, FARTHEST)

    def as_json(self) -> dict[str, Any]:
        return {
            "measuring_s": self.measuring_s,
            "further_s": self.span_s,
            "further_factor": self.factor,
            "kinds": [self._kind_json(each) for each in self.kinds],
            "all": {"floor": self.floor, "forecasts": _forecasts(self, (*FACTORS, self.factor))},
        }

    def _kind_json(self, each: KindCurve) -> dict[str, Any]:
        names = {"device": each.device, "kind": each.kind, "points": each.points, "weight": each.weight}
        if each.curve is None:
            return {**names, "reason": each.reason}
        told = {name: getattr(each.curve, name) for name in ("layers", "sizes", "errors", "floor")}
        return {**names, **told, "forecasts": _forecasts(each, (*FACTORS, self.factor))}


def _forecasts(curve: RunCurve | KindCurve, factors: Sequence[float]) -> list[dict[str, float]]:
    found = {factor: curve.forecast(factor) for factor in sorted(set(factors))}
    return [{"factor": factor, **asdict(told)} for factor, told in found.items() if told]


def run_curve(path: Path, seed: int = 0) -> RunCurve:
    """The curves of a run folder, or of a folder of exported tables."""
    return source_curve(path, read_source(path), seed)


def source_curve(path: Path, source: Source, seed: int = 0) -> RunCurve:
    """The same of what was read of it.

    Kinds weigh as many points as they have; where points were chosen, as much as the config says, and the chosen points
    are learned from but not judged by.
    """
    measuring_s, note = 0.0, dict[str, Any]()
    if (path / JOURNAL_NAME).is_file():
        with RunFolder(path).store(must_exist=True) as store:
            measuring_s, note = store.measuring_s(), store.read_note(ADAPTIVE_NOTE) or {}
    chosen, shares = frozenset(note.get("informative", ())), note.get("shares", {})
    kinds = [
        kind_curve(source, device, kind, chosen, seed)
        for device in source.devices
        for kind in source.rows
        if any(row["device"] == device for row in source.rows[kind])
    ]
    weighed = [replace(each, weight=float(shares.get(each.kind, each.weight))) if shares else each for each in kinds]
    return RunCurve(tuple(weighed), measuring_s)


def kind_curve(source: Source, device: str, kind: str, chosen: frozenset[str], seed: int) -> KindCurve:
    """Of one kind on one device."""
    points = sum(row["device"] == device for row in source.rows[kind])
    try:
        found = kind_table(source, kind, device=device)
    except MednError as error:
        return KindCurve(device, kind, points, 0, 0.0, None, reason_of(error))
    rows = some_layers(found.table, MOST_LAYERS, seed)
    judged = np.array([key not in chosen for key in found.points])[rows]
    growing = growing_errors(found.table.take(rows), seed, judged)
    layers = len(np.unique(found.table.groups))
    if not growing.sizes or not judged.any():
        return KindCurve(device, kind, points, layers, 0.0, None, f"too few layers: {layers}")
    curve = learning_curve(growing, found.noise.median if found.noise else None, seed)
    return KindCurve(device, kind, points, layers, float(points), replace(curve, layers=layers))


def some_layers(table: Table, most: int, seed: int) -> NDArray[np.bool_]:
    """The rows of at most so many layers of a table."""
    names, places = np.unique(table.groups, return_inverse=True)
    return np.isin(places, np.random.default_rng(seed).permutation(len(names))[:most])


def keep_curve(path: Path, curve: RunCurve) -> None:
    atomic_write(path / CURVE_FILE, json.dumps(curve.as_json(), indent=1).encode())


def kept_curve(path: Path) -> Mapping[str, Any] | None:
    """What `keep_curve` wrote, as JSON; None where nothing was kept."""
    file = path / CURVE_FILE
    if not file.is_file():
        return None
    try:
        written = json.loads(file.read_bytes())
        if not isinstance(written["kinds"], list):
            raise ValueError("it lists no kinds")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StoreError(f"{file} cannot be read ({reason_of(error)}). Make it again with: medn curve {path}") from None
    return dict(written)
