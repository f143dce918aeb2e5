"""The pictures of one kind, each drawn from the numbers that the content holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from medn.core.units import format_bytes, format_latency, format_number, percent
from medn.layer_generators.kind import LayerKind
from medn.report.content import KindContent
from medn.report.drawing import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    Picture,
    dots,
    latency_ticks,
    log_ticks,
    percent_ticks,
    picture,
)
from medn.report.effects import HeatMap, binned
from medn.report.leaderboard_rows import Row
from medn.report.staircase import TypicalStaircase
from medn.report.summary_text import format_layer
from medn.report.svg import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DOTS = 300
MOST_INPUTS = 12
MOST_BINS = 6
LABEL_ROOM = np.array([0.4, 0.07])
"""The room that a name takes, as shares of the width and the height of a picture."""

WIDEST_ERROR = 0.5
"""Errors beyond this are drawn at the edge: a few bad ones must not hide how the others lie."""


def kind_pictures(kind: KindContent) -> Iterator[Picture]:
    """All pictures of one kind, the most important first."""
    salt = f"{kind.device} {kind.kind}"
    yield _predicted_against_measured(kind, salt)
    yield _error_against_latency(kind, salt)
    yield _front(kind, salt, "us_1", "Error against prediction time", "one prediction, us", lambda us: f"{us:g}")
    yield _front(kind, salt, "bytes", "Error against size", "size", format_bytes)
    for column, label in (("batch_size", "batch size"), ("utilization", "utilisation")):
        if column in kind.test.schema.numeric:
            yield _error_by(kind, salt, column, label)
    if kind.heat:
        yield _heat(kind.heat, salt)
    for staircase in kind.staircases:
        yield _staircase(kind.source.layer_kind, staircase, salt)
    yield _reliability(kind, salt)
    yield _importance(kind, salt)
    if any(len(history) > 1 for history in kind.histories.values()):
        yield _history(kind, salt)


def _predicted_against_measured(kind: KindContent, salt: str) -> Picture:
    measured_s, predicted_s = kind.test.target, kind.predicted_s
    shown = _some(len(measured_s))
    within = percent(float((np.abs(kind.errors) <= 0.1).mean()))

    def draw(axes: Axes) -> None:
        ends = np.array([min(measured_s.min(), predicted_s.min()), max(measured_s.max(), predicted_s.max())])
        axes.plot(ends, ends, color=INK, linewidth=0.8)
        for factor in (0.9, 1.1):
            axes.plot(ends, ends * factor, color=INK, linewidth=0.5, linestyle=":")
        dots(axes, measured_s[shown], predicted_s[shown], BLUE)
        axes.set(xscale="log", yscale="log", xlabel="measured", ylabel="predicted")
        latency_ticks(axes.xaxis)
        latency_ticks(axes.yaxis)

    caption = f"{len(measured_s)} points of layers that nothing was learned from; {within} lie within the dotted 10 %."
    return picture("Predicted against measured", caption, draw, salt)


def _error_against_latency(kind: KindContent, salt: str) -> Picture:
    errors = np.clip(kind.errors, -WIDEST_ERROR, WIDEST_ERROR)
    shown = _some(len(errors))
    beyond = int((np.abs(kind.errors) > WIDEST_ERROR).sum())
    noise = kind.source.noise

    def draw(axes: Axes) -> None:
        axes.axhline(0, color=INK, linewidth=0.6)
        if noise:
            axes.axhspan(-noise.median, noise.median, color=GREEN, alpha=0.25, linewidth=0, label="noise floor")
        dots(axes, kind.test.target[shown], errors[shown], BLUE)
        axes.set(xscale="log", xlabel="measured latency", ylabel="predicted / measured - 1")
        latency_ticks(axes.xaxis)
        percent_ticks(axes.yaxis)
        if noise:
            axes.legend(loc="upper right")

    caption = "Above zero the prediction is too high."
    if noise:
        caption += f" The band is the noise floor: half of the measurements repeat within {percent(noise.median)}."
    if beyond:
        caption += f" {beyond} larger errors are drawn at the edge."
    return picture("Error against latency", caption, draw, salt)


def _front(
    kind: KindContent, salt: str, cost: str, title: str, label: str, format_cost: Callable[[float], str]
) -> Picture:
    rows = sorted((row for row in kind.rows if row[cost] and row["mape"] is not None), key=lambda row: row[cost])
    best = _lower_left(rows)

    def draw(axes: Axes) -> None:
        axes.step([row[cost] for row in best], [row["mape"] for row in best], where="post", color=GREY, linewidth=0.8)
        for row in rows:
            marker, size, colour = ("*", 11.0, ORANGE) if row["chosen"] else ("o", 4.5, BLUE)
            axes.plot(row[cost], row["mape"], marker, markersize=size, color=colour, markeredgewidth=0, zorder=3)
        for row in _named(rows, best, cost):
            away = (4, -9) if row["chosen"] else (4, 4)
            axes.annotate(row["candidate"], (row[cost], row["mape"]), away, textcoords="offset points", fontsize=7)
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="mean error (MAPE)")
        axes.margins(x=0.2, y=0.15)
        log_ticks(axes.xaxis, format_cost)
        percent_ticks(axes.yaxis)

    caption = (
        "The star was chosen, on other layers than these. Left and below is better; the line joins what nothing else "
        "beats in both."
    )
    return picture(title, caption, draw, salt)


def _named(rows: Sequence[Row], best: Sequence[Row], cost: str) -> list[Row]:
    """The chosen row, and the best ones whose names can be written beside their points without covering another."""
    room = LABEL_ROOM * np.maximum(np.ptp(np.log([[row[cost], row["mape"]] for row in rows]), axis=0), 1e-9)
    named: list[Row] = []
    for row in (*(row for row in rows if row["chosen"]), *best):
        away = [np.abs(np.log([row[cost] / other[cost], row["mape"] / other["mape"]])) for other in named]
        if all((distance > room).any() for distance in away):
            named.append(row)
    return named


def _lower_left(rows: Sequence[Row]) -> list[Row]:
    """Of rows in order of cost, those with a smaller error than every cheaper one."""
    best: list[Row] = []
    for row in rows:
        if not best or row["mape"] < best[-1]["mape"]:
            best.append(row)
    return best


def _error_by(kind: KindContent, salt: str, column: str, label: str) -> Picture:
    bins, labels = binned(kind.test.column(column), MOST_BINS)
    errors = [np.abs(kind.errors[bins == number]) for number in range(len(labels))]

    def draw(axes: Axes) -> None:
        at = np.arange(len(labels))
        axes.bar(at, [float(np.median(in_bin)) for in_bin in errors], width=0.6, color=BLUE, alpha=0.75, label="median")
        axes.plot(
            at,
            [float(np.quantile(in_bin, 0.9)) for in_bin in errors],
            "_",
            color=RED,
            markersize=16,
            label="90th percentile",
        )
        axes.set_xticks(at, [f"{label}\n{len(in_bin)} points" for label, in_bin in zip(labels, errors, strict=True)])
        axes.set(xlabel=label, ylabel="relative error")
        percent_ticks(axes.yaxis)
        axes.legend()

    return picture(f"Error against {label}", "Of points that nothing was learned from.", draw, salt)


def _heat(heat: HeatMap, salt: str) -> Picture:
    rows, columns = heat.errors.shape

    def draw(axes: Axes) -> None:
        from matplotlib.colors import to_rgba
        from matplotlib.patches import Rectangle

        for (row, column), error in np.ndenumerate(heat.errors):
            if heat.counts[row, column] == 0:
                continue
            if np.isfinite(error):
                colour = to_rgba(RED if error > 0 else BLUE, min(abs(error) / 0.3, 1.0) * 0.8)
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, linewidth=0))
                axes.text(column, row, f"{error:+.0%}", ha="center", va="bottom", fontsize=8)
            axes.text(column, row, f"{heat.counts[row, column]}", ha="center", va="top", fontsize=6, alpha=0.7)
        axes.set(xlim=(-0.5, columns - 0.5), ylim=(-0.5, rows - 0.5), xlabel=heat.names[1], ylabel=heat.names[0])
        axes.set_xticks(range(columns), heat.labels[1])
        axes.set_yticks(range(rows), heat.labels[0])

    caption = "Median error with its sign, and below it the number of points: red is predicted too high, blue too low."
    return picture(f"Error over {heat.names[0]} and {heat.names[1]}", caption, draw, salt)


def _staircase(kind: LayerKind, typical: TypicalStaircase, salt: str) -> Picture:
    values, predicted = typical.values, typical.staircase.predictions
    wide = values.max() > 4096

    def draw(axes: Axes) -> None:
        axes.fill_between(
            values, predicted.low_s, predicted.high_s, color=BLUE, alpha=0.2, linewidth=0, label="interval"
        )
        axes.plot(values, predicted.latency_s, color=BLUE, linewidth=1.2, label="predicted")
        if len(typical.near_s):
            dots(axes, typical.near_values, typical.near_s, ORANGE, size=5, label="measured, much alike")
        axes.set(xlabel=typical.parameter, ylabel="latency")
        if wide:
            axes.set(xscale="log", yscale="log")
            log_ticks(axes.xaxis, format_number)
            latency_ticks(axes.yaxis)
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(lambda seconds, _: format_latency(seconds) if seconds > 0 else "0")
        axes.legend(loc="upper left")

    caption = f"A typical layer while {typical.parameter} changes: {format_layer(kind, typical.staircase.fixed)}."
    return picture(f"Latency over {typical.parameter}", caption, draw, salt)


def _reliability(kind: KindContent, salt: str) -> Picture:
    promised, covered = (np.array(part) for part in zip(*kind.reliability, strict=True))

    def draw(axes: Axes) -> None:
        ends = np.array([promised.min(), 1.0])
        doubt = np.array([kind.doubt(level) for level in promised])
        axes.fill_between(
            promised, promised - doubt, np.minimum(promised + doubt, 1), color=GREY, alpha=0.2, linewidth=0,
            label="chance alone",
        )  # fmt: skip
        axes.plot(ends, ends, color=INK, linewidth=0.6)
        axes.plot(promised, covered, "o-", color=BLUE, linewidth=1, markersize=4, label="covered")
        axes.set(xlabel="promised by the interval", ylabel="measured points inside")
        percent_ticks(axes.xaxis)
        percent_ticks(axes.yaxis)
        axes.legend(loc="upper left")

    row = kind.row
    caption = (
        f"The {kind.interval.level * 100:g} % interval covers {percent(row['coverage'])} of "
        f"{len(kind.test)} points; it is {percent(row['width'])} of the prediction wide on average."
    )
    return picture("Interval coverage", caption, draw, salt)


def _importance(kind: KindContent, salt: str) -> Picture:
    shown = [importance for importance in kind.importances[:MOST_INPUTS] if importance.growth > 0.001][::-1]

    def draw(axes: Axes) -> None:
        axes.barh(
            [importance.name for importance in shown],
            [importance.growth for importance in shown],
            color=BLUE,
            alpha=0.75,
            height=0.7,
        )
        axes.set(xlabel="growth of the typical error when shuffled")
        percent_ticks(axes.xaxis)

    caption = (
        "How much worse predictions become when one input is shuffled among the points, the others left as they are."
    )
    return picture("Importance of inputs", caption, draw, salt)


def _history(kind: KindContent, salt: str) -> Picture:
    def draw(axes: Axes) -> None:
        for number, (name, best) in enumerate(sorted(kind.histories.items())):
            style = "-" if number < len(CYCLE) else "--"
            trials = np.arange(1, len(best) + 1)
            axes.step(trials, best, style, where="post", color=CYCLE[number % len(CYCLE)], linewidth=1.1, label=name)
        axes.set(xlabel="trial", ylabel="best validation error", xscale="log", yscale="log")
        log_ticks(axes.xaxis, lambda trial: f"{trial:g}")
        percent_ticks(axes.yaxis)
        axes.legend(ncols=2, loc="upper right", fontsize=7)

    caption = "The smallest error on validation layers so far, trial after trial, by regressor."
    return picture("Tuning", caption, draw, salt)


def _some(rows: int) -> NDArray[np.int_]:
    """Which of many points to draw: all of few, a fixed random part of many."""
    return np.random.default_rng(0).permutation(rows)[:MOST_DOTS]
