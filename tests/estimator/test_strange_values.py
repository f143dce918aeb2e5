"""Values that nobody should ask for, in every way of asking: the same right answer, or the same one clear sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import medn
from medn.cli.main import run
from medn.core.errors import MednError, UsageError
from medn.estimator.prediction import Prediction
from medn.estimator.query import Wrong
from medn.predictor.predictor import Predictor
from medn.serving.answers import Answers

LAYER = {"in_features": 100, "out_features": 200, "batch_size": 8}
HUGE = 10**400
LARGEST_BATCH_SIZE = 2**31 - 1
UNPRINTABLE = 10**5000
"""Python refuses to write so many digits."""

PLACE = r"^(row \d+: )?(linear: |conv2d: )?"


@pytest.fixture(scope="module")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


def sentence(ask: Callable[[], object]) -> str:
    """What is said, without where."""
    with pytest.raises(UsageError) as caught:
        ask()
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 600
    return re.sub(PLACE, "", said)


def ways(predictor: Predictor, given: Mapping[str, Any]) -> list[Callable[[], Prediction]]:
    """The same layer asked for one by one and in tables of every shape."""
    longer = {name: [value, value] for name, value in given.items()}
    return [
        lambda: predictor.layer("linear", **given),
        lambda: predictor.estimator("linear").layer(given),
        lambda: predictor.predict(dict(given), "linear")[0],
        lambda: predictor.predict([dict(given)], "linear")[0],
        lambda: predictor.predict(longer, "linear")[1],
        lambda: predictor.predict({**longer, "kind": ["linear", "linear"]})[1],
        lambda: predictor.table("linear", dict(given), cache=["hot", "hot"]).predictions[0],
    ]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("batch_size", 10**39, "batch_size: must be at most"),
        ("batch_size", HUGE, "batch_size: must be at most"),
        ("batch_size", UNPRINTABLE, "batch_size: must be at most"),
        ("batch_size", -HUGE, "batch_size: must be at least 1"),
        ("batch_size", LARGEST_BATCH_SIZE + 1, "batch_size: must be at most 2147483647 "),
        ("threads", HUGE, "threads: must be at most"),
        ("in_features", HUGE, "in_features: must be at most"),
        ("load_average", HUGE, "load_average: must be"),
        ("load_average", 1e39, "load_average: must be"),
        ("utilization", HUGE, "utilization: must be at most"),
        ("batch_size", True, r"batch_size: must be a whole number \(got True\)"),
        ("batch_size", np.True_, r"batch_size: must be a whole number \(got True\)"),
        ("utilization", False, r"utilization: must be a number \(got False\)"),
        ("batch_size", "8", r"batch_size: must be a whole number \(got '8'\)"),
        ("batch_size", float("nan"), r"batch_size: must be a whole number \(got nan\)"),
        ("batch_size", float("inf"), r"batch_size: must be a whole number \(got inf\)"),
        ("batch_size", -0.0, "batch_size: must be at least 1"),
        ("batch_size", Decimal("2.5"), r"batch_size: must be a whole number \(got 2.5\)"),
        ("batch_size", Decimal("1e999999999"), r"batch_size: must be a whole number \(got inf\)"),
        ("batch_size", Decimal("sNaN"), r"batch_size: must be a whole number \(got nan\)"),
        ("batch_size", Fraction(HUGE), r"batch_size: must be a whole number \(got inf\)"),
        ("batch_size", 3 + 0j, r"batch_size: must be a whole number \(got \(3\+0j\)\)"),
        ("batch_size", np.datetime64("2026-01-01"), "batch_size: must be a whole number"),
        ("batch_size", b"8", "batch_size: must be a whole number"),
        ("batch_size", {}, "batch_size: must be a whole number"),
        ("dtype", "fp32\x1b[31m" + "x" * 10_000, "dtype: must be one of fp32, fp16, bf16"),
        ("dtype", 32, "dtype: must be one of"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) or abs(value) < 1e300 else "huge",
)
def test_every_way_of_asking_refuses_with_the_same_sentence(
    name: str, value: Any, words: str, predictor: Predictor
) -> None:
    predictor.layer("linear", **{**LAYER, "batch_size": 1})
    said = {sentence(way) for way in ways(predictor, {**LAYER, name: value})}
    assert len(said) == 1, said
    assert re.search(words, said.pop())


@pytest.mark.parametrize(
    "eight",
    [
        *(8.0, np.int8(8), np.uint64(8), np.float16(8), np.longdouble(8)),
        *(np.array(8), np.array(8.0), Decimal(8), Decimal("8.000"), Fraction(8), Fraction(16, 2)),
    ],
    ids=repr,
)
def test_a_number_of_any_sort_is_the_number(eight: Any, predictor: Predictor) -> None:
    expected = predictor.layer("linear", **LAYER)
    for way in ways(predictor, {**LAYER, "batch_size": eight}):
        assert way()[:3] == pytest.approx(expected[:3], rel=1e-6)


def test_a_gap_means_the_default_in_every_way_of_asking(predictor: Predictor) -> None:
    expected = predictor.layer("linear", in_features=100, out_features=200)
    for gap in (None, "", np.ma.masked):
        for way in ways(predictor, {**LAYER, "batch_size": gap}):
            assert way()[:3] == pytest.approx(expected[:3], rel=1e-6)
    assert {sentence(way) for way in ways(predictor, {**LAYER, "in_features": None})} == {"in_features: missing"}


@pytest.mark.parametrize(
    "value", [[8], [8, 9], [], (8,), [[8], [9, 10]], np.array([8]), np.array([]), range(3)], ids=repr
)
def test_a_layer_has_one_value_for_each_name(value: Any, predictor: Predictor) -> None:
    for ask in (predictor.layer, predictor.gradient):
        assert "batch_size: must be" in sentence(lambda ask=ask: ask("linear", **{**LAYER, "batch_size": value}))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([8, [8, 9]], r"'batch_size' must have one value per row \(row 1 holds \[8, 9\]\)"),
        ([[8], [8, 9]], r"'batch_size' must have one value per row \(row 0 holds \[8\]\)"),
        ([8, True], r"batch_size: must be a whole number \(got True\)"),
        ([8, HUGE], "batch_size: must be at most"),
        ([2**63, -1], "batch_size: must be at"),
        (np.array([[8, 9]]), "'batch_size' must have one value per row"),
        (np.array([]), "the table has no rows"),
        (np.array([8, 9], dtype="datetime64[D]"), "batch_size: must be a whole number"),
        ({8, 9}, "batch_size: must be a whole number"),
        ((each for each in (8, 9)), "batch_size: must be a whole number"),
        (object(), "batch_size: must be a whole number"),
    ],
    ids=range(11),
)
def test_a_strange_column_is_one_sentence(column: Any, words: str, predictor: Predictor) -> None:
    assert re.search(words, sentence(lambda: predictor.predict({**LAYER, "batch_size": column}, "linear")))


def test_what_is_masked_is_a_gap(predictor: Predictor) -> None:
    column = np.ma.masked_array([8, 9999], mask=[False, True])
    found = predictor.predict({**LAYER, "batch_size": column}, "linear")
    expected = predictor.predict({**LAYER, "batch_size": [8, None]}, "linear")
    assert found.latency_s.tolist() == expected.latency_s.tolist()


def test_a_null_of_arrow_is_a_gap_and_a_name_given_twice_is_told(predictor: Predictor) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = predictor.predict(
        pyarrow.table({**{name: [value] * 2 for name, value in LAYER.items()}, "rows": [1, None]}), "linear"
    )
    assert found.latency_s[0] == found.latency_s[1]
    twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["rows", "rows"])
    assert "'rows' twice" in sentence(lambda: predictor.predict(twice, "linear"))


class Lazy:
    """What a LazyFrame of polars looks like from outside."""

    columns = ("in_features",)

    def __getitem__(self, name: str) -> Any:
        raise TypeError("not subscriptable")

    def collect(self) -> dict[str, Any]:
        return {}


def test_a_lazy_table_says_how_to_get_its_rows(predictor: Predictor) -> None:
    assert ".collect()" in sentence(lambda: predictor.predict(Lazy(), "linear"))


def test_frames_with_gaps_are_tables(predictor: Predictor) -> None:
    pandas = pytest.importorskip("pandas")
    expected = predictor.predict({**LAYER, "batch_size": [8, None]}, "linear").latency_s.tolist()
    columns = {name: [value] * 2 for name, value in LAYER.items()}
    nullable = pandas.DataFrame({**columns, "batch_size": pandas.array([8, None], dtype="Int64")})
    assert predictor.predict(nullable, "linear").latency_s.tolist() == expected
    plain = pandas.DataFrame({**columns, "batch_size": [8, pandas.NA]})
    assert predictor.predict(plain, "linear").latency_s.tolist() == expected
    assert predictor.layer("linear", **{**LAYER, "batch_size": pandas.NA}).latency_s == pytest.approx(expected[1])


def test_polars_nulls_are_gaps_and_lazy_frames_are_told(predictor: Predictor) -> None:
    polars = pytest.importorskip("polars")
    expected = predictor.predict({**LAYER, "batch_size": [8, None]}, "linear").latency_s.tolist()
    frame = polars.DataFrame({**{name: [value] * 2 for name, value in LAYER.items()}, "batch_size": [8, None]})
    assert predictor.predict(frame, "linear").latency_s.tolist() == expected
    assert ".collect()" in sentence(lambda: predictor.predict(frame.lazy(), "linear"))


def test_unknown_columns_are_told_before_a_value_is_looked_at_and_few_of_them(predictor: Predictor) -> None:
    wide = {f"column {place}": object() for place in range(5000)}
    said = sentence(lambda: predictor.predict({**LAYER, **wide}, "linear"))
    assert "'column 0'" in said
    assert "and 4997 more" in said
    rows = [{f"column {place}": 1} for place in range(5000)]
    assert "and 4997 more" in sentence(lambda: predictor.predict(rows, "linear"))


@pytest.mark.parametrize("kind", [UNPRINTABLE, None, [["linear"]], {}, 3.5, "x" * 10_000_000], ids=range(6))
def test_a_kind_that_is_none_is_one_sentence(kind: Any, predictor: Predictor) -> None:
    assert "no predicted layer kind named" in sentence(lambda: predictor.layer(kind, **LAYER))
    assert "kind" in sentence(lambda: predictor.predict({**LAYER, "kind": kind}))


def test_a_table_has_a_bounded_number_of_rows(predictor: Predictor) -> None:
    for many in (range(1, 10**9), range(1, 10**30)):
        said = sentence(lambda many=many: predictor.table("linear", {"in_features": 64}, out_features=many))  # type: ignore[misc]
        assert "rows" in said


@pytest.mark.parametrize("size", [10**60, HUGE, np.array([64.0, 1e60])], ids=["large", "huge", "column"])
def test_a_layer_whose_work_is_no_number_is_refused(size: Any, predictor: Predictor) -> None:
    estimator = predictor.estimator("linear")
    opened = {**estimator.query.open_one(LAYER), "in_features": size}
    with pytest.raises(Wrong, match="this layer is too large") as caught:
        estimator._prepared(opened, np.size(size))
    assert caught.value.row == (1 if isinstance(size, np.ndarray) else caught.value.row)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batch_size": True}, r"batch_size: must be a whole number \(got True\)"),
        ({"batch_size": 10**39}, "batch_size: must be at most"),
        ({"batch_size": HUGE}, "batch_size: must be at most"),
        ({"batch_size": "4"}, "batch_size: must be a whole number"),
        ({"batch_size": [4]}, "batch_size: must be a whole number"),
        ({"batch_size": float("nan")}, "batch_size: must be a whole number"),
        ({"utilization": float("inf")}, "utilization: must be a finite number"),
        ({"utilization": True}, r"utilization: must be a number \(got True\)"),
    ],
    ids=range(8),
)
def test_a_model_refuses_what_a_layer_refuses(given: dict[str, Any], words: str, convolution_bundle: Path) -> None:
    torch = pytest.importorskip("torch")
    from medn.capture.capture import capture

    net = torch.nn.Conv2d(16, 16, 3)
    captured = capture(net, torch.empty(1, 16, 32, 32))
    predictor = medn.load(convolution_bundle)
    predictor.model(captured, batch_size=1)
    assert re.search(words, sentence(lambda: predictor.model(captured, **given)))
    assert re.search(words, sentence(lambda: predictor.model(net, torch.empty(1, 16, 32, 32), **given)))


@pytest.mark.parametrize("four", [4.0, np.int64(4), np.array(4), Fraction(4)], ids=repr)
def test_a_model_takes_numbers_of_any_sort(four: Any, convolution_bundle: Path) -> None:
    torch = pytest.importorskip("torch")
    from medn.capture.capture import capture

    captured = capture(torch.nn.Conv2d(16, 16, 3), torch.empty(1, 16, 32, 32))
    predictor = medn.load(convolution_bundle)
    found = predictor.model(captured, batch_size=four)
    assert found.latency_s == predictor.model(captured, batch_size=4).latency_s
    assert json.dumps(found.as_json(), allow_nan=False)


def test_a_model_of_the_largest_batch_is_finite(convolution_bundle: Path) -> None:
    torch = pytest.importorskip("torch")
    from medn.capture.capture import capture

    captured = capture(torch.nn.Conv2d(16, 16, 3), torch.empty(4, 16, 32, 32))
    found = medn.load(convolution_bundle).model(captured, batch_size=LARGEST_BATCH_SIZE)
    assert json.dumps(found.as_json(), allow_nan=False)


@pytest.mark.parametrize("written", ["9" * 39, "9" * 400, "9" * 5000, "inf", "nan", "1e999", "-0", "true", "0x8"])
def test_the_command_line_refuses_with_a_sentence(
    written: str, bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["predict", str(bundle_path), "linear", "in_features=64", "out_features=64", f"batch_size={written}", "--json"],
        [
            "table",
            str(bundle_path),
            "linear",
            "in_features=64,65",
            "out_features=64",
            f"batch_size={written}",
            "--json",
        ],
    ):
        assert run(command) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert "batch_size: must be" in told.err


def test_json_on_the_command_line_holds_only_numbers_that_json_knows(
    bundle_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "x.jsonl"
    table.write_text(
        '{"kind": "linear", "in_features": 64, "out_features": 64, "elements": NaN}\n'
        '{"kind": "activation", "function": "relu", "elements": 5000, "in_features": NaN}\n'
    )
    assert run(["predict", str(bundle_path), "--table", str(table), "--json"]) == 0

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    rows = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert rows[0]["elements"] is None


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "true", '"8"', "[8]", "{}", "-0.0", "NaN", "1" * 5000])
def test_the_server_refuses_with_the_sentence_of_the_predictor(value: str, bundle_path: Path) -> None:
    answers = Answers(bundle_path)
    body = f'{{"kind": "linear", "in_features": 64, "out_features": 64, "batch_size": {value}}}'
    table = f'{{"kind": "linear", "columns": {{"in_features": 64, "out_features": 64, "batch_size": [{value}, 8]}}}}'
    first = sentence(lambda: answers.layer(body.encode()))
    if value != "[8]":
        assert sentence(lambda: answers.predict(table.encode())) == first


@cache
def shared_predictor(path: Path) -> Predictor:
    return medn.load(path)


NUMBERS = st.one_of(
    st.integers(),
    st.integers(1, 4096),
    st.floats(),
    st.sampled_from([HUGE, -HUGE, 2**31, 2**53 + 1, 2**63, 2**64, 5e-324, 1e308, -0.0]),
    st.decimals(),
    st.fractions(),
)
CELLS = st.one_of(
    NUMBERS,
    NUMBERS.filter(lambda number: not isinstance(number, (Decimal, Fraction)) and abs(number) < 2**31).map(np.float64),
    st.integers(-(2**31), 2**31 - 1).map(np.int32),
    st.booleans(),
    st.booleans().map(np.bool_),
    st.none(),
    st.text(max_size=4),
    st.just(np.array(7)),
    st.complex_numbers(),
    st.binary(max_size=2),
)
NAMES = st.sampled_from(
    ("in_features", "out_features", "rows", "batch_size", "utilization", "threads", "dtype", "bias", "load_average")
)


def outcome(way: Callable[[], Prediction]) -> tuple[str, Any]:
    try:
        found = way()
    except MednError as error:
        return "refused", re.sub(PLACE, "", str(error))
    assert 0 < found.low_s <= found.latency_s <= found.high_s < float("inf")
    return "answered", found


@pytest.mark.parametrize(
    ("name", "usual", "flag"),
    [("batch_size", 1, True), ("utilization", 0.0, False), ("utilization", 0.0, np.False_)],
)
def test_a_flag_is_no_number_even_where_its_number_was_asked_before(
    name: str, usual: float, flag: bool | np.bool_, bundle_path: Path
) -> None:
    estimator = medn.load(bundle_path).estimator("linear")
    for _ in range(2):  # the second question of a sort goes the fast way
        estimator.layer({**LAYER, name: usual})
    with pytest.raises(Wrong, match=f"{name}: must be"):
        estimator.layer({**LAYER, name: flag})


@settings(max_examples=150, deadline=None)
@given(given_values=st.dictionaries(NAMES, CELLS, max_size=3))
def test_the_same_question_has_the_same_answer_or_the_same_refusal(
    given_values: dict[str, Any], bundle_path: Path
) -> None:
    predictor = shared_predictor(bundle_path)
    found = [outcome(way) for way in ways(predictor, {**LAYER, **given_values})]
    kinds, answers = zip(*found, strict=True)
    assert len(set(kinds)) == 1, found
    for answer in answers[1:]:
        if kinds[0] == "answered":
            assert answer[:3] == pytest.approx(answers[0][:3], rel=1e-5)
            assert answer[4] == answers[0][4]
        else:
            assert answer == answers[0]
