"""Every layer kind keeps what all kinds must, and the few facts that are a single kind's own."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.flop_counter import FlopCounterMode

from medn.core.errors import ConfigError, UsageError
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.kind_conformance import *  # noqa: F403
from medn.layer_generators.kind_conformance import run

COUNTED_BY_TORCH = (
    *("conv1d", "conv2d", "conv3d", "conv_transpose2d", "linear", "matmul", "attention", "multihead_attention"),
    *("lstm", "gru"),
)
"""Kinds with matrix products; torch counts nothing for the others, whose operations per element are our own."""


@pytest.mark.parametrize("name", COUNTED_BY_TORCH)
def test_flops_agree_with_those_torch_counts(name: str, small_layers: Any) -> None:
    # On meta tensors, where attention is taken apart into products that are counted; on a CPU its fused form is not.
    kind = layer_kinds[name]
    for layer in small_layers(kind, 4, most_flops=3e7):
        counter = FlopCounterMode(display=False)
        with counter:
            run(kind, layer, 2, device="meta")
        values = kind.values_of(layer)
        if name == "attention":  # taken apart, it computes what a mask hides too
            values.causal, values.window = False, 0
        assert kind.costs(values, 2, element_bytes=4).flops == counter.get_total_flops(), str(layer)


def test_unknown_kind_gets_its_near_miss() -> None:
    with pytest.raises(UsageError, match="Did you mean 'conv2d'"):
        layer_kinds["conv2"]


CONV2D = {"in_channels": 16, "out_channels": 32, "in_size": 8, "kernel_size": 3}
CONV_TRANSPOSE2D = {**CONV2D, "kernel_size": 2, "stride": 2}
POOL = {"channels": 4, "in_size": 8, "kernel_size": 3}
SELF_ATTENTION = {"embed_size": 10, "heads": 4, "sequence_length": 3}
ATTENTION = {"heads": 2, "head_size": 8, "query_length": 4, "key_length": 6}


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("conv2d", {**CONV2D, "groups": 3}, "groups: must divide in_channels=16 (got 3)"),
        ("conv2d", {**CONV2D, "groups": 16, "out_channels": 24}, "groups: must divide out_channels=24 (got 16)"),
        ("conv2d", {**CONV2D, "kernel_size": 9}, "kernel_h: the window covers 9 but the padded input has only 8"),
        ("conv2d", {**CONV2D, "dilation": 4}, "kernel_h: the window covers 9 but the padded input has only 8"),
        ("conv2d", {**CONV2D, "kernel_h": 3}, "kernel_size: already says kernel_h; give one of the two"),
        ("conv2d", {**CONV2D, "depthwise": True, "groups": 4}, "depthwise: means groups=16 (got groups=4)"),
        ("conv2d", {**CONV2D, "same_padding": True, "padding": 1}, "same_padding: padding_h is given too"),
        ("conv2d", {**CONV2D, "same_padding": 1}, "same_padding: must be true or false (got 1)"),
        ("conv_transpose2d", {**CONV_TRANSPOSE2D, "output_padding": 2}, "output_padding_h: must be below stride_h=2"),
        ("conv_transpose2d", {**CONV_TRANSPOSE2D, "padding": 8}, "padding_h: takes away the whole output"),
        ("max_pool2d", {**POOL, "padding": 2}, "padding_h: must be at most half of the window of 3 (got 2)"),
        ("avg_pool2d", {**POOL, "kernel_size": 9}, "kernel_h: the window covers 9 but the padded input has only 8"),
        ("attention", {**ATTENTION, "causal": True}, "causal: needs equal lengths (got query_length=4"),
        (
            "multihead_attention",
            {"embed_size": 10, "heads": 4, "sequence_length": 3},
            "heads: must divide embed_size=10",
        ),
        ("group_norm", {"channels": 10, "groups": 4, "in_size": 3}, "groups: must divide channels=10 (got 4)"),
        ("activation", {"function": "rellu", "elements": 3}, "Did you mean 'relu'?"),
        (
            "upsample",
            {"channels": 3, "in_size": 4, "out_size": 8, "scale_factor": 2},
            "scale_factor: out_h is given too; give one of the two",
        ),
    ],
)
def test_impossible_combination_is_refused_with_a_sentence(name: str, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        layer_kinds[name].layer(**given)
    assert any(sentence in mistake for mistake in error.value.mistakes), error.value.mistakes


def test_depthwise_means_one_group_per_channel() -> None:
    values = layer_kinds["conv2d"].layer(**{**CONV2D, "out_channels": 30, "depthwise": True}).values
    assert (values["groups"], values["out_channels"]) == (16, 32)


def test_depthwise_needs_no_output_channels() -> None:
    given = {"in_channels": 24, "in_size": 8, "kernel_size": 3, "depthwise": True}
    assert layer_kinds["conv2d"].layer(**given).values["out_channels"] == 24


@pytest.mark.parametrize(("kernel_size", "dilation"), [(1, 1), (3, 1), (5, 1), (3, 2), (7, 3)])
def test_same_padding_keeps_the_size(kernel_size: int, dilation: int) -> None:
    kind = layer_kinds["conv2d"]
    layer = kind.layer(**{**CONV2D, "kernel_size": kernel_size, "dilation": dilation, "same_padding": True})
    assert kind.output_shape(kind.values_of(layer), 1) == (1, 32, 8, 8)


def test_scale_factor_means_an_output_so_many_times_larger() -> None:
    values = layer_kinds["upsample"].layer(channels=3, in_h=4, in_w=5, scale_factor=3).values
    assert (values["out_h"], values["out_w"]) == (12, 15)


def test_pool_with_ceil_mode_follows_torch_over_many_sizes() -> None:
    kind = layer_kinds["max_pool2d"]
    for in_size in range(3, 16):
        for kernel_size, stride, padding in [(2, 2, 0), (2, 3, 1), (3, 2, 1), (3, 3, 0), (3, 4, 1)]:
            window = {"kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": True}
            layer = kind.layer(channels=2, in_size=in_size, **window)
            outputs = run(kind, layer, 1, device="meta")[2]
            assert tuple(outputs[0].shape) == kind.output_shape(kind.values_of(layer), 1), str(layer)
