"""The test layers that are predicted worst, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medn.core.units import format_latency
from medn.report.content import KindContent
from medn.report.layers import told_layer
from medn.report.tables import Cell, Column, PageTable, TableRow, cell

MOST_BY_KIND = 5
MOST = 10


@dataclass(frozen=True)
class WorstLayer:
    kind: KindContent
    layer: str
    measured_s: float
    predicted_s: float
    never_calm: bool
    """Whether something slowed every visit, so that the measurement may be what is wrong."""

    @property
    def error(self) -> float:
        """With its sign."""
        return self.predicted_s / self.measured_s - 1

    @property
    def factor(self) -> float:
        """How many times too long or too short the prediction is: half as long is as wrong as twice as long."""
        return max(self.predicted_s / self.measured_s, self.measured_s / self.predicted_s)


def worst_layers(kind: KindContent, most: int = MOST_BY_KIND) -> list[WorstLayer]:
    """Those whose prediction is off by the largest factor."""
    factors = np.abs(np.log(kind.predicted_s / kind.test.target))
    found = []
    for place in np.argsort(-factors, kind="stable")[:most]:
        layer = told_layer(kind.source, kind.test, int(place))
        times = float(kind.test.target[place]), float(kind.predicted_s[place])
        found.append(WorstLayer(kind, layer, *times, bool(kind.never_calm[place])))
    return found


def worst_table(layers: Sequence[WorstLayer], links: Mapping[tuple[str, str], str], caption: str) -> PageTable:
    """`links` lead to the sections of the kinds; without them all layers are of one kind, which is not told."""
    columns = [Column("kind", is_number=False)] if links else []
    columns += [
        Column("layer", "parameters but defaults", is_number=False, wraps=True),
        Column("measured"),
        Column("predicted"),
        Column("error", "predicted / measured - 1: above zero the prediction is too high"),
    ]
    if disturbed := any(each.never_calm for each in layers):
        columns.append(Column("measured while", "disturbed: something slowed every visit to it", is_number=False))
    several = len({device for device, _ in links}) > 1
    lines = []
    for each in layers:
        section = each.kind.device, each.kind.kind
        name = f"{section[1]} on {section[0]}" if several else section[1]
        first = [Cell(name, name, links[section])] if links else []
        cells = [*first, Cell(each.layer, each.layer)]
        cells += [cell(seconds, format_latency) for seconds in (each.measured_s, each.predicted_s)]
        cells += [Cell(f"{100 * each.error:+.0f} %", each.error)]
        told = [Cell("disturbed" if each.never_calm else "calm", each.never_calm)] if disturbed else []
        lines.append(TableRow([*cells, *told]))
    return PageTable(caption, columns, lines)
