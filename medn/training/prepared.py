"""Training tables ready to be learned from: made of what was measured, or read from where a training wrote them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.core.environment import largest_cache_bytes
from medn.core.errors import MednError, UsageError, reason_of
from medn.core.learn_range import RangesInFolds, learn_range, learn_range_in_folds
from medn.core.ranges import Flags, MeasuredRange
from medn.core.splits import PARTS, Rows, Split, SplitRows, WrongSplit
from medn.core.table import Array, Table, joined
from medn.regressors.form import Form
from medn.runs.inputs import remainders
from medn.runs.memory_rate import streaming_rates
from medn.runs.tables import KindTable, Source, kind_table
from medn.runs.training_table import TrainingTable, save_table, table_path
from medn.runs.usual_conditions import measured_conditions, usual_conditions
from medn.sources.run_sources import KnownDevices

POOLED = "all-devices"
"""Stands for the device of candidates that learn from several."""

FEWEST_LAYERS = 8
"""With fewer different layers no part of a split says anything."""


@dataclass(frozen=True)
class Refused:
    """A kind that cannot be learned, and why."""

    device: str
    kind: str
    reason: str
    is_split_wrong: bool = False
    """Whether it was the split that was asked for, and not what is measured."""


class RangeEdge(NamedTuple):
    """Where the rows that were learned from end, and how the latency grows with the work from there on."""

    range: MeasuredRange
    roofline: Form | None


@dataclass(frozen=True, eq=False)
class Smaller:
    """What is known of the rows with the least work alone, for a check on the others."""

    above: float
    """The work up to which they are smaller."""
    edge: RangeEdge


class Ranges:
    """Where was measured, worked out when it is asked for: who selects from many rows seldom does."""

    def __init__(self, table: TrainingTable) -> None:
        self._table = table

    @cached_property
    def train(self) -> MeasuredRange:
        """Of the rows of `train`: what those that are held out are seen from."""
        rows = self._table.rows
        if rows.folds is not None:
            return self.in_folds.whole
        return learn_range(self._part(rows.train), self._part(rows.validation), *self._how)

    @cached_property
    def shipped(self) -> MeasuredRange:
        """Of every row that is not for test."""
        return self.train if self._table.rows.folds is not None else self._of(self._table.rows.learned)

    @cached_property
    def everything(self) -> MeasuredRange:
        """Of test rows too."""
        return self._of(np.concatenate([self._table.rows.learned, self._table.rows.test]))

    def _of(self, rows: Rows) -> MeasuredRange:
        """Rows that a range was learned from say nothing about how far off others may lie: that stays as it was."""
        part = self._part(rows)
        return replace(learn_range(part, part, *self._how), slack=self.train.slack, reach=self.train.reach)

    @cached_property
    def in_folds(self) -> RangesInFolds:
        """Of rows that are in folds."""
        rows = self._table.rows
        return learn_range_in_folds(self._part(rows.train), np.asarray(rows.folds), *self._how)

    @property
    def _how(self) -> tuple[int, Collection[str]]:
        return self._table.seed, remainders(self._table.source.layer_kind)

    def _part(self, rows: Rows) -> Table:
        return self._table.source.table.take(rows)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A training table taken apart by its split, with its ranges."""

    table: TrainingTable
    ranges: Ranges
    train: Table
    validation: Table
    calibration: Table
    test: Table
    folds: NDArray[np.int8] | None = None
    """The fold of each row of `train`, which is then `validation` and `calibration` as well; None for parts apart."""
    way: str | None = None
    """What is predicted beyond the range, where that is no matter of the regressor."""
    roofline: Form | None = None
    """Fitted once for all families on `train`; None until then, and where the inputs do not tell the work."""
    shipped_roofline: Form | None = None
    """The same on every row that is not for test."""
    fold_rooflines: tuple[Form | None, ...] = ()
    """The same on the rows that are not in each fold; none until then, and where there are no folds."""
    smaller: Smaller | None = None
    """Known once for all families; None until then, and where there are too few rows for a check."""

    @classmethod
    def of(cls, table: TrainingTable) -> Prepared:
        train, validation, calibration, test = (table.source.table.take(getattr(table.rows, part)) for part in PARTS)
        return cls(table, Ranges(table), train, validation, calibration, test, table.rows.folds)

    def work_out(self) -> None:
        """Whatever else is worked out when it is asked for: once, for all processes that would ask."""
        _ = self.ranges.train, self.ranges.shipped, self.held_out_place

    @property
    def range(self) -> MeasuredRange:
        return self.ranges.train

    @property
    def edge(self) -> RangeEdge:
        """Of `train`."""
        return RangeEdge(self.ranges.train, self.roofline)

    @property
    def shipped_edge(self) -> RangeEdge:
        """Of every row that is not for test."""
        return RangeEdge(self.ranges.shipped, self.shipped_roofline)

    @property
    def fold_edges(self) -> list[RangeEdge]:
        """Of the rows that are not in each fold: what its own are seen from."""
        others = self.ranges.in_folds.others
        return [RangeEdge(*both) for both in zip(others, self.fold_rooflines or (None,) * len(others), strict=True)]

    @cached_property
    def learned(self) -> Table:
        """Every row that is not for test."""
        return self.train if self.folds is not None else joined([self.train, self.validation, self.calibration])

    @cached_property
    def held_out(self) -> Table:
        """The rows that are predicted by what has not learned from them: those to choose by come first, those to
        calibrate by last. In folds both are every row that is not for test."""
        return self.train if self.folds is not None else joined([self.validation, self.calibration])

    @cached_property
    def held_out_place(self) -> tuple[Array, Flags]:
        """How far each row that is held out lies from those that its prediction comes from, and whether it is near."""
        if self.folds is None:
            return self.range.place(self.held_out.inputs)
        distance = self.ranges.in_folds.distance
        return distance, distance <= 1.0

    @property
    def source(self) -> KindTable:
        return self.table.source

    @property
    def rows(self) -> SplitRows:
        return self.table.rows


