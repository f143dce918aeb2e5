"""What a plot is: marks and axes as plain data, which the page hands to Observable Plot.

A mark has the name and the options of one of that library's marks. An option that is a list has a value for each row;
any other holds for all of them. Colours are those of the page, by name, so that a plot follows light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from medn.core.table import Array

Scale = Literal["linear", "log", "band", "point"]
Format = Literal["number", "percent", "latency", "bytes", "none"]

DIGITS = 5
"""More cannot be seen."""

MARGIN = 0.04
"""The share of an axis that is left free at either end."""

SHAPES = {"circle": "●", "square": "■", "diamond": "◆", "triangle": "▲", "cross": "✚", "star": "★"}
"""The symbols of points, and how a legend shows them."""

COLORS = ("blue", "orange", "green", "red", "purple", "grey")
"""Told apart on white and on black; the page says what they are."""


@dataclass(frozen=True)
class Axis:
    label: str = ""
    scale: Scale = "linear"
    format: Format = "number"
    """How the page writes its ticks."""
    domain: Sequence[float | str] = ()
    """What it shows at first: both ends of a number, or every name."""

    def as_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "type": self.scale,
            "format": self.format,
            "domain": list(map(_short, self.domain)),
        }


@dataclass(frozen=True)
class Mark:
    name: str
    """Of Observable Plot, such as `dot`."""
    options: Mapping[str, Any]
    label: str = ""
    """In the legend; none without one."""

    @property
    def color(self) -> str:
        return str(self.options.get("fill", self.options.get("stroke", "ink")))

    @property
    def shape(self) -> str:
        if self.name == "dot":
            return SHAPES[self.options.get("symbol", "circle")]
        return "━" if "stroke" in self.options else "■"

    def as_json(self) -> dict[str, Any]:
        return {"mark": self.name, **{name: _plain(value) for name, value in self.options.items()}}


@dataclass(frozen=True)
class Plot:
    title: str
    caption: str
    """What it shows, also for those who cannot see it."""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    marks: Sequence[Mark] = ()
    """None where there is too little to draw: the caption says so."""
    height: int = 270
    """In pixels, where it stands in the page."""

    @property
    def legend(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.label]

    def as_json(self) -> dict[str, Any]:
        return {
            "label": f"{self.title}. {self.caption}",
            "height": self.height,
            "x": self.x.as_json(),
            "y": self.y.as_json(),
            "marks": [mark.as_json() for mark in self.marks],
        }


def mark(name: str, label: str = "", **options: Any) -> Mark:
    return Mark(name, options, label)


def dots(
    x: Sequence[Any] | Array,
    y: Sequence[Any] | Array,
    color: str = "blue",
    *,
    titles: Sequence[str] = (),
    label: str = "",
    symbol: str = "circle",
    radius: float = 3.0,
) -> Mark:
    """Points, each with a title that is shown when one points at it."""
    told = {"title": list(titles), "tip": True} if len(titles) else {}
    return Mark("dot", {"x": x, "y": y, "fill": color, "symbol": symbol, "r": radius, **told}, label)


def line(
    x: Sequence[Any] | Array, y: Sequence[Any] | Array, color: str = "ink", label: str = "", **options: Any
) -> Mark:
    return Mark("lineY", {"x": x, "y": y, "stroke": color, **options}, label)


def span(*parts: Iterable[float | None] | Array, scale: Scale = "linear", zero: bool = False) -> tuple[float, float]:
    """The ends of an axis that shows all of these numbers, with a margin; from 0 on where that is asked for.

    >>> span([0.0, 1.0, 2.0]), span([None, 5.0], zero=True)
    ((-0.08, 2.08), (0.0, 5.2))
    """
    values = [float(value) for part in parts for value in part if value is not None and math.isfinite(value)]
    if scale == "log":
        low, high = (math.log(each) for each in _ends([value for value in values if value > 0] or [1.0]))
        margin = MARGIN * (high - low) or 0.1
        return math.exp(low - margin), math.exp(high + margin)
    low, high = _ends([*values, 0.0] if zero else values or [0.0])
    margin = MARGIN * (high - low) or 0.1
    return (low if zero and low == 0 else low - margin), high + margin


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _plain(value: Any) -> Any:
    """As JSON holds it: what is no number is a gap."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_short(each) for each in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return _short(value)


def _short(value: Any) -> Any:
    if isinstance(value, (bool, str, int)) or value is None:
        return value
    return float(f"{float(value):.{DIGITS}g}") if math.isfinite(value) else None
