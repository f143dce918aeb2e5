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
from medn.report.tables import Cell, Column, Line, PageTable, cell
from medn.training.candidate_store import load_candidates


@dataclass(frozen=True, eq=False)
class ModelPart:
    """What a page says of one model on one device."""

    name: str
    device: str
    found: ModelPrediction

    @property
    def words(self) -> list[str]:
        return list(sentences(self.found))

    @property
    def flame(self) -> Picture:
        from medn.report.flame import flame  # needs a library that only pages need

        return flame(self.found)

    @property
    def layers(self) -> PageTable:
        return _layers_table(self.found)


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
    """One line for each model, by the place on the page that tells more about it."""
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
        found = part.found
        cells = [Cell(part.name, part.name, f"#{anchor}"), Cell(part.device, part.device), cell(found.batch_size, str)]
        cells += [cell(seconds, format_latency) for seconds in (found.latency_s, found.low_s, found.high_s)]
        cells += [cell(len(found.captured.layers), str)]
        lines.append(Line([*cells, *(cell(share, percent) for share in (found.unknown_share, found.outside_share))]))
    return PageTable("Whole models, all layers together", columns, lines)


def _layers_table(found: ModelPrediction) -> PageTable:
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
    for row in found.rows:
        place = ("yes" if row.in_range else "no") if row.known else "estimated"
        cells = [Cell(row.name, row.name), Cell(row.what, row.what)]
        cells += [cell(seconds, format_latency) for seconds in (row.latency_s, row.low_s, row.high_s)]
        lines.append(Line([*cells, cell(row.share, percent), Cell(place, place)]))
    return PageTable("The layers in the order in which they run", columns, lines)
