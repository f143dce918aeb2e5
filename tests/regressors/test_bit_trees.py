"""Trees as tables of bits decide as trees do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medn.core.table import Array
from medn.regressors import thresholds
from medn.regressors.bit_trees import BitTrees, Words, is_worthwhile
from medn.regressors.forms.trees import Tree, Trees

WIDTH = 4


def random_tree(random: np.random.Generator, leaves: int) -> Tree:
    """A tree of any shape, in preorder. Few different thresholds, so that inputs often meet them."""
    feature: list[int] = []
    number: list[float] = []
    right: list[int] = []

    def grow(below: int) -> None:
        place = len(feature)
        feature.append(int(random.integers(WIDTH)) if below > 1 else -1)
        number.append(float(random.integers(8)) if below > 1 else float(random.normal()))
        right.append(0)
        if below > 1:
            left = int(random.integers(1, below))
            grow(left)
            right[place] = len(feature)
            grow(below - left)

    grow(leaves)
    return np.array(feature, np.int16), np.array(number, np.float32), np.array(right, np.int32)


def random_trees(seed: int, leaves: list[int]) -> tuple[Trees, Array]:
    random = np.random.default_rng(seed)
    form = Trees.from_trees([random_tree(random, count) for count in leaves], base=0.5, width=WIDTH)
    return form, random.integers(-1, 9, (60, WIDTH)) + random.choice([0.0, 0.5], (60, WIDTH))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 150), min_size=1, max_size=6))
def test_bits_lead_to_the_leaves_that_a_walk_leads_to(seed: int, leaves: list[int]) -> None:
    form, inputs = random_trees(seed, leaves)
    sums = form.base + BitTrees(form.nodes).sums(inputs)
    assert sums == pytest.approx(form.base + form.walk(inputs), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("leaves", "bits"), [(7, 8), (15, 16), (31, 32), (63, 64)])
def test_trees_that_fill_a_word_take_one_word_each(leaves: int, bits: int) -> None:
    form, inputs = random_trees(0, [leaves] * 5)
    words = Words(form.nodes)
    assert (words.bits, words.count) == (bits, 5)
    assert form.log_value(inputs) == pytest.approx(form.base + form.walk(inputs), rel=1e-12)


@pytest.mark.parametrize(("leaves", "expected"), [([60] * 9, True), ([700, 600], False), ([700, *[20] * 30], True)])
def test_trees_of_hundreds_of_leaves_are_better_walked(leaves: list[int], expected: bool) -> None:
    form, _ = random_trees(1, leaves)
    assert is_worthwhile(form.nodes) == expected


def test_a_value_at_a_threshold_goes_left() -> None:
    stump = np.array([1, -1, -1], np.int16), np.array([3, 10, 20], np.float32), np.array([2, 0, 0], np.int32)
    form = Trees.from_trees([stump], base=0.0, width=2)
    assert form.log_value(np.array([[0, 2.9], [0, 3.0], [0, 3.1]])).tolist() == [10, 10, 20]


def test_trees_whose_table_is_too_large_predict_the_same_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    form, inputs = random_trees(2, [300, 1, 40, 9])
    expected = form.log_value(inputs)
    monkeypatch.setattr(thresholds, "LARGEST_TABLE", 10)
    again = Trees.from_parts(form.parts(), ())
    assert again.log_value(inputs) == pytest.approx(expected, abs=1e-5)
    assert [again.one(row) for row in inputs] == pytest.approx(expected, abs=1e-5)
