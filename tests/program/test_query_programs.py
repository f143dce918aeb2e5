"""The program of a query gives the inputs that the ordinary way gives, for every kind, way of asking and engine."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from medn.core.data_sheet import NO_SHEET
from medn.core.errors import ConfigError
from medn.core.table import Schema, as_inputs
from medn.core.values import Layer
from medn.estimator.query import Query, Wrong
from medn.estimator.query_program import QueryPrograms
from medn.layer_generators.features import analytic_columns, analytic_features
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.program.c_engine import CMachine, is_built
from medn.program.numpy_engine import NumpyMachine
from medn.program.symbols import Untraceable

NAMES = list(layer_kinds)
MACHINES = [NumpyMachine, pytest.param(CMachine, marks=pytest.mark.skipif(not is_built(), reason="no C engine"))]
CONSTANTS = {"threads": 1, "cache": "hot"}


def draws(kind: LayerKind, count: int) -> Iterator[dict[str, Any]]:
    """Layers as a sweep asks for them, shorthands and conveniences included."""
    random = Random(kind.name)
    while count:
        asked = {name: domain.at(random.random()) for name, domain in kind.sweep.items()}
        try:
            kind.layer(**asked)
            Query(kind, {}).open_one(asked)  # takes a layer as it stands, while a sweep may put it another way
        except (ConfigError, Wrong):
            continue
        count -= 1
        yield asked


def columns_of(kind: LayerKind, layers: list[Layer]) -> dict[str, Any]:
    values = [kind.complete(layer.values) for layer in layers]
    return {each.name: np.array([each_values[each.name] for each_values in values]) for each in kind.parameters}


def programs_of(kind: LayerKind) -> QueryPrograms:
    """With every parameter and feature as an input."""
    query = Query(kind, {})
    example = kind.values_of(kind.layer(**next(draws(kind, 1))))
    features = analytic_features(kind, example, 2, 4)
    strings = {name: each.choices for name, each in query.parameters.items() if each.type is str}
    names = (*(name for name in query.parameters if name != "cache"), *features)
    schema = Schema(names, {name: known for name, known in strings.items() if name != "cache"})
    return QueryPrograms(query, [schema], CONSTANTS, "here", NO_SHEET)


def asked_columns(programs: QueryPrograms, asked: list[dict[str, Any]]) -> Any:
    """All queries as the numbers that a program takes."""
    matrix = np.zeros((len(programs.query.names), len(asked)))
    for row, values in enumerate(asked):
        for name, value in values.items():
            codes = programs.strings.codes.get(name)
            matrix[programs.query.names.index(name), row] = value if codes is None else codes[value]
    return matrix


def expected(programs: QueryPrograms, asked: list[dict[str, Any]]) -> Any:
    rows = []
    for values in asked:
        opened = programs.query.open_one(values)
        rows.append(as_inputs({**opened, **analytic_columns(programs.query.kind, opened)}, programs.schemas[0])[0])
    return np.array(rows)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", NAMES)
def test_a_query_as_sweeps_ask_gives_the_inputs_of_the_ordinary_way(name: str, machine: Any) -> None:
    programs = programs_of(layer_kinds[name])
    asked = [{**values, "batch_size": 3, "dtype": "bf16"} for values in draws(layer_kinds[name], 12)]
    good, matching, *inputs = machine(programs.program(set(asked[0]))).run(asked_columns(programs, asked))
    assert good.all()
    assert matching.all()
    np.testing.assert_allclose(np.array(inputs).T, expected(programs, asked), rtol=2e-7)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_of_plain_parameters_gives_the_inputs_of_the_ordinary_way(name: str) -> None:
    kind = layer_kinds[name]
    programs = programs_of(kind)
    asked = [dict(kind.complete(kind.layer(**values).values)) for values in draws(kind, 8)]
    matrix = asked_columns(programs, asked)
    for place, each in enumerate(programs.query.names):
        if each in programs.query.conditions:
            default, codes = programs.query.defaults[each], programs.strings.codes.get(each)
            matrix[place] = default if codes is None else codes[default]
    said = programs.completed(asked[0])
    good, _, *inputs = NumpyMachine(programs.program(said)).run(matrix)
    assert good.all()
    np.testing.assert_allclose(np.array(inputs).T, expected(programs, asked), rtol=2e-7)


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_many_layers_give_the_features_of_each(name: str) -> None:
    kind = layer_kinds[name]
    layers = [kind.layer(**values) for values in draws(kind, 8)]
    together = analytic_columns(kind, {**columns_of(kind, layers), "batch_size": 2, "dtype": "fp32"})
    for row, layer in enumerate(layers):
        single = analytic_features(kind, kind.values_of(layer), 2, 4)
        assert {feature: np.asarray(column)[row] for feature, column in together.items()} == single


@pytest.mark.parametrize("name", NAMES)
def test_good_layers_keep_the_rules_together(name: str) -> None:
    kind = layer_kinds[name]
    layers = [kind.layer(**values) for values in draws(kind, 60)]
    query = Query(kind, {})
    columns = columns_of(kind, layers)
    assert type(kind).rules is LayerKind.rules or query._passing(columns, len(layers)).all()
    assert set(query.open(columns, len(layers))) == {each.name for each in kind.parameters} | set(query.conditions)


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
    layers = [kind.layer(**values) for values in draws(kind, 40)]
    columns = columns_of(kind, layers)
    for parameter, value in wrong.items():
        columns[parameter][31] = value
    with pytest.raises(Wrong, match=words) as caught:
        Query(kind, {}).open(columns, len(layers))
    assert caught.value.row == 31


CONV = {"in_channels": 32, "out_channels": 64, "in_size": 28, "kernel_size": 3}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "wrong",
    [
        {"in_channels": 0},
        {"in_channels": 32.5},
        {"in_channels": float("nan")},
        {"out_channels": 1e9},
        {"kernel_size": 64},
        {"groups": 5},
        {"bias": 2},
        {"utilization": -0.1},
        {"depthwise": True, "groups": 3},
    ],
)
def test_what_is_not_allowed_is_told(wrong: dict[str, Any], machine: Any) -> None:
    programs = programs_of(layer_kinds["conv2d"])
    asked = {**CONV, **wrong}
    good, *_ = machine(programs.program(set(asked))).run(asked_columns(programs, [asked]))
    assert not good.any()


@pytest.mark.parametrize("more", [{"kernel_h": 3}, {"same_padding": True, "padding_h": 1}])
def test_names_that_contradict_one_another_have_no_program(more: dict[str, Any]) -> None:
    programs = programs_of(layer_kinds["conv2d"])
    asked = {**CONV, **more}
    try:
        program = programs.program(set(asked))
    except Untraceable:
        return
    assert not NumpyMachine(program).run(asked_columns(programs, [asked]))[0].any()


def test_a_missing_parameter_has_no_program() -> None:
    with pytest.raises(Untraceable, match="kernel_h, kernel_w missing"):
        programs_of(layer_kinds["conv2d"]).program({"in_channels", "out_channels", "in_size"})


@pytest.mark.parametrize(("values", "matches"), [({}, True), ({"threads": 2}, False), ({"cache": "cold"}, False)])
def test_what_never_varied_is_compared(values: dict[str, Any], matches: bool) -> None:
    programs = programs_of(layer_kinds["conv2d"])
    asked = {**CONV, **values}
    _, matching, *_ = NumpyMachine(programs.program(set(asked))).run(asked_columns(programs, [asked]))
    assert bool(matching[0]) == matches


def test_a_rule_that_needs_more_than_arithmetic_is_looked_at_row_by_row() -> None:
    class Odd(type(layer_kinds["conv2d"])):  # type: ignore[misc]
        def rules(self, values: SimpleNamespace) -> Iterator[str]:
            if str(values.in_channels) == "7":
                yield "in_channels: must not be 7"
            if int(values.in_channels) > 1000:
                yield "in_channels: too many"

    query = Query(Odd(), {})
    query.open({**CONV, "in_channels": np.array([3, 8])} | {"in_size": 28}, 2)
    with pytest.raises(Wrong, match="must not be 7"):
        query.open({**CONV, "in_channels": np.array([3, 7])}, 2)
