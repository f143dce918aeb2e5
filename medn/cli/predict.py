"""`medn predict`: what layers and models cost, predicted by a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.completion import complete_kinds, complete_values
from medn.cli.output import AsJson, say, write_json, write_record
from medn.cli.predict_model import (
    WHOLE_MODEL_OPTIONS,
    BatchSizeOption,
    ColdShareOption,
    CompositionOption,
    HtmlOption,
    UtilizationOption,
    predict_model,
    read_composition,
)
from medn.core.errors import UsageError, unknown
from medn.core.outside import told
from medn.core.quantities import FURTHER
from medn.core.units import format_latency, percent

if TYPE_CHECKING:
    from medn.estimator.prediction import Prediction, Predictions

BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The bundle, NAME.medn.")]
DeviceOption = Annotated[str, typer.Option("--device", help="Which device, where the bundle knows several.")]
KindArgument = Annotated[
    str, typer.Argument(metavar="KIND", help="A layer kind, such as conv2d.", autocompletion=complete_kinds)
]
KindOrModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND|MODEL",
        help="A layer kind, such as conv2d, or a whole model: FILE.onnx, timm:NAME or python:MODULE:FUNCTION.",
        autocompletion=complete_kinds,
    ),
]
MODELS_ARE_WRITTEN = "A whole model is written as FILE.onnx, timm:NAME or python:MODULE:FUNCTION"
ValuesArgument = Annotated[
    list[str],
    typer.Argument(metavar="NAME=VALUE", help="Parameters and conditions.", autocompletion=complete_values),
]


def predict(
    bundle: BundleArgument,
    kind: KindOrModelArgument = "",
    values: ValuesArgument = [],  # noqa: B006  # typer copies it
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE", help="Many layers: CSV, JSON lines or Parquet; - for standard input."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write a table; CSV on standard output.")
    ] = None,
    batch_size: BatchSizeOption = None,
    utilization: UtilizationOption = None,
    cold_share: ColdShareOption = None,
    composition: CompositionOption = None,
    html: HtmlOption = None,
    device: DeviceOption = "",
    as_json: AsJson = False,
) -> None:
    """Predict one layer, a table of layers, or a whole model.

    A table has a column for each parameter and a column kind (or one KIND is given for all of its rows).
    A model is captured from shapes alone. timm:NAME has random weights and downloads nothing. python:MODULE:FUNCTION
    imports your own module and calls the function: it gives a torch module and its example inputs, or a module
    with the attribute example_inputs. FILE.json is a model that was captured and saved.

    \b
    Examples:
      medn predict runs/laptop/laptop.medn conv2d in_channels=64 out_channels=128 kernel_size=3 in_size=56
      medn predict runs/laptop/laptop.medn linear in_features=512 out_features=512 batch_size=8 --json
      medn predict runs/laptop/laptop.medn --table layers.csv --out predicted.csv
      generate | medn predict runs/laptop/laptop.medn conv2d --table - > predicted.csv
      medn predict runs/laptop/laptop.medn model.onnx --html model.html
      medn predict runs/laptop/laptop.medn timm:resnet50 --batch-size 8 --utilization 0.5
    """
    import medn
    from medn.model.model_sources import is_source

    if kind and is_source(kind):
        if values or table is not None or out is not None:
            raise UsageError(f"NAME=VALUE, --table and --out go with layers; with a model go {WHOLE_MODEL_OPTIONS}")
        how = read_composition(cold_share, composition)
        predict_model(medn.load(bundle, device or None), kind, batch_size, utilization or 0.0, how, html, as_json)
        return
    if any(option is not None for option in (batch_size, utilization, cold_share, composition, html)):
        raise UsageError(f"{WHOLE_MODEL_OPTIONS} go with a model; a layer takes batch_size=8 and the like")
    if table is None and not kind:
        raise UsageError("say a layer kind, as in conv2d in_channels=64, or give --table FILE")
    if table is None and out is not None:
        raise UsageError("--out goes with --table")
    predictor = medn.load(bundle, device or None)
    given = parse_values(values)
    if kind and not given and table is None and kind not in predictor.kinds:
        raise UsageError(f"{unknown('predicted layer kind', kind, predictor.kinds)}. {MODELS_ARE_WRITTEN}")
    if table is None:
        _write_prediction(predictor.layer(kind, **given), as_json)
        return
    from medn.core.table_content import STANDARD
    from medn.estimator.columns import read_columns
    from medn.estimator.table_files import read_table, write_table

    columns, rows = read_columns(read_table(table), predictor.check_columns(kind or None))
    columns |= given
    predictions = predictor.predict(columns, kind or None)
    records = list(_records(columns, rows, predictions))
    if as_json:
        write_json(records)
    else:
        write_table(records, out or STANDARD)
    outside = int((~predictions.in_range).sum())
    if outside:
        first = int((~predictions.in_range).argmax())
        why = f"; row {first}: {told(predictions[first].outside)}"
        say(f"{outside} of {rows} layers lie outside what was measured: in_range is false there{why}")


def parse_values(arguments: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE arguments."""
    from medn.estimator.table_files import read_value

    return {name: read_value(text) for name, text in parse_texts(arguments).items()}


def parse_texts(arguments: Sequence[str]) -> dict[str, str]:
    """The same, with the values as they are written."""
    strings: dict[str, str] = {}
    for argument in arguments:
        name, separator, text = argument.partition("=")
        if not separator or not name or not text.strip():
            raise UsageError(f"{argument!r}: must be written as NAME=VALUE, such as in_channels=64")
        if name in strings:
            raise UsageError(f"{name}: given twice")
        strings[name] = text
    return strings


def _write_prediction(prediction: Prediction, as_json: bool) -> None:
    if as_json:
        write_json(prediction.as_json())
        return
    record = {
        "latency": format_latency(prediction.latency_s),
        "interval": f"{format_latency(prediction.low_s)} to {format_latency(prediction.high_s)}",
        "level": percent(prediction.level),
        "in range": prediction.in_range,
    }
    record |= {FURTHER[name].label: FURTHER[name].formatted(value) for name, value in prediction.further.items()}
    write_record(record, as_json=False)
    if not prediction.in_range:
        say(
            f"the latency is an extrapolation, as this layer lies outside what was measured: {told(prediction.outside)}"
        )


def _records(columns: dict[str, Any], rows: int, predictions: Predictions) -> Iterator[dict[str, Any]]:
    """Each row with its predictions."""
    inputs = {
        name: values.tolist() if hasattr(values, "tolist") else [values] * rows for name, values in columns.items()
    }
    outputs = {name: values.tolist() for name, values in predictions.columns.items() if values is not None}
    columns_by_name = {**inputs, **outputs}
    for row in zip(*columns_by_name.values(), strict=True):
        yield dict(zip(columns_by_name, row, strict=True))
