"""Tables check themselves, and queries become the same numbers as measured rows."""

from __future__ import annotations

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.table import Schema, Table, as_inputs

SCHEMA = Schema(("flops", "function"), {"function": ("relu", "tanh")})


def made_up() -> Table:
    inputs = as_inputs({"flops": [1e6, 2e6, 3e6], "function": ["relu", "tanh", "relu"]}, SCHEMA)
    targets = {"memory_bytes": np.array([1.0, np.nan, 3.0])}
    return Table(SCHEMA, inputs, np.array([1e-3, 2e-3, 3e-3]), np.array(["a", "b", "b"]), targets)


def test_categories_become_codes() -> None:
    assert made_up().column("function").tolist() == [0, 1, 0]


def test_a_category_that_is_not_known_becomes_minus_one() -> None:
    assert as_inputs({"flops": 1.0, "function": "gelu"}, SCHEMA).tolist() == [[1.0, -1.0]]


def test_inputs_fit_float32() -> None:
    inputs = as_inputs({"flops": 123456789.0, "function": "relu"}, SCHEMA)
    assert inputs[0, 0] == np.float32(123456789.0)


def test_one_value_stands_for_every_row() -> None:
    assert as_inputs({"flops": [1.0, 2.0], "function": "tanh"}, SCHEMA).tolist() == [[1.0, 1.0], [2.0, 1.0]]


def test_truth_values_are_numbers() -> None:
    assert as_inputs({"bias": [True, False]}, Schema(("bias",))).tolist() == [[1.0], [0.0]]


def test_taking_rows_takes_them_from_every_column() -> None:
    taken = made_up().take(np.array([2, 0]))
    assert taken.target.tolist() == [3e-3, 1e-3]
    assert taken.groups.tolist() == ["b", "a"]
    assert taken.further["memory_bytes"].tolist() == [3.0, 1.0]
    assert len(made_up().take(made_up().column("function") == 0)) == 2


def test_a_column_that_is_not_there_is_named_with_the_near_miss() -> None:
    with pytest.raises(UsageError, match=r"no input named 'flop'. Did you mean 'flops'\?"):
        made_up().column("flop")


@pytest.mark.parametrize(
    ("inputs", "target", "words"),
    [(np.ones((2, 3)), np.ones(2), "2 names"), (np.ones((2, 2)), np.ones(3), "one entry per row")],
)
def test_a_table_with_a_wrong_shape_is_refused(
    inputs: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    target: np.ndarray[tuple[int], np.dtype[np.float64]],
    words: str,
) -> None:
    with pytest.raises(ValueError, match=words):
        Table(SCHEMA, inputs, target, np.array(["a", "b"]))


def test_numeric_columns_are_those_without_categories() -> None:
    assert SCHEMA.numeric == ("flops",)
