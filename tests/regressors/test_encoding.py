"""Inputs on one scale."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medn.core.table import Array, Schema
from medn.regressors.encoding import Encoding


def encoded(column: list[float]) -> Encoding:
    return Encoding.fit(Schema(("x",)), np.array(column)[:, None])


@pytest.mark.parametrize(
    "column",
    [
        pytest.param([1.0, 8.0, 64.0], id="sizes"),
        pytest.param([0.0, 0.0, 20.0], id="sizes with zeros"),
        pytest.param([1e-6, 1e-4, 1e-2], id="seconds"),
    ],
)
def test_a_column_that_spans_more_than_a_decade_is_logged(column: list[float]) -> None:
    assert encoded(column).names == ("log x",)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param([1.0, 3.0, 5.0], id="kernel sizes"),
        pytest.param([-100.0, 0.0, 100.0], id="negative"),
        pytest.param([0.0, 0.3, 0.8], id="shares"),
        pytest.param([0.01, 0.3, 0.8], id="shares above zero"),
    ],
)
def test_any_other_column_stays_plain(column: list[float]) -> None:
    assert encoded(column).names == ("x",)


def test_numeric_columns_are_standardised() -> None:
    inputs = np.random.default_rng(0).lognormal(3, 2, (200, 3))
    columns = Encoding.fit(Schema(("a", "b", "c")), inputs).transform(inputs)
    assert columns.mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert columns.std(axis=0) == pytest.approx(1)


def test_factors_become_equal_steps() -> None:
    steps = np.diff(encoded([1e3, 1e6, 1e9]).transform(np.array([[1e4], [1e6], [1e8]])), axis=0)
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)


def test_a_constant_column_stays_zero_wherever_it_moves() -> None:
    assert encoded([7.0, 7.0]).transform(np.array([[7.0], [1e9]])).tolist() == [[0.0], [0.0]]


def test_an_unknown_category_is_zero_in_every_column_of_its_name() -> None:
    schema = Schema(("function", "x"), {"function": ("relu", "tanh")})
    encoding = Encoding.fit(schema, np.array([[0.0, 1.0], [1.0, 2.0]]))
    assert encoding.names == ("x", "function=relu", "function=tanh")
    assert encoding.transform(np.array([[-1.0, 1.5], [1.0, 1.5]])).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_negative_values_of_a_logged_column_count_as_zero() -> None:
    columns = encoded([0.0, 10.0, 100.0]).transform(np.array([[-5.0], [0.0]]))
    assert columns[0] == columns[1]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_the_width_holds_for_any_number_of_rows(rows: int) -> None:
    schema = Schema(("x", "function"), {"function": ("relu", "tanh")})
    encoding = Encoding.fit(schema, np.array([[1.0, 0.0], [2.0, 1.0]]))
    assert encoding.transform(np.zeros((rows, 2))).shape == (rows, encoding.width)


def test_inputs_are_left_as_they_are() -> None:
    inputs: Array = np.array([[1.0], [1e6]])
    encoded([1.0, 1e6]).transform(inputs)
    assert inputs.tolist() == [[1.0], [1e6]]


def test_what_is_saved_encodes_the_same() -> None:
    schema = Schema(("flops", "function", "stride"), {"function": ("relu", "tanh")})
    inputs = np.column_stack([np.geomspace(1, 1e9, 6), [0, 1, 0, 1, 0, 1], [1, 2, 1, 2, 1, 1]])
    encoding = Encoding.fit(schema, inputs)
    restored = Encoding.restore(json.loads(json.dumps(encoding.facts)), encoding.arrays)
    assert restored.names == encoding.names
    assert np.array_equal(restored.transform(inputs), encoding.transform(inputs))
