"""All layer kinds of one device: one layer, tables of layers, staircases and gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.bundle.bundle import Bundle
from medn.core.errors import UsageError, unknown, unknown_names
from medn.core.registry import known_name, spelled
from medn.core.text import shown
from medn.core.values import Scalar
from medn.estimator.columns import Check, Given, check_names, check_rows, read_column, read_columns
from medn.estimator.estimator import Estimator
from medn.estimator.prediction import Prediction, Predictions
from medn.estimator.query import Wrong
from medn.estimator.staircase import Staircase, combinations

ROWS_AT_ONCE = 2048
"""Rows that go through all steps together: few enough to stay in the cache, so that the cost per row stays flat."""


REMEMBERED = 16_384
"""Single layers that are kept; those that were not asked for longest are forgotten first."""


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
        # By type too: True, 1 and 1.0 are equal, but not all of them are batch sizes.
        self._remembered = lru_cache(REMEMBERED, typed=True)(self._layer)

    @property
    def devices(self) -> tuple[str, ...]:
        return self.bundle.devices

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._estimators)

    def estimator(self, kind: str) -> Estimator:
        try:
            return self._estimators[kind]
        except (KeyError, TypeError):
            return self._estimators[known_name("predicted layer kind", kind, self._estimators)]

    def layer(self, kind: str, /, **parameters: Scalar) -> Prediction:
        """What one layer costs; parameters as `medn list kinds KIND` shows them, and conditions such as batch_size."""
        try:
            return self._remembered(kind, **parameters)
        except TypeError:  # a list or the like, which cannot be remembered
            return self._layer(kind, **parameters)

    def _layer(self, kind: str, /, **parameters: Any) -> Prediction:
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

        >>> predictor.table("conv2d", {"in_channels": 64, "kernel_size": 3, "in_size": 56},     # doctest: +SKIP
        ...                 out_channels=range(8, 513, 8)).round_to
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
        """
        columns, rows = read_columns(table, self.check_columns(kind))
        given = columns.pop("kind", None) if kind is None else kind
        if given is None:
            if len(self.kinds) > 1:
                raise UsageError("the table has no column 'kind', and no kind was given beside it")
            given = self.kinds[0]
        further = dict.fromkeys(name for estimator in self._estimators.values() for name in estimator.further)
        result = Predictions.empty(rows, further)
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

    def check_columns(self, kind: str | None) -> Check:
        """Refuses names that no column of this kind has, or of any kind where none is given."""
        asked = self.kinds if kind is None else (kind,)
        known = {name for each in asked for name in self.estimator(each).query.names}
        known |= {"kind"} if kind is None else set()

        def check(names: Iterable[Any]) -> None:
            check_names(names)
            strangers = [name for name in names if name not in known]
            if strangers:
                said = unknown_names("column", strangers, known)
                raise UsageError(said if kind is None else f"{kind}: {said}")

        return check

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
        for start in range(0, rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, rows)
            where = slice(start, stop) if places is None else places[start:stop]
            part = {n: column[where] if isinstance(column, np.ndarray) else column for n, column in columns.items()}
            try:
                found = estimator.predict(part, stop - start, gaps=places is not None)
            except Wrong as wrong:
                row = "" if wrong.row is None else f"row {_origin(where, wrong.row)}: "
                raise UsageError(f"{row}{estimator.kind.name}: {wrong.sentence}") from None
            result.latency_s[where] = found.latency_s
            result.low_s[where] = found.low_s
            result.high_s[where] = found.high_s
            result.in_range[where] = found.in_range
            result.level[where] = estimator.level
            for name, values in found.further.items():
                result.further[name][where] = values


def _origin(where: slice | NDArray[np.int_], row: int) -> int:
    return where.start + row if isinstance(where, slice) else int(where[row])
