"""Where a model's layers find their data: in the cache, as when they are measured alone, or in memory.

How a whole model runs is learned from a few whole models that were measured, and kept in a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medn.capture.values import CapturedModel
from medn.core.errors import StoreError, UsageError
from medn.devices.cache import DEFAULT_CACHE_BYTES

if TYPE_CHECKING:
    from medn.predictor.predictor import Predictor

RIDGE = 1e-4
"""How much a share of 1 counts beside a relative error of 1: what the measurements cannot tell stays at nothing."""


@dataclass(frozen=True)
class Placement:
    """Which share of a model's layers runs as from a cold cache, and what each of them takes beside its own time."""

    small_share: float = 0.0
    large_share: float = 0.0
    """The cold share of models that are much smaller and much larger than the cache; others lie between."""
    cache_bytes: float = DEFAULT_CACHE_BYTES
    overhead_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("small_share", "large_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: must be from 0 to 1 (got {getattr(self, name)})")
        if not 0 < self.cache_bytes < math.inf:
            raise UsageError(f"cache_bytes: must be above 0 (got {self.cache_bytes})")
        if not 0 <= self.overhead_s < math.inf:
            raise UsageError(f"overhead_s: must be a number from 0 on (got {self.overhead_s})")

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


def everywhere(cold_share: float) -> Placement:
    """The same cold share for every model."""
    if not 0 <= cold_share <= 1:
        raise UsageError(f"cold_share: must be from 0 to 1 (got {cold_share})")
    return Placement(cold_share, cold_share)


def load_placement(path: str | Path) -> Placement:
    """A placement as `Placement.save` wrote it."""
    names = [field.name for field in fields(Placement)]
    try:
        written: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a placement: {error}") from None
    if not isinstance(written, dict) or sorted(written) != sorted(names):
        raise UsageError(f"{path}: not a placement: must be an object with {', '.join(names)}")
    if not all(type(value) in (int, float) for value in written.values()):
        raise UsageError(f"{path}: not a placement: every value must be a number")
    try:
        return Placement(**written)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def fit_placement(
    predictor: Predictor,
    measured: Iterable[tuple[CapturedModel, float]],
    cache_bytes: float | None = None,
) -> Placement:
    """The placement under which whole models take as long as they were measured to, by least squares on the
    relative error. Left out, `cache_bytes` is the largest cache of the machine that was measured."""
    from scipy.optimize import lsq_linear

    from medn.model.prepared import PreparedModel

    start = Placement(cache_bytes=cache_bytes or _known_cache_bytes(predictor))
    rows = []
    for model, seconds in measured:
        if not 0 < seconds < math.inf:
            raise UsageError(f"measured seconds: must be above 0 (got {seconds})")
        prepared = PreparedModel(predictor, model)
        hot, cold = prepared.predict(), prepared.predict(placement=everywhere(1.0))
        largeness, added_s = start.largeness(hot.memory_bytes), cold.latency_s - hot.latency_s
        parts_s = [added_s * (1 - largeness), added_s * largeness, len(model.layers), seconds - hot.latency_s]
        rows.append(np.array(parts_s) / seconds)
    if not rows:
        raise UsageError("a placement is fitted to measured models: give at least one")
    terms, rest = np.array(rows)[:, :3], np.array(rows)[:, 3]
    usual_s = 1 / terms[:, 2].mean()  # the time of a layer, so that all three unknowns are about 1
    terms[:, 2] *= usual_s
    penalty = math.sqrt(RIDGE) * np.eye(3)
    found = lsq_linear(np.vstack([terms, penalty]), np.append(rest, np.zeros(3)), (0, [1, 1, np.inf])).x
    small_share, large_share, overheads = np.clip(found, 0, [1, 1, np.inf]).tolist()
    return replace(start, small_share=small_share, large_share=large_share, overhead_s=overheads * usual_s)


def _known_cache_bytes(predictor: Predictor) -> float:
    """The largest cache among the machines of a bundle."""
    sizes = [
        size
        for environment in predictor.bundle.environments.values()
        for size in environment.get("cpu", {}).get("cache_bytes", {}).values()
    ]
    return max(sizes, default=DEFAULT_CACHE_BYTES)
