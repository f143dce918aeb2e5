"""The plots of a whole run: error against noise by kind, and the learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medn.core.units import format_duration, percent, percent_between
from medn.report.content import Content, KindContent
from medn.report.plots import COLORS, Axis, Mark, Plot, dots, line, mark, span
from medn.report.summary_text import name_of
from medn.report.verdicts import GOOD_ERROR, POOR_ERROR, VERDICTS, verdict

LINE_HEIGHT = 24
"""Pixels for each kind."""

MOST_CURVES = len(COLORS)
"""More cannot be told apart; those with the most weight are drawn."""


def noise_plot(content: Content) -> Plot:
    """One line for each kind, the worst on top: its noise, its mean error, and what lies between them."""
    kinds = sorted(content.kinds, key=lambda kind: -kind.row["mape"])
    names = {(kind.device, kind.kind): name_of(content, kind) for kind in kinds}
    known = [kind for kind in kinds if kind.noise]
    marks = [mark("ruleX", x=[limit], stroke="grey", strokeDasharray="2 3") for limit in (GOOD_ERROR, POOR_ERROR)]
    marks.append(
        mark(
            "link",
            x1=[kind.noise for kind in known],
            x2=[kind.row["mape"] for kind in known],
            y=[names[kind.device, kind.kind] for kind in known],
            stroke="grey",
            strokeWidth=1.5,
        )
    )
    own = [names[kind.device, kind.kind] for kind in known]
    titles = [f"{name}\nnoise {percent(kind.noise)}" for name, kind in zip(own, known, strict=True)]
    if known:
        marks.append(dots([kind.noise for kind in known], own, "grey", titles=titles, label="noise", symbol="cross"))
    marks += [each for name in VERDICTS if (each := _judged(content, kinds, name))]
    noises = [kind.noise for kind in known]
    return Plot(
        "Mean error against noise, by layer kind",
        "Errors of predictions for layers not seen; noise is how far two halves of the measurements of one point "
        f"differ, on average. Dotted: up to {100 * GOOD_ERROR:g} % is good, above {100 * POOR_ERROR:g} % poor, "
        "whatever the noise.",
        Axis(
            "",
            "log",
            "percent",
            span(noises, (kind.row["mape"] for kind in kinds), [GOOD_ERROR, POOR_ERROR], scale="log"),
        ),
        Axis("", "point", domain=tuple(names.values())),
        marks,
        height=62 + LINE_HEIGHT * max(len(kinds), 3),
    )


def _judged(content: Content, kinds: list[KindContent], word: str) -> Mark | None:
    """The errors of the kinds of one verdict."""
    own = [kind for kind in kinds if verdict(kind) == word]
    if not own:
        return None
    names = [name_of(content, kind) for kind in own]
    titles = [f"{name}: {word}\n{_told(kind)}" for name, kind in zip(names, own, strict=True)]
    errors = [kind.row["mape"] for kind in own]
    return dots(errors, names, word, titles=titles, label=word, symbol=VERDICTS[word], radius=5.5)


def _told(kind: KindContent) -> str:
    row = kind.row
    error = percent_between(row["mape"], row.get("mape_low"), row.get("mape_high"))
    noise = f"noise {percent(kind.noise)}" if kind.noise is not None else "noise not known"
    return f"mean error {error}\n{noise}\n{len(kind.test)} test points of {kind.tested_layers} layers"


def curve_plot(curve: Mapping[str, Any]) -> Plot | None:
    """Error against the number of layers, the forecast dashed; None where no kind has a curve to draw."""
    drawn = sorted((each for each in curve["kinds"] if each.get("forecasts")), key=lambda each: -each["weight"])
    if not drawn:
        return None
    several = len({each["device"] for each in curve["kinds"]}) > 1
    marks: list[Mark] = []
    for each, color in zip(drawn, COLORS, strict=False):
        marks += _curve_marks(each, f"{each['kind']} on {each['device']}" if several else each["kind"], color)
    shown = drawn[:MOST_CURVES]
    sizes = [size for each in shown for size in (*each["sizes"], *_ahead_layers(each))]
    bounds = [told[end] for each in shown for told in each["forecasts"] for end in ("low", "high")]
    errors = [error for each in shown for error in each["errors"]]
    caption = "Quick fits, cross-validated by layer; dashed is the forecast, which keeps to its bounds 4 times of 5."
    if len(drawn) > MOST_CURVES:
        caption += f" The {MOST_CURVES} kinds with the most points are drawn, of {len(drawn)}."
    return Plot(
        "Error against the number of layers",
        f"{caption}{_ahead(curve)}",
        Axis("layers to learn from", "log", domain=span(sizes, scale="log")),
        Axis("mean error on other layers", "log", "percent", span(errors, bounds, scale="log")),
        marks,
        height=320,
    )


def _curve_marks(each: Mapping[str, Any], name: str, color: str) -> list[Mark]:
    layers, forecasts = _ahead_layers(each), each["forecasts"]
    low, high = ([told[end] for told in forecasts] for end in ("low", "high"))
    titles = [
        f"{name}\n{size} layers: {percent(error)}" for size, error in zip(each["sizes"], each["errors"], strict=True)
    ]
    ahead = [
        f"{name}, forecast\n{size:.0f} layers: {percent(told['error'])}"
        for size, told in zip(layers, forecasts, strict=True)
    ]
    told = [told["error"] for told in forecasts]
    return [
        mark("areaY", x=layers, y1=low, y2=high, fill=color, fillOpacity=0.12),
        line(layers, told, color, strokeDasharray="4 3", strokeWidth=1.2),
        dots(layers, told, color, titles=ahead, radius=1.5),
        line(each["sizes"], each["errors"], color, name, strokeWidth=1.5),
        dots(each["sizes"], each["errors"], color, titles=titles, radius=3.5),
    ]


def _ahead_layers(each: Mapping[str, Any]) -> list[float]:
    return [told["factor"] * each["layers"] for told in each["forecasts"]]


def _ahead(curve: Mapping[str, Any]) -> str:
    """What more measuring would bring, in a sentence."""
    told = {each["factor"]: each["error"] for each in curve["all"]["forecasts"]}
    now, then = told.get(1.0), told.get(curve["further_factor"])
    if now is None or then is None:
        return ""
    further = curve["further_s"]
    ahead = f"another {format_duration(further)} of measuring" if further else "twice the layers"
    return f" Over all kinds, {ahead}: {percent(now)} -> {percent(then)}."
