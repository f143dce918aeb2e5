"""Figures as elements of a page: no colours of paper or ink, no fonts, nothing that names a maker."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

INK = "#0a0b0c"
"""Stands for the page's own colour of text, whatever that is."""


def inline_svg(figure: Figure, label: str, salt: str) -> Markup:
    """A figure as an element of a page; `salt` keeps its inner names apart from those of other figures."""
    import matplotlib
    from markupsafe import Markup, escape

    written = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(written, format="svg", transparent=True, metadata=nothing)
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r' id="[\w.]+_\d+"', "", text)  # what nothing refers to
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\s*\n\s*", " ", text).replace("> <", "><").replace(INK, "currentColor")
    view_box = re.search(r'viewBox="[^"]*"', text)
    opening = f'<svg {view_box[0] if view_box else ""} role="img" aria-label="{escape(label)}">'
    return Markup(opening + text[text.index(">") + 1 :])
