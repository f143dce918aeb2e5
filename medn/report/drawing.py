"""What all pictures share: colours, style, points, ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.table import Array
from medn.core.units import format_latency
from medn.report.svg import INK, inline_svg

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

SIZE = (4.6, 3.2)
FEWEST_TICKS, MOST_TICKS = 3, 6

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b82c4", "#d9772b", "#3f9b55", "#d1495b", "#9067c6", "#7f8790"
"""Of a brightness that is visible on white and on black."""

CYCLE = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)

STYLE: dict[Any, object] = {
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


@dataclass(frozen=True)
class Picture:
    title: str
    caption: str
    svg: Markup


def picture(
    title: str, caption: str, draw: Callable[[Axes], None], salt: str, size: tuple[float, float] = SIZE
) -> Picture:
    """Draw on fresh axes. What the picture shows is also its description for those who cannot see it."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        return Picture(title, caption, inline_svg(figure, f"{title}. {caption}", f"{salt} {title}"))


def dots(axes: Axes, x: Array, y: Array, colour: str, size: float = 3.5, label: str | None = None) -> None:
    """Many points as one path of lines without length and with round ends: a fifth of the bytes of markers."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    vertices = np.repeat(np.column_stack([x, y]), 2, axis=0)
    codes = np.tile([Path.MOVETO, Path.LINETO], len(x))
    style = {"facecolor": "none", "edgecolor": colour, "linewidth": size, "alpha": 0.75, "capstyle": "round"}
    path = Path(vertices, codes)
    path.should_simplify = False  # which would drop lines without length
    axes.add_patch(PathPatch(path, **style))
    axes.update_datalim(np.column_stack([x, y]))
    axes.autoscale_view()
    if label:
        axes.plot([], [], "o", color=colour, markersize=size, label=label)


def log_ticks(axis: Axis, format_value: Callable[[float], str]) -> None:
    """Ticks at round numbers of a logarithmic axis, as many as one reads at a glance."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(FixedLocator(round_numbers(low, high)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value)))
    axis.set_minor_locator(NullLocator())


_FINE = [np.arange(1, 10, step).round(1) for step in (0.5, 0.2, 0.1)]


def round_numbers(low: float, high: float) -> list[float]:
    """The roundest numbers of a span that are enough to read it by.

    >>> round_numbers(0.9, 250), round_numbers(6.5, 16)
    ([1.0, 10.0, 100.0], [7.0, 10.0, 15.0])
    """
    numbers: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7), (1, 1.2, 1.5, *range(2, 10)), *_FINE):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        numbers = [float(digit * 10.0**power) for power in powers for digit in digits]
        numbers = [value for value in numbers if low <= value <= high]
        if len(numbers) >= FEWEST_TICKS:
            break
    return numbers[:: max(1, len(numbers) // MOST_TICKS)]


def latency_ticks(axis: Axis) -> None:
    log_ticks(axis, format_latency)


def percent_ticks(axis: Axis) -> None:
    """Shares as per cent, on a linear or a logarithmic axis."""
    from matplotlib.ticker import MaxNLocator

    if axis.get_scale() == "log":
        log_ticks(axis, lambda share: f"{share * 100:.3g} %")
    else:
        axis.set_major_locator(MaxNLocator(MOST_TICKS))
        axis.set_major_formatter(lambda share, _: f"{share * 100:.3g} %")


def dumbbells(
    title: str,
    caption: str,
    names: Sequence[str],
    ends: tuple[Sequence[float | None], Sequence[float | None]],
    labels: tuple[str, str],
    format_value: Callable[[float], str],
) -> Picture:
    """Two values for each name on one line, joined, so that the difference is what one sees."""

    def draw(axes: Axes) -> None:
        for line, (first, second) in enumerate(zip(*ends, strict=True)):
            if first and second:
                axes.plot([first, second], [line, line], color=GREY, linewidth=1.5, zorder=1)
        for values, label, colour in zip(ends, labels, (GREEN, BLUE), strict=True):
            points = [(value, line) for line, value in enumerate(values) if value]
            axes.plot(*np.array(points).reshape(-1, 2).T, "o", color=colour, markersize=6, label=label, zorder=2)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xscale("log")
        log_ticks(axes.xaxis, format_value)
        axes.grid(axis="x", color=INK, alpha=0.15, linewidth=0.5)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    return picture(title, caption, draw, "overview", (4.8, 1.3 + 0.25 * len(names)))
