"""A plain lookup table: the layers of a model, or all combinations of values of one layer kind."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.estimator.layer_predictor import LayerPredictor
from medn.estimator.table_files import read_values, write_csv
from medn.exporting.exporter import Exporter, Options, exporters
from medn.model.prepared_model import predict_model

Rows = Sequence[Mapping[str, Any]]


@exporters.register
class Csv(Exporter):
    name = "csv"
    description = "the layers of a model, or kind=KIND with all combinations of A,B,C and FROM:TO:STEP: CSV"
    to = "table.csv"

    def read_options(self, given: Mapping[str, Any]) -> Options:
        """Any parameter of the kind, and conditions; the predictor knows which."""
        values = {name: value for name, value in given.items() if name != "kind"}
        return SimpleNamespace(kind=given.get("kind"), values=values)

    def files(self, predictor: LayerPredictor, model: CapturedModel | None, options: Options) -> dict[str, bytes]:
        if (model is None) == (options.kind is None) or (model is not None and options.values):
            raise UsageError("a table in the format csv is of a model, or of kind=KIND and values of its parameters")
        rows = _layers(predictor, model) if model else _grid(predictor, options.kind, options.values)
        text = io.StringIO()
        write_csv(rows, text)
        return {"": text.getvalue().encode()}


def _layers(predictor: LayerPredictor, model: CapturedModel) -> Rows:
    return [
        {
            "layer": row.name,
            "kind": row.what,
            "latency_s": row.latency_s,
            "low_s": row.low_s,
            "high_s": row.high_s,
            "in_range": row.in_range,
            "is_estimated": not row.known,
        }
        for row in predict_model(predictor, model).rows
    ]


def _grid(predictor: LayerPredictor, kind: str, given: Mapping[str, Any]) -> Rows:
    values: dict[str, Any] = {
        name: read_values(name, value) if isinstance(value, str) else value for name, value in given.items()
    }
    if any(not isinstance(value, str) and isinstance(value, Sequence) for value in values.values()):
        table = predictor.table(kind, values)
        rows = [{"kind": kind, **table.fixed, **row} for row in table.rows()]
    else:
        rows = [{"kind": kind, **values, **predictor.layer(kind, **values)._asdict()}]
    return [{name: value for name, value in row.items() if name != "worthwhile" and value is not None} for row in rows]