Tables = dict[str, dict[str, Prepared]]
"""By device and kind."""


def prepare(
    source: Source,
    kinds: Sequence[str],
    split: Split,
    seed: int,
    without_unstable: bool,
    in_folds: bool = True,
    known: KnownDevices | None = None,
) -> tuple[Tables, list[Refused]]:
    """The split tables, and the kinds that cannot be learned; few layers in folds, as earlier versions did not.

    Tables of one device have what is known of their rows on others beside them.
    """
    prepared: Tables = {}
    refused = []
    for device in [None] if split.is_pooled else source.devices:
        for kind in kinds:
            if device and all(row["device"] != device for row in source.rows[kind]):
                continue
            name = device or POOLED
            try:
                table = kind_table(source, kind, device=device, without_unstable=without_unstable)
                layers = len(set(table.table.groups))
                if layers < FEWEST_LAYERS:
                    raise UsageError(f"too few different layers to learn from: {layers}, needed {FEWEST_LAYERS}")
                rows = split.parts(table.table, seed, table.is_test, remainders(table.layer_kind), in_folds)
                table = known.beside(table) if known and device else table
            except MednError as error:
                refused.append(Refused(name, kind, reason_of(error), isinstance(error, WrongSplit)))
                continue
            made = TrainingTable(name, table, rows, str(split), seed, source.target)
            prepared.setdefault(name, {})[kind] = Prepared.of(made)
    return prepared, refused


def write_tables(folder: Path, source: Source, split: Split, prepared: Tables) -> None:
    """Keep the tables, with what a bundle tells of the run beside its candidates."""
    conditions = measured_conditions(folder, source)
    streaming = streaming_rates(source, largest_cache_bytes(source.environments))
    for device, tables in prepared.items():
        for kind, each in tables.items():
            usual = usual_conditions(conditions, device, kind)
            save_table(table_path(folder, split, device, kind), replace(each.table, usual=usual, streaming=streaming))
