"""What is predicted, for one layer and for many.

Every quantity that is declared can be read as an attribute by its name, such as `memory_bytes`: None where it was not
measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import did_you_mean
from medn.core.notebook import MOST_ROWS, frame, html_table
from medn.core.outside import Outside, told
from medn.core.quantities import FURTHER
from medn.core.ranges import Flags
from medn.core.table import Array
from medn.core.units import format_latency, percent

if TYPE_CHECKING:
    import pandas

WORTH_MEASURING = 0.25
"""The uncertainty above which a layer is better measured, where one can."""


def _quantity(name: str) -> property:
    """An attribute for a quantity that is declared; None where it was not measured."""
    return property(lambda self: self.further.get(name), doc=FURTHER[name].label)


class _Latency(NamedTuple):
    latency_s: float
    low_s: float
    high_s: float
    """The latency lies between these two for a share `level` of layers like those that were measured."""
    level: float
    in_range: bool
    """Whether layers like this one were measured. If not, the latency is an extrapolation."""
    further: Mapping[str, float] = {}
    """Everything else that is predicted of it, by name."""


class Prediction(_Latency):
    """What one layer costs.

    >>> Prediction(2e-3, 1e-3, 3e-3, 0.9, True, {"memory_bytes": 4096.0}).memory_bytes
    4096.0
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> float | None:
        if name in self.further:
            return self.further[name]
        check_declared(self, name)
        return None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *FURTHER]

    def __hash__(self) -> int:
        return hash(self[:-1])

    @property
    def outside(self) -> tuple[Outside, ...]:
        """What of the query lies outside what was measured, and where the edge is; empty for a layer in range.

        Found out when it is asked for. Rows of a table that was pickled have lost it.
        """
        return ()

    @property
    def uncertainty(self) -> float:
        """How far off the latency may be, as a share of it: 0.1 where the interval reaches from 1/1.1 to 1.1 times."""
        return math.sqrt(self.high_s / self.low_s) - 1

    @property
    def should_measure(self) -> bool:
        """Whether an optimizer that can measure had better do so: unlike what was measured, or too uncertain."""
        return not self.in_range or self.uncertainty > WORTH_MEASURING

    def __repr__(self) -> str:
        interval = f"{format_latency(self.low_s)} to {format_latency(self.high_s)} at {percent(self.level)}"
        return f"<Prediction {format_latency(self.latency_s)} ({interval}), {self._place}>"

    def _repr_html_(self) -> str:
        return html_table(self._place, [_told(self)])

    @property
    def _place(self) -> str:
        """In words, whether it is in range."""
        if self.in_range:
            return "in range"
        return f"outside: {told(self.outside)}" if self.outside else "outside what was measured"

    def to_frame(self) -> pandas.DataFrame:
        """One row with all fields and quantities; needs pandas."""
        return frame([self._asdict()])

    def _asdict(self) -> dict[str, Any]:
        """All fields and quantities side by side."""
        return {**dict(zip(self._fields[:-1], self, strict=False)), **with_gaps(self.further)}

    def as_json(self) -> dict[str, Any]:
        """The same, and what lies outside."""
        return {**self._asdict(), "outside": [each.as_json() for each in self.outside]}


for _name in FURTHER:
    setattr(Prediction, _name, _quantity(_name))  # what is declared later is found by __getattr__, which takes longer

Explain = Callable[[], Sequence[Outside]]
ExplainRow = Callable[[int], Sequence[Outside]]


class OutsidePrediction(Prediction):
    """A prediction out of range: what lies outside is found out when it is asked for."""

    _explain: Explain = tuple

    @classmethod
    def of(cls, prediction: Prediction, explain: Explain) -> OutsidePrediction:
        found = cls._make(prediction)
        found._explain = explain
        return found

    @cached_property
    def outside(self) -> tuple[Outside, ...]:
        return tuple(self._explain())

    def __reduce__(self) -> Any:
        return _restored, (tuple(self), self.outside)


