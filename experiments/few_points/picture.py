"""The picture: errors against the number of layers learned from, and how many test rows the intervals cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.few_points.cells import ALONE, PEER_INPUTS
from experiments.few_points.summary import CHOSEN, MEDN, ORACLE, Result, by_name, size_rows, sizes

BESIDE = (ORACLE, "gaussian_process", "roofline", "lightgbm_on_roofline", "medn_on_roofline", MEDN, ALONE, *PEER_INPUTS)
"""What is drawn beside that which was chosen, where it is there."""

PROMISED = 90.0


def draw(groups: Mapping[str, Sequence[Result]], path: Path) -> None:
    """Two pictures for each group of tables, written as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(
        len(groups), 2, figsize=(12, 4.6 * len(groups)), squeeze=False, layout="constrained", width_ratios=(3, 2)
    )
    for (errors, coverage), (title, results) in zip(axes, groups.items(), strict=True):
        rows, layers = size_rows(results), sizes(results)
        means = [by_name([each for each in results if each.cell.layers == size]) for size in layers]
        for number, name in enumerate((CHOSEN, *BESIDE)):
            known = [(size, own[name]) for size, own in zip(layers, means, strict=True) if name in own]
            if known:
                style = {"linewidth": 1.0, "linestyle": "--", "color": f"C{number}"}
                style = {"linewidth": 2.5, "color": "black"} if name == CHOSEN else style
                errors.plot(*zip(*known, strict=True), marker="o", markersize=3, label=name, **style)
        errors.set(title=f"{title}: geometric mean of test errors", ylabel="mean error in per cent", yscale="log")
        errors.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        errors.yaxis.set_major_formatter("{x:g}")
        errors.legend(fontsize=8)
        for name in ("covered %", "covered far %"):
            coverage.plot(layers, [row[name] for row in rows], marker="o", markersize=3, label=name)
        coverage.axhline(PROMISED, color="black", linewidth=0.8)
        coverage.set(title="test rows inside their interval", ylabel="per cent", ylim=(60, 100))
        coverage.legend(fontsize=8)
        for axis in (errors, coverage):
            axis.set(
                xlabel="layers learned from", xscale="log", xticks=layers, xticklabels=[str(size) for size in layers]
            )
            axis.minorticks_off()
            axis.grid(alpha=0.3)
    for ending in (".png", ".svg"):
        figure.savefig(path.with_suffix(ending), dpi=130)
    plt.close(figure)
