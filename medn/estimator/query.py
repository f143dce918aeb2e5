"""What may be asked about a layer kind: which columns, with which values, and what stands where a query is silent.

Columns are checked all at once; only to say what is wrong, and where, is a row looked at by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.conditions import CONDITIONS, with_dtypes
from medn.core.dtypes import ELEMENT_BYTES, NO_DTYPES
from medn.core.errors import UsageError, unknown_names
from medn.core.parameters import Parameter, by_name
from medn.core.text import shown
from medn.core.values import Condition, Scalar
from medn.estimator.columns import Column, Given, plain_value, value_at
from medn.estimator.rules import keeps_rules
from medn.layer_generators.kind import LayerKind
from medn.program.engines import Machine, machine
from medn.program.symbols import NOT_TRACED, Symbol, traced


class Wrong(UsageError):
    """What is wrong with a query, and in which of its rows."""

    def __init__(self, sentence: str, row: int | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.row = row


class Query:
    """The columns of one layer kind."""

    def __init__(self, kind: LayerKind, usual: Mapping[str, Scalar], dtypes: Mapping[str, float] = NO_DTYPES) -> None:
        self.kind = kind
        self.element_bytes = {**ELEMENT_BYTES, **dtypes}
        usual = Condition().values | dict(usual)
        table = with_dtypes(dtypes)
        self.conditions = {name: table.get(name) or _declared(name, value) for name, value in usual.items()}
        for name, parameter in self.conditions.items():
            mistake = parameter.mistake(usual[name])
            if mistake:
                told = shown(usual[name])
                raise UsageError(f"the bundle says of {kind.name} that {shown(name)} usually is {told}: {mistake}")
        self.parameters = by_name(*kind.parameters) | self.conditions
        self.defaults = {each.name: each.default for each in kind.parameters if each.default is not None} | usual
        self.names = (*kind.names, *self.conditions)

    def open_one(self, parameters: Mapping[str, Any]) -> dict[str, Column]:
        """Every value of one layer, checked. Raises `Wrong`."""
        return self.open({name: _one_value(name, value) for name, value in parameters.items()}, 1)

    def open(self, given: Mapping[str, Given], rows: int, gaps: bool = False) -> dict[str, Column]:
        """Every column of the kind, checked; with `gaps`, NaN stands for the default.

        Raises `Wrong`.
        """
        strangers = [name for name in given if name not in self.names]
        if strangers:
            raise Wrong(unknown_names("column", strangers, self.names))
        if any(name in self.kind.conveniences for name in given):
            given = self._without_conveniences(given, rows, gaps)
        opened: dict[str, Column] = {}
        for name, values in given.items():
            for target in self.kind.shorthands.get(name, (name,)):
                if target in opened:
                    raise Wrong(f"{name}: already says {target}; give one of the two")
                column = self._filled(target, values, gaps)
                if column is not None:
                    opened[target] = _checked(self.parameters[target], column, name)
        missing = [name for name in self.parameters if name not in opened and name not in self.defaults]
        if missing:
            raise Wrong(f"{', '.join(missing)}: missing")
        for name, default in self.defaults.items():
            opened.setdefault(name, default)
        self._check_rules(opened, rows)
        return opened

    def _filled(self, name: str, values: Given, gaps: bool) -> Column | None:
        """The column with defaults in its gaps; None where it is nothing but gaps."""
        if not isinstance(values, np.ndarray):
            return None if _is_gap(values, gaps) else values
        if values.dtype.kind not in ("OUf" if gaps else "OU"):
            return values
        if values.dtype.kind == "f":
            missing = np.isnan(values)
        elif values.dtype.kind == "U":
            missing = values == ""
        else:
            missing = np.array([_is_gap(value, gaps) for value in values.tolist()])
        if not missing.any():
            return values
        if missing.all():
            return None
        if name not in self.defaults:
            raise Wrong(f"{name}: missing", int(missing.argmax()))
        filled = values.astype(object) if values.dtype.kind == "U" else values.copy()
        filled[missing] = self.defaults[name]
        return filled

    def _without_conveniences(self, given: Mapping[str, Given], rows: int, gaps: bool) -> dict[str, Given]:
        """Names such as `depthwise` mean something else for every layer, so layers are opened one by one."""
        own = {name: values for name, values in given.items() if name in self.kind.names}
        opened = []
        for row in range(rows if any(isinstance(values, np.ndarray) for values in own.values()) else 1):
            values = {name: value_at(column, row) for name, column in own.items()}
            said = {name: value for name, value in values.items() if not _is_gap(value, gaps)}
            asked = {name: self.kind.meaning(name)[0].fitted(value) for name, value in said.items()}
            found, mistakes = self.kind.resolve(asked)
            if mistakes:
                raise Wrong("; ".join(mistakes), row)
            opened.append(found)
        columns: dict[str, Given] = dict(opened[0])
        if any(isinstance(values, np.ndarray) for values in own.values()):
            columns = {name: np.array([each[name] for each in opened]) for name in columns}
        return columns | {name: values for name, values in given.items() if name not in own}

    def _check_rules(self, opened: Mapping[str, Column], rows: int) -> None:
        """Rows that break no rule by the program of the rules are good; others are looked at one by one."""
        if type(self.kind).rules is LayerKind.rules:
            return
        columns = {each.name: opened[each.name] for each in self.kind.parameters}
        if not any(isinstance(column, np.ndarray) for column in columns.values()):
            rows = 1
        for row in np.flatnonzero(~self._passing(columns, rows)).tolist():
            mistakes = list(self.kind.rules(self.layer_values(opened, row)))
            if mistakes:
                raise Wrong("; ".join(mistakes), row)

    def _passing(self, columns: Mapping[str, Column], rows: int) -> NDArray[np.bool_]:
        """The rows of which the program says that they break no rule; none where there is no program."""
        if self._rules is None:
            return np.zeros(rows, dtype=np.bool_)
        numbers = [columns[name] for name, each in by_name(*self.kind.parameters).items() if each.type is not str]
        columns_of_numbers = np.array(np.broadcast_arrays(*numbers, np.zeros(rows))[:-1], dtype=np.float64)
        return np.asarray(self._rules.run(columns_of_numbers)[0] != 0)

    @cached_property
    def _rules(self) -> Machine | None:
        """From all numbers of a layer to whether it breaks no rule, whatever its strings are."""
        numbers = [each.name for each in self.kind.parameters if each.type is not str]

        def formula(row: Symbol) -> list[Any]:
            values = {name: Symbol(row.tape, row[:, place].place, 1, 0) for place, name in enumerate(numbers)}
            return [keeps_rules(row.tape, self.kind, SimpleNamespace(**values))]

        try:
            return machine(traced(len(numbers), formula))
        except NOT_TRACED:  # rules that need more than arithmetic, or strings
            return None

    def layer_values(self, opened: Mapping[str, Column], row: int) -> SimpleNamespace:
        """The parameters of the layer in one row, as its kind takes them."""
        return SimpleNamespace(
            **{each.name: each.fitted(value_at(opened[each.name], row)) for each in self.kind.parameters}
        )


def condition(name: str, value: Any) -> Any:
    """The value of a condition as it is meant, where it stands by itself. Raises `Wrong`."""
    return _checked(CONDITIONS[name], _one_value(name, value), name)


def _one_value(name: str, value: Any) -> Any:
    found = plain_value(value)
    if isinstance(found, np.ndarray):
        raise Wrong(f"{name}: must be one value (got an array of shape {found.shape})")
    return found


def _declared(name: str, value: Scalar) -> Parameter:
    """A column that the user declared: of strings, of flags or of numbers, as its usual value is."""
    type_ = next((each for each in (str, bool) if isinstance(value, each)), float)
    return Parameter(name, "a column that was declared", type_)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_gap(value: Any, gaps: bool) -> bool:
    return (
        value is None
        or (isinstance(value, str) and not value)
        or (gaps and isinstance(value, float) and value != value)
    )


def _checked(parameter: Parameter, column: Column, name: str) -> Column:
    """The column as numbers, or as strings, if all of it is allowed."""
    if not isinstance(column, np.ndarray):
        value = parameter.fitted(column)
        mistake = parameter.mistake(value)
        if mistake:
            raise Wrong(f"{name}: {mistake}")
        return value  # type: ignore[no-any-return]
    if column.dtype.kind in "biuf" and parameter.type is not str and _all_allowed(parameter, column):
        return column.astype(np.float64, copy=False)
    values = column.tolist()
    if parameter.type is str and set(map(type, values)) == {str} and _texts_allowed(parameter, values):
        return column
    fitting = [parameter.fitted(_plain(value)) for value in values]
    for row, value in enumerate(fitting):
        mistake = parameter.mistake(value)
        if mistake:
            raise Wrong(f"{name}: {mistake}", row)
    return np.array(fitting, dtype=object if parameter.type is str else np.float64)


def _texts_allowed(parameter: Parameter, values: list[str]) -> bool:
    return not parameter.choices or set(values) <= set(parameter.choices)


def _all_allowed(parameter: Parameter, column: NDArray[Any]) -> bool:
    """Whether all numbers are allowed, told from the lowest and the highest as far as that goes."""
    if parameter.type is int and column.dtype.kind == "b":
        return False
    if column.dtype.kind == "f" and parameter.type is not float and not (np.rint(column) == column).all():
        return False
    ends = (column.min(), column.max())  # NaN is both of them where there is one
    return all(parameter.mistake(parameter.fitted(end.item())) is None for end in ends)
