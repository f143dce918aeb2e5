"""How far off a row of the same origin may lie is told by rows that were held out, all on one scale."""

from __future__ import annotations

import numpy as np
import pytest

from medn.core.learn_range import REACH_MARGIN, learn_range, learn_range_in_folds
from medn.core.table import Schema, Table

SCHEMA = Schema(("size", "rows"), {})
FOLDS = 5


def made_up(rows: int, seed: int, wide: float = 1.0) -> Table:
    random = np.random.default_rng(seed)
    inputs = np.exp(random.normal(5.0, wide, (rows, 2)))
    return Table(SCHEMA, inputs, inputs.prod(axis=1), np.arange(rows).astype(str))


def in_turn(rows: int) -> np.ndarray:
    return (np.arange(rows) % FOLDS).astype(np.int8)


def test_a_fold_that_lies_far_off_is_farther_than_others() -> None:
    table, folds = made_up(60, 0, 0.3), in_turn(60)
    table.inputs[folds == 2] *= 20.0
    distance = learn_range_in_folds(table, folds).distance
    assert distance[folds == 2].min() > distance[folds != 2].max()
    assert distance.max() == pytest.approx(1 / REACH_MARGIN, rel=0.1)


def test_rows_of_the_same_origin_lie_about_as_far_from_the_range_as_rows_from_the_other_folds() -> None:
    known, distance, _ = learn_range_in_folds(made_up(40, 0), in_turn(40))
    others = known.distance(made_up(400, 1).inputs)
    assert 0.6 < np.median(others) / np.median(distance) < 1.2


def test_the_range_of_folds_is_that_of_all_rows() -> None:
    table = made_up(40, 0)
    known = learn_range_in_folds(table, in_turn(40)).whole
    whole = learn_range(table, table)
    assert np.array_equal(known.low, whole.low)
    assert np.array_equal(known.high, whole.high)
    assert np.array_equal(known.centres, whole.centres)
    assert known.in_range(table.inputs).all()
