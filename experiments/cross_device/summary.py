"""What the cells say together: a row for every device and number of points, and a picture of the curves."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def _percent(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return round(100 * statistics.fmean(known), 1) if known else None


def groups(results: Sequence[Json]) -> dict[tuple[str, str, int], list[Json]]:
    found: dict[tuple[str, str, int], list[Json]] = {}
    for result in results:
        found.setdefault((result["table"], result["device"], result["size"]), []).append(result)
    return found


def families(results: Sequence[Json]) -> list[str]:
    return sorted({name for result in results for name in result["families"]})


def size_rows(results: Sequence[Json]) -> list[Json]:
    """The mean over seeds."""
    return [
        {
            "table": table,
            "new device": device,
            "points": size,
            "seeds": len(own),
            "chosen": _percent([each["error"] for each in own]),
            "median": _percent([each["median"] for each in own]),
            "alone": _percent([each["alone"] for each in own]),
            **{name: _percent([each["families"].get(name) for each in own]) for name in families(results)},
            "covered": _percent([each["covered"] for each in own]),
            "processor s": round(statistics.fmean(each["processor_seconds"] for each in own)),
        }
        for (table, device, size), own in groups(results).items()
    ]


def cell_rows(results: Sequence[Json]) -> list[Json]:
    return [
        {
            **{name: each[name] for name in ("table", "device", "size", "seed", "chosen")},
            "error": _percent([each["error"]]),
            "standard error": _percent([each["standard_error"]]),
            "alone": _percent([each["alone"]]),
            "covered": _percent([each["covered"]]),
            "width": _percent([each["width"]]),
            "kB": round(each["bytes"] / 1e3),
            "processor s": round(each["processor_seconds"]),
        }
        for each in results
    ]


def draw(results: Sequence[Json], path: Path) -> None:
    """The error against the number of points, a picture for every new device, as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    places = sorted({(each["table"], each["device"]) for each in results})
    columns = min(3, len(places))
    lines = -(-len(places) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(5 * columns, 4 * lines), squeeze=False, layout="constrained")
    for axis, (table, device) in zip(axes.flat, places, strict=False):
        own = [each for each in results if (each["table"], each["device"]) == (table, device)]
        rows = size_rows(own)
        for name in ("chosen", "alone", *families([each for each in own if each["size"]])):
            # What follows from a data sheet alone has the roofline of other devices beside it, which is another line.
            drawn = [row for row in rows if row["points"] or name == "chosen"]
            known = [(row["points"], row[name]) for row in drawn if row.get(name) is not None]
            if known:
                style = (
                    {"linewidth": 2.5, "color": "black"} if name == "chosen" else {"linewidth": 1, "linestyle": "--"}
                )
                points, errors = zip(*sorted(known), strict=True)
                axis.plot([max(count, 3) for count in points], errors, marker="o", markersize=3, label=name, **style)
        axis.set(
            title=f"{table}: {device} is new", xscale="log", yscale="log", xlabel="points measured (0 at the left)"
        )
        axis.set(ylabel="mean error in per cent")
        for which in (axis.yaxis.set_major_formatter, axis.yaxis.set_minor_formatter, axis.xaxis.set_major_formatter):
            which(matplotlib.ticker.FormatStrFormatter("%g"))
        axis.grid(alpha=0.3, which="both")
    for axis in axes.flat[len(places) :]:
        axis.set_axis_off()
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    for ending in (".png", ".svg"):
        figure.savefig(path.with_suffix(ending), dpi=120)
    plt.close(figure)
