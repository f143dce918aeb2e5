"""Groups of layers that compiled backends run as one."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from medn.core.values import Layer
from medn.layer_generators.architectures import architecture_layers
from medn.layer_generators.fused import fused_layers
from medn.layer_generators.kind import layer_kinds

CONVOLUTION = {"in_channels": 4, "out_channels": 8, "in_size": 6, "kernel_size": 3, "same_padding": True}


def convolution() -> Layer:
    return layer_kinds["conv2d"].layer(**CONVOLUTION, bias=False)


def normalisation() -> Layer:
    return layer_kinds["batch_norm2d"].layer(channels=8, in_size=6)


def activation(function: str) -> Layer:
    return layer_kinds["activation"].layer(function=function, elements=288)


def elementwise(**more: str) -> Layer:
    return layer_kinds["elementwise"].layer(rows=8, columns=36, **more)


def test_a_fused_layer_computes_head_residual_and_activation() -> None:
    kind = layer_kinds["fused_linear"]
    values = SimpleNamespace(**kind.layer(in_features=3, out_features=2, activation="tanh", residual=True).values)
    module = kind.build(values)
    source, other = (torch.randn(each.shape) for each in kind.inputs(values, 5))
    expected = torch.tanh(module.head(source) + other)
    torch.testing.assert_close(module(source, other), expected)


def test_a_residual_is_read_and_an_activation_computed() -> None:
    kind = layer_kinds["fused_conv2d"]
    plain, full = (
        kind.costs(SimpleNamespace(**kind.layer(**CONVOLUTION, **more).values), batch_size=2, element_bytes=4)
        for more in ({}, {"activation": "relu", "residual": True})
    )
    assert full.input_bytes - plain.input_bytes == plain.output_bytes
    assert full.flops - plain.flops == 2 * plain.output_bytes // 4


def test_conveniences_of_the_head_go_on() -> None:
    assert layer_kinds["fused_conv2d"].layer(**CONVOLUTION, activation="silu").values["padding_h"] == 1


def test_a_network_is_read_into_groups() -> None:
    add = elementwise(operation="add")
    layers = [
        convolution(),
        normalisation(),
        activation("relu"),
        convolution(),
        normalisation(),
        add,
        activation("silu"),
    ]
    found = [(each.values["bias"], each.values["residual"], each.values["activation"]) for each in fused_layers(layers)]
    assert found == [(True, False, "relu"), (True, True, "silu")]


def test_a_group_ends_where_something_else_comes() -> None:
    scale = elementwise(operation="mul", broadcast="per_row")
    (found,) = fused_layers([convolution(), scale, activation("relu")])
    assert (found.values["bias"], found.values["residual"], found.values["activation"]) == (False, False, "none")


def test_well_known_networks_have_groups_with_and_without_endings() -> None:
    found = architecture_layers("fused_conv2d")
    assert {each.values["residual"] for each in found} == {False, True}
    assert {"none", "relu", "silu", "hardswish"} <= {each.values["activation"] for each in found}
