"""Formulas written down from one run hold for other layers, over every layer kind there is."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medn.core.errors import ConfigError
from medn.core.values import Layer
from medn.estimator.query import Query, Wrong
from medn.estimator.tracing import Symbol, Tape, compiled, written
from medn.layer_generators.features import analytic_columns, analytic_features
from medn.layer_generators.kind import LayerKind, layer_kinds

NAMES = list(layer_kinds)


def draws(kind: LayerKind, count: int) -> Iterator[Layer]:
    random = Random(kind.name)
    while count:
        try:
            layer = kind.layer(**{name: domain.at(random.random()) for name, domain in kind.sweep.items()})
        except ConfigError:
            continue
        count -= 1
        yield layer


def columns_of(kind: LayerKind, layers: list[Layer]) -> dict[str, Any]:
    values = [kind.complete(layer.values) for layer in layers]
    return {each.name: np.array([each_values[each.name] for each_values in values]) for each in kind.parameters}


@pytest.mark.parametrize("name", NAMES)
def test_traced_features_are_those_of_other_layers(name: str) -> None:
    kind = layer_kinds[name]
    example, *others = draws(kind, 12)
    tape = Tape()
    symbols = {
        each: value if isinstance(value, str) else tape.argument(value)
        for each, value in vars(kind.values_of(example)).items()
    }
    batch_size = tape.argument(2)
    arguments = list(tape.lines)
    features = analytic_features(kind, SimpleNamespace(**symbols), batch_size, 4)
    outputs = [written(value) for value in features.values()]
    compute = compiled(arguments, [*tape.body(outputs), f"return ({', '.join(outputs)},)"])
    strings = {each: value for each, value in example.values.items() if isinstance(value, str)}
    for layer in others:
        values = {**vars(kind.values_of(layer)), **strings}
        expected = analytic_features(kind, SimpleNamespace(**values), 3, 4)
        found = compute(*(value for value in values.values() if not isinstance(value, str)), 3)
        assert dict(zip(features, found, strict=True)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_many_layers_give_the_features_of_each(name: str) -> None:
    kind = layer_kinds[name]
    layers = list(draws(kind, 8))
    together = analytic_columns(kind, {**columns_of(kind, layers), "batch_size": 2, "dtype": "fp32"})
    for row, layer in enumerate(layers):
        single = analytic_features(kind, kind.values_of(layer), 2, 4)
        assert {feature: np.asarray(column)[row] for feature, column in together.items()} == single


@pytest.mark.parametrize("name", NAMES)
def test_good_layers_pass_the_rules_together(name: str) -> None:
    kind = layer_kinds[name]
    layers = list(draws(kind, 60))
    query = Query(kind, {})
    opened = query.open(columns_of(kind, layers), len(layers))
    assert len(query._passes) <= 12
    assert set(opened) == {each.name for each in kind.parameters} | set(query.conditions)


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("conv2d", {"groups": 5}, "groups: must divide"),
        ("conv2d", {"in_h": 1, "kernel_h": 9, "padding_h": 0}, "the window covers"),
        ("attention", {"causal": True, "key_length": 17, "query_length": 16}, "causal: needs equal lengths"),
        (
            "conv_transpose2d",
            {"output_padding_h": 3, "stride_h": 2, "dilation_h": 1},
            "output_padding_h: must be below",
        ),
        ("group_norm", {"groups": 7, "channels": 16}, "groups"),
    ],
)
def test_the_one_layer_that_breaks_a_rule_is_found(name: str, wrong: dict[str, Any], words: str) -> None:
    kind = layer_kinds[name]
    layers = list(draws(kind, 40))
    columns = columns_of(kind, layers)
    for parameter, value in wrong.items():
        columns[parameter][31] = value
    with pytest.raises(Wrong, match=words) as caught:
        Query(kind, {}).open(columns, len(layers))
    assert caught.value.row == 31


def test_a_symbol_decides_as_its_example_and_says_so() -> None:
    tape = Tape()
    symbol = tape.argument(3)
    assert (1 if symbol > 2 else 0) == 1
    assert [truth for _, truth in tape.guards] == [True]


def test_what_is_computed_twice_is_one_line() -> None:
    tape = Tape()
    size, other = tape.argument(3), tape.argument(4)
    assert (size * other).name == (size * other).name
    assert len(tape.body([(size * other + 1).name])) == 2


def test_what_is_not_wanted_is_not_computed() -> None:
    tape = Tape()
    size = tape.argument(3)
    wanted, _ = size * 5, size + 7
    assert tape.body([wanted.name]) == [f"{wanted.name} = {size.name} * ( 5 )"]


def test_nothing_but_numbers_can_be_traced() -> None:
    with pytest.raises(TypeError, match="str cannot be traced"):
        Tape().argument(1) + "x"  # type: ignore[operator]


def test_a_symbol_is_no_key() -> None:
    with pytest.raises(TypeError):
        {Symbol(Tape(), "a0", 1): 1}
