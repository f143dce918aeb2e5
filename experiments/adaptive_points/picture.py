"""The picture: error against the number of points, for each table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.adaptive_points.simulation import ADAPTIVE, RANDOM, Curve, mean_curve

COLUMNS = 4


def draw(found: Sequence[Curve], path: Path) -> None:
    """One panel for each table, written as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(curve.table for curve in found))
    lines = -(-len(names) // COLUMNS)
    figure, axes = plt.subplots(
        lines, COLUMNS, figsize=(3.4 * COLUMNS, 2.6 * lines), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        for way, colour in ((RANDOM, "#7f8790"), (ADAPTIVE, "#d9772b")):
            same = [curve for curve in found if (curve.table, curve.way) == (name, way)]
            for curve in same:
                axis.plot(curve.points, [100 * error for error in curve.errors], color=colour, alpha=0.2, linewidth=0.7)
            mean = mean_curve(same)
            axis.plot(mean["points"], 100 * mean["errors"], color=colour, linewidth=2, label=way)
        axis.set(title=name, xscale="log", yscale="log")
        axis.set_xticks([25, 50, 100, 200, 400], ["25", "50", "100", "200", "400"])
        axis.yaxis.set_major_formatter("{x:.3g}")
        axis.yaxis.set_minor_formatter("{x:.3g}")
        axis.tick_params(which="both", labelsize=7)
        axis.xaxis.minorticks_off()
        axis.grid(alpha=0.3)
    axes.flat[0].legend(fontsize=8)
    figure.supxlabel("measured points")
    figure.supylabel("mean error on test layers, per cent")
    for ending in (".png", ".svg"):
        figure.savefig(path.with_suffix(ending), dpi=120)
    plt.close(figure)
