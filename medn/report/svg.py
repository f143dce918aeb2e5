"""Figures as inline SVG: without background, text colour, fonts and metadata, which the page decides."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

INK = "#0a0b0c"
"""A placeholder for the page's own text colour."""


def inline_svg(figure: Figure, label: str, salt: str) -> Markup:
    """A figure as an element of a page; `salt` keeps its inner names apart from those of other figures."""
    import matplotlib
    from markupsafe import Markup, escape

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r' id="[\w.]+_\d+"', "", svg)  # what nothing refers to
    svg = re.sub(r"(\.\d\d)\d+", r"\1", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").replace(INK, "currentColor")
    view_box = re.search(r'viewBox="[^"]*"', svg)
    opening = f'<svg {view_box[0] if view_box else ""} role="img" aria-label="{escape(label)}">'
    return Markup(opening + svg[svg.index(">") + 1 :])
