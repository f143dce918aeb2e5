"""Which inputs move the predictions of a kind, and over which parameters they err."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.conditions import CONDITIONS
from medn.core.intervals import log_errors
from medn.core.table import Array, Table
from medn.core.units import format_number
from medn.layer_generators.kind import LayerKind

REPEATS = 2
MOST_ROWS = 200
"""Enough rows to see which inputs matter."""

ROWS_PER_CELL = 4
FEWEST_IN_CELL = 2
MOST_BINS = 6
SAME_ORDER = 0.9
"""Two parameters whose ranks agree more than this show the same thing twice."""


@dataclass(frozen=True)
class Importance:
    """How much worse predictions become when one input is shuffled among the rows."""

    name: str
    growth: float
    """Of the typical relative error."""


def importances(predict: Callable[[Array], Array], table: Table, seed: int = 0) -> tuple[Importance, ...]:
    """Every input, the most important first."""
    random = np.random.default_rng(seed)
    rows = random.permutation(len(table))[:MOST_ROWS]
    inputs, measured_s = table.inputs[rows], table.target[rows]

    def typical_error(changed: Array) -> float:
        return float(np.expm1(log_errors(predict(changed), measured_s).mean()))

    usual = typical_error(inputs)
    inputs_by_importance = []
    for column, name in enumerate(table.schema.names):
        errors = []
        for _ in range(REPEATS):
            shuffled = inputs.copy()
            shuffled[:, column] = random.permutation(shuffled[:, column])
            errors.append(typical_error(shuffled))
        inputs_by_importance.append(Importance(name, float(np.mean(errors)) - usual))
    return tuple(sorted(inputs_by_importance, key=lambda importance: -importance.growth))


@dataclass(frozen=True, eq=False)
class HeatMap:
    """The usual error, with its sign, over two parameters; NaN where too few rows were tested."""

    names: tuple[str, str]
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    errors: Array
    """predicted / measured - 1: rows follow the first parameter, columns the second."""
    counts: NDArray[np.int_]


def heat_map(table: Table, predicted_s: Array, names: tuple[str, str]) -> HeatMap:
    bins = int(np.clip(np.sqrt(len(table) / ROWS_PER_CELL), 2, MOST_BINS))
    (first, first_labels), (second, second_labels) = (binned(table.column(name), bins) for name in names)
    errors = predicted_s / table.target - 1
    shape = (len(first_labels), len(second_labels))
    medians, counts = np.full(shape, np.nan), np.zeros(shape, dtype=int)
    for cell in np.ndindex(shape):
        inside = (first == cell[0]) & (second == cell[1])
        counts[cell] = inside.sum()
        if counts[cell] >= FEWEST_IN_CELL:
            medians[cell] = np.median(errors[inside])
    return HeatMap(names, (first_labels, second_labels), medians, counts)


def binned(values: Array, most: int) -> tuple[NDArray[np.int_], tuple[str, ...]]:
    """The bin of each value, bins holding about as many rows each, and the name of each bin.

    >>> binned(np.array([1.0, 2.0, 3.0, 50.0]), 2)[1]
    ('1-2', '3-50')
    """
    starts = np.unique(values)
    if len(starts) > most:
        starts = np.unique(np.quantile(values, np.arange(most) / most, method="higher"))
    bins = np.searchsorted(starts, values, side="right") - 1
    ends = [(values[bins == number].min(), values[bins == number].max()) for number in range(len(starts))]
    labels = tuple(
        format_number(low) if low == high else f"{format_number(low)}-{format_number(high)}" for low, high in ends
    )
    return bins, labels


def heat_map_names(kind: LayerKind, table: Table, by_importance: Sequence[Importance]) -> tuple[str, str] | None:
    """The two numbers of a layer that matter most and do not rise and fall together; None where there are not two."""
    shown = {parameter.name for parameter in kind.parameters if parameter.type is int}
    shown |= set(CONDITIONS)
    numeric = [
        importance.name
        for importance in by_importance
        if importance.name in shown and importance.name in table.schema.numeric
    ]
    varying = [name for name in numeric if len(np.unique(table.column(name))) > 1]
    for second in varying[1:]:
        first_ranks, second_ranks = (table.column(name).argsort().argsort() for name in (varying[0], second))
        if abs(np.corrcoef(first_ranks, second_ranks)[0, 1]) < SAME_ORDER:
            return varying[0], second
    return None
