"""A page about one predicted model: what it costs, where the time goes, and every layer."""

from __future__ import annotations

from collections.abc import Sequence

from medn.core.units import latency_words, percent
from medn.model.prediction import ModelPrediction
from medn.report.flame import flame
from medn.report.page import render
from medn.report.tables import Cell, Column, Line, PageTable, cell


def model_page(found: ModelPrediction, name: str, words: Sequence[str]) -> str:
    """The page as HTML; `words` say the whole model in sentences."""
    return render(
        "model.html",
        {"title": f"medn model: {name}", "name": name, "words": words, "flame": flame(found), "layers": _table(found)},
    )


def _table(found: ModelPrediction) -> PageTable:
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
        kind = row.kind or row.operator
        place = ("yes" if row.in_range else "no") if row.known else "estimated"
        cells = [Cell(row.name, row.name), Cell(kind, kind)]
        cells += [cell(seconds, latency_words) for seconds in (row.latency_s, row.low_s, row.high_s)]
        lines.append(Line([*cells, cell(row.share, percent), Cell(place, place)]))
    return PageTable("The layers in the order in which they run", columns, lines)
