"""How a model's layers run among one another, not alone: where they find their data, and what else they wait for.

How a whole model runs is learned from a few whole models that were measured, and kept in a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from medn.capture.captured_model import CapturedModel
from medn.core.errors import StoreError, UsageError
from medn.devices.cache import DEFAULT_CACHE_BYTES

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor
    from medn.model.prepared_model import PreparedModel

COVERED = 0.9
FEWEST = 3
"""With fewer networks nothing is left to teach when one of them is left out."""

BATCH_ERROR = 0.1
"""How far off a model is for each doubling of its batch size beyond those that taught, where these cannot tell: between
what was found on torch (0.07) and on ONNX Runtime (0.17), see docs/results.md."""

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
    """Within this share of their prediction lie nine of ten models whose like taught, when others teach."""
    smallest_batch: float = 1.0
    largest_batch: float = 1.0
    """Between these batch sizes lie the models that taught."""
    batch_error: float = BATCH_ERROR
    """What each doubling of the batch size beyond these adds to the error."""

    def __post_init__(self) -> None:
        for name in ("conversion_share", "small_share", "large_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: must be from 0 to 1 (got {getattr(self, name)})")
        if not 0 < self.stretch < math.inf:
            raise UsageError(f"stretch: must be above 0 (got {self.stretch})")
        if not 0 < self.cache_bytes < math.inf:
            raise UsageError(f"cache_bytes: must be above 0 (got {self.cache_bytes})")
        for name in ("smallest_batch", "largest_batch"):
            if not 1 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}: must be a number from 1 on (got {getattr(self, name)})")
        for name in ("overhead_s", "error", "batch_error"):
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

    def doublings(self, batch_size: float) -> float:
        """How often the nearest batch size that taught must be doubled or halved to be this one.

        >>> [Placement(smallest_batch=2, largest_batch=8).doublings(size) for size in (1, 2, 6, 8, 32)]
        [1.0, 0.0, 0.0, 0.0, 2.0]
        """
        return max(math.log2(batch_size / self.largest_batch), math.log2(self.smallest_batch / batch_size), 0.0)

    def error_s(self, latency_s: float, unlike_s: float, batch_size: float) -> float:
        """How far off a model is: as those that taught, by what is unlike them, and by its batch size.

        The three have nothing to do with one another, so they add up in quadrature.
        """
        return math.hypot(self.error * latency_s, unlike_s, self.batch_error * self.doublings(batch_size) * latency_s)

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
    predictor: LayerPredictor,
    measured: Iterable[tuple[CapturedModel | PreparedModel, float]],
    cache_bytes: float | None = None,
    unknowns: Collection[Unknown] = tuple(BOUNDS),
    networks: Sequence[Hashable] | None = None,
) -> Placement:
    """The placement under which whole models take as long as they were measured to, by least squares on the
    relative error. Left out, `cache_bytes` is the largest cache of the machine that was measured. What is not among the
    `unknowns` stays as if layers ran alone. `networks` says which of the models are one network at several batch
    sizes; left out, each is another one."""
    from medn.model.fit_composition import batch_error, learn, model_error

    lessons = learn(predictor, measured, cache_bytes, unknowns, networks)
    everyone = np.ones(len(lessons.seconds), dtype=np.bool_)
    sizes = lessons.batch_sizes
    fitted = replace(lessons.taught(everyone), smallest_batch=float(sizes.min()), largest_batch=float(sizes.max()))
    if len(set(lessons.networks)) < FEWEST:
        return fitted
    error = model_error(lessons)
    return replace(fitted, error=error, batch_error=batch_error(lessons, error))


def taught_by_others(
    predictor: LayerPredictor,
    measured: Sequence[tuple[PreparedModel, float]],
    unknowns: Collection[Unknown] = tuple(BOUNDS),
    networks: Sequence[Hashable] | None = None,
) -> Iterator[Placement]:
    """For each model the placement that all other networks teach: how far off a prediction is can be told by no
    other."""
    names = list(range(len(measured)) if networks is None else networks)
    found: dict[Hashable, Placement] = {}
    for name in names:
        if name not in found:
            others = [place for place, other in enumerate(names) if other != name]
            found[name] = fit_placement(
                predictor, [measured[place] for place in others], None, unknowns, [names[place] for place in others]
            )
        yield found[name]
