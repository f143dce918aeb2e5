"""Domains around the layers of models: for every kind there is."""

from __future__ import annotations

import itertools

import pytest

from medn.core.values import Layer
from medn.layer_generators.architectures import architecture_layers
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.space import ListedLayer, Space, read_space
from medn.model.sweep_domains import domains_around


def some_layers(kind: str) -> list[list[Layer]]:
    """One layer, several drawn at random, and several of well-known networks where they have such layers."""
    drawn = list(itertools.islice(Drawing(samplers["random"], Space(layer_kinds[kind], {}), seeded(7)), 12))
    return [group for group in (drawn[:1], drawn[1:], list(architecture_layers(kind))[:8]) if group]


@pytest.mark.parametrize("kind", list(layer_kinds))
def test_layers_of_every_kind_come_first_and_have_neighbours(kind: str) -> None:
    for layers in some_layers(kind):
        space, mistakes = read_space(layer_kinds[kind], dict(domains_around(layer_kinds[kind], layers)))
        assert not mistakes
        listed = Space(space.kind, space.named, tuple(map(ListedLayer, layers)))
        found = list(itertools.islice(Drawing(samplers["listed"], listed, seeded(1)), len(layers) + 40))
        assert found[: len(layers)] == layers
        assert len(found) == len(layers) + 40


def test_multiples_are_those_that_occur() -> None:
    linear = layer_kinds["linear"]
    layers = [linear.layer(in_features=size, out_features=100, rows=1 + size // 512) for size in (256, 512)]
    domains = domains_around(linear, layers)
    assert domains["in_features"] == {"log_range": [170, 768], "multiple_of": 8}
    assert domains["out_features"] == {"log_range": [66, 150], "multiple_of": 4}
    assert domains["rows"] == [1, 2]


def test_a_size_keeps_within_the_limits_of_its_parameter() -> None:
    linear = layer_kinds["linear"]
    domains = domains_around(linear, [linear.layer(in_features=262_144, out_features=64)])
    assert domains["in_features"]["log_range"][1] == 262_144
