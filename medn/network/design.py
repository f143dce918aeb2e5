"""What a network looks like and how it is trained: plain values that settings and searches can name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from medn.core.errors import UsageError, unknown
from medn.core.quantities import FURTHER, all_quantities

SCALED_ROWS = 1_000
"""From so many rows on, factors of the columns are learned: fewer rows do not tell them."""


@dataclass(frozen=True)
class Design:
    """The shape of the encoder and its decoders."""

    width: int = 128
    """Of the representation that all decoders read."""
    parameter_limit: int = 100_000
    """Of the path to one kind's latency; a wider network is narrowed until it keeps to it."""
    blocks: int = 2
    hidden: int = 64
    """Of a block, between its two layers."""
    frequencies: int = 1
    """Sines and cosines per numeric input: more accurate, and a little slower to predict with."""
    frequency_spread: float = 0.1
    """Of the first, random frequencies, in waves per standard deviation of an input. They are learned from there on."""
    input_scale: bool = True
    """Whether a factor is learned for each column that enters, where rows are not few (`SCALED_ROWS`)."""
    residual: bool = True
    """Whether a block adds to the representation; otherwise it is one layer, as in a plain perceptron."""
    tasks: tuple[str, ...] = ("efficiency", "memory")
    """What is learned beside the latency. A task without data is left out."""
    task_weight: float | None = None
    """Of each task against the latency; None learns the weights."""


@dataclass(frozen=True)
class Schedule:
    """How a network is trained, for however many rows there are."""

    epochs: int = 40
    """Passes over a table of 5,000 rows or more; smaller tables are passed over more often, up to twice as often."""
    learning_rate: float = 1e-2
    weight_decay: float = 0.1
    """For a table of 30,000 rows or more; smaller ones, which are sooner learned by heart, up to ten times as much."""
    relative_share: float = 0.3
    """The last share of the training that learns by the relative error itself and no longer by the error of the log."""
    patience: float = 0.4
    """The share of the planned training after which no better validation error ends it."""

    def decay(self, rows: int) -> float:
        """
        >>> [round(Schedule().decay(rows), 2) for rows in (100, 300, 3_000, 30_000, 300_000)]
        [1.0, 1.0, 0.32, 0.1, 0.1]
        """
        return self.weight_decay * min(max(math.sqrt(30_000 / rows), 1.0), 10.0)

    def batch_rows(self, rows: int) -> int:
        return 1 << min(max(round(math.log2(1.5 * math.sqrt(rows))), 4), 9)

    def passes(self, rows: int) -> int:
        """More would learn small tables by heart: the validation error rises again before the learning rate is down.

        >>> [Schedule().passes(rows) for rows in (100, 1_000, 5_000, 100_000)]
        [80, 65, 40, 40]
        """
        return round(self.epochs * min(max(math.pow(5_000 / rows, 0.3), 1.0), 2.0))


DEFAULTS: Mapping[str, Any] = {**asdict(Design()), **asdict(Schedule())}

OWN_TASKS = ("efficiency", "quantiles", "reconstruction")
"""Those that need nothing but the latency and the inputs; the others learn quantities."""


SETTINGS: Mapping[str, Any] = {
    **{name: value for name, value in DEFAULTS.items() if name != "tasks"},
    **{task: task in DEFAULTS["tasks"] for task in (*OWN_TASKS, *(each.task for each in FURTHER.values()))},
}
"""All that can be set by a name of its own; every task is switched on or off."""

Value = TypeVar("Value", Design, Schedule)


def task_names() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*OWN_TASKS, *(each.task for each in all_quantities().values()))))


def from_settings(settings: Mapping[str, Any]) -> tuple[Design, Schedule]:
    """Both values from one flat mapping.

    >>> from_settings({"width": 64, "epochs": 10})[0].width
    64
    """
    names = task_names()
    for name in settings:
        if name not in DEFAULTS and name not in names:
            raise UsageError(unknown("network setting", name, {*DEFAULTS, *names}))
    tasks = dict.fromkeys(settings.get("tasks", DEFAULTS["tasks"]), True)
    tasks |= {task: settings[task] for task in names if task in settings}
    chosen = {**settings, "tasks": tuple(task for task, is_on in tasks.items() if is_on)}
    return _pick(Design, chosen), _pick(Schedule, chosen)


def _pick(owner: type[Value], settings: Mapping[str, Any]) -> Value:
    return owner(**{field.name: settings[field.name] for field in fields(owner) if field.name in settings})
