"""A whole model on the command line of `medn predict`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import say, write_json, write_rows
from medn.cli.sweep_for import sweep_command
from medn.core.errors import UsageError
from medn.core.packages import need
from medn.core.units import format_latency, percent

if TYPE_CHECKING:
    from medn.model.composition import Composition
    from medn.model.prediction import ModelPrediction
    from medn.predictor.predictor import Predictor

BatchSizeOption = Annotated[int | None, typer.Option("--batch-size", help="Of a model; as it was captured.")]
UtilizationOption = Annotated[
    float | None, typer.Option("--utilization", help="Of a model: the share of the device that others use.")
]
ColdShareOption = Annotated[
    float | None, typer.Option("--cold-share", help="Of a model: 0 if layers find their data in the cache, to 1.")
]
CompositionOption = Annotated[
    Path | None,
    typer.Option(
        "--composition", metavar="FILE", help="Of a model: how layer times compose, as medn compose wrote it."
    ),
]
HtmlOption = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Of a model: write a page about it.")]

MUCH = 0.2
"""The share of a model's time that may be extrapolated before its layers had better be measured."""

WHOLE_MODEL_OPTIONS = "--batch-size, --utilization, --cold-share, --composition and --html"


def predict_model(
    predictor: Predictor,
    source: str,
    batch_size: int | None,
    utilization: float,
    composition: Composition | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Predict the model of a source, and write it as a table by layer, as JSON or as a page."""
    from medn.model.description import sentences
    from medn.model.model_sources import read_model

    prediction = predictor.model(read_model(source, batch_size), None, batch_size, utilization, composition)
    if html is not None:
        _write_page(predictor.device, prediction, source, html)
    if as_json:
        write_json(prediction.as_json())
        return
    write_rows(list(_lines(prediction)), as_json=False)
    for sentence in sentences(prediction):
        say(sentence)
    if prediction.unmeasured_share > MUCH:
        _tell_how_to_measure(predictor, prediction, source)


def _tell_how_to_measure(predictor: Predictor, prediction: ModelPrediction, source: str) -> None:
    from medn.devices.backend import backends

    backend = predictor.bundle.backend(predictor.device)
    # A table from elsewhere may name a device that no backend drives here.
    devices = [backend] if backend in backends else []
    threads = max(int(entry.usual.get("threads", 1)) for entry in predictor.bundle.on(predictor.device))
    command = sweep_command([source], devices, [prediction.batch_size], threads if threads > 1 else None)
    share = percent(prediction.unmeasured_share)
    say(f"{share} of the time can be measured on {predictor.device} instead of extrapolated: {command}")


def read_composition(cold_share: float | None, path: Path | None) -> Composition | None:
    """How whole models run, by one of the two options that say it; None for as they usually do."""
    from medn.model.composition import everywhere, load_composition

    if cold_share is not None and path is not None:
        raise UsageError("--cold-share: already in the file of --composition; give one of the two")
    if path is not None:
        return load_composition(path)
    return None if cold_share is None else everywhere(cold_share)


def _lines(prediction: ModelPrediction) -> Iterator[dict[str, Any]]:
    for row in prediction.rows:
        yield {
            "layer": row.name,
            "kind": row.what,
            "latency": format_latency(row.latency_s),
            "low": format_latency(row.low_s),
            "high": format_latency(row.high_s),
            "share": percent(row.share),
            "in range": row.in_range if row.known else "estimated",
        }


def _write_page(device: str, prediction: ModelPrediction, source: str, path: Path) -> None:
    need("--html", "jinja2")
    from medn.report.model_page import model_page
    from medn.report.models import ModelPart
    from medn.report.page import write_page

    write_page(path, model_page(ModelPart(source, device, prediction)))
