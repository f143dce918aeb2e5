"""Configs that list layers: read, refused, and drawn first."""

from __future__ import annotations

import pytest

from medn.core.errors import ConfigError
from medn.layer_generators.plan import listed_layers, pass_order, plan_points
from medn.layer_generators.sweep import parse_sweep

LISTED = """
name: some
devices: [torch]
sampler: listed
budget: {points: 40}
conditions: {batch_size: [1, 2], cache: [hot, cold], per_layer: 1}
layers:
  linear:
    in_features: {log_range: [64, 512]}
    listed:
    - {in_features: 128, out_features: 100}
    - {in_features: 256, out_features: 10, batch_size: 8}
"""


def test_listed_layers_are_drawn_first_and_near_ones_after() -> None:
    points = plan_points(parse_sweep(LISTED)).points
    widths = [point.layer.values["in_features"] for point in points]
    assert widths[:6] == [128] * 4 + [256] * 2
    assert {point.condition.batch_size for point in points[4:6]} == {8}
    assert len({point.layer for point in points}) == 2 + 34
    assert all(64 <= int(width) <= 512 for width in widths)


def test_the_first_pass_begins_with_listed_layers_and_the_others_do_not() -> None:
    config = parse_sweep(LISTED)
    points, first = plan_points(config).points, listed_layers(config)
    assert {point.layer for point in pass_order(points, 0, 0, first)[:6]} == first
    assert pass_order(points, 0, 1, first) == pass_order(points, 0, 1)
    assert set(pass_order(points, 0, 0, first)) == set(points)


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("{in_features: 128}", "layers.linear.listed.0: out_features: missing"),
        ("{in_features: 8, out_features: 1}", "layers.linear.listed.0: in_features: would be 8"),
        ("{in_features: 64, out_feature: 1}", "layers.linear.listed.0: out_feature: unknown parameter"),
        ("{in_features: 64, out_features: 1, batch_size: 0}", "layers.linear.listed.0.batch_size: must be at least 1"),
        ("{in_features: 64, out_features: 1, dtype: fp3}", "layers.linear.listed.0.dtype: must be one of"),
        ("7", "layers.linear.listed.0: must be a mapping of parameters to values (got 7)"),
    ],
)
def test_a_wrong_entry_is_told_with_its_path(entry: str, mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_sweep(LISTED.replace("{in_features: 128, out_features: 100}", entry))
    assert mistake in str(raised.value)


def test_a_list_goes_with_its_sampler_alone() -> None:
    with pytest.raises(ConfigError, match=r"layers.linear.listed: goes with sampler: listed \(got random\)"):
        parse_sweep(LISTED.replace("sampler: listed", "sampler: random"))


def test_a_list_must_be_a_list() -> None:
    with pytest.raises(ConfigError, match=r"layers.linear.listed: must be a list of layers"):
        parse_sweep("{name: a, devices: [torch], sampler: listed, layers: {linear: {listed: 3}}}")
