"""A page about one check: what was measured against what was expected, and how the evidence grew."""

from __future__ import annotations

import numpy as np

from medn.core.sequential import ALTERNATIVES, FASTER, SCATTERED, SLOWER
from medn.core.units import format_latency, percent
from medn.drift.check import BundleCheck
from medn.report.page import render
from medn.report.plots import Axis, Plot, dots, line, mark, span
from medn.report.tables import Cell, Column, PageTable, TableRow, cell, fixed

COLORS = {SLOWER: "red", FASTER: "green", SCATTERED: "orange"}


def check_page(name: str, check: BundleCheck) -> str:
    """The page as HTML."""
    return render(
        "check.html",
        {
            "title": f"medn check: {name}",
            "name": name,
            "check": check,
            "sentence": check.sentence[0].upper() + check.sentence[1:] + ".",
            "plots": [_ratios(check), _evidence(check)],
            "points": _table(check),
        },
    )


def _ratios(check: BundleCheck) -> Plot:
    expected_s = np.array([each.expected.latency_s for each in check.points])
    ratios = np.exp([each.log_ratio for each in check.points])
    spreads = np.exp([each.expected.spread for each in check.points])
    tolerance = 1 + check.test.hypotheses.tolerance
    titles = [
        f"{each.expected.point.layer}\nmeasured {format_latency(each.measured_s)}, expected "
        f"{format_latency(each.expected.latency_s)}"
        for each in check.points
    ]
    return Plot(
        "Measured over expected",
        "Each point that was measured again; bars are the usual deviation as promised, dotted is "
        f"{percent(tolerance - 1)}.",
        Axis("expected", "log", "latency", span(expected_s, scale="log")),
        Axis("measured over expected", "log", domain=span(ratios, spreads, 1 / spreads, [tolerance], scale="log")),
        [
            mark("ruleY", y=[1.0], stroke="ink"),
            mark("ruleY", y=[tolerance, 1 / tolerance], stroke="ink", strokeDasharray="2 3"),
            mark("link", x=expected_s, y1=1 / spreads, y2=spreads, stroke="grey", strokeOpacity=0.4, strokeWidth=4),
            dots(expected_s, ratios, titles=titles, radius=4),
        ],
        height=300,
    )


def _evidence(check: BundleCheck) -> Plot:
    low, high = check.test.bounds
    steps = list(range(len(check.points) + 1))
    paths = {name: [0.0, *(each.evidence[name] for each in check.points)] for name in ALTERNATIVES}
    marks = [mark("ruleY", y=[low, high], stroke="ink", strokeDasharray="5 4")]
    words = ["ruled out", "found"]
    marks.append(mark("text", x=[0, 0], y=[low, high], text=words, textAnchor="start", dx=4, dy=-7, fill="ink"))
    for name, path in paths.items():
        titles = [f"{name}\n{step} points: {value:.3g}" for step, value in zip(steps, path, strict=True)]
        marks.append(line(steps, path, COLORS[name], name, strokeWidth=1.5, title=titles, tip=True))
    return Plot(
        "Evidence",
        "How much likelier each change is than none. One that crosses the upper line was found, and the bundle fits "
        "once all are below the lower one.",
        Axis("points", domain=span([0.0, float(steps[-1])], zero=True)),
        Axis("evidence, log likelihood ratio", domain=span([low, high], *paths.values())),
        marks,
        height=300,
    )


def _table(check: BundleCheck) -> PageTable:
    columns = [Column("layer", is_number=False), Column("expected"), Column("measured"), Column("ratio")]
    lines = [
        TableRow(
            [
                Cell(str(each.expected.point.layer)),
                cell(each.expected.latency_s, format_latency),
                cell(each.measured_s, format_latency),
                cell(each.measured_s / each.expected.latency_s, fixed(2)),
            ]
        )
        for each in check.points
    ]
    return PageTable("Points", columns, lines)
