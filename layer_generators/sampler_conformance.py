"""What is true of every sampler, medn's own and those of plug-ins, as tests that anyone can run:

pytest --pyargs medn.layer_generators.sampler_conformance -k my_sampler
"""

from __future__ import annotations

import itertools

import pytest

from medn.core.domains import parse_domain
from medn.core.errors import UsageError
from medn.core.values import Layer
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.space import Space

KINDS = ("conv2d", "linear", "group_norm", "upsample")


def space_of(kind: str, **written: object) -> Space:
    return Space(layer_kinds[kind], {name: parse_domain(value) for name, value in written.items()})


def drawn(sampler: str, space: Space, count: int, seed: int = 1) -> list[Layer]:
    return list(itertools.islice(Drawing(samplers[sampler], space, seeded(seed)), count))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampler", list(samplers))
class TestEverySampler:
    def test_draws_possible_layers_only(self, sampler: str, kind: str) -> None:
        for layer in drawn(sampler, space_of(kind), 50):
            assert layer_kinds[kind].layer(**layer.values) == layer

    def test_draws_no_layer_twice(self, sampler: str, kind: str) -> None:
        keys = [layer.key for layer in drawn(sampler, space_of(kind), 200)]
        assert len(set(keys)) == len(keys) > 0

    def test_draws_as_many_as_are_wanted_unless_it_ends(self, sampler: str, kind: str) -> None:
        assert samplers[sampler].ends or len(drawn(sampler, space_of(kind), 200)) == 200

    def test_draws_the_same_for_the_same_seed(self, sampler: str, kind: str) -> None:
        assert drawn(sampler, space_of(kind), 20) == drawn(sampler, space_of(kind), 20)

    def test_draws_otherwise_for_another_seed(self, sampler: str, kind: str) -> None:
        assert drawn(sampler, space_of(kind), 20) != drawn(sampler, space_of(kind), 20, seed=2)

    def test_begins_a_longer_draw_like_a_shorter_one(self, sampler: str, kind: str) -> None:
        assert drawn(sampler, space_of(kind), 300)[:20] == drawn(sampler, space_of(kind), 20)


@pytest.mark.parametrize("sampler", list(samplers))
def test_every_sampler_keeps_to_the_domains_a_config_names(sampler: str) -> None:
    space = space_of("conv2d", in_channels={"log_range": [8, 64], "multiple_of": 8}, kernel_size=[1, 3], bias=False)
    for layer in drawn(sampler, space, 100):
        assert layer.values["in_channels"] in range(8, 65, 8)
        assert layer.values["kernel_h"] in (1, 3)
        assert layer.values["kernel_w"] in (1, 3)
        assert layer.values["bias"] is False


@pytest.mark.parametrize("sampler", list(samplers))
def test_every_sampler_stops_when_a_space_is_exhausted(sampler: str) -> None:
    space = space_of("linear", in_features=[16, 32], out_features=[8, 16, 64], rows=1, bias=True)
    found = len(drawn(sampler, space, 100))
    assert 0 < found <= 6
    assert samplers[sampler].ends or found == 6


@pytest.mark.parametrize("sampler", list(samplers))
def test_a_space_without_a_possible_layer_is_told_with_the_most_frequent_reason(sampler: str) -> None:
    space = space_of("conv2d", in_channels=16, out_channels=16, groups=3, depthwise=False)
    with pytest.raises(UsageError, match=r"layers.conv2d: nothing can be drawn .* groups: must divide"):
        drawn(sampler, space, 1)


@pytest.mark.parametrize("sampler", list(samplers))
def test_every_sampler_describes_itself(sampler: str) -> None:
    assert samplers[sampler].name == sampler
    assert samplers[sampler].description
