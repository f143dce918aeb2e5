"""A page about one predicted model."""

from __future__ import annotations

from medn.report.models import ModelPart
from medn.report.page import render


def model_page(part: ModelPart) -> str:
    """The page as HTML."""
    return render("model.html", {"title": f"medn model: {part.name}", "part": part})
