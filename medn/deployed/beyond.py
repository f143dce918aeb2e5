"""What is predicted beyond the range that was measured, in one of four ways.

held     the prediction at the nearest edge, scaled by how much more work there is: the efficiency is held
own      what the form says by itself
bounded  the same, as far as the growth of the work from the edge allows it
edge     the prediction at the nearest edge as it is, for what does not grow with the work

A tree is flat beyond what it has seen and needs the first; a smooth form may know better how it goes on. A check
on larger layers than were learned from decides, or where there is none, the family's default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from medn.core.ranges import WORK_COLUMNS, Flags, MeasuredRange
from medn.core.table import Array
from medn.program.formulas import rows_of

HELD, OWN, BOUNDED, EDGE = "held", "own", "bounded", "edge"
WAYS = (HELD, OWN, BOUNDED, EDGE)

LEEWAY = float(np.log(2.0))
"""How much faster or slower than its work a latency may grow, as a logarithm: caches and use by others do that."""

LogValue = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Beyond:
    """Rows beyond the range, seen from the nearest edge; everything is a logarithm."""

    own: Array
    """What the form says of the rows themselves."""
    edge: Array
    """What it says of the nearest rows that were measured."""
    growth: Array
    """How much longer the work alone would take than at the edge."""
    lowest: Array
    highest: Array
    """The least and the most growth that the work allows."""
    far: Array
    """How far away they are."""

    def take(self, rows: Flags) -> Beyond:
        return Beyond(*(getattr(self, each.name)[rows] for each in fields(self)))

    def log_value(self, way: str) -> Array:
        if way == HELD:
            return self.edge + self.growth
        if way == OWN:
            return self.own
        if way == EDGE:
            return self.edge
        return np.clip(self.own, self.edge + self.lowest, self.edge + self.highest)


def seen_from_the_edge(
    inputs: Array,
    distance: Array,
    known: MeasuredRange,
    log_value: LogValue,
    roofline: LogValue | None,
    edge: Array | None = None,
) -> Beyond:
    """`roofline` gives the seconds that the work alone explains; without one the growth of FLOPs or bytes counts.
    `edge` is what the form says of the nearest rows, where that is known."""
    nearest = known.clip(inputs)
    lowest, highest, growth = _work_growth(inputs, nearest, known)
    if roofline is not None:
        growth = np.clip(roofline(inputs) - roofline(nearest), lowest, highest)
    return Beyond(
        own=log_value(known.with_known_categories(inputs)),
        edge=log_value(nearest) if edge is None else edge,
        growth=growth,
        lowest=lowest,
        highest=highest,
        far=known.far(inputs, distance),
    )


def _work_growth(inputs: Array, nearest: Array, known: MeasuredRange) -> tuple[Array, Array, Array]:
    """The least, the most and the likely growth of the latency, by what the work is at either end.

    Where nothing tells the work, it grows or shrinks at most as all numbers do that lie beyond, multiplied.
    """
    work = [known.schema.index(name) for name in WORK_COLUMNS if name in known.schema.names]
    if not work:
        sizes = [known.schema.index(name) for name in known.schema.numeric]
        most = np.abs(_growths(inputs, nearest, sizes)).sum(axis=1) + LEEWAY if sizes else rows_of(inputs, LEEWAY)
        return -most, most, rows_of(inputs, 0.0)
    growths = _growths(inputs, nearest, work)
    lowest, highest = growths.min(axis=1, initial=0.0) - LEEWAY, growths.max(axis=1, initial=0.0) + LEEWAY
    # The scarcer of the two resources rules the latency; below the range this is the milder shrinking.
    return lowest, highest, growths.max(axis=1)


def _growths(inputs: Array, nearest: Array, places: Sequence[int]) -> Array:
    """Of these columns, as logarithms."""
    number, at_edge = inputs.take(places, axis=1), nearest.take(places, axis=1)
    found: Array = np.log(np.maximum(number, 1.0)) - np.log(np.maximum(at_edge, 1.0))
    return found
