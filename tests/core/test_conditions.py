"""Conditions: one table says what they may be; keys of points last when the table grows."""

from __future__ import annotations

import pytest

from medn.core.conditions import ALWAYS_SAID, CONDITIONS
from medn.core.errors import UsageError
from medn.core.parameters import number
from medn.core.values import Condition, Layer, Point, freeze
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep

LAYER = Layer("linear", freeze({"in_features": 8}))

OLD_CONFIG = """
name: old
seed: 7
devices: [torch]
budget: {points: 6}
layers: {linear: {in_features: [16, 32, 64], out_features: [16, 32, 64]}}
conditions: {batch_size: {powers_of_two: [1, 64]}, utilization: [0, 0.5], dtype: [fp32, bf16], per_layer: 2}
columns: {rack: A3, level: 2}
"""
OLD_KEYS = [
    *("178ec2b1b5fcc92a412b", "053fdea17a82faf18b92", "b8b429f8aa820467d6ee"),
    *("e884f94ddb0aefc1a0c7", "b3129e2a62f9f08ab800", "4e56a3fcfc04c399ee30"),
]
"""What the config planned when all five conditions stood in every key and no other could be declared."""


@pytest.fixture
def power_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """One condition more, declared once."""
    monkeypatch.setitem(CONDITIONS, "power_cap_w", number("power_cap_w", "what it may draw", 10, 1000, 300.0, unit="W"))


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_the_default_of_a_condition_is_allowed(name: str) -> None:
    assert CONDITIONS[name].mistake(CONDITIONS[name].default) is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"batch_size": 0}, "batch_size: must be at least 1 (got 0)"),
        ({"batch_size": 1.5}, "batch_size: must be a whole number (got 1.5)"),
        ({"utilization": 0.99}, "utilization: must be at most 0.95 (got 0.99)"),
        ({"cache": "cool"}, "cache: must be one of hot, cold, inside (got 'cool')."),
        ({"dtype": 16}, "dtype: must be one of fp32, fp16,"),
        ({"threads": True}, "threads: must be a whole number (got True)"),
        ({"own": float("nan")}, "own: must be a finite number, a string, or true or false (got nan)"),
    ],
)
def test_a_condition_says_what_is_wrong_with_a_value(given: dict[str, float], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        Condition(**given)
    assert str(caught.value).startswith(sentence)


def test_conditions_are_equal_by_what_they_mean() -> None:
    assert Condition(utilization=0, dtype="bfloat16", b=1, a=2) == Condition(a=2, b=1, dtype="bf16", batch_size=1.0)
    assert type(Condition(utilization=0).utilization) is float


def test_a_plan_of_before_has_the_keys_of_before() -> None:
    assert [point.key for point in plan_points(parse_sweep(OLD_CONFIG)).points] == OLD_KEYS


@pytest.mark.usefixtures("power_cap")
def test_a_plan_of_before_has_the_keys_of_before_also_where_a_condition_was_declared_since() -> None:
    points = plan_points(parse_sweep(OLD_CONFIG)).points
    assert [point.key for point in points] == OLD_KEYS
    assert {point.condition.values["power_cap_w"] for point in points} == {300.0}


@pytest.mark.usefixtures("power_cap")
def test_a_later_condition_stands_in_a_key_only_where_it_is_not_its_default() -> None:
    keys = [Point(LAYER, Condition(**given), "torch").key for given in ({}, {"power_cap_w": 300}, {"power_cap_w": 100})]
    assert keys[0] == keys[1] != keys[2]


def test_the_first_conditions_stand_in_every_key() -> None:
    assert tuple(Condition(rack="A3").said) == (*ALWAYS_SAID, "rack")