def _restored(values: tuple[Any, ...], outside: tuple[Outside, ...]) -> OutsidePrediction:
    return OutsidePrediction.of(Prediction._make(values), lambda: outside)


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """What many layers cost: arrays with one entry per row.

    >>> import medn
    >>> predictor = medn.load("runs/laptop/laptop.medn")
    >>> many = predictor.predict({"kind": "linear", "in_features": [64, 128, 9000], "out_features": 200})
    >>> many
    <Predictions of 3 layers, 1 of them outside what was measured>
    >>> many.in_range.tolist()
    [True, True, False]
    """

    latency_s: Array
    low_s: Array
    high_s: Array
    level: Array
    in_range: Flags
    further: Mapping[str, Array] = field(default_factory=dict)
    """By quantity, NaN for the kinds of which it was not measured; only those that were measured of some kind."""
    explain: ExplainRow | None = None
    """Tells what of a row lies outside what was measured, for `predictions[row].outside`."""

    @classmethod
    def empty(cls, rows: int, further: Iterable[str], explain: ExplainRow | None = None) -> Predictions:
        """Arrays to be filled, of further quantities with what is no number where nothing is said."""
        names = tuple(further)
        latency_s, low_s, high_s, level, *more = np.full((4 + len(names), rows), np.nan)
        found = object.__new__(
            cls
        )  # setting one field of a frozen class after the other takes as long as predicting a row
        found.__dict__.update(
            latency_s=latency_s,
            low_s=low_s,
            high_s=high_s,
            level=level,
            in_range=np.empty(rows, dtype=np.bool_),
            further=dict(zip(names, more, strict=True)),
            explain=explain,
        )
        return found

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """As the C engine fills them."""
        return (self.latency_s, self.low_s, self.high_s, self.level, self.in_range, *self.further.values())

    def __len__(self) -> int:
        return len(self.latency_s)

    def __getattr__(self, name: str) -> Array | None:
        if name == "further":  # an object that is not filled yet, as while it is copied
            raise AttributeError(name)
        if name in self.further:
            return self.further[name]
        check_declared(self, name)
        return None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *FURTHER]

    def __getitem__(self, row: int) -> Prediction:
        further = {name: column[row].item() for name, column in self.further.items()}
        found = Prediction._make((*(column[row].item() for column in self._latency.values()), further))
        explain = self.explain
        return found if found.in_range or not explain else OutsidePrediction.of(found, lambda: explain(row))

    def __getstate__(self) -> dict[str, Any]:
        """Numbers only: what explains them belongs to a predictor, which may not be able to travel."""
        return {**self.__dict__, "explain": None}

    def __iter__(self) -> Iterator[Prediction]:
        return (self[row] for row in range(len(self)))

    @property
    def uncertainty(self) -> Array:
        """As of one prediction."""
        return np.asarray(np.sqrt(self.high_s / self.low_s) - 1)

    @property
    def should_measure(self) -> Flags:
        """As of one prediction."""
        return np.asarray(~self.in_range | (self.uncertainty > WORTH_MEASURING))

    def __repr__(self) -> str:
        return f"<{self._caption}>"

    def _repr_html_(self) -> str:
        return html_table(self._caption, [_told(self[row]) for row in range(min(len(self), MOST_ROWS))], len(self))

    @property
    def _caption(self) -> str:
        outside = int((~self.in_range).sum())
        return f"Predictions of {len(self):,} layers, {outside:,} of them outside what was measured"

    def to_frame(self) -> pandas.DataFrame:
        """One row per layer, with the quantities that were measured of some kind; needs pandas."""
        return frame({name: values for name, values in self.columns.items() if values is not None})

    @property
    def columns(self) -> dict[str, NDArray[Any] | None]:
        """All arrays side by side; None for a quantity that was measured of no kind."""
        return {**self._latency, **with_gaps(self.further)}

    @property
    def _latency(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _Latency._fields[:-1]}


def _told(prediction: Prediction) -> dict[str, str]:
    """A prediction as people read it."""
    return {
        "latency": format_latency(prediction.latency_s),
        "from": format_latency(prediction.low_s),
        "to": format_latency(prediction.high_s),
        "level": percent(prediction.level) or "",
        "in range": "yes" if prediction.in_range else "no",
        **{FURTHER[name].label: FURTHER[name].formatted(value) for name, value in prediction.further.items()},
    }


def with_gaps(further: Mapping[str, Any]) -> dict[str, Any]:
    """Every quantity that is declared, with None for those that are not predicted."""
    return {name: further.get(name) for name in FURTHER}


def check_declared(owner: object, name: str) -> None:
    """What is no quantity is no attribute."""
    if name in FURTHER:
        return
    near = "" if name.startswith("_") else did_you_mean(name, [each for each in dir(owner) if each[0] != "_"])
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}.{near}")
