"""Analytic features: the same for one layer and for columns, finite, and saying what their names say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from medn.layer_generators.features import TILES, analytic_features
from medn.layer_generators.kind import layer_kinds


def features_of(name: str, batch_size: int = 1, **given: Any) -> dict[str, Any]:
    kind = layer_kinds[name]
    return analytic_features(kind, kind.values_of(kind.layer(**given)), batch_size, element_bytes=4)


@pytest.mark.parametrize("name", list(layer_kinds))
def test_columns_give_what_single_layers_give(name: str, small_layers: Any, as_columns: Any) -> None:
    kind = layer_kinds[name]
    layers = small_layers(kind, 10)
    together = analytic_features(kind, as_columns(kind, layers), np.full(len(layers), 2), 4)
    for index, layer in enumerate(layers):
        single = analytic_features(kind, kind.values_of(layer), 2, 4)
        assert list(single) == list(together)
        for feature, value in single.items():
            assert together[feature].shape == (len(layers),), feature
            assert together[feature][index] == value, feature


@pytest.mark.parametrize("name", list(layer_kinds))
def test_features_are_finite_and_not_negative(name: str, small_layers: Any) -> None:
    for layer in small_layers(layer_kinds[name], 10):
        for feature, value in features_of(name, **layer.values).items():
            assert np.isfinite(value), feature
            assert value >= 0, feature


@pytest.mark.parametrize("name", list(layer_kinds))
def test_features_do_not_hide_parameters_of_the_same_name(name: str, small_layers: Any) -> None:
    (layer,) = small_layers(layer_kinds[name], 1)
    assert not set(features_of(name, **layer.values)) & {parameter.name for parameter in layer_kinds[name].parameters}


@pytest.mark.parametrize("name", list(layer_kinds))
def test_tiled_parameters_have_remainders(name: str, small_layers: Any) -> None:
    (layer,) = small_layers(layer_kinds[name], 1)
    features = features_of(name, **layer.values)
    for tiled in layer_kinds[name].tiled:
        assert [features[f"{tiled}_mod_{tile}"] for tile in TILES] == [layer.values[tiled] % tile for tile in TILES]


def test_one_layer_at_many_batch_sizes_gives_columns() -> None:
    kind = layer_kinds["lstm"]
    layer = kind.layer(input_size=4, hidden_size=8, sequence_length=3)
    features = analytic_features(kind, kind.values_of(layer), np.array([1, 2, 4]), 4)
    assert {column.shape for column in features.values()} == {(3,)}


def test_intensity_is_flops_per_byte_moved() -> None:
    features = features_of("linear", in_features=8, out_features=16, bias=False)
    assert features["intensity"] == 2 * 8 * 16 / (4 * (8 + 8 * 16 + 16))


def test_embedding_reads_only_the_rows_it_picks() -> None:
    features = features_of("embedding", vocabulary=10_000, features=16, tokens=4)
    assert features["bytes_read"] == 4 * 8 + 4 * 16 * 4
    assert features["parameter_bytes"] == 10_000 * 16 * 4


def test_waste_is_the_share_of_the_last_tile_left_empty() -> None:
    assert features_of("linear", in_features=24, out_features=16)["in_features_waste"] == 0.25
    assert features_of("linear", in_features=24, out_features=16)["out_features_waste"] == 0


def test_convolution_tells_its_matrix_product() -> None:
    conv = {"in_channels": 8, "out_channels": 16, "in_size": 10, "kernel_size": 3, "groups": 2}
    features = features_of("conv2d", batch_size=2, **conv)
    assert (features["matrix_rows"], features["matrix_columns"], features["matrix_inner"]) == (2 * 8 * 8, 8, 4 * 9)
