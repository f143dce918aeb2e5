"""Which points are measured on a new device."""

from __future__ import annotations

import numpy as np
import pytest

from medn.transfer.points import WAYS, at_random, medoids


@pytest.fixture
def clusters() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Three heaps: a large, a smaller and a small one."""
    random = np.random.default_rng(0)
    middles = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], [60, 30, 10], axis=0)
    return middles + random.normal(0, 0.5, middles.shape)


def test_every_heap_has_a_point_the_largest_first(clusters: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    first, second, third = medoids(clusters, 3)
    assert first < 60
    assert 60 <= second < 90
    assert third >= 90


def test_heaps_that_have_a_point_already_get_none(clusters: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    assert [place >= 90 for place in medoids(clusters, 3, taken=[5, 70])] == [True]


@pytest.mark.parametrize("way", WAYS)
def test_so_many_points_are_chosen_and_each_once(
    way: str, clusters: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> None:
    found = WAYS[way](clusters, 40, [1, 2, 3], 7)
    assert len({*found, 1, 2, 3}) == 40
    assert len(WAYS[way](clusters, 1000, [1], 7)) == 99
    assert WAYS[way](clusters, 2, [1, 2], 7) == []
    assert WAYS[way](clusters, 40, [1, 2, 3], 7) == found


def test_points_that_are_all_alike_can_be_chosen_from() -> None:
    assert sorted(medoids(np.ones((5, 3)), 5)) == [0, 1, 2, 3, 4]


def test_what_is_drawn_at_random_depends_on_the_seed(
    clusters: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> None:
    assert at_random(clusters, 10, (), 1) != at_random(clusters, 10, (), 2)
