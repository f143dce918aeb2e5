"""How much of each known device there is in a new one."""

from __future__ import annotations

import numpy as np
import pytest

from medn.core.table import Array
from medn.transfer.device_weights import WAYS, LeftOut, blend_for, interval_width, kriging_weights


def made_up(devices: int) -> tuple[Array, Array, Array]:
    """What devices take of 50 layers, at the peaks of their sheets, and the sheets: all by one efficiency."""
    random = np.random.default_rng(0)
    work = random.uniform(-8, -2, 50)
    speed = np.linspace(0.0, 3.0, devices)
    peaks = work[:, None] - speed
    return peaks + 0.4, peaks, speed[:, None]


@pytest.mark.parametrize("way", WAYS)
def test_weights_add_up_to_one(way: object) -> None:
    known = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 3.0]])
    assert kriging_weights(np.array([9.0, 9.0]), known, way).sum() == pytest.approx(1.0)  # type: ignore[arg-type]


def test_a_device_that_is_known_is_itself() -> None:
    known = np.array([[0.0], [2.0], [4.0]])
    weights = kriging_weights(np.array([2.0]), known, WAYS[0])
    assert weights[1] > 0.9


def test_devices_with_the_same_sheet_share_alike() -> None:
    assert kriging_weights(np.array([1.0]), np.zeros((3, 1)), WAYS[0]) == pytest.approx(1 / 3)


def test_one_efficiency_for_all_is_found_beyond_all_known_devices() -> None:
    known, peaks, speed = made_up(5)
    blend = blend_for(np.array([5.0]), speed, LeftOut.of(known, peaks, speed))
    new = peaks[:, :1] - 5.0
    found = blend.logs(known, np.concatenate([peaks, new], axis=1))
    assert np.abs(found - new[:, 0] - 0.4).mean() < 0.4


def test_intervals_are_as_wide_as_the_worst_of_few_devices() -> None:
    off = np.array([[0.1] * 10, [-0.5] * 10, [0.2] * 10])
    assert interval_width(off, 0.9) == pytest.approx(0.5)


def test_of_many_devices_the_worst_tenth_is_passed_over() -> None:
    off = np.tile(np.arange(1.0, 41.0)[:, None] / 10, (1, 5))
    assert interval_width(off, 0.9) == pytest.approx(3.7)
