"""The networks are made of possible layers and have the sizes they are known for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from medn.core.errors import UsageError
from medn.layer_generators.architectures import architecture_layers, architectures
from medn.layer_generators.kind import layer_kinds


def total(network: str, what: str) -> float:
    """Sum over the matrix products of a network, repeats included."""
    amount = 0.0
    for kind_name, parameters in architectures()[network]():
        kind = layer_kinds[kind_name]
        costs = kind.costs(kind.values_of(kind.layer(**parameters)), batch_size=1, element_bytes=4)
        amount += getattr(costs, what) if kind_name in ("conv2d", "conv3d", "linear", "batch_norm2d") else 0
    return amount


@pytest.mark.parametrize("network", list(architectures()))
def test_every_layer_of_a_network_is_possible(network: str) -> None:
    assert [layer_kinds[kind].layer(**parameters) for kind, parameters in architectures()[network]()]


@pytest.mark.parametrize("kind_name", list(layer_kinds))
def test_every_kind_has_several_real_shapes(kind_name: str) -> None:
    assert len(architecture_layers(kind_name)) >= 5


@pytest.mark.parametrize("kind_name", list(layer_kinds))
def test_layers_are_of_their_kind_and_differ(kind_name: str) -> None:
    layers = architecture_layers(kind_name)
    assert {layer.kind for layer in layers} == {kind_name}
    assert len({layer.key for layer in layers}) == len(layers)


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'conv2d'"):
        architecture_layers("conv2")


@pytest.mark.parametrize(
    ("network", "giga_multiply_adds", "million_parameters"),
    [
        ("vgg16", 15.47, 138.36),
        ("resnet18", 1.814, 11.69),
        ("resnet50", 4.09, 25.56),
        ("resnext50", 4.23, 25.03),
        ("mobilenet_v2", 0.301, 3.50),
        ("mobilenet_v3", 0.217, 5.48),
        ("efficientnet_b0", 0.386, 5.29),
        ("densenet121", 2.83, 7.98),
    ],
)
def test_networks_are_as_large_as_published(network: str, giga_multiply_adds: float, million_parameters: float) -> None:
    assert total(network, "flops") / 2e9 == pytest.approx(giga_multiply_adds, rel=0.03)
    assert total(network, "parameter_bytes") / 4e6 == pytest.approx(million_parameters, rel=0.03)


def test_layers_cover_groups_rectangles_and_dilation() -> None:
    convolutions: list[Any] = [SimpleNamespace(**layer.values) for layer in architecture_layers("conv2d")]
    assert any(1 < each.groups < each.in_channels for each in convolutions)
    assert any(each.groups == each.in_channels > 1 for each in convolutions)
    assert any(each.kernel_h != each.kernel_w for each in convolutions)
    assert any(each.dilation_h > 1 for each in convolutions)
