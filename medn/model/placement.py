"""How a model's layers run among one another, not alone: where they find their data, and what else they wait for.

How a whole model runs is learned from a few whole models that were measured, and kept in a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from medn.capture.values import CapturedModel
from medn.core.errors import StoreError, UsageError
from medn.core.table import Array
from medn.devices.cache import DEFAULT_CACHE_BYTES

if TYPE_CHECKING:
    from medn.model.prepared import PreparedModel
    from medn.predictor.predictor import Predictor

RIDGE = 1e-4
"""How much a share of 1 counts beside a relative error of 1: what the measurements cannot tell stays at nothing."""

COVERED = 0.9
FEWEST = 3
"""With fewer models nothing is left to teach when one of them is left out."""

Unknown = Literal["stretch", "conversion_share", "small_share", "large_share", "overhead_s"]
BOUNDS: Mapping[Unknown, tuple[float, float]] = {
    "stretch": (-0.5, 1.0),
    "conversion_share": (0.0, 1.0),
    "small_share": (0.0, 1.0),
    "large_share": (0.0, 1.0),
    "overhead_s": (0.0, math.inf),
}
"""What is fitted, and between which bounds: the stretch less 1, the overhead in times of a usual layer."""


@dataclass(frozen=True)
class Placement:
    """How much longer layers take, which share of what a cold cache adds, and what each takes beside its own time."""

    stretch: float = 1.0
    """How many times as long a layer runs as it does alone, called again and again."""
    conversion_share: float = 0.0
    """How much is left of the time in which layers convert layouts while they are alone; the rest does not count."""
    small_share: float = 0.0
    large_share: float = 0.0
    """The cold share of models that are much smaller and much larger than the cache; others lie between."""
    cache_bytes: float = DEFAULT_CACHE_BYTES
    overhead_s: float = 0.0
    error: float = 0.0
    """Within this share of their time lie nine of ten models that are predicted with what others taught."""

    def __post_init__(self) -> None:
        for name in ("conversion_share", "small_share", "large_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: must be from 0 to 1 (got {getattr(self, name)})")
        if not 0 < self.stretch < math.inf:
            raise UsageError(f"stretch: must be above 0 (got {self.stretch})")
        if not 0 < self.cache_bytes < math.inf:
            raise UsageError(f"cache_bytes: must be above 0 (got {self.cache_bytes})")
        for name in ("overhead_s", "error"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: must be a number from 0 on (got {getattr(self, name)})")

    def cold_share(self, working_bytes: float) -> float:
        """Of a model with so many bytes of weights and tensors.

        >>> Placement(small_share=0.0, large_share=0.8, cache_bytes=1000).cold_share(1000)
        0.4
        """
        return self.small_share + (self.large_share - self.small_share) * self.largeness(working_bytes)

    def largeness(self, working_bytes: float) -> float:
        return working_bytes / (working_bytes + self.cache_bytes)

    def save(self, path: str | Path) -> None:
        try:
            Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


HOT = Placement()
CONVERTED = Placement(conversion_share=1.0)
"""Every layer converts layouts as it does alone."""


def everywhere(cold_share: float) -> Placement:
    """The same cold share for every model."""
    if not 0 <= cold_share <= 1:
        raise UsageError(f"cold_share: must be from 0 to 1 (got {cold_share})")
    return Placement(small_share=cold_share, large_share=cold_share)


def load_placement(path: str | Path) -> Placement:
    """A placement as `Placement.save` wrote it; what it leaves out is as if layers ran alone."""
    names = [field.name for field in fields(Placement)]
    try:
        written: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a placement: {error}") from None
    if not isinstance(written, dict) or not written or not set(written) <= set(names):
        raise UsageError(f"{path}: not a placement: must be an object with some of {', '.join(names)}")
    if not all(type(value) in (int, float) for value in written.values()):
        raise UsageError(f"{path}: not a placement: every value must be a number")
    try:
        return Placement(**written)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def fit_placement(
    predictor: Predictor,
    measured: Iterable[tuple[CapturedModel | PreparedModel, float]],
    cache_bytes: float | None = None,
    unknowns: Collection[Unknown] = tuple(BOUNDS),
) -> Placement:
    """The placement under which whole models take as long as they were measured to, by least squares on the
    relative error. Left out, `cache_bytes` is the largest cache of the machine that was measured. What is not among the
    `unknowns` stays as if layers ran alone."""
    from medn.model.prepared import PreparedModel

    start = Placement(cache_bytes=cache_bytes or _known_cache_bytes(predictor))
    rows, rest = [], []
    for model, seconds in measured:
        if not 0 < seconds < math.inf:
            raise UsageError(f"measured seconds: must be above 0 (got {seconds})")
        prepared = model if isinstance(model, PreparedModel) else PreparedModel(predictor, model)
        rows.append([part_s / seconds for part_s in _parts_s(prepared, start)])
        rest.append(1 - prepared.predict().latency_s / seconds)
    if not rows:
        raise UsageError("a placement is fitted to measured models: give at least one")
    terms, missing = np.array(rows), np.array(rest)
    usual_s = float(1 / terms[:, -1].mean())  # the time of a layer, so that all unknowns are about 1
    terms[:, -1] *= usual_s
    terms[:, [name not in unknowns for name in BOUNDS]] = 0
    fitted = dict(zip(BOUNDS, _solved(terms, missing).tolist(), strict=True))
    fitted |= {"stretch": 1 + fitted["stretch"], "overhead_s": usual_s * fitted["overhead_s"]}
    return replace(start, **fitted, error=_left_out_error(terms, missing))


def taught_by_others(
    predictor: Predictor, measured: Sequence[tuple[PreparedModel, float]], unknowns: Collection[Unknown] = tuple(BOUNDS)
) -> Iterator[Placement]:
    """For each model the placement that all others teach: how far off a prediction is can be told by no other."""
    for place in range(len(measured)):
        yield fit_placement(predictor, [*measured[:place], *measured[place + 1 :]], unknowns=unknowns)


def _solved(terms: Array, missing: Array) -> Array:
    """The unknowns within their bounds, by least squares."""
    from scipy.optimize import lsq_linear

    low, high = zip(*BOUNDS.values(), strict=True)
    penalty = math.sqrt(RIDGE) * np.eye(len(BOUNDS))
    found = lsq_linear(np.vstack([terms, penalty]), np.append(missing, np.zeros(len(BOUNDS))), (low, high)).x
    return np.clip(found, low, high)


def _left_out_error(terms: Array, missing: Array) -> float:
    """The relative error that `COVERED` of the models stay below with what the others teach; 0 if they are few."""
    count = len(missing)
    if count < FEWEST:
        return 0.0
    errors = sorted(
        abs(float(missing[place] - terms[place] @ _solved(np.delete(terms, place, 0), np.delete(missing, place))))
        for place in range(count)
    )
    return errors[min(count, math.ceil(COVERED * (count + 1))) - 1]


def _parts_s(prepared: PreparedModel, start: Placement) -> tuple[float, ...]:
    """What each unknown adds to a model's seconds where it is 1, in the order of `BOUNDS`."""
    alone, cold, converted = (prepared.predict(placement=each) for each in (HOT, everywhere(1.0), CONVERTED))
    largeness, cold_s = start.largeness(alone.memory_bytes), cold.latency_s - alone.latency_s
    converting_s = converted.latency_s - alone.latency_s
    return alone.latency_s, converting_s, cold_s * (1 - largeness), cold_s * largeness, len(alone.layers)


def _known_cache_bytes(predictor: Predictor) -> float:
    """The largest cache among the machines of a bundle."""
    sizes = [
        size
        for environment in predictor.bundle.environments.values()
        for size in environment.get("cpu", {}).get("cache_bytes", {}).values()
    ]
    return max(sizes, default=DEFAULT_CACHE_BYTES)
