"""Requests and responses as JSON, without HTTP: the same names and errors as in Python."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import medn
from medn.capture.captured_model import CapturedModel, parse_captured
from medn.core.errors import UsageError, unknown
from medn.core.ranges import MeasuredRange
from medn.core.values import plain
from medn.estimator.estimator import Estimator
from medn.estimator.prediction import Predictions
from medn.predictor.predictor import Predictor
from medn.serving.model_reader import ModelReader

Json = dict[str, Any]

JSON_TYPE = "application/json"
ONNX_TYPES = ("application/octet-stream", "application/onnx", "application/x-onnx")
MODEL_PARAMETERS = {"batch_size": int, "utilization": float, "device": str}
"""What the address of a model may say, beside its path."""


class TooLarge(UsageError):
    """More than the limits of the server allow."""


class Answers:
    """Answers from one bundle, in any thread."""

    def __init__(
        self, path: Path, device: str | None = None, max_rows: int = 100_000, reader: ModelReader | None = None
    ) -> None:
        first = medn.load(path, device)
        self.reader = reader
        self.default = first.device
        self.max_rows = max_rows
        self.bundle = first.bundle
        self.predictors: Mapping[str, Predictor] = {
            name: first if name == first.device else first.on(name) for name in first.devices
        }

    def layer(self, body: bytes | bytearray) -> Json:
        """One layer: its kind and parameters, side by side."""
        query = parse_request(body)
        predictor = self._predictor(query)
        if "kind" not in query:
            raise UsageError(f"kind: missing. Known: {', '.join(predictor.kinds)}")
        kind = query.pop("kind")
        if not isinstance(kind, str):
            raise UsageError(f"kind: must be a string (got {kind!r})")
        return {name: _number(value) for name, value in predictor.layer(kind, **query).as_json().items()}

    def predict(self, body: bytes | bytearray) -> Json:
        """Many layers: `columns` or `rows`, all of one `kind` or with a kind for each."""
        query = parse_request(body)
        predictor = self._predictor(query)
        kind = query.pop("kind", None)
        if kind is not None and not isinstance(kind, str):
            raise UsageError(f"kind: must be a string, or a column beside the others (got {kind!r})")
        if len(query) != 1 or next(iter(query)) not in ("columns", "rows"):
            raise UsageError(
                "the request must hold either 'columns' or 'rows', and may hold 'kind' and 'device' "
                f"(got {', '.join(map(repr, query)) or 'neither'})"
            )
        return _as_json(predictor.predict(self._table(query), kind))

    def model(self, body: bytes | bytearray, media_type: str, parameters: Mapping[str, str]) -> Json:
        """A whole model: captured and saved as JSON, or an ONNX file; how it runs stands in the address."""
        given = _conditions(parameters)
        predictor = self._predictor(given)
        batch_size, utilization = given.pop("batch_size", None), given.pop("utilization", 0.0)
        captured = self._captured(body, media_type, batch_size)
        if len(captured.layers) > self.max_rows:
            raise TooLarge(f"{len(captured.layers)} layers are more than this server takes at once ({self.max_rows})")
        try:
            found: Json = plain(predictor.model(captured, None, batch_size, utilization).as_json())
        except (OverflowError, FloatingPointError) as error:
            raise UsageError(f"the model: its sizes are too large to be counted ({error})") from None
        return {"layers_count": len(captured.layers), **found}

    def _captured(self, body: bytes | bytearray, media_type: str, batch_size: int | None) -> CapturedModel:
        if media_type == JSON_TYPE:
            return parse_captured(body, "the model")
        if self.reader is None:
            raise UsageError(f"ONNX files are not read here; send a captured model as {JSON_TYPE}")
        return self.reader.read(body, batch_size)

    def _predictor(self, query: Json) -> Predictor:
        device = query.pop("device", self.default)
        if device not in list(self.predictors):
            raise UsageError(unknown("device", device, self.predictors))
        return self.predictors[device]

    def _table(self, query: Json) -> Any:
        """The table that is asked about, if it is one and not too long."""
        ((layout, table),) = query.items()
        if not isinstance(table, dict if layout == "columns" else list):
            expected = "an object with a list for each column" if layout == "columns" else "a list of objects"
            raise UsageError(f"{layout}: must be {expected} (got {_json_type(table)})")
        columns = table.values() if isinstance(table, dict) else [table]
        rows = max((len(column) for column in columns if isinstance(column, list)), default=1)
        if rows > self.max_rows:
            raise TooLarge(f"{rows} rows are more than this server takes at once ({self.max_rows})")
        return table

    def about(self) -> Json:
        """What the bundle predicts: its devices, their kinds, and the range in which each was measured."""
        devices = {
            name: {kind: _about(predictor.estimator(kind)) for kind in predictor.kinds}
            for name, predictor in self.predictors.items()
        }
        made_by = self.bundle.made_by
        return {"name": self.bundle.name, "made_by": made_by, "device": self.default, "devices": devices}


def parse_request(body: bytes | bytearray) -> Json:
    """The JSON object in a request."""
    try:
        content = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise UsageError(f"the request must be a JSON object (got {_json_type(content)})")
    return content


def _conditions(parameters: Mapping[str, str]) -> Json:
    given: Json = {}
    for name, text in parameters.items():
        if name not in MODEL_PARAMETERS:
            raise UsageError(unknown("parameter", name, MODEL_PARAMETERS))
        try:
            given[name] = MODEL_PARAMETERS[name](text)
        except ValueError:
            wanted = "a whole number" if MODEL_PARAMETERS[name] is int else "a number"
            raise UsageError(f"{name}: must be {wanted} (got {text!r})") from None
    return given


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _json_type(value: Any) -> str:
    """The JSON type of a value."""
    names: Iterable[tuple[Any, str]] = ((dict, "an object"), (list, "a list"), (str, "a string"), (bool, "a boolean"))
    return next(
        (name for python_type, name in names if isinstance(value, python_type)), "null" if value is None else "a number"
    )


def _number(value: Any) -> Any:
    """A value as JSON can hold it, which has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_json(predictions: Predictions) -> Json:
    columns = {
        name: None if column is None else [_number(value) for value in column.tolist()]
        for name, column in predictions.columns.items()
    }
    return {"rows": len(predictions), **columns}


def _about(estimator: Estimator) -> Json:
    names = estimator.query.names
    return {
        "level": estimator.level,
        "defaults": estimator.query.defaults,
        "measured": measured_range(estimator.range, names),
        "constants": {name: value for name, value in estimator.constants.items() if name in names},
        "further": list(estimator.further),
    }


def measured_range(measured: MeasuredRange, names: Iterable[str]) -> Json:
    """For each column of a query that varied: the lowest and the highest number, or the categories that were seen."""
    ranges: Json = {}
    for column, name in enumerate(measured.schema.names):
        if name not in names:
            continue
        if name in measured.schema.categories:
            ranges[name] = [measured.schema.categories[name][code] for code in measured.seen[name]]
        else:
            ranges[name] = [float(measured.low[column]), float(measured.high[column])]
    return ranges
