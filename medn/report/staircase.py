"""Latency staircases: what a typical layer would take while one of its sizes goes through all that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import ConfigError
from medn.core.table import Array, Table, as_inputs
from medn.core.values import Scalar
from medn.deployed.candidate import Candidate, deployed_of
from medn.estimator.prediction import Predictions
from medn.estimator.staircase import Staircase
from medn.layer_generators.kind import LayerKind
from medn.report.layers import layer_of, row_of
from medn.runs.inputs import InputChoice, input_columns
from medn.runs.tables import KindTable

STEPS = 256
MOST = 2
FEWEST_VALUES = 8
NEAR = 0.1
"""A measured layer is like the typical one if no other number differs by a larger share."""


@dataclass(frozen=True, eq=False)
class TypicalStaircase:
    """What a typical layer takes along one of its sizes, and layers that were measured near it."""

    staircase: Staircase
    near_values: Array
    near_s: Array
    """Measured layers that differ little from this one in anything else."""

    @property
    def parameter(self) -> str:
        return next(iter(self.staircase.varied))

    @property
    def values(self) -> Array:
        return self.staircase.varied[self.parameter]


def staircases(candidate: Candidate, source: KindTable) -> tuple[TypicalStaircase, ...]:
    """For the sizes whose tiles matter, else for those that vary most; none where the inputs do not tell the layer."""
    kind, table = source.layer_kind, source.table
    whole = [parameter.name for parameter in kind.parameters if parameter.type is int]
    sizes = [name for name in whole if name in table.schema.names]
    sizes = [name for name in sizes if len(np.unique(table.column(name))) >= FEWEST_VALUES]
    sizes.sort(key=lambda name: (name not in kind.tiled, -float(np.ptp(np.log1p(table.column(name))))))
    place = _typical_place(table)
    layer = layer_of(kind, candidate.facts.constants, row_of(table, place))
    if layer is None:
        return ()
    found = (_staircase(candidate, source, place, layer, name) for name in sizes[:MOST])
    return tuple(each for each in found if each)


def _staircase(
    candidate: Candidate, source: KindTable, place: int, layer: Mapping[str, Scalar], parameter: str
) -> TypicalStaircase | None:
    kind, table = source.layer_kind, source.table
    measured = table.column(parameter)
    steps = np.unique(np.round(np.linspace(measured.min(), measured.max(), STEPS + 1))).astype(int)
    values = np.array([value for value in steps if _is_possible(kind, {**layer, parameter: int(value)})])
    if len(values) < FEWEST_VALUES:
        return None
    typical = row_of(table, place)
    asked_for = {**layer, "device": typical.get("device", candidate.device)}
    columns = {name: np.full(len(values), value) for name, value in asked_for.items()} | {parameter: values}
    choice = InputChoice.from_config(candidate.facts.inputs)
    asked = input_columns(kind, columns, choice, sheets=candidate.facts.sheets, dtypes=candidate.facts.dtypes)
    # What the layer does not decide, such as probes and columns of the user's own, stays as it was measured.
    inputs = as_inputs({**typical, **asked}, table.schema)
    answer = deployed_of(candidate).answer(inputs)
    level = np.full(len(values), deployed_of(candidate).interval.guaranteed_level)
    predictions = Predictions(answer.value, answer.low, answer.high, level, answer.inside)
    fixed = {name: value for name, value in layer.items() if name != parameter}
    near = _near(table, place, list(fixed))
    staircase = Staircase(kind.name, fixed, {parameter: values.astype(np.float64)}, predictions)
    return TypicalStaircase(staircase, measured[near], table.target[near])


def _typical_place(table: Table) -> int:
    """The row nearest to the middle of all: of every number its median, of every category the usual one."""
    away = np.zeros(len(table))
    for name in table.schema.names:
        column = table.column(name)
        if name in table.schema.categories:
            codes, counts = np.unique(column, return_counts=True)
            away += column != codes[counts.argmax()]
        else:
            squeezed = np.log1p(np.abs(column))
            away += np.abs(squeezed - np.median(squeezed)) / max(float(squeezed.std()), 1e-9)
    return int(away.argmin())


def _is_possible(kind: LayerKind, layer: Mapping[str, Scalar]) -> bool:
    try:
        kind.layer(**{parameter.name: layer[parameter.name] for parameter in kind.parameters})
    except ConfigError:
        return False
    return True


def _near(table: Table, place: int, names: Sequence[str]) -> NDArray[np.bool_]:
    """Rows that are like one row in everything named."""
    near = np.ones(len(table), dtype=bool)
    for name in (name for name in names if name in table.schema.names):
        column = table.column(name)
        share = 0.0 if name in table.schema.categories else NEAR
        near &= np.abs(column - column[place]) <= share * abs(column[place])
    return near
