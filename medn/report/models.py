"""Whole models in a report: what each costs, where its time goes, and every layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medn.capture.captured_model import CapturedModel
from medn.choosing.bundling import made_bundle
from medn.choosing.select_run import CHOSEN_FOLDER
from medn.core.units import format_latency, percent
from medn.model.composition import HOT, Composition
from medn.model.description import sentences
from medn.model.prediction import ModelPrediction
from medn.predictor.predictor import Predictor
from medn.report.drawing import Picture
from medn.report.tables import Cell, Column, PageTable, TableRow, cell
from medn.training.candidate_store import load_candidates


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
    def flame(self) -> Picture:
        from medn.report.flame import flame  # needs a library that only pages need

        return flame(self.prediction)

    @property
    def layers(self) -> PageTable:
        return _layers_table(self.prediction)


def predicted_models(
    folder: Path,
    models: Mapping[str, CapturedModel],
    batch_size: int | None = None,
    utilization: float = 0.0,
    composition: Composition = HOT,
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
        in_range = ("yes" if row.in_range else "no") if row.known else "estimated"
        cells = [Cell(row.name, row.name), Cell(row.what, row.what)]
        cells += [cell(seconds, format_latency) for seconds in (row.latency_s, row.low_s, row.high_s)]
        lines.append(TableRow([*cells, cell(row.share, percent), Cell(in_range, in_range)]))
    return PageTable("The layers in the order in which they run", columns, lines)
