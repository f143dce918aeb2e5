"""What a data sheet adds to a layer: the same for one layer and for columns, and only what the sheet can tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medn.core.data_sheet import SHEET_NUMBERS, sheet_mistakes
from medn.layer_generators.features import analytic_features
from medn.layer_generators.hardware import hardware_features, hardware_remainders
from medn.layer_generators.kind import Product, layer_kinds

SHEET = {"peak_gflops": 1000, "bandwidth_gb_s": 100, "multiprocessors": 7, "cache_mb": 4, "clock_mhz": 1500}
WORK = {"flops": 8e6, "moved_bytes": 1e6}


@pytest.mark.parametrize("name", list(layer_kinds))
def test_columns_give_what_single_layers_give(name: str, small_layers: Any, as_columns: Any) -> None:
    kind = layer_kinds[name]
    layers = small_layers(kind, 10)
    together = analytic_features(kind, as_columns(kind, layers), np.full(len(layers), 2), 4, SHEET)
    for index, layer in enumerate(layers):
        single = analytic_features(kind, kind.values_of(layer), 2, 4, SHEET)
        assert {name: column[index] for name, column in together.items()} == pytest.approx(single, rel=1e-12)


@pytest.mark.parametrize("name", list(layer_kinds))
def test_features_are_finite_and_hide_no_parameter(name: str, small_layers: Any) -> None:
    kind = layer_kinds[name]
    for layer in small_layers(kind, 10):
        found = analytic_features(kind, kind.values_of(layer), 2, 4, SHEET)
        assert all(np.isfinite(value) and value >= 0 for value in found.values())
        assert not set(found) & {parameter.name for parameter in kind.parameters}


def test_a_sheet_changes_nothing_of_what_is_known_without_it() -> None:
    values = SimpleNamespace(in_features=100, out_features=200, rows=1, bias=True)
    plain = analytic_features(layer_kinds["linear"], values, 8, 4)
    with_sheet = analytic_features(layer_kinds["linear"], values, 8, 4, SHEET)
    assert {name: with_sheet[name] for name in plain} == plain
    assert {"peak_us", "tiles_64x64_waves", *SHEET} <= set(with_sheet) - set(plain)


def test_the_time_at_the_peaks_is_that_of_what_takes_longer() -> None:
    found = hardware_features(WORK, None, SHEET)
    assert (found["peak_compute_us"], found["peak_memory_us"], found["peak_us"]) == (8.0, 10.0, 10.0)
    assert found["compute_share"] == pytest.approx(8 / 18)
    assert found["cache_fill"] == 0.25


def test_tiles_fill_waves_over_the_multiprocessors() -> None:
    found = hardware_features(WORK, Product(2, 65, 16, 128), SHEET)
    assert found["tiles_64x64_filled"] == 65 * 128 / (4 * 64 * 64)
    assert found["tiles_64x64_waves"] == 8 / 7
    assert found["tiles_64x64_last_wave"] == pytest.approx(8 / 7 / 2)
    assert (found["product_rows_mod_4"], found["product_larger_side"], found["product_smaller_side"]) == (1, 128, 65)


@pytest.mark.parametrize("missing", list(SHEET_NUMBERS))
def test_a_missing_number_takes_only_what_needs_it(missing: str) -> None:
    sheet = {name: number for name, number in SHEET.items() if name != missing}
    whole, found = (hardware_features(WORK, Product(1, 8, 8, 8), each) for each in (SHEET, sheet))
    assert {name: whole[name] for name in found} == found
    lost = set(whole) - set(found)
    needs = {"peak_gflops": "peak_compute_us", "bandwidth_gb_s": "peak_memory_us", "cache_mb": "cache_fill"}
    assert {missing, needs.get(missing, missing)} <= lost
    assert len(lost) == {"peak_gflops": 4, "bandwidth_gb_s": 4, "multiprocessors": 11}.get(missing, len(lost))


def test_no_sheet_adds_nothing() -> None:
    assert hardware_features(WORK, Product(1, 8, 8, 8), {}) == {}


def test_every_remainder_is_a_feature() -> None:
    assert set(hardware_remainders()) <= set(hardware_features(WORK, Product(1, 8, 8, 8), SHEET))


def test_what_cannot_stand_in_a_sheet_is_said() -> None:
    assert sheet_mistakes(SHEET) == []
    wrong = sheet_mistakes({"peak_gflop": 1, "cache_mb": 0, "clock_mhz": True, "bandwidth_gb_s": float("inf")})
    assert "peak_gflops" in wrong[0]
    assert len(wrong) == 4
