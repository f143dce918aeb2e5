"""What is predicted of a whole model, and how the intervals of layers become one of their sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from medn.capture.captured_model import CapturedModel, Guess
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.notebook import MOST_ROWS, frame, html_table
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.core.units import format_latency, percent
from medn.estimator.prediction import Predictions
from medn.model.composition import Composition

if TYPE_CHECKING:
    import pandas

COMMON = 0.5
"""The share of the variance of errors that all layers have in common, such as the state of the device."""


class _Row(NamedTuple):
    name: str
    kind: str | None
    """None where no layer kind knows the operator."""
    operator: str
    latency_s: float
    """Of all its runs, where it runs more than once."""
    low_s: float
    high_s: float
    share: float
    """Of the time of the whole model."""
    in_range: bool
    known: bool
    """Whether the bundle predicts it. If not, the time is that of moving its bytes and of its arithmetic."""
    streaming: bool
    """Whether it takes as long as memory needs to give it what the caches cannot hold, not what was learned."""
    further: Mapping[str, float | None]
    """Quantities that add up, by name, such as `energy_j`; None where it is not predicted."""


class LayerRow(_Row):
    """What one layer of a model costs."""

    __slots__ = ()

    def __getattr__(self, name: str) -> float | None:
        return _further(self, name)

    def __hash__(self) -> int:
        return hash(self[:-1])

    def _asdict(self) -> dict[str, Any]:
        return {**dict(zip(self._fields[:-1], self, strict=False)), **self.further}

    @property
    def what(self) -> str:
        """For people: the members of a group that runs as one, the kind, or the operator where no kind knows it."""
        return self.operator if self.kind is None or "+" in self.operator else self.kind


class UnknownRow(NamedTuple):
    """Layers of one operator and kind that the bundle does not predict, and their shares of the whole model."""

    operator: str
    kind: str | None
    layers: int
    time_share: float
    flops_share: float
    bytes_share: float


@dataclass(frozen=True, eq=False, repr=False)
class ModelPrediction:
    """What a model costs, in all and layer by layer.

    >>> import medn, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(200, 100), torch.nn.ReLU(), torch.nn.Linear(100, 100))
    >>> prediction = medn.load("runs/laptop/laptop.medn").model(net, torch.zeros(8, 200))
    >>> [(row.name, row.kind, row.known) for row in prediction.rows]
    [('0', 'linear', True), ('1', 'activation', True), ('2', 'linear', True)]
    >>> prediction.low_s < prediction.latency_s < prediction.high_s
    True
    """

    latency_s: float
    low_s: float
    high_s: float
    unlike_s: float
    """How far off layers may make it that are outside of what was measured, or not predicted at all."""
    batch_doublings: float
    """How often the nearest batch size that was fitted must be doubled or halved; 0 where nothing was fitted."""
    level: float
    """What the intervals of the layers promise; for the whole model nothing was measured that could."""
    weight_bytes: int
    peak_activation_bytes: float
    further: Mapping[str, float | None]
    """Quantities that add up, by name, such as `energy_j`. None unless that of every predicted layer is known; others
    are taken to draw the same power."""
    batch_size: int
    utilization: float
    cold_share: float
    composition: Composition
    """How the times of its layers were composed."""
    captured: CapturedModel
    layers: Predictions
    """Arrays with one entry per layer, in the order in which they run."""
    known: Flags
    streaming: Flags
    """Layers that are predicted by how fast memory can be read: more than the caches hold cannot be found there."""
    generic: str
    """How the time of layers that the bundle does not predict was estimated."""

    def __getattr__(self, name: str) -> float | None:
        return _further(self, name)

    @property
    def guesses(self) -> int:
        """How many values were guessed when the model was captured; with another answer its work may be another."""
        return self.captured.guesses

    @property
    def guessed(self) -> tuple[Guess, ...]:
        """Where, and what was taken for them."""
        return self.captured.guessed

    @property
    def memory_bytes(self) -> float:
        """Its weights, and the most that its tensors hold at once."""
        return self.weight_bytes + self.peak_activation_bytes

    @property
    def shares(self) -> Array:
        """Of the time of the whole model, for each layer."""
        return self.layers.latency_s / max(self.latency_s, np.finfo(float).tiny)

    @property
    def unknown_share(self) -> float:
        """Of the time: layers that the bundle does not predict."""
        return float(self.shares[~self.known].sum())

    @property
    def outside_share(self) -> float:
        """Of the time: layers it predicts that are unlike those that were measured."""
        return float(self.shares[self.known & ~self.layers.in_range].sum())

    @property
    def unmeasured_share(self) -> float:
        """Of the time: layers of known kinds that are extrapolated or not predicted, and that a sweep could measure."""
        measurable = [layer.layer is not None and layer.dtype in ELEMENT_BYTES for layer in self.captured.layers]
        return float(self.shares[np.array(measurable, dtype=np.bool_) & ~(self.known & self.layers.in_range)].sum())

    @property
    def streaming_share(self) -> float:
        """Of the time: layers that take as long as memory needs to give them their data."""
        return float(self.shares[self.streaming].sum())

    @cached_property
    def rows(self) -> tuple[LayerRow, ...]:
        """One for each layer, in the order in which they run."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[LayerRow]:
        flags = zip(self.known.tolist(), self.streaming.tolist(), strict=True)
        for captured, predicted, share, (known, streaming) in zip(
            self.captured.layers, self.layers, self.shares.tolist(), flags, strict=True
        ):
            yield LayerRow(
                captured.name,
                captured.layer.kind if captured.layer else None,
                captured.operator,
                predicted.latency_s,
                predicted.low_s,
                predicted.high_s,
                share,
                predicted.in_range,
                known,
                streaming,
                {name: _known(predicted.further.get(name)) for name in self.further},
            )

    @cached_property
    def unknown(self) -> tuple[UnknownRow, ...]:
        """The layers that the bundle does not predict, those that take longest first."""
        flops, moved = max(self.captured.flops, 1), max(self.captured.moved_bytes, 1)
        groups: dict[tuple[str, str | None], UnknownRow] = {}
        for layer, row in zip(self.captured.layers, self.rows, strict=True):
            if not row.known:
                before = groups.get((row.operator, row.kind), UnknownRow(row.operator, row.kind, 0, 0.0, 0.0, 0.0))
                groups[row.operator, row.kind] = before._replace(
                    layers=before.layers + 1,
                    time_share=before.time_share + row.share,
                    flops_share=before.flops_share + layer.flops * layer.repeats / flops,
                    bytes_share=before.bytes_share + layer.moved_bytes * layer.repeats / moved,
                )
        return tuple(sorted(groups.values(), key=lambda row: -row.time_share))

    def __repr__(self) -> str:
        return f"<ModelPrediction of {self._caption}>"

    def _repr_html_(self) -> str:
        """The layers that take longest; all of them, in their order, are in `to_frame`."""
        longest = sorted(self.rows, key=lambda row: -row.latency_s)[:MOST_ROWS]
        return html_table(self._caption, [_told(row) for row in longest], len(self.rows))

    @property
    def _caption(self) -> str:
        interval = f"{format_latency(self.low_s)} to {format_latency(self.high_s)}"
        in_range = percent(float(self.shares[self.known & self.layers.in_range].sum()))
        what = f"{len(self.captured.layers):,} layers at batch size {self.batch_size}"
        return f"{what}: {format_latency(self.latency_s)} ({interval}), {in_range} of it in range"

    def to_frame(self) -> pandas.DataFrame:
        """One row per layer, in the order in which they run; needs pandas."""
        return frame([row._asdict() for row in self.rows])

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values, as `medn predict BUNDLE MODEL --json` prints it."""
        totals = ("latency_s", "low_s", "high_s", "level", "unlike_s", "batch_doublings")
        conditions = ("batch_size", "utilization", "cold_share")
        memory = ("weight_bytes", "peak_activation_bytes", "memory_bytes")
        shares = ("unknown_share", "outside_share", "streaming_share")
        return {
            **{name: getattr(self, name) for name in (*totals, *conditions, *memory, *shares, "generic")},
            **self.further,
            "notes": list(self.captured.notes),
            "composition": asdict(self.composition),
            "guesses": self.guesses,
            "guessed": [asdict(guess) for guess in self.guessed],
            "unknown": [row._asdict() for row in self.unknown],
            "layers": [row._asdict() for row in self.rows],
        }


def _told(row: LayerRow) -> dict[str, str | None]:
    """A layer as people read it."""
    return {
        "layer": row.name,
        "what": row.what,
        "latency": format_latency(row.latency_s),
        "share": percent(row.share),
        "in range": "yes" if row.in_range else "no" if row.known else "not predicted",
    }


def _further(owner: LayerRow | ModelPrediction, name: str) -> float | None:
    """An attribute that is a quantity."""
    if name != "further" and name in owner.further:
        return owner.further[name]
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")


def _known(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else value


def combined(errors: Array) -> float:
    """The error of a sum whose parts have these errors, a share `COMMON` of their variance being common to all.

    Fully independent errors add up in quadrature, common ones as they are; this lies between the two.

    >>> round(combined(np.array([3.0, 4.0])), 2)     # between 5 and 7
    6.08
    """
    return float(np.sqrt(COMMON * errors.sum() ** 2 + (1 - COMMON) * (errors**2).sum()))
