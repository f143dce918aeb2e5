"""Splits that keep a layer, with all its batch sizes and conditions, on one side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError, unknown
from medn.core.table import Array, Table

Rows = NDArray[np.int_]

PARTS = ("train", "validation", "calibration", "test")

DEFAULT_FRACTIONS = (0.6, 0.15, 0.1, 0.15)

ENOUGH_LAYERS = (5000, 2500, 10_000)
"""To choose by, to calibrate with and to report on: more of them say little more, and are better learned from."""

MOST_CROSS_FITTED = 1000
"""Up to so many layers to learn from, every one of them is learned from and judged by, in folds: a part of so few would
choose by luck."""

MOST_ROWS_CROSS_FITTED = 10_000
"""Of more rows than this five fits take too long, and a part of them chooses well enough, even of fewer layers."""

FOLDS = 5


@dataclass(frozen=True, eq=False)
class SplitRows:
    """Rows to learn from, to choose by, to calibrate intervals with, and to report on."""

    train: Rows
    validation: Rows
    calibration: Rows
    test: Rows
    folds: NDArray[np.int8] | None = None
    """The fold of each row of `train`, where rows are judged by what learned from the other folds: those to choose
    and to calibrate by are then the same rows."""

    @property
    def learned(self) -> Rows:
        """Every row that is not for test."""
        return self.train if self.folds is not None else np.concatenate([self.train, self.validation, self.calibration])

    @property
    def sizes(self) -> dict[str, int]:
        """In folds nothing is set apart to choose or to calibrate by."""
        return {name: len(getattr(self, name)) if self._has(name) else 0 for name in PARTS}

    def _has(self, part: str) -> bool:
        return self.folds is None or part in ("train", "test")

    def codes(self, rows: int) -> NDArray[np.int8]:
        """For each of all rows the place of its part in `PARTS`, -1 for a row in none of them."""
        found = np.full(rows, -1, dtype=np.int8)
        for name in filter(self._has, PARTS):
            found[getattr(self, name)] = PARTS.index(name)
        return found

    @classmethod
    def from_codes(cls, codes: NDArray[np.int8], folds: NDArray[np.int8] | None = None) -> SplitRows:
        train, validation, calibration, test = (np.flatnonzero(codes == code) for code in range(len(PARTS)))
        if folds is None:
            return cls(train, validation, calibration, test)
        if folds.shape != train.shape:
            raise ValueError("every row to learn from needs a fold")
        return cls(train, train, train, test, folds)

    def in_folds(self, groups: NDArray[np.str_], seed: int) -> SplitRows:
        """The same rows for test, all others in folds; nothing changes where there are many layers or rows."""
        learned = np.sort(self.learned)
        names, places = np.unique(groups[learned], return_inverse=True)
        if len(names) > MOST_CROSS_FITTED or len(learned) > MOST_ROWS_CROSS_FITTED:
            return self
        fold_of = np.empty(len(names), dtype=np.int8)
        fold_of[np.random.default_rng(seed).permutation(len(names))] = np.arange(len(names)) % FOLDS
        return SplitRows(learned, learned, learned, self.test, fold_of[places])


def split_by_group(
    groups: NDArray[np.str_], seed: int, fractions: Sequence[float] = DEFAULT_FRACTIONS, rows: Rows | None = None
) -> SplitRows:
    """Random by group. `rows` restricts the split to some of the rows."""
    chosen = np.arange(len(groups)) if rows is None else rows
    names = np.unique(groups[chosen])
    if len(names) < len(fractions):
        raise UsageError(f"a split needs at least {len(fractions)} different layers (got {len(names)})")
    order = np.random.default_rng(seed).permutation(len(names))
    # Every part gets at least one layer, however few there are.
    bounds = np.round(_shares(fractions, len(names)) * len(names)).astype(int)
    places = np.arange(len(fractions) - 1)
    bounds = np.maximum.accumulate(np.maximum(bounds, places + 1) - places) + places
    bounds = np.minimum(bounds, len(names) - np.arange(len(fractions) - 1, 0, -1))
    part_of = np.empty(len(names), dtype=int)
    part_of[order] = np.searchsorted(bounds, np.arange(len(names)), side="right")
    part = part_of[np.searchsorted(names, groups[chosen])]
    return SplitRows(*(chosen[part == index] for index in range(4)))


def some_layers(table: Table, most: int, seed: int) -> Table:
    """Layers drawn at random, each with all of its rows, until they have so many; all of a table that has no more."""
    if len(table) <= most:
        return table
    _, layer = np.unique(table.groups, return_inverse=True)
    rows = np.bincount(layer)
    order = np.random.default_rng(seed).permutation(len(rows))
    count = int(np.searchsorted(np.cumsum(rows[order]), most)) + 1
    return table.take(np.isin(layer, order[:count]))


class WrongSplit(UsageError):
    """A split that the table cannot be split by, whatever is measured."""


def _shares(fractions: Sequence[float], layers: int) -> Array:
    """Where the parts end, as shares of all layers; what would be more than enough is learned from."""
    parts = np.array(fractions) / sum(fractions)
    parts[1:] = np.minimum(parts[1:], np.array(ENOUGH_LAYERS) / layers)
    parts[0] = 1.0 - parts[1:].sum()
    return np.asarray(np.cumsum(parts)[:-1])


def leave_range_out(table: Table, column: str, above: float, seed: int) -> SplitRows:
    """Learn up to a value of one column, test beyond it: how well do predictions extrapolate?"""
    if column not in table.schema.names:
        raise WrongSplit(unknown("input", column, table.schema.names))
    values = table.column(column)
    outside = values > above
    if outside.all() or not outside.any():
        raise WrongSplit(f"{column} has no rows on one side of {above:g} (from {values.min():g} to {values.max():g})")
    return _leave_out(table, outside, seed)


def leave_device_out(table: Table, device: str, seed: int) -> SplitRows:
    """Learn on all devices but one, test on that one."""
    names = table.schema.categories.get("device", ())
    if device not in names or len(names) < 2:
        raise WrongSplit(f"device {device!r} cannot be left out: the table has {', '.join(names) or 'no devices'}")
    return _leave_out(table, table.column("device") == names.index(device), seed)


def _leave_out(table: Table, outside: NDArray[np.bool_], seed: int) -> SplitRows:
    """Layers are split first, so that a layer measured on both sides is not learned from and tested on."""
    parts = split_by_group(table.groups, seed)
    learned = [rows[~outside[rows]] for rows in (parts.train, parts.validation, parts.calibration)]
    split = SplitRows(learned[0], learned[1], learned[2], test=parts.test[outside[parts.test]])
    empty = [name for name, size in split.sizes.items() if size == 0]
    if empty:
        raise UsageError(f"too few layers lie on one side: no rows are left for {' and '.join(empty)}")
    return split


BEYOND = 0.25
"""The share of test rows from which on they count as lying beyond the others: several times what chance would give."""

EDGE = 0.05
"""The share of layers at an edge: what is beyond it is beyond nearly all of them."""

CHANCE = 1e-3
"""How likely it may be that test rows drawn like the others seem to lie beyond them in one column or another."""


def keep_given(
    table: Table, test: NDArray[np.bool_], seed: int, free: Collection[str] = (), in_folds: bool = True
) -> SplitRows:
    """The split that the data brings: these rows are for test only, all others are split by layer for the rest.

    Where the test rows lie beyond the others, so do those to choose and to calibrate by beyond those to learn from:
    what is best in between may be the worst out there. `free` are columns that a range says nothing about.
    """
    learned = np.flatnonzero(~test)
    reach = _reach(table, test, free)
    if reach is not None:
        return _at_the_edge(table.groups, reach, learned, np.flatnonzero(test), seed)
    without_test = (*DEFAULT_FRACTIONS[:3], 0.0)
    if len(np.unique(table.groups[learned])) < len(without_test):
        raise UsageError("too few layers are left to learn from: nearly all rows are marked as test rows")
    parts = split_by_group(table.groups, seed, without_test, learned)
    # A split leaves at least one layer in every part, so what it left for test goes back to be learned from.
    split = SplitRows(
        np.sort(np.concatenate([parts.train, parts.test])), parts.validation, parts.calibration, np.flatnonzero(test)
    )
    return split.in_folds(table.groups, seed) if in_folds else split


def _reach(table: Table, test: NDArray[np.bool_], free: Collection[str]) -> Array | None:
    """How far each row goes towards the test rows, by the column in which most of these lie beyond the others."""
    found: list[tuple[float, Array]] = []
    for name in (name for name in table.schema.numeric if name not in free):
        for values in (table.column(name), -table.column(name)):
            share = float((values[test] > np.quantile(values[~test], 1 - EDGE)).mean())
            found.append((share, values))
    share, reach = max(found, key=lambda each: each[0], default=(0.0, None))
    layers = len(np.unique(table.groups[~test]))
    return reach if share >= BEYOND and len(found) * _by_chance(share, layers) < CHANCE else None


def _by_chance(share: float, layers: int) -> float:
    """An upper bound of how likely no more than `EDGE` of so many layers lie where this share of all layers does."""
    if share >= 1.0:
        return 0.0
    divergence = EDGE * np.log(EDGE / share) + (1 - EDGE) * np.log((1 - EDGE) / (1 - share))
    return float(np.exp(-layers * divergence))


def _at_the_edge(groups: NDArray[np.str_], reach: Array, learned: Rows, test: Rows, seed: int) -> SplitRows:
    """The layers that reach furthest are chosen and calibrated by, half of them each."""
    names, places = np.unique(groups[learned], return_inverse=True)
    furthest = np.full(len(names), -np.inf)
    np.maximum.at(furthest, places, reach[learned])
    random = np.random.default_rng(seed)
    # Layers alike are taken in random order, or the last ones in a table would always be those at the edge.
    order = np.lexsort((random.random(len(names)), -furthest))
    edge = random.permutation(order[: max(2, round(EDGE * len(names)))])
    part_of = np.zeros(len(names), dtype=int)
    part_of[edge[0::2]], part_of[edge[1::2]] = 1, 2
    part = part_of[places]
    return SplitRows(learned[part == 0], learned[part == 1], learned[part == 2], test)


SPLIT_FORMS = ("random", "pooled", "range:COLUMN:VALUE", "device:NAME")


@dataclass(frozen=True)
class Split:
    """How to split, as one writes it: `random`, `pooled`, `range:flops:1e9` or `device:laptop`.

    A pooled split is random too, over the rows of all devices together; `device` learns from several as well.

    >>> Split.parse("range:flops:1e9")
    Split(form='range', name='flops', value=1000000000.0)
    """

    form: str = "random"
    name: str = ""
    value: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Split:
        form, _, rest = text.partition(":")
        try:
            if form in ("random", "pooled") and not rest:
                return cls(form)
            if form == "device" and rest:
                return cls(form, rest)
            name, _, value = rest.rpartition(":")
            if form == "range" and name:
                return cls(form, name, float(value))
        except ValueError:
            raise UsageError(f"split {text!r}: {value!r} is no number") from None
        raise UsageError(f"{unknown('split', text, SPLIT_FORMS)}")

    def __str__(self) -> str:
        forms = {"device": f"device:{self.name}", "range": f"range:{self.name}:{self.value:g}"}
        return forms.get(self.form, self.form)

    @property
    def is_pooled(self) -> bool:
        """Whether one regressor learns from all devices."""
        return self.form in ("pooled", "device")

    @property
    def is_product(self) -> bool:
        """Whether what is learned is meant to be shipped; other splits answer a question of their own."""
        return self.form in ("random", "pooled")

    def parts(
        self,
        table: Table,
        seed: int,
        test: NDArray[np.bool_] | None = None,
        free: Collection[str] = (),
        in_folds: bool = True,
    ) -> SplitRows:
        """The rows of each part; `test` marks those that the data itself keeps for test.

        What is meant to be shipped is learned in folds where layers are few, as earlier versions did not.
        """
        if test is not None and test.any():
            if not self.is_product:
                raise UsageError(f"the rows bring a split of their own, so they cannot be split by {self}")
            return keep_given(table, test, seed, free, in_folds)
        if self.form == "range":
            return leave_range_out(table, self.name, self.value, seed)
        if self.form == "device":
            return leave_device_out(table, self.name, seed)
        split = split_by_group(table.groups, seed)
        return split.in_folds(table.groups, seed) if in_folds else split
