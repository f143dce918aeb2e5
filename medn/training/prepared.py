"""Training tables ready to be learned from: made of what was measured, or read from where a training wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medn.core.environment import largest_cache_bytes
from medn.core.errors import MednError, UsageError, reason_of
from medn.core.ranges import MeasuredRange, learn_range
from medn.core.splits import PARTS, Split, SplitRows, WrongSplit
from medn.core.table import Array, Table
from medn.regressors.form import Form
from medn.runs.inputs import remainders
from medn.runs.memory_rate import streaming_rates
from medn.runs.tables import KindTable, Source, kind_table
from medn.runs.training_table import TrainingTable, save_table, table_path
from medn.runs.usual_conditions import measured_conditions, usual_conditions

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


@dataclass(frozen=True, eq=False)
class Smaller:
    """What is known of the rows with the least work alone, for a check on the others."""

    above: float
    """The work up to which they are smaller."""
    range: MeasuredRange
    roofline: Form | None


@dataclass(frozen=True, eq=False)
class Prepared:
    """A training table taken apart by its split, with its range."""

    table: TrainingTable
    range: MeasuredRange
    train: Table
    validation: Table
    calibration: Table
    test: Table
    folds: NDArray[np.int8] | None = None
    """The fold of each row of `train`, which is then `validation` and `calibration` as well; None for parts apart."""
    way: str | None = None
    """What is predicted beyond the range, where that is no matter of the regressor."""
    roofline: Form | None = None
    """Fitted once for all families; None until then, and where the inputs do not tell the work."""
    smaller: Smaller | None = None
    """Known once for all families; None until then, and where there are too few rows for a check."""

    @classmethod
    def of(cls, table: TrainingTable) -> Prepared:
        train, validation, calibration, test = (table.source.table.take(getattr(table.rows, part)) for part in PARTS)
        free, folds = remainders(table.source.layer_kind), table.rows.folds
        known = learn_range(train, validation, table.seed, free)
        if folds is not None:
            # Rows that the range was learned from say nothing about how far off others may lie.
            apart = learn_range(train.take(folds != 0), train.take(folds == 0), table.seed, free)
            known = replace(known, slack=apart.slack, reach=apart.reach)
        return cls(table, known, train, validation, calibration, test, folds)

    @cached_property
    def fold_distance(self) -> Array:
        """How far each row lies from what was measured, without its own fold."""
        assert self.folds is not None
        distance = np.empty(len(self.train))
        for fold in np.unique(self.folds):
            own = self.folds == fold
            others, held_out = self.train.take(~own), self.train.take(own)
            known = learn_range(others, held_out, self.table.seed, remainders(self.source.layer_kind))
            distance[own] = known.distance(held_out.inputs)
        return distance

    @property
    def source(self) -> KindTable:
        return self.table.source

    @property
    def rows(self) -> SplitRows:
        return self.table.rows


Tables = dict[str, dict[str, Prepared]]
"""By device and kind."""


def prepare(
    source: Source, kinds: Sequence[str], split: Split, seed: int, without_unstable: bool, in_folds: bool = True
) -> tuple[Tables, list[Refused]]:
    """The split tables, and the kinds that cannot be learned; few layers in folds, as earlier versions did not."""
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
