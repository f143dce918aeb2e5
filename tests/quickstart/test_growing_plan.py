"""What the quickstart measures: the networks' own layers first, then ever more, the same for the same time."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from medn.capture.capture import capture
from medn.layer_generators.plan import listed_layers
from medn.layer_generators.sweep import SweepConfig
from medn.model.unknown_operators import ASSUMED
from medn.quickstart.growing_plan import LAYERS_FIRST, POINTS_AT_ONCE, portions, quick_config
from medn.quickstart.networks import OTHERS, PREDICTED
from medn.training.prepared import FEWEST_LAYERS


@pytest.fixture(scope="module")
def config() -> SweepConfig:
    return quick_config()


@pytest.mark.parametrize("name", PREDICTED)
def test_the_layers_of_a_network_are_listed_but_for_a_little_of_its_time(config: SweepConfig, name: str) -> None:
    listed, seconds = listed_layers(config), Counter[bool]()
    for captured in capture(*PREDICTED[name]()).layers:
        known = captured.layer in listed
        seconds[known] += float(ASSUMED.seconds(captured.moved_bytes, captured.flops)) * captured.repeats
    assert seconds[False] < 0.01 * seconds[True]


def test_every_layer_that_is_listed_belongs_to_a_network(config: SweepConfig) -> None:
    own = {captured.layer for make in PREDICTED.values() for captured in capture(*make()).layers}
    assert listed_layers(config) <= own


def test_the_networks_that_tell_how_layers_compose_are_not_in_the_sweep(config: SweepConfig) -> None:
    for make in OTHERS.values():
        layers = {captured.layer for captured in capture(*make()).layers}
        assert len(layers & listed_layers(config)) < 0.2 * len(layers)


def test_the_device_is_idle_and_listed_layers_are_measured_hot_and_cold(config: SweepConfig) -> None:
    first = next(portions(config, 500))
    assert {point.condition.utilization for point in first} == {0.0}
    states = Counter(point.layer for point in first if point.layer in listed_layers(config))
    assert set(states) == listed_layers(config)
    assert set(states.values()) == {2}


def test_every_kind_gets_enough_layers_to_be_learned_before_any_gets_more(config: SweepConfig) -> None:
    layers = {point.layer for point in next(portions(config, 500))}
    assert min(Counter(layer.kind for layer in layers).values()) >= LAYERS_FIRST > FEWEST_LAYERS


def test_more_time_continues_the_points_of_less(config: SweepConfig) -> None:
    short, long = list(portions(config, 400)), list(portions(config, 2000))
    assert len(list(chain(*long))) == 2000
    assert short[:4] == long[:4]
    assert {len(portion) for portion in long[1:-1]} == {POINTS_AT_ONCE}
