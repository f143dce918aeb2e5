"""Splits: a layer is never on two sides, and what is left out is left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.core.errors import UsageError
from medn.core.splits import FOLDS, Split, SplitRows, keep_given, leave_device_out, leave_range_out, split_by_group
from medn.core.table import Schema, Table

NAMES = ("train", "validation", "calibration", "test")


def sides(groups: np.ndarray[tuple[int], np.dtype[np.str_]], parts: SplitRows) -> list[set[str]]:
    return [{str(group) for group in groups[getattr(parts, name)]} for name in NAMES]


def made_up(layers: int = 40, devices: tuple[str, ...] = ("here", "there")) -> Table:
    """Every layer at two batch sizes on every device."""
    rows = [
        (size, batch, device) for size in range(1, layers + 1) for batch in (1, 8) for device in range(len(devices))
    ]
    inputs = np.array(rows, dtype=np.float64)
    groups = np.array([f"layer {size}" for size, _, _ in rows])
    return Table(Schema(("size", "batch_size", "device"), {"device": devices}), inputs, inputs[:, 0] * 1e-3, groups)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(0, 1000))
def test_a_layer_is_on_one_side_only_and_no_row_is_lost(layers: list[int], seed: int) -> None:
    groups = np.array([str(layer) for layer in layers])
    if len(set(layers)) < 4:
        with pytest.raises(UsageError, match="at least 4 different layers"):
            split_by_group(groups, seed)
        return
    parts = split_by_group(groups, seed)
    found = sides(groups, parts)
    assert sum(len(side) for side in found) == len(set(layers))
    assert all(found)
    assert sorted(np.concatenate([getattr(parts, name) for name in NAMES]).tolist()) == list(range(len(layers)))


@given(st.integers(2, 39), st.integers(0, 100))
def test_learning_below_a_value_is_tested_above_it(above: int, seed: int) -> None:
    table = made_up()
    try:
        parts = leave_range_out(table, "size", above, seed)
    except UsageError as error:
        assert "no rows are left for" in str(error)  # noqa: PT017
        return
    sizes = table.column("size")
    assert sizes[parts.test].min() > above
    assert max(sizes[getattr(parts, name)].max() for name in NAMES[:3]) <= above
    assert len(set.union(*sides(table.groups, parts))) == sum(map(len, sides(table.groups, parts)))


def test_a_device_left_out_is_only_tested_on_and_by_other_layers() -> None:
    table = made_up()
    parts = leave_device_out(table, "there", seed=0)
    assert set(table.column("device")[parts.test]) == {1.0}
    assert set(table.column("device")[parts.train]) == {0.0}
    train, *_, test = sides(table.groups, parts)
    assert not train & test


def test_the_same_seed_splits_alike_and_another_one_does_not() -> None:
    groups = made_up().groups
    first, again, other = (split_by_group(groups, seed).test.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_sizes_follow_the_fractions() -> None:
    assert split_by_group(np.arange(1000).astype(str), 0).sizes == {
        "train": 600,
        "validation": 150,
        "calibration": 100,
        "test": 150,
    }


def test_a_value_that_leaves_nothing_on_one_side_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no rows on one side of 99 \(from 1 to 40\)"):
        leave_range_out(made_up(), "size", 99, 0)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="'nowhere' cannot be left out: the table has here, there"):
        leave_device_out(made_up(), "nowhere", 0)


@pytest.mark.parametrize("text", ["random", "range:flops:1e+09", "device:laptop", "device:a:b"])
def test_a_split_is_written_as_it_is_read(text: str) -> None:
    assert str(Split.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("randm", "no split named 'randm'. Did you mean 'random'?"),
        ("range:flops", "no split named 'range:flops'"),
        ("range:flops:many", "'many' is no number"),
        ("device:", "no split named 'device:'"),
        ("", "no split named ''"),
    ],
)
def test_a_split_that_is_none_is_refused_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Split.parse(text)
    assert words in str(refused.value)


def test_a_split_makes_the_parts_it_names() -> None:
    table = made_up()
    assert Split().parts(table, 3, in_folds=False).sizes == split_by_group(table.groups, 3).sizes
    assert table.column("size")[Split.parse("range:size:20").parts(table, 0).test].min() > 20
    assert set(table.column("device")[Split.parse("device:here").parts(table, 0).test]) == {0.0}


def given_split(beyond: bool) -> tuple[Table, SplitRows]:
    """A table whose test rows are larger than all others, or like them."""
    random = np.random.default_rng(0)
    test = np.arange(300) % 3 == 0
    sizes = random.uniform(1, 100, 300) + 100 * (test & beyond)
    schema = Schema(("other", "size"))
    inputs = np.column_stack([random.uniform(0, 1e6, 300), sizes])
    groups = np.array([f"layer {number // 2}" for number in range(300)])
    table = Table(schema, inputs, np.ones(300), np.where(test, np.char.add(groups, " tested"), groups))
    return table, Split().parts(table, 0, test, in_folds=False)


def test_what_is_chosen_by_lies_beyond_where_the_test_rows_do() -> None:
    table, parts = given_split(beyond=True)
    size = table.column("size")
    assert size[parts.train].max() <= min(size[parts.validation].max(), size[parts.calibration].max())
    assert len(parts.validation) + len(parts.calibration) == pytest.approx(0.05 * 200, abs=4)
    assert len(parts.test) == 100


def test_what_is_chosen_by_is_drawn_at_random_where_the_test_rows_are_like_the_others() -> None:
    table, parts = given_split(beyond=False)
    size = table.column("size")
    assert size[parts.validation].mean() == pytest.approx(size[parts.train].mean(), rel=0.3)
    assert sum(parts.sizes.values()) == 300


@pytest.mark.parametrize("beyond", [True, False])
def test_the_parts_of_a_given_split_share_no_layer(beyond: bool) -> None:
    table, parts = given_split(beyond)
    layers = [set(table.groups[getattr(parts, name)]) for name in parts.sizes]
    assert sum(map(len, layers)) == len(set.union(*layers))


def test_of_very_many_layers_most_are_learned_from() -> None:
    parts = split_by_group(np.arange(120_000).astype(str), seed=0)
    assert parts.sizes == {"train": 102_500, "validation": 5000, "calibration": 2500, "test": 10_000}


def test_of_many_layers_the_parts_keep_their_shares() -> None:
    parts = split_by_group(np.arange(20_000).astype(str), seed=0)
    assert parts.sizes == {"train": 12_000, "validation": 3000, "calibration": 2000, "test": 3000}


def test_few_layers_are_in_folds_of_whole_layers_and_the_test_rows_stay_the_same() -> None:
    table = made_up()
    parts, apart = Split().parts(table, 3), Split().parts(table, 3, in_folds=False)
    assert parts.folds is not None
    assert np.array_equal(parts.test, apart.test)
    assert np.array_equal(parts.train, np.sort(apart.learned))
    assert np.array_equal(parts.validation, parts.train)
    assert np.array_equal(parts.calibration, parts.train)
    folds_of_layers = {(group, fold) for group, fold in zip(table.groups[parts.train], parts.folds, strict=True)}
    assert len(folds_of_layers) == len(set(table.groups[parts.train]))
    assert set(parts.folds.tolist()) == set(range(FOLDS))


def test_many_layers_are_held_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medn.core.splits.MOST_CROSS_FITTED", 10)
    assert Split().parts(made_up(), 3).folds is None


def test_few_layers_of_very_many_rows_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made_up()
    assert Split().parts(table, 3).folds is not None
    monkeypatch.setattr("medn.core.splits.MOST_ROWS_CROSS_FITTED", len(table) // 2)
    assert Split().parts(table, 3).folds is None


def test_splits_that_answer_a_question_know_no_folds() -> None:
    assert Split.parse("range:size:20").parts(made_up(), 0).folds is None


def test_folds_survive_being_written_as_codes() -> None:
    table = made_up()
    parts = Split().parts(table, 3)
    again = SplitRows.from_codes(parts.codes(len(table)), parts.folds)
    assert np.array_equal(again.train, parts.train)
    assert np.array_equal(again.test, parts.test)
    assert np.array_equal(again.folds, parts.folds)  # type: ignore[arg-type]


def test_folds_for_other_rows_are_refused() -> None:
    parts = Split().parts(made_up(), 3)
    assert parts.folds is not None
    with pytest.raises(ValueError, match="fold"):
        SplitRows.from_codes(parts.codes(len(made_up())), parts.folds[1:])


@pytest.mark.parametrize("layers", [20, 40, 80])
def test_few_layers_with_many_inputs_do_not_pass_for_ones_that_the_test_rows_lie_beyond(layers: int) -> None:
    """Of sixty edges of few layers drawn by chance, one nearly always leaves a quarter of the test rows beyond it."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        inputs = random.uniform(1, 100, (layers + 200, 30))
        schema = Schema(tuple(f"size_{number}" for number in range(30)), {})
        test = np.arange(len(inputs)) >= layers
        table = Table(schema, inputs, np.ones(len(inputs)), np.arange(len(inputs)).astype(str))
        assert keep_given(table, test, seed).folds is not None
