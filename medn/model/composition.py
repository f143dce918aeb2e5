"""How the times of layers compose into the time of a model: alone they find their data in the cache and wait for
nothing. What running among others adds is fitted to a few whole models (`fit_composition.py`), and kept in a file.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from medn.core.environment import DEFAULT_CACHE_BYTES
from medn.core.errors import StoreError, UsageError
from medn.core.intervals import LEVEL
from medn.core.units import format_latency, percent

BATCH_ERROR = 0.1
"""How far off a model is for each doubling of its batch size beyond those that were fitted, where these cannot tell:
between what was found on torch (0.07) and on ONNX Runtime (0.17), see docs/results.md."""


@dataclass(frozen=True)
class Composition:
    """What layers take among others: a factor on what they take alone, part of what a cold cache adds, an overhead."""

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
    """Relative to the prediction: a share `level` of models of networks that were left out of the fit lie within."""
    smallest_batch: float = 1.0
    largest_batch: float = 1.0
    """The batch sizes of the models that were fitted."""
    batch_error: float = BATCH_ERROR
    """What each doubling of the batch size beyond these adds to the error."""
    elsewhere: bool = False
    """Fitted to layers that another bundle predicts: the errors of this bundle's layers add to its own."""
    level: float = LEVEL
    """That of the intervals of the bundle whose layers were fitted."""

    def __post_init__(self) -> None:
        for name in ("conversion_share", "small_share", "large_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: must be from 0 to 1 (got {getattr(self, name)})")
        if not 0 < self.stretch < math.inf:
            raise UsageError(f"stretch: must be above 0 (got {self.stretch})")
        if not 0 < self.cache_bytes < math.inf:
            raise UsageError(f"cache_bytes: must be above 0 (got {self.cache_bytes})")
        if not 0 < self.level < 1:
            raise UsageError(f"level: must be between 0 and 1 (got {self.level})")
        for name in ("smallest_batch", "largest_batch"):
            if not 1 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: must be a number from 1 on (got {getattr(self, name)})")
        for name in ("overhead_s", "error", "batch_error"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: must be a number from 0 on (got {getattr(self, name)})")

    def cold_share(self, working_bytes: float) -> float:
        """The share of a cold cache in a model with so many bytes of weights and tensors.

        >>> Composition(small_share=0.0, large_share=0.8, cache_bytes=1000).cold_share(1000)
        0.4
        """
        return self.small_share + (self.large_share - self.small_share) * self.largeness(working_bytes)

    def largeness(self, working_bytes: float) -> float:
        return working_bytes / (working_bytes + self.cache_bytes)

    def doublings(self, batch_size: float) -> float:
        """How often the nearest batch size that was fitted must be doubled or halved to be this one.

        >>> [Composition(smallest_batch=2, largest_batch=8).doublings(size) for size in (1, 2, 6, 8, 32)]
        [1.0, 0.0, 0.0, 0.0, 2.0]
        """
        return max(math.log2(batch_size / self.largest_batch), math.log2(self.smallest_batch / batch_size), 0.0)

    def error_s(self, latency_s: float, unlike_s: float, batch_size: float) -> float:
        """The error of a model: of the fit, of layers unlike those fitted, and of its batch size.

        The three are independent, so they add up in quadrature.
        """
        return math.hypot(self.error * latency_s, unlike_s, self.batch_error * self.doublings(batch_size) * latency_s)

    @property
    def sentence(self) -> str:
        stretched = f"{self.stretch:.2f} times as long as alone, {format_latency(self.overhead_s)} more each"
        shares = f"{percent(self.small_share)} (small models) to {percent(self.large_share)} (large ones)"
        return f"layers take {stretched}, and {shares} of what a cold cache adds"

    def save(self, path: str | Path) -> None:
        """Write it as JSON, for `load_composition`."""
        try:
            Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


HOT = Composition()
CONVERTED = Composition(conversion_share=1.0)
"""Every layer converts layouts as it does alone."""


def everywhere(cold_share: float) -> Composition:
    """The same cold share for every model."""
    if not 0 <= cold_share <= 1:
        raise UsageError(f"cold_share: must be from 0 to 1 (got {cold_share})")
    return Composition(small_share=cold_share, large_share=cold_share)


def load_composition(path: str | Path) -> Composition:
    """A composition as `Composition.save` or `medn compose` wrote it; what it leaves out is as if layers ran alone.

    >>> Composition(stretch=1.1, overhead_s=2e-6).save("composition.json")
    >>> load_composition("composition.json").stretch
    1.1
    """
    try:
        content: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not a composition: {error}") from None
    return composition_from(content, str(path))


def composition_from(content: Any, source: str) -> Composition:
    """The same from what a file holds; `source` is what errors call it."""
    names = [field.name for field in fields(Composition)]
    if not isinstance(content, dict) or not content or not set(content) <= set(names):
        raise UsageError(f"{source}: not a composition: must be an object with some of {', '.join(names)}")
    if not all(type(value) in ((bool,) if name == "elsewhere" else (int, float)) for name, value in content.items()):
        raise UsageError(f"{source}: not a composition: every value must be a number, and elsewhere true or false")
    try:
        return Composition(**content)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
