"""Every sampler keeps what all samplers must, and what makes each its own."""

from __future__ import annotations

import pytest

from medn.core.domains import Fixed, log_range, one_of
from medn.layer_generators.architectures import architecture_layers
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.sampler_conformance import *  # noqa: F403
from medn.layer_generators.sampler_conformance import KINDS, drawn, space_of
from medn.layer_generators.space import Space

SHIPPED = ("architectures", "grid", "random", "sobol")


@pytest.mark.parametrize("sampler", SHIPPED)
def test_every_sampler_of_medn_draws_all_of_a_small_space(sampler: str) -> None:
    space = space_of("linear", in_features=[16, 32], out_features=[8, 16, 64], rows=1, bias=True)
    assert len(drawn(sampler, space, 100)) == 6


@pytest.mark.parametrize("sampler", SHIPPED)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sampler_of_medn_draws_hundreds(kind: str, sampler: str) -> None:
    assert len(drawn(sampler, space_of(kind), 200)) == 200


def test_refused_layers_are_not_drawn_and_counted_by_reason() -> None:
    drawing = Drawing(
        samplers["grid"],
        space_of("linear", in_features=[16, 32, 64], out_features=8, rows=1, bias=True),
        seeded(1),
        refuse=lambda layer: (
            f"{layer.values['in_features']} is too many" if layer.values["in_features"] != 16 else None
        ),
    )
    assert [layer.values["in_features"] for layer in drawing] == [16]
    assert list(drawing.rejected.values()) == [2]


def test_a_grid_draws_every_combination() -> None:
    space = space_of("linear", in_features={"range": [1, 20]}, out_features=[8, 16], rows=[1, 64], bias=[True, False])
    assert len(drawn("grid", space, 1000)) == 20 * 2 * 2 * 2


def test_a_grid_reaches_all_parts_of_the_space_early() -> None:
    space = space_of("linear", in_features={"range": [1, 50]}, out_features={"range": [1, 50]}, rows=1, bias=True)
    early = drawn("grid", space, 100)
    for name in ("in_features", "out_features"):
        tenths = {(int(layer.values[name]) - 1) // 5 for layer in early}
        assert len(tenths) == 10


def test_a_huge_grid_costs_no_memory() -> None:
    space = space_of("linear", in_features={"range": [1, 200_000]}, out_features={"range": [1, 200_000]})
    assert len(drawn("grid", space, 10)) == 10


def test_sobol_covers_each_parameter_more_evenly_than_chance() -> None:
    space = space_of("linear", in_features={"range": [1, 256]}, out_features=8, rows=1, bias=True)
    tenths = [int(layer.values["in_features"]) * 10 // 257 for layer in drawn("sobol", space, 100)]
    assert min(tenths.count(tenth) for tenth in range(10)) >= 8


def test_architectures_begin_with_the_layers_of_real_networks() -> None:
    real = architecture_layers("conv2d")
    assert set(drawn("architectures", space_of("conv2d"), len(real))) == set(real)


def test_architectures_go_on_with_other_sizes_and_the_same_small_windows() -> None:
    real = architecture_layers("conv2d")
    scaled = drawn("architectures", space_of("conv2d"), len(real) + 200)[len(real) :]
    assert not set(scaled) & set(real)
    kernels = {layer.values["kernel_h"] for layer in scaled}
    assert {kernel for kernel in kernels if int(kernel) < 8} <= {layer.values["kernel_h"] for layer in real}


def test_architectures_keep_depthwise_layers_depthwise_when_channels_are_bounded() -> None:
    space = space_of("conv2d", in_channels={"log_range": [8, 64]}, out_channels={"log_range": [8, 64]}, depthwise=True)
    for layer in drawn("architectures", space, 30):
        assert layer.values["groups"] == layer.values["in_channels"]


def test_a_named_parameter_wins_over_a_convenience_of_the_default_sweep() -> None:
    space = space_of("conv2d", padding=[0, 1, 2])
    paddings = [layer.values["padding_h"] for layer in drawn("random", space, 300)]
    assert min(paddings.count(padding) for padding in (0, 1, 2)) > 50


def test_a_named_axis_replaces_its_part_of_a_default_shorthand() -> None:
    space = space_of("conv2d", kernel_h=3)
    assert space.domains["kernel_h"] == Fixed(3)
    assert space.domains["kernel_w"] == layer_kinds["conv2d"].sweep["kernel_size"]
    assert "kernel_size" not in space.domains


def test_what_a_config_leaves_out_is_drawn_from_the_kinds_own_sweep() -> None:
    kind = layer_kinds["linear"]
    space = Space(kind, {"in_features": one_of(8)})
    assert space.domains == {**kind.sweep, "in_features": one_of(8)}
    assert space.domains["out_features"] == log_range(10, 4096)
