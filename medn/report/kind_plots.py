"""The plots of one kind, each from the numbers that the content holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from medn.core.units import format_bytes, format_latency, percent
from medn.layer_generators.kind import LayerKind
from medn.report.content import KindContent
from medn.report.effects import HeatMap, binned
from medn.report.layers import format_layer, told_layer
from medn.report.leaderboard_rows import Row
from medn.report.plots import COLORS, Axis, Format, Plot, Scale, dots, line, mark, span
from medn.report.staircase import TypicalStaircase

MOST_DOTS = 300
MOST_INPUTS = 12
MOST_BINS = 6
FEWEST_ROWS = 10
"""With fewer test rows there are no shares, bars or maps worth drawing, only the rows themselves."""

FEWEST_IN_BIN = 5
WIDE = 4096
"""Sizes beyond this are drawn on logarithmic axes."""

WIDEST_ERROR = 0.5
"""Errors beyond this are drawn at the edge: a few bad ones must not hide how the others lie."""


def kind_plots(kind: KindContent) -> Iterator[Plot]:
    """All plots of one kind, the most important first."""
    yield _predicted_against_measured(kind)
    yield _error_against_latency(kind)
    yield _front(kind, "us_1", "Error against prediction time", "one prediction, us", "number")
    yield _front(kind, "bytes", "Error against size", "size", "bytes")
    if len(kind.test) >= FEWEST_ROWS:
        for column, label in (("batch_size", "batch size"), ("utilization", "utilisation")):
            if column in kind.test.schema.numeric:
                yield _error_by(kind, column, label)
        if kind.heat:
            yield _heat(kind.heat)
    for staircase in kind.staircases:
        yield _staircase(kind.source.layer_kind, staircase)
    if len(kind.test) >= FEWEST_ROWS:
        yield _reliability(kind)
        yield _importance(kind)
    if any(len(search.best) > 1 for search in kind.searches.values()):
        yield _history(kind)


def few_rows_note(kind: KindContent) -> str:
    """What is not drawn for want of rows; nothing where there are enough."""
    rows, layers = len(kind.test), kind.tested_layers
    if rows >= FEWEST_ROWS:
        return ""
    tested = f"{rows} test {'point' if rows == 1 else 'points'} of {layers} {'layer' if layers == 1 else 'layers'}"
    return (
        f"Only {tested}: errors by size, interval coverage and the importance of inputs would be drawn from a handful "
        "of points, so they are not."
    )


def _predicted_against_measured(kind: KindContent) -> Plot:
    measured_s, predicted_s = kind.test.target, kind.predicted_s
    shown = _some(len(measured_s))
    within = percent(float((np.abs(kind.errors) <= 0.1).mean()))
    ends = np.array(span(measured_s, predicted_s, scale="log"))
    x, y = (Axis(label, "log", "latency", tuple(ends)) for label in ("measured", "predicted"))
    return Plot(
        "Predicted against measured",
        f"{len(measured_s)} points of layers that nothing was learned from; {within} lie within the dotted 10 %.",
        x,
        y,
        [
            line(ends, ends, strokeWidth=1),
            *(line(ends, ends * factor, strokeWidth=0.8, strokeDasharray="2 3") for factor in (0.9, 1.1)),
            dots(measured_s[shown], predicted_s[shown], titles=_titles(kind, shown)),
        ],
    )


def _error_against_latency(kind: KindContent) -> Plot:
    errors = np.clip(kind.errors, -WIDEST_ERROR, WIDEST_ERROR)
    shown = _some(len(errors))
    beyond = int((np.abs(kind.errors) > WIDEST_ERROR).sum())
    x = Axis("measured", "log", "latency", span(kind.test.target, scale="log"))
    marks = [mark("ruleY", y=[0.0], stroke="ink")]
    caption = "Above zero the prediction is too high."
    if noise := kind.noise:
        band = {"x": list(x.domain), "y1": [-noise] * 2, "y2": [noise] * 2}
        marks.append(mark("areaY", "noise", **band, fill="green", fillOpacity=0.25))
        caption += f" The band is the noise: measurements repeat within {percent(noise)} on average."
    if beyond:
        caption += f" {beyond} larger {'error is' if beyond == 1 else 'errors are'} drawn at the edge."
    marks.append(dots(kind.test.target[shown], errors[shown], titles=_titles(kind, shown)))
    y = Axis("predicted / measured - 1", format="percent", domain=span(errors, [-(noise or 0.0), noise or 0.0]))
    return Plot("Error against latency", caption, x, y, marks)


def _front(kind: KindContent, cost: str, title: str, label: str, format_cost: Format) -> Plot:
    rows = sorted((row for row in kind.rows if row[cost] and row["mape"]), key=lambda row: row[cost])
    best = _lower_left(rows)
    marks = [
        line([row[cost] for row in best], [row["mape"] for row in best], "grey", curve="step-after", strokeWidth=1),
    ]
    for is_chosen, color, symbol, radius in ((False, "blue", "circle", 4.0), (True, "orange", "star", 6.0)):
        own = [row for row in rows if bool(row["chosen"]) == is_chosen]
        titles = [_candidate_title(row) for row in own]
        legend = "chosen" if is_chosen else "other candidates"
        costs, errors = [row[cost] for row in own], [row["mape"] for row in own]
        marks.append(dots(costs, errors, color, titles=titles, label=legend, symbol=symbol, radius=radius))
    x = Axis(label, "log", format_cost, span((row[cost] for row in rows), scale="log"))
    y = Axis("mean error (MAPE)", "log", "percent", span((row["mape"] for row in rows), scale="log"))
    caption = (
        "The star was chosen, on other layers than these. Left and below is better; the line joins what nothing else "
        "beats in both."
    )
    return Plot(title, caption, x, y, marks)


def _candidate_title(row: Row) -> str:
    return f"{row['candidate']}\n{percent(row['mape'])} mean error\n{row['us_1']:.3g} us, {format_bytes(row['bytes'])}"


def _lower_left(rows: Sequence[Row]) -> list[Row]:
    """Of rows in order of cost, those with a smaller error than every cheaper one."""
    best: list[Row] = []
    for row in rows:
        if not best or row["mape"] < best[-1]["mape"]:
            best.append(row)
    return best


def _error_by(kind: KindContent, column: str, label: str) -> Plot:
    bins, names = binned(kind.test.column(column), MOST_BINS)
    errors = {name: np.abs(kind.errors[bins == number]) for number, name in enumerate(names)}
    enough = {name: own for name, own in errors.items() if len(own) >= FEWEST_IN_BIN}
    few = [f"{name} ({len(own)})" for name, own in errors.items() if name not in enough]
    caption = "Of points that nothing was learned from."
    if few:
        caption += f" Too few points to draw: {', '.join(few)}."
    medians = [float(np.median(own)) for own in enough.values()]
    tails = [float(np.quantile(own, 0.9)) for own in enough.values()]
    titles = [
        f"{label} {name}: {len(own)} points\nmedian {percent(median)}\n90th percentile {percent(tail)}"
        for (name, own), median, tail in zip(enough.items(), medians, tails, strict=True)
    ]
    marks = [
        mark("barY", "median", x=list(enough), y=medians, fill="blue", fillOpacity=0.8, title=titles, tip=True),
        mark("tickY", "90th percentile", x=list(enough), y=tails, stroke="red", strokeWidth=2.5),
    ]
    x = Axis(label, "band", domain=tuple(names))
    y = Axis("relative error", format="percent", domain=span(tails, medians, zero=True))
    return Plot(f"Error against {label}", caption, x, y, marks if enough else ())


def _heat(heat: HeatMap) -> Plot:
    cells = [(row, column) for row, column in np.ndindex(heat.errors.shape) if heat.counts[row, column]]
    errors = [float(heat.errors[place]) for place in cells]
    rows, columns = ([labels[place[axis]] for place in cells] for axis, labels in enumerate(heat.labels))
    told = [f"{error:+.0%}" if np.isfinite(error) else "" for error in errors]
    titles = [
        f"{heat.names[0]} {row}\n{heat.names[1]} {column}\n{heat.counts[place]} points"
        + (f"\nmedian {text}" if text else "")
        for place, row, column, text in zip(cells, rows, columns, told, strict=True)
    ]
    marks = [
        mark(
            "cell",
            x=columns,
            y=rows,
            fill=["red" if error > 0 else "blue" for error in errors],
            fillOpacity=[min(abs(error) / 0.3, 1.0) * 0.8 if np.isfinite(error) else 0.0 for error in errors],
            title=titles,
            tip=True,
        ),
        mark("text", x=columns, y=rows, text=told, fill="ink", pointerEvents="none"),
    ]
    caption = (
        "Median error with its sign: red is predicted too high, blue too low; empty where a single point was tested."
    )
    x, y = (Axis(heat.names[place], "band", domain=heat.labels[place]) for place in (1, 0))
    return Plot(f"Error over {heat.names[0]} and {heat.names[1]}", caption, x, _upwards(y), marks)


def _upwards(axis: Axis) -> Axis:
    """Larger values on top."""
    return Axis(axis.label, axis.scale, axis.format, tuple(reversed(axis.domain)))


def _staircase(kind: LayerKind, typical: TypicalStaircase) -> Plot:
    values, predicted = typical.values, typical.staircase.predictions
    scale: Scale = "log" if values.max() > WIDE else "linear"
    times = [map(format_latency, part) for part in (predicted.latency_s, predicted.low_s, predicted.high_s)]
    steps = zip(values, *times, strict=True)
    titles = [f"{typical.parameter} {value:g}\n{told} ({low} to {high})" for value, told, low, high in steps]
    marks = [
        mark("areaY", "interval", x=values, y1=predicted.low_s, y2=predicted.high_s, fill="blue", fillOpacity=0.2),
        line(values, predicted.latency_s, "blue", "predicted", strokeWidth=1.5, title=titles, tip=True),
    ]
    if len(typical.near_s):
        near = [f"measured, much alike\n{format_latency(seconds)}" for seconds in typical.near_s]
        marks.append(
            dots(typical.near_values, typical.near_s, "orange", titles=near, label="measured, much alike", radius=4)
        )
    x = Axis(typical.parameter, scale, domain=span(values, scale=scale))
    latencies = predicted.latency_s, predicted.low_s, predicted.high_s, typical.near_s
    y = Axis("latency", scale, "latency", span(*latencies, scale=scale, zero=scale == "linear"))
    caption = f"A typical layer while {typical.parameter} changes: {format_layer(kind, typical.staircase.fixed)}."
    return Plot(f"Latency over {typical.parameter}", caption, x, y, marks)


def _reliability(kind: KindContent) -> Plot:
    promised, covered = (np.array(part) for part in zip(*kind.reliability, strict=True))
    doubt = np.array([kind.doubt(level) for level in promised])
    low, high = promised - doubt, np.minimum(promised + doubt, 1.0)
    titles = [f"promised {percent(level)}\ncovered {percent(share)}" for level, share in kind.reliability]
    marks = [
        mark("areaY", "chance alone", x=promised, y1=low, y2=high, fill="grey", fillOpacity=0.2),
        line(promised, promised, strokeWidth=1),
        line(promised, covered, "blue", strokeWidth=1.5),
        dots(promised, covered, titles=titles, label="covered", radius=4),
    ]
    row = kind.row
    caption = (
        f"The {kind.level * 100:.3g} % interval covers {percent(row['coverage'])} of "
        f"{len(kind.test)} points; it is {percent(row['width'])} of the prediction wide on average."
    )
    x = Axis("promised by the interval", format="percent", domain=span(promised))
    y = Axis("measured points inside", format="percent", domain=span(low, high, covered))
    return Plot("Interval coverage", caption, x, y, marks)


def _importance(kind: KindContent) -> Plot:
    shown = [importance for importance in kind.importances[:MOST_INPUTS] if importance.growth > 0.001]
    names, growths = [each.name for each in shown], [each.growth for each in shown]
    titles = [f"{each.name}\n+{percent(each.growth)}" for each in shown]
    caption = (
        "How much worse predictions become when one input is shuffled among the points, the others left as they are."
    )
    x = Axis("growth of the typical error when shuffled", format="percent", domain=span(growths, zero=True))
    marks = [mark("barX", x=growths, y=names, fill="blue", fillOpacity=0.8, title=titles, tip=True)]
    return Plot("Importance of inputs", caption, x, Axis(scale="band", domain=tuple(names)), marks if shown else ())


def _history(kind: KindContent) -> Plot:
    marks, drawn = [], sorted(kind.searches.items())
    for number, (name, search) in enumerate(drawn):
        trials = list(range(1, len(search.best) + 1))
        titles = [f"{name}\ntrial {trial}: {percent(best)}" for trial, best in zip(trials, search.best, strict=True)]
        options = {"strokeDasharray": "4 3"} if number >= len(COLORS) else {}
        color = COLORS[number % len(COLORS)]
        marks.append(line(trials, search.best, color, name, curve="step-after", strokeWidth=1.5, **options))
        marks.append(dots(trials, search.best, color, titles=titles, radius=2))
    most = max(len(search.best) for _, search in drawn)
    errors = (error for _, search in drawn for error in search.best)
    x = Axis("trial", "log", domain=span([1.0, float(most)], scale="log"))
    y = Axis("best validation error", "log", "percent", span(errors, scale="log"))
    caption = "The smallest error on validation layers so far, trial after trial, by regressor."
    return Plot("Tuning", caption, x, y, marks)


def _titles(kind: KindContent, places: NDArray[np.int_]) -> list[str]:
    """What is told of a point that one points at."""
    measured_s, predicted_s = kind.test.target, kind.predicted_s
    return [
        f"{told_layer(kind.source, kind.test, int(place))}\nmeasured {format_latency(measured_s[place])}\n"
        f"predicted {format_latency(predicted_s[place])} ({100 * kind.errors[place]:+.1f} %)"
        for place in places
    ]


def _some(rows: int) -> NDArray[np.int_]:
    """Which of many points to draw: all of few, a fixed random part of many."""
    return np.random.default_rng(0).permutation(rows)[:MOST_DOTS]
