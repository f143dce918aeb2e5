"""How fast a device moves data and computes, read off a bundle's own predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medn.model.unknown_operators import ASSUMED, DeviceSpeed, fit_line
from medn.predictor.predictor import Predictor


def test_a_bundle_that_knows_activations_and_products_speaks_for_its_device(predictor: Predictor) -> None:
    device = DeviceSpeed(predictor)
    assert device.source == "speed of memory that of activation, of arithmetic that of linear"
    assert device.speed(0.0) != ASSUMED


def test_what_a_bundle_does_not_say_is_assumed(predictor: Predictor) -> None:
    only_linear = tuple(entry for entry in predictor.bundle.entries if entry.kind == "linear")
    device = DeviceSpeed(Predictor(replace(predictor.bundle, entries=only_linear)))
    assert "memory assumed" in device.source
    assert device.speed(0.0)[:2] == ASSUMED[:2]
    assert device.speed(0.0).flops_per_s != ASSUMED.flops_per_s


def test_small_changes_of_utilization_share_a_speed(predictor: Predictor) -> None:
    device = DeviceSpeed(predictor)
    assert device.speed(0.301) is device.speed(0.3)


@pytest.mark.parametrize("latency_s", [[1e-3, 1e-3, 1e-3], [1e-6, 1e-3, 1.0], [3e-3, 2e-3, 1e-3]])
def test_a_line_is_never_below_nothing(latency_s: list[float]) -> None:
    overhead_s, bytes_per_s = fit_line(np.array([1e3, 1e5, 1e7]), np.array(latency_s))
    assert overhead_s >= 0
    assert bytes_per_s > 0
    assert np.isfinite(bytes_per_s)
