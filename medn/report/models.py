"""Whole models in a report: what each costs, where its time goes, and every layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medn.capture.captured_model import CapturedModel
from medn.choosing.bundling import made_bundle
from medn.choosing.select_run import CHOSEN_FOLDER
from medn.core.units import format_latency, percent
from medn.layer_generators.kind import layer_kinds
from medn.model.composition import Composition
from medn.model.description import sentences
from medn.model.prediction import LayerRow, ModelPrediction
from medn.predictor.predictor import Predictor
from medn.report.flame import flame
from medn.report.layers import format_layer
from medn.report.plots import Plot
from medn.report.tables import Cell, Column, PageTable, TableRow, cell
from medn.training.candidate_store import load_candidates

MOST_DEAREST = 5


@dataclass(frozen=True, eq=False)
class ModelPart:
    """What a page says of one model on one device."""

    name: str
    device: str
    prediction: ModelPrediction

    @property
    def sentences(self) -> list[str]:
        return list(sentences(self.prediction))

    @property
    def dearest(self) -> PageTable:
        return _dearest_table(self.prediction)

    @property
    def flame(self) -> Plot:
        return flame(self.prediction)

    @property
    def layers(self) -> PageTable:
        return _layers_table(self.prediction)


def predicted_models(
    folder: Path,
    models: Mapping[str, CapturedModel],
    batch_size: int | None = None,
    utilization: float = 0.0,
    composition: Composition | None = None,
) -> list[ModelPart]:
    """Models by name, predicted by what was chosen in a run for each of its devices."""
    bundle = made_bundle(folder, load_candidates(folder / CHOSEN_FOLDER), folder.resolve().name)
    predictors = [Predictor(bundle, device) for device in bundle.devices]
    return [
        ModelPart(name, predictor.device, predictor.model(model, None, batch_size, utilization, composition))
        for name, model in models.items()
        for predictor in predictors
    ]


def models_table(parts: Mapping[str, ModelPart]) -> PageTable:
    """One row for each model, by the anchor of its section."""
    columns = [
        Column("model", is_number=False),
        Column("device", is_number=False),
        Column("batch size"),
        Column("latency"),
        Column("low"),
        Column("high"),
        Column("layers"),
        Column("estimated", "share of the time in layers that no chosen predictor knows"),
        Column("outside", "share of the time in layers unlike those that were measured"),
    ]
    lines = []
    for anchor, part in parts.items():
        model = part.prediction
        cells = [
            Cell(part.name, part.name, f"#{anchor}"),
            Cell(part.device, part.device),
            cell(model.batch_size, str),
        ]
        cells += [cell(seconds, format_latency) for seconds in (model.latency_s, model.low_s, model.high_s)]
        cells += [cell(len(model.captured.layers), str)]
        lines.append(
            TableRow([*cells, *(cell(share, percent) for share in (model.unknown_share, model.outside_share))])
        )
    return PageTable("Whole models, all layers together", columns, lines)


def _dearest_table(model: ModelPrediction) -> PageTable:
    """The layers that take the longest, with their parameters."""
    columns = [
        Column("layer", is_number=False),
        Column("kind", "or the operator, where no layer kind knows it", is_number=False),
        Column("parameters", "but defaults", is_number=False, wraps=True),
        Column("latency"),
        Column("share", "of the time of the model"),
        Column("all so far", "share of this and those above it"),
        Column("in range", "whether layers like it were measured", is_number=False),
    ]
    rows = list(zip(model.rows, model.captured.layers, strict=True))
    rows.sort(key=lambda pair: -pair[0].latency_s)
    lines, so_far = [], 0.0
    for row, captured in rows[:MOST_DEAREST]:
        so_far += row.share
        layer = captured.layer
        told = format_layer(layer_kinds[layer.kind], layer.values) if layer and layer.kind in layer_kinds else ""
        cells = [Cell(text, text) for text in (row.name, row.what, told)]
        cells += [cell(row.latency_s, format_latency), cell(row.share, percent), cell(so_far, percent)]
        lines.append(TableRow([*cells, _in_range(row)]))
    return PageTable(f"The {len(lines)} most expensive of {len(rows)} layers", columns, lines)


def _in_range(row: LayerRow) -> Cell:
    told = ("yes" if row.in_range else "no") if row.known else "estimated"
    return Cell(told, told)


def _layers_table(model: ModelPrediction) -> PageTable:
    columns = [
        Column("layer", is_number=False),
        Column("kind", "or the operator, where no layer kind knows it", is_number=False),
        Column("latency"),
        Column("low"),
        Column("high"),
        Column("share", "of the time of the model"),
        Column("in range", "whether layers like it were measured", is_number=False),
    ]
    lines = []
    for row in model.rows:
        cells = [Cell(row.name, row.name), Cell(row.what, row.what)]
        cells += [cell(seconds, format_latency) for seconds in (row.latency_s, row.low_s, row.high_s)]
        lines.append(TableRow([*cells, cell(row.share, percent), _in_range(row)]))
    return PageTable("The layers in the order in which they run", columns, lines)
