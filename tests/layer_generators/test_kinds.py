"""Facts that hold for every layer kind, and the few that are a single kind's own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from medn.core.errors import ConfigError, UsageError
from medn.core.values import Layer
from medn.layer_generators.kind import Costs, LayerKind, TensorSpec, layer_kinds

COUNTED_BY_TORCH = (
    *("conv1d", "conv2d", "conv3d", "conv_transpose2d", "linear", "matmul", "attention", "multihead_attention"),
    *("lstm", "gru"),
)
"""Kinds with matrix products; torch counts nothing for the others, whose operations per element are our own."""


@pytest.fixture(params=list(layer_kinds))
def kind(request: pytest.FixtureRequest) -> LayerKind:
    return layer_kinds[request.param]


def tensor(spec: TensorSpec, device: str = "cpu") -> torch.Tensor:
    if spec.indices_below is not None:
        return torch.zeros(spec.shape, dtype=torch.int64, device=device)
    return torch.zeros(spec.shape, device=device)


def run(kind: LayerKind, layer: Layer, batch_size: int, device: str = "cpu") -> tuple[Any, list[Any], list[Any]]:
    """The module, what it was called with and what it gave."""
    values = kind.values_of(layer)
    with torch.device(device):
        module = kind.build(values).eval()
    inputs = [tensor(spec, device) for spec in kind.inputs(values, batch_size)]
    with torch.inference_mode():
        output = module(*inputs)
    return module, inputs, flatten(output)


def flatten(output: Any) -> list[torch.Tensor]:
    return [output] if isinstance(output, torch.Tensor) else [tensor for part in output for tensor in flatten(part)]


def costs_of(kind: LayerKind, layer: Layer, batch_size: int) -> Costs:
    return kind.costs(kind.values_of(layer), batch_size, element_bytes=4)


def size_bytes(tensors: Any) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def test_kind_is_described_in_words(kind: LayerKind) -> None:
    assert kind.description
    assert all(parameter.about for parameter in (*kind.parameters, *kind.conveniences.values()))


def test_names_of_a_kind_are_unique(kind: LayerKind) -> None:
    assert len(set(kind.names)) == len(kind.names)


def test_defaults_are_valid(kind: LayerKind) -> None:
    for parameter in kind.parameters:
        assert parameter.default is None or parameter.mistake(parameter.default) is None


def test_sweep_tiles_and_shorthands_speak_of_known_names(kind: LayerKind) -> None:
    parameters = {parameter.name for parameter in kind.parameters}
    assert set(kind.sweep) <= set(kind.names)
    assert set(kind.tiled) <= parameters
    assert all(set(targets) <= parameters for targets in kind.shorthands.values())


def test_sweep_gives_every_required_parameter(kind: LayerKind) -> None:
    given = {name: domain.at(0.0) for name, domain in kind.sweep.items()}
    assert not [mistake for mistake in kind.resolve(given)[1] if "missing" in mistake]


def test_sweep_values_are_allowed(kind: LayerKind) -> None:
    for name, domain in kind.sweep.items():
        for parameter in kind.meaning(name):
            assert [parameter.mistake(value) for value in domain.grid()] == [None] * len(domain.grid())


def test_at_least_a_fifth_of_the_default_draws_is_possible(
    kind: LayerKind, draw: Callable[[LayerKind, int], list[Layer | None]]
) -> None:
    drawn = draw(kind, 200)
    assert sum(layer is not None for layer in drawn) >= 0.2 * len(drawn)


def test_most_default_layers_are_quick_to_run(
    kind: LayerKind, draw: Callable[[LayerKind, int], list[Layer | None]]
) -> None:
    costs = [costs_of(kind, layer, 1) for layer in draw(kind, 200) if layer is not None]
    quick = [each.flops < 2e9 and each.input_bytes + each.output_bytes < 2e8 for each in costs]
    assert np.mean(quick) > 0.85


@pytest.mark.parametrize("batch_size", [1, 3])
def test_output_has_the_shape_that_was_foretold(kind: LayerKind, batch_size: int, small_layers: Any) -> None:
    for layer in small_layers(kind, 8):
        outputs = run(kind, layer, batch_size)[2]
        assert tuple(outputs[0].shape) == kind.output_shape(kind.values_of(layer), batch_size), str(layer)


def test_output_shape_holds_on_many_layers_without_data(kind: LayerKind, small_layers: Any) -> None:
    few = kind.name in ("lstm", "gru")  # without data torch goes through their steps one by one
    for layer in small_layers(kind, 3 if few else 60, most_flops=1e7 if few else 1e9, most_bytes=1e8):
        outputs = run(kind, layer, 2, device="meta")[2]
        assert tuple(outputs[0].shape) == kind.output_shape(kind.values_of(layer), 2), str(layer)


def test_bytes_are_those_of_the_real_tensors(kind: LayerKind, small_layers: Any) -> None:
    for layer in small_layers(kind, 8):
        module, inputs, outputs = run(kind, layer, batch_size=2)
        held = [*module.parameters(), *(each for each in module.buffers() if each.is_floating_point())]
        costs = costs_of(kind, layer, 2)
        assert costs.input_bytes == size_bytes(inputs), str(layer)
        assert costs.output_bytes == size_bytes(outputs), str(layer)
        assert costs.parameter_bytes == size_bytes(held), str(layer)


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


def test_flops_torch_does_not_count_are_positive(kind: LayerKind, small_layers: Any) -> None:
    assert all(costs_of(kind, layer, 1).flops > 0 for layer in small_layers(kind, 5))


def test_costs_of_columns_are_those_of_single_layers(kind: LayerKind, small_layers: Any) -> None:
    layers = small_layers(kind, 20)
    batch_sizes = [1 + index % 5 for index in range(len(layers))]
    columns = SimpleNamespace(
        **{
            parameter.name: np.array([kind.complete(layer.values)[parameter.name] for layer in layers])
            for parameter in kind.parameters
        }
    )
    together = kind.costs(columns, np.array(batch_sizes), 4)
    single = [costs_of(kind, layer, batch_size) for layer, batch_size in zip(layers, batch_sizes, strict=True)]
    for name in ("flops", "input_bytes", "output_bytes", "parameter_bytes"):
        expected = [getattr(costs, name) for costs in single]
        assert np.broadcast_to(getattr(together, name), len(layers)).tolist() == expected, name
    for name, column in together.more.items():
        assert np.broadcast_to(column, len(layers)).tolist() == [costs.more[name] for costs in single], name


def test_modules_are_built_without_data(kind: LayerKind, small_layers: Any) -> None:
    for layer in small_layers(kind, 5):
        with torch.device("meta"):
            module = kind.build(kind.values_of(layer))
        assert all(each.is_meta for each in (*module.parameters(), *module.buffers()))


def test_layer_is_its_own_description(kind: LayerKind, small_layers: Any) -> None:
    for layer in small_layers(kind, 5):
        again = kind.layer(**dict(reversed(layer.values.items())))
        assert again == layer
        assert again.key == layer.key


def test_every_missing_parameter_is_named(kind: LayerKind) -> None:
    required = [parameter.name for parameter in kind.parameters if parameter.default is None]
    with pytest.raises(ConfigError) as error:
        kind.layer()
    assert set(error.value.mistakes) == {f"{name}: missing" for name in required}


def test_unknown_parameter_gets_its_near_miss(kind: LayerKind) -> None:
    name = kind.parameters[0].name
    with pytest.raises(ConfigError, match=f"Did you mean '{name}'"):
        kind.layer(**{f"{name}x": 1})


def test_value_outside_its_limits_is_a_sentence(kind: LayerKind, small_layers: Any) -> None:
    (layer,) = small_layers(kind, 1)
    for parameter in kind.parameters:
        with pytest.raises(ConfigError) as error:
            kind.layer(**{**layer.values, parameter.name: -1})
        assert error.value.mistakes[0].startswith(f"{parameter.name}: must be ")
        assert "(got -1)" in error.value.mistakes[0]


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
