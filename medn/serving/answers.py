"""What a client sends and what it gets, as JSON and without HTTP: the same words and errors as in Python."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import medn
from medn.core.errors import UsageError, unknown
from medn.core.ranges import Range
from medn.estimator.estimator import Estimator
from medn.estimator.prediction import Predictions
from medn.predictor.predictor import Predictor

Json = dict[str, Any]


class TooLarge(UsageError):
    """More than the limits of the server allow."""


class Answers:
    """Answers from one bundle, in any thread."""

    def __init__(self, path: Path, device: str | None = None, most_rows: int = 100_000) -> None:
        first = medn.load(path, device)
        self.default = first.device
        self.most_rows = most_rows
        self.bundle = first.bundle
        self.predictors: Mapping[str, Predictor] = {
            name: first if name == first.device else first.on(name) for name in first.devices
        }

    def layer(self, body: bytes | bytearray) -> Json:
        """One layer: its kind and parameters, side by side."""
        asked = parsed(body)
        predictor = self._predictor(asked)
        if "kind" not in asked:
            raise UsageError(f"kind: missing. Known: {', '.join(predictor.kinds)}")
        kind = asked.pop("kind")
        if not isinstance(kind, str):
            raise UsageError(f"kind: must be a text (got {kind!r})")
        return {name: _number(value) for name, value in predictor.layer(kind, **asked)._asdict().items()}

    def predict(self, body: bytes | bytearray) -> Json:
        """Many layers: `columns` or `rows`, all of one `kind` or with a kind for each."""
        asked = parsed(body)
        predictor = self._predictor(asked)
        kind = asked.pop("kind", None)
        if kind is not None and not isinstance(kind, str):
            raise UsageError(f"kind: must be a text, or a column beside the others (got {kind!r})")
        if len(asked) != 1 or next(iter(asked)) not in ("columns", "rows"):
            raise UsageError(
                "the request must hold either 'columns' or 'rows', and may hold 'kind' and 'device' "
                f"(got {', '.join(map(repr, asked)) or 'neither'})"
            )
        return _written(predictor.predict(self._table(asked), kind))

    def _predictor(self, asked: Json) -> Predictor:
        device = asked.pop("device", self.default)
        if device not in list(self.predictors):
            raise UsageError(unknown("device", device, self.predictors))
        return self.predictors[device]

    def _table(self, asked: Json) -> Any:
        """The table that is asked about, if it is one and not too long."""
        ((form, table),) = asked.items()
        if not isinstance(table, dict if form == "columns" else list):
            wanted = "an object with a list for each column" if form == "columns" else "a list of objects"
            raise UsageError(f"{form}: must be {wanted} (got {_sort(table)})")
        columns = table.values() if isinstance(table, dict) else [table]
        rows = max((len(column) for column in columns if isinstance(column, list)), default=1)
        if rows > self.most_rows:
            raise TooLarge(f"{rows} rows are more than this server takes at once ({self.most_rows})")
        return table

    def about(self) -> Json:
        """What the bundle knows: its devices, their kinds, and where each of these was measured."""
        devices = {
            name: {kind: _about(predictor.estimator(kind)) for kind in predictor.kinds}
            for name, predictor in self.predictors.items()
        }
        made_by = self.bundle.made_by
        return {"name": self.bundle.name, "made_by": made_by, "device": self.default, "devices": devices}


def parsed(body: bytes | bytearray) -> Json:
    """The JSON object in a request."""
    try:
        found = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"the request must be a JSON object (got {_sort(found)})")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number that JSON knows")


def _sort(value: Any) -> str:
    """What JSON calls a value."""
    sorts: Iterable[tuple[Any, str]] = ((dict, "an object"), (list, "a list"), (str, "a text"), (bool, "true or false"))
    return next((name for sort, name in sorts if isinstance(value, sort)), "null" if value is None else "a number")


def _number(value: Any) -> Any:
    """A value as JSON can hold it: there is no infinity in it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _written(found: Predictions) -> Json:
    columns = {
        name: None if column is None else [_number(value) for value in column.tolist()]
        for name, column in found.columns.items()
    }
    return {"rows": len(found), **columns}


def _about(estimator: Estimator) -> Json:
    names = estimator.question.names
    return {
        "level": estimator.level,
        "defaults": estimator.question.defaults,
        "measured": _measured(estimator.range, names),
        "constants": {name: value for name, value in estimator.constants.items() if name in names},
        "further": list(estimator.further),
    }


def _measured(known: Range, names: Iterable[str]) -> Json:
    """For each column of a query that varied: the lowest and the highest number, or the texts that were seen."""
    found: Json = {}
    for place, name in enumerate(known.schema.names):
        if name not in names:
            continue
        if name in known.schema.categories:
            found[name] = [known.schema.categories[name][code] for code in known.seen[name]]
        else:
            found[name] = [float(known.low[place]), float(known.high[place])]
    return found
