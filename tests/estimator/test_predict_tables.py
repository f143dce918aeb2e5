"""Tables in every shape people have them, and one clear sentence for every way in which one can be wrong."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import medn
from medn.core.errors import MednError, UsageError
from medn.core.values import Condition, Point
from medn.estimator.layer_predictor import ROWS_AT_ONCE
from medn.estimator.table_files import parse_table, read_table, write_table
from medn.layer_generators.kind import layer_kinds
from medn.predictor.predictor import Predictor

COLUMNS: dict[str, Any] = {"in_features": [64, 128, 256], "out_features": [100, 200, 300], "batch_size": [1, 8, 8]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


@pytest.fixture(scope="module")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


@pytest.fixture(scope="module")
def expected(predictor: Predictor) -> Any:
    return np.array([predictor.layer("linear", **row).latency_s for row in ROWS])


def as_layers(row: dict[str, int]) -> tuple[Any, Condition]:
    layer = layer_kinds["linear"].layer(in_features=row["in_features"], out_features=row["out_features"])
    return layer, Condition(batch_size=row["batch_size"])


def record_array() -> Any:
    types = [(name, np.int64) for name in COLUMNS]
    return np.array(list(zip(*COLUMNS.values(), strict=True)), dtype=types)


@pytest.mark.parametrize(
    "table",
    [
        COLUMNS,
        {name: np.array(values) for name, values in COLUMNS.items()},
        {name: np.array(values, dtype=np.float32) for name, values in COLUMNS.items()},
        {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
        {name: tuple(values) for name, values in COLUMNS.items()},
        ROWS,
        [{**row, "kind": "linear"} for row in ROWS],
        [as_layers(row) for row in ROWS],
        [Point(*as_layers(row), device="made-up") for row in ROWS],
        record_array(),
        {**COLUMNS, "rows": 1, "dtype": "fp32", "bias": [1, 1, 1.0]},
    ],
    ids=["lists", "arrays", "floats", "objects", "tuples", "dicts", "kinds", "layers", "points", "records", "scalars"],
)
def test_a_table_of_any_shape_gives_the_same(table: Any, predictor: Predictor, expected: Any) -> None:
    kind = None if isinstance(table, list) and not isinstance(table[0], dict) else "linear"
    if isinstance(table, list) and isinstance(table[0], dict) and "kind" in table[0]:
        kind = None
    np.testing.assert_allclose(predictor.predict(table, kind).latency_s, expected, rtol=1e-6)


def test_an_arrow_table_is_a_table(predictor: Predictor, expected: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    np.testing.assert_allclose(predictor.predict(pyarrow.table(COLUMNS), "linear").latency_s, expected, rtol=1e-6)
    batch = pyarrow.RecordBatch.from_pydict(COLUMNS)
    np.testing.assert_allclose(predictor.predict(batch, "linear").latency_s, expected, rtol=1e-6)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_is_a_table(library: str, predictor: Predictor, expected: Any) -> None:
    frame = pytest.importorskip(library).DataFrame(COLUMNS)
    np.testing.assert_allclose(predictor.predict(frame, "linear").latency_s, expected, rtol=1e-6)


def test_kinds_may_be_mixed_in_any_order(predictor: Predictor, expected: Any) -> None:
    relu = {"kind": "activation", "function": "relu", "elements": 5000}
    mixed = [relu, *({"kind": "linear", **row} for row in ROWS), relu]
    found = predictor.predict(mixed)
    alone = predictor.layer("activation", function="relu", elements=5000).latency_s
    np.testing.assert_allclose(found.latency_s, [alone, *expected, alone], rtol=1e-6)


def test_a_gap_in_a_table_of_several_kinds_means_the_default(predictor: Predictor) -> None:
    found = predictor.predict(
        {
            "kind": ["linear", "activation"],
            "in_features": [64.0, np.nan],
            "out_features": [100, None],
            "function": ["", "relu"],
            "elements": [None, 5000],
            "batch_size": [np.nan, 8.0],
        }
    )
    assert found.latency_s[0] == pytest.approx(predictor.layer("linear", in_features=64, out_features=100).latency_s)


def test_many_rows_are_those_of_few(predictor: Predictor) -> None:
    rows = 2 * ROWS_AT_ONCE + 7
    table = {"in_features": np.arange(64, 64 + rows), "out_features": 100}
    found = predictor.predict(table, "linear")
    some = predictor.predict({"in_features": np.arange(64, 64 + rows)[-9:], "out_features": 100}, "linear")
    np.testing.assert_allclose(found.latency_s[-9:], some.latency_s, rtol=1e-6)
    assert len(found) == rows


def test_predictions_can_be_gone_through(predictor: Predictor) -> None:
    found = predictor.predict(COLUMNS, "linear")
    assert [each.latency_s for each in found] == found.latency_s.tolist()
    assert found[1].in_range in (True, False)


FULL = {"in_features": [64, 128], "out_features": [100, 200]}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({**FULL, "in_feature": 3}, r"linear: no column named 'in_feature'. Did you mean 'in_features'\?"),
        ({"in_features": [64, 128]}, "linear: out_features: missing"),
        ({**FULL, "in_features": [64, 0]}, r"row 1: linear: in_features: must be at least 1 \(got 0\)"),
        ({**FULL, "in_features": [64, -5]}, "row 1: linear: in_features: must be at least 1"),
        ({**FULL, "in_features": [64, np.nan]}, r"row 1: linear: in_features: must be a .*number \(got nan\)"),
        ({**FULL, "in_features": [64, np.inf]}, "row 1: linear: in_features: must be a "),
        ({**FULL, "in_features": [64, 2.5]}, r"row 1: linear: in_features: must be a whole number \(got 2.5\)"),
        ({**FULL, "in_features": [64, "x"]}, r"row 1: linear: in_features: must be a whole number \(got 'x'\)"),
        ({**FULL, "in_features": ["64", "128"]}, r"row 0: linear: in_features: must be a whole number \(got '64'\)"),
        ({**FULL, "in_features": [64, None]}, "row 1: linear: in_features: missing"),
        ({**FULL, "in_features": [64, 10**30]}, "row 1: linear: in_features: must be at most"),
        ({**FULL, "in_features": [True, False]}, r"must be a whole number \(got True\)"),
        ({**FULL, "bias": [0, 2]}, r"row 1: linear: bias: must be true or false \(got 2\)"),
        ({**FULL, "bias": "yes"}, r"linear: bias: must be true or false \(got 'yes'\)"),
        ({**FULL, "batch_size": 0}, "linear: batch_size: must be at least 1"),
        ({**FULL, "utilization": [0.5, 1.5]}, r"row 1: linear: utilization: must be at most 0.95 \(got 1.5\)"),
        ({**FULL, "dtype": "fp31"}, r"dtype: must be one of fp32, .* \(got 'fp31'\)\. Others need the bytes"),
        ({**FULL, "dtype": ["fp32", 3]}, "row 1: linear: dtype: must be one of"),
        ({**FULL, "threads": [1, 2, 3]}, "columns of a table must be of one length"),
        ({**FULL, "threads": [[1], [2]]}, r"'threads' must have one value per row"),
        ({"in_features": [], "out_features": []}, "the table has no rows"),
        ({}, "the table has no columns"),
        ([], "the table has no rows"),
        ([1, 2], "a row must be a dict"),
        (5, r"a table must be a dict of columns.*\(got int\)"),
        ("linear", "a table must be a dict of columns"),
        ({5: [1]}, "the name of a column must be a string"),
    ],
)
def test_a_wrong_table_is_told_in_one_sentence(table: Any, words: str, predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        predictor.predict(table, "linear")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (["linear", "liner"], r"row 1: no predicted layer kind named 'liner'. Did you mean 'linear'\?"),
        (["linear", None], "row 1: no predicted layer kind named 'None'"),
        ([1, 2], "row 0: no predicted layer kind named '1'"),
        ("conv2d", "no predicted layer kind named 'conv2d'"),
    ],
)
def test_a_wrong_kind_is_told_in_one_sentence(kinds: Any, words: str, predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=words):
        predictor.predict({**FULL, "kind": kinds})


def test_a_table_without_kinds_says_so(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match="the table has no column 'kind'"):
        predictor.predict(FULL)


def test_a_column_that_no_kind_knows_is_told(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=r"no column named 'elemnts'. Did you mean 'elements'\?"):
        predictor.predict([{"kind": "linear", **ROWS[0]}, {"kind": "activation", "function": "relu", "elemnts": 5}])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"in_features": 0, "out_features": 1}, r"linear: in_features: must be at least 1 \(got 0\)"),
        ({"in_features": [1], "out_features": 1}, "linear: in_features: must be a whole number"),
        ({"in_features": None, "out_features": 1}, "linear: in_features"),
        ({"in_features": 8}, "linear: out_features: missing"),
        ({"in_features": 8, "out_features": 8, "colour": 1}, "linear: no column named 'colour'"),
        ({"in_features": 8, "out_features": 8, "utilization": float("nan")}, "utilization: must be a finite number"),
    ],
)
def test_a_wrong_layer_is_told_in_one_sentence(given: Any, words: str, predictor: Predictor) -> None:
    predictor.layer("linear", in_features=8, out_features=8)
    with pytest.raises(UsageError, match=words):
        predictor.layer("linear", **given)


@cache
def shared_predictor(path: Path) -> Predictor:
    return medn.load(path)


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([1, 8, 64, "relu", "fp32"]),
)
NAME = st.one_of(
    st.sampled_from(["in_features", "out_features", "kind", "function", "elements", "bias", "dtype"]),
    st.text(max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(
    table=st.one_of(
        st.dictionaries(NAME, st.one_of(CELL, st.lists(CELL, max_size=3)), max_size=5),
        st.lists(st.dictionaries(NAME, CELL, max_size=5), max_size=3),
    )
)
def test_whatever_is_asked_there_is_an_answer_or_one_sentence(table: Any, bundle_path: Path) -> None:
    predictor = shared_predictor(bundle_path)
    for kind in (None, "linear"):
        try:
            found = predictor.predict(table, kind)
        except MednError:
            continue
        assert (found.latency_s > 0).all()


@settings(max_examples=60, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.lists(st.lists(st.text(alphabet='a1,"{}\n', max_size=4), max_size=3), max_size=3).map(str),
    )
)
def test_whatever_text_is_read_there_is_a_table_or_one_sentence(text: str) -> None:
    try:
        assert isinstance(parse_table(text), list)
    except MednError:
        return


@pytest.mark.parametrize(
    "text",
    [
        "kind,in_features,out_features\nlinear,64,100\nlinear,128,200\n",
        "\n".join(json.dumps({"kind": "linear", **row}) for row in ROWS[:2]),
        json.dumps([{"kind": "linear", **row} for row in ROWS[:2]]),
    ],
    ids=["csv", "lines", "list"],
)
def test_a_table_is_read_from_text(text: str, predictor: Predictor) -> None:
    assert len(predictor.predict(parse_table(text))) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the table is empty"),
        ("a,a\n1,2", "must name each column once"),
        ("a,b\n1", "row 0 of the table has 1 cells, its heading 2"),
        ("{", "the table is no JSON"),
        ("[1, 2]", "must be one object per line, or a list of objects"),
    ],
)
def test_a_text_that_is_no_table_is_told(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_table(text)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_a_table_written_is_read_back(name: str, predictor: Predictor, tmp_path: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    write_table(ROWS, tmp_path / name)
    first = predictor.predict(read_table(tmp_path / name), "linear")
    np.testing.assert_array_equal(first.latency_s, predictor.predict(ROWS, "linear").latency_s)
