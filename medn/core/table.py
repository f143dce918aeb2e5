"""The table a regressor learns from: one row per measured point, every input a number.

Categories (a function's name, a device) are columns of codes, with the names beside them. Rows that belong to one
layer share a group, so that a split can keep them on one side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import LONGEST_TEXT, check_name
from medn.core.errors import UsageError, unknown

Array = NDArray[np.float64]

MOST_INPUTS = 4_096
MOST_TEXTS = 16_384


FORMER_INPUTS = {"moved_bytes": "memory_bytes"}
"""What earlier versions called inputs. What they wrote is read under the names of today; keys are made with the former
names, so that they stay."""

NAMES_OF_TODAY = {former: today for today, former in FORMER_INPUTS.items()}


def former_name(name: str) -> str:
    return FORMER_INPUTS.get(name, name)


def name_of_today(name: str) -> str:
    """
    >>> name_of_today("memory_bytes"), name_of_today("flops")
    ('moved_bytes', 'flops')
    """
    return NAMES_OF_TODAY.get(name, name)


@dataclass(frozen=True)
class Schema:
    """The inputs a regressor takes: their order, and the names behind the codes of the categorical ones."""

    names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def index(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise UsageError(unknown("input", name, self.names)) from None

    def check(self) -> None:
        """That every input has a name of its own and every category its strings. Raises a ValueError."""
        for name in self.names:
            check_name("the name of an input", name)
        if not 0 < len(set(self.names)) == len(self.names) <= MOST_INPUTS:
            raise ValueError(f"there must be 1 to {MOST_INPUTS} inputs, each with a name of its own")
        if not set(self.categories) <= set(self.names):
            raise ValueError("categories must belong to inputs")
        strings = [text for known in self.categories.values() for text in known]
        if (
            not all(isinstance(text, str) and len(text) <= LONGEST_TEXT for text in strings)
            or len(strings) > MOST_TEXTS
        ):
            raise ValueError(
                f"there must be at most {MOST_TEXTS} categories, each a string of up to {LONGEST_TEXT} letters"
            )

    @property
    def numeric(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.categories)


@dataclass(frozen=True, eq=False)
class Table:
    """Inputs of many points, what is learned of them, and what else was measured.

    >>> schema = Schema(("flops", "function"), {"function": ("relu", "tanh")})
    >>> table = Table(schema, np.array([[1e6, 0], [2e6, 1]]), np.array([1e-3, 2e-3]), np.array(["a", "b"]))
    >>> table.column("flops").tolist()
    [1000000.0, 2000000.0]
    """

    schema: Schema
    inputs: Array
    """One row per point, one column per name of the schema. Values fit float32, so deployed forms see the same ones."""
    target: Array
    """What is learned, above 0: the latency in seconds, or another quantity in its unit."""
    groups: NDArray[np.str_]
    """The layer of each row."""
    further: Mapping[str, Array] = field(default_factory=dict)
    """Further measured columns, such as `latency_p90_s` or `memory_bytes`; NaN where a row has none."""
    sources: Any = None
    """What is known of such layers on other devices: `medn.regressors.sources.Sources`, to be leaned on."""
    source_logs: Array | None = None
    """What each of these says of each row, as the logarithm of seconds: a column for each."""

    def __post_init__(self) -> None:
        rows = len(self.inputs)
        if self.inputs.shape != (rows, len(self.schema.names)):
            raise ValueError(f"inputs have the shape {self.inputs.shape}, the schema {len(self.schema.names)} names")
        if not all(len(column) == rows for column in (self.target, self.groups, *self.further.values())):
            raise ValueError("every column needs one entry per row")

    def __len__(self) -> int:
        return len(self.inputs)

    def column(self, name: str) -> Array:
        return self.inputs[:, self.schema.index(name)]

    def take(self, rows: NDArray[np.int_] | NDArray[np.bool_]) -> Table:
        return Table(
            self.schema,
            self.inputs[rows],
            self.target[rows],
            self.groups[rows],
            {name: column[rows] for name, column in self.further.items()},
            self.sources,
            None if self.source_logs is None else self.source_logs[rows],
        )


def joined(tables: Sequence[Table]) -> Table:
    """The rows of tables alike, one table after the other."""
    first, *_ = tables
    logs = [each.source_logs for each in tables if each.source_logs is not None]
    return Table(
        first.schema,
        np.concatenate([each.inputs for each in tables]),
        np.concatenate([each.target for each in tables]),
        np.concatenate([each.groups for each in tables]),
        {name: np.concatenate([each.further[name] for each in tables]) for name in first.further},
        first.sources,
        np.concatenate(logs) if logs else None,
    )


def as_inputs(columns: Mapping[str, Any], schema: Schema) -> Array:
    """Columns in the schema's order as one array of numbers that fit float32; categories become codes.

    A category the schema does not know becomes -1, which no regressor has seen: the range check flags it.
    """
    rows = max((np.size(columns[name]) for name in schema.names), default=0)
    inputs = np.empty((rows, len(schema.names)), dtype=np.float32)
    for place, name in enumerate(schema.names):
        if name in schema.categories:
            codes = {category: code for code, category in enumerate(schema.categories[name])}
            values = np.atleast_1d(np.asarray(columns[name])).tolist()
            inputs[:, place] = [codes.get(str(value), -1) for value in values]
        else:
            inputs[:, place] = columns[name]
    return inputs.astype(np.float64)
