"""All layer kinds of one device: one layer, tables of layers, staircases and gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from medn.bundle.bundle import Bundle
from medn.core.errors import UsageError, unknown, unknown_names
from medn.core.outside import Outside
from medn.core.registry import known_name, spelled
from medn.core.text import shown
from medn.core.values import Scalar
from medn.estimator.columns import Check, Given, check_names, check_rows, read_column, read_columns, value_at
from medn.estimator.estimator import Estimates, Estimator
from medn.estimator.prediction import Prediction, Predictions
from medn.estimator.query import Wrong
from medn.estimator.staircase import Staircase, combinations
from medn.program.c_engine import predict_rows
from medn.program.engines import C, engine

ROWS_AT_ONCE = 2048
"""Rows that go through all steps together: few enough to stay in the cache, so that the cost per row stays flat."""


REMEMBERED = 16_384
"""Single layers that are kept, of each kind where the C engine keeps them; others take their place."""


KIND = "kind"
"""The column that says what each row is."""

Columns = dict[str, Any]


class LayerPredictor:
    """Predicts the layers of one device, from a bundle that may know several."""

    def __init__(self, bundle: Bundle, device: str | None = None) -> None:
        if device is None and len(bundle.devices) > 1:
            raise UsageError(f"{bundle.name} knows several devices: {', '.join(bundle.devices)}. Say device=...")
        self.bundle = bundle
        self.device = bundle.devices[0] if device is None else device
        if self.device not in bundle.devices:
            raise UsageError(unknown("device", self.device, bundle.devices))
        self._estimators = {entry.kind: Estimator(entry, self.device) for entry in bundle.on(self.device)}
        self._queries: dict[str, Any] = {}
        """What answers in C, of the kinds that were asked for."""
        # By type too: True, 1 and 1.0 are equal, but not all of them are batch sizes.
        self._remembered = lru_cache(REMEMBERED, typed=True)(self._asked)

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices that the bundle knows; `device` is the one that is predicted."""
        return self.bundle.devices

    @property
    def kinds(self) -> tuple[str, ...]:
        """The layer kinds that it predicts on its device."""
        return tuple(self._estimators)

    def estimator(self, kind: str) -> Estimator:
        """What predicts one layer kind."""
        try:
            return self._estimators[kind]
        except (KeyError, TypeError):
            return self._estimators[known_name("predicted layer kind", kind, self._estimators)]

    def layer(self, kind: str, /, **parameters: Scalar) -> Prediction:
        """What one layer costs; parameters as `medn list kinds KIND` shows them, and conditions such as batch_size.

        >>> import medn
        >>> predictor = medn.load("runs/laptop/laptop.medn")
        >>> predictor.layer("linear", in_features=100, out_features=200, batch_size=8).in_range
        True
        >>> print(*predictor.layer("linear", in_features=100, out_features=200, threads=4).outside)
        threads=4 (measured: 1)
        """
        query = self._queries.get(kind) if type(kind) is str else None
        found: Prediction | None = query.recall(parameters) if query is not None else None
        return found or self._layer(kind, parameters)

    def _layer(self, kind: str, parameters: dict[str, Any]) -> Prediction:
        """A layer that is to be remembered."""
        query = self._query(kind) if type(kind) is str and engine() == C else None
        if query is not None:
            found = self._asked(kind, **parameters)
            query.keep(parameters, found)
            return found
        try:
            return self._remembered(kind, **parameters)
        except TypeError:  # a list or the like, which cannot be remembered
            return self._asked(kind, **parameters)

    def _asked(self, kind: str, /, **parameters: Any) -> Prediction:
        try:
            return self.estimator(kind).layer(parameters)
        except Wrong as wrong:
            raise UsageError(f"{kind}: {wrong.sentence}") from None

    def gradient(self, kind: str, /, **parameters: Scalar) -> dict[str, float]:
        """How many seconds the latency changes with each parameter of a layer, per unit of the parameter.

        For what was deployed as a network or a roofline, or as a sum of them. Sizes count as if they could change by a
        little; how well a size fits tiles is held constant.
        """
        try:
            return self.estimator(kind).gradient(parameters)
        except Wrong as wrong:
            raise UsageError(f"{kind}: {wrong.sentence}") from None

    def table(self, kind: str, fixed: Mapping[str, Any] | None = None, /, **parameters: Any) -> Staircase:
        """Latency along one or more parameters, given as ranges or lists; all others stay as they are.

        >>> import medn
        >>> predictor = medn.load("runs/laptop/laptop.medn")
        >>> stairs = predictor.table("linear", {"in_features": 100}, out_features=range(8, 257, 8))
        >>> len(stairs.latency_s), stairs.round_to in (8, 16, 32, 64)
        (32, True)
        """
        if not isinstance(fixed, Mapping | None):
            raise UsageError(f"what stays fixed must be a dict of values by name (got {shown(fixed)})")
        given = {**(fixed or {}), **parameters}
        self.check_columns(kind)(given)
        columns = {name: read_column(name, values) for name, values in given.items()}
        varied = {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
        if not varied:
            raise UsageError("a table needs a parameter with several values, such as out_channels=range(8, 513, 8)")
        check_rows(", ".join(varied), varied.values())
        still = {name: value for name, value in columns.items() if name not in varied}
        combined = combinations(varied)
        return Staircase(kind, still, combined, self.predict({**still, **combined}, kind))

    def predict(self, table: Any, kind: str | None = None) -> Predictions:
        """What all layers of a table cost.

        The column `kind` says what each row is; a table of one kind may say it by the argument instead.

        >>> import medn
        >>> predictor = medn.load("runs/laptop/laptop.medn")
        >>> linear = {"kind": "linear", "in_features": 64, "out_features": 64}
        >>> len(predictor.predict([linear, {"kind": "activation", "function": "relu", "elements": 4096}]).latency_s)
        2
        """
        quick = self._at_once(table, kind) if engine() == C else None
        if quick is not None:
            return quick
        columns, rows = read_columns(table, self.check_columns(kind))
        given = columns.pop(KIND, None) if kind is None else kind
        if given is None:
            if len(self.kinds) > 1:
                raise UsageError("the table has no column 'kind', and no kind was given beside it")
            given = self.kinds[0]
        result = Predictions.empty(rows, self._further, partial(self._outside, columns, given))
        if isinstance(given, str):
            self._fill(result, self.estimator(given), columns, None)
            return result
        groups = self._groups(np.atleast_1d(given))
        if len(groups) == 1:
            self._fill(result, self.estimator(next(iter(groups))), columns, None)
            return result
        known = {name for kind in groups for name in self.estimator(kind).query.names}
        for name in columns:
            if name not in known:
                raise UsageError(unknown("column", name, known))
        for kind, places in groups.items():
            estimator = self.estimator(kind)
            own = {name: column for name, column in columns.items() if name in estimator.query.names}
            self._fill(result, estimator, own, places)
        return result

    def _at_once(self, table: Any, kind: str | None) -> Predictions | None:
        """Plain columns of one kind and lists of dicts go to the engine as they are; None where Python has to look."""
        if type(table) is list and table:
            return self._rows_at_once(table, kind)
        own = kind if kind is not None or type(table) is not dict else table.get(KIND)
        if type(table) is not dict or not isinstance(own, str):
            return None
        query = self._query(own)
        rows = query.count(table) if query is not None else 0
        if not rows:
            return None
        said: Columns = {}
        result = Predictions.empty(rows, self._further, partial(self._explained_column, own, said))
        outside = query.predict(table, KIND if kind is None else None, False, result.arrays, self._further)
        if outside:  # whoever asked may change the table before it is explained
            said |= {name: values.copy() if type(values) is list else values for name, values in table.items()}
            said.pop(KIND, None)
        return None if outside is None else result

    def _rows_at_once(self, table: list[Any], kind: str | None) -> Predictions | None:
        said: dict[int, dict[str, Any]] = {}
        result = Predictions.empty(len(table), self._further, partial(self._explained_row, kind, said))
        outside = predict_rows(self._queries, table, KIND, kind, result.arrays, self._further)
        while isinstance(outside, str):  # a kind that nobody asked for before
            if self._query(outside) is None:
                return None
            outside = predict_rows(self._queries, table, KIND, kind, result.arrays, self._further)
        if outside:
            said |= {row: dict(table[row]) for row in np.flatnonzero(~result.in_range).tolist()}
        return None if outside is None else result

    def _query(self, kind: str) -> Any:
        """What answers queries of one kind in C; None where nothing does."""
        if kind not in self._queries and kind in self._estimators:
            one = self._estimators[kind].answering.one
            if hasattr(one, "predict"):
                self._queries[kind] = one
        return self._queries.get(kind)

    def _explained_column(self, kind: str, said: Columns, row: int) -> list[Outside]:
        columns, _ = read_columns(said)
        return self._outside(columns, kind, row)

    def _explained_row(self, kind: str | None, said: Mapping[int, Mapping[str, Any]], row: int) -> list[Outside]:
        if row not in said:
            return []
        values = dict(said[row])
        estimator = self.estimator(values.pop(KIND) if kind is None else kind)
        return estimator.outside(estimator.prepare(values, 1, gaps=True))

    @cached_property
    def _further(self) -> dict[str, int]:
        """What is predicted of some kind beside latency, in an order."""
        names = dict.fromkeys(name for estimator in self._estimators.values() for name in estimator.further)
        return {name: place for place, name in enumerate(names)}

    def _outside(self, columns: Mapping[str, Given], kinds: Given, row: int) -> list[Outside]:
        """What of one row of a table lies outside what was measured."""
        estimator = self.estimator(value_at(kinds, row))
        own = {name: value_at(column, row) for name, column in columns.items() if name in estimator.query.names}
        return estimator.outside(estimator.prepare(own, 1, gaps=True))

    def check_columns(self, kind: str | None) -> Check:
        """Refuses names that no column of this kind has, or of any kind where none is given."""
        known = self._known_columns(kind)

        def check(names: Iterable[Any]) -> None:
            check_names(names)
            strangers = [name for name in names if name not in known]
            if strangers:
                said = unknown_names("column", strangers, known)
                raise UsageError(said if kind is None else f"{kind}: {said}")

        return check

    def _known_columns(self, kind: str | None) -> set[str]:
        """The names that a table of this kind may have, or of any kind where none is given."""
        if kind is not None:
            return self.estimator(kind).known_columns
        return {KIND, *(name for estimator in self._estimators.values() for name in estimator.query.names)}

    def _groups(self, kinds: NDArray[Any]) -> dict[str, NDArray[np.int_]]:
        """The rows of each kind."""
        known = {kind: code for code, kind in enumerate(self.kinds)}
        names = [kind if isinstance(kind, str) else "" for kind in kinds.tolist()]
        codes = {name: known.get(spelled(name, known), -1) for name in set(names)}
        found = np.array([codes[name] for name in names])
        if (found < 0).any():
            row = int((found < 0).argmax())
            raise UsageError(f"row {row}: {unknown('predicted layer kind', kinds.tolist()[row], self.kinds)}")
        return {self.kinds[code]: np.flatnonzero(found == code) for code in np.unique(found).tolist()}

    def _fill(
        self,
        result: Predictions,
        estimator: Estimator,
        columns: Mapping[str, Given],
        places: NDArray[np.int_] | None,
    ) -> None:
        """Predict the rows at `places`, or all of them, and write them where they belong."""
        rows = len(result) if places is None else len(places)
        query = self._query(estimator.kind.name) if engine() == C else None
        if query:
            own = {
                n: column if places is None or not _has_rows(column) else column[places]
                for n, column in columns.items()
            }
            filled = result if places is None else Predictions.empty(rows, self._further)
            if query.predict(own, None, places is not None, filled.arrays, self._further) is not None:
                if places is not None:
                    for to, values in zip(result.arrays, filled.arrays, strict=True):
                        to[places] = values
                return
        for start in range(0, rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, rows)
            where = slice(start, stop) if places is None else places[start:stop]
            part = {n: column[where] if _has_rows(column) else column for n, column in columns.items()}
            try:
                found = estimator.predict(part, stop - start, gaps=places is not None)
            except Wrong as wrong:
                row = "" if wrong.row is None else f"row {_origin(where, wrong.row)}: "
                raise UsageError(f"{row}{estimator.kind.name}: {wrong.sentence}") from None
            _put(result, estimator, where, found)


def _has_rows(column: Given) -> TypeGuard[NDArray[Any]]:
    return isinstance(column, np.ndarray)


def _put(result: Predictions, estimator: Estimator, where: slice | NDArray[np.int_], found: Estimates) -> None:
    """Write what was estimated where it belongs."""
    result.latency_s[where] = found.latency_s
    result.low_s[where] = found.low_s
    result.high_s[where] = found.high_s
    result.in_range[where] = found.in_range
    result.level[where] = estimator.level
    for name, values in found.further.items():
        result.further[name][where] = values


def _origin(where: slice | NDArray[np.int_], row: int) -> int:
    return where.start + row if isinstance(where, slice) else int(where[row])
