"""Data types are open: any name that the bytes of one element are known of."""

from __future__ import annotations

import pytest

from medn.core.conditions import CONDITIONS, with_dtypes
from medn.core.dtypes import ELEMENT_BYTES, SPELLINGS, joined_dtypes, output_tolerance, stated_dtypes
from medn.core.values import Condition


def test_the_data_types_of_gpus_are_known() -> None:
    assert {"fp16", "bf16", "fp32", "fp64", "int8", "fp8", "fp8_e4m3", "fp8_e5m2"} <= set(ELEMENT_BYTES)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_names_of_torch_mean_the_same(spelling: str) -> None:
    assert Condition(dtype=spelling) == Condition(dtype=SPELLINGS[spelling])


@pytest.mark.parametrize("unknown", ["fp15", "nf4", "bf1", "int4"])
def test_an_unknown_data_type_is_not_taken_for_its_neighbour(unknown: str) -> None:
    said = CONDITIONS["dtype"].mistake(unknown)
    assert said is not None
    assert "Did you mean" not in said
    assert "dtypes: {nvfp4: 0.5625}" in said


def test_a_stated_data_type_is_allowed() -> None:
    assert with_dtypes({"nf4": 0.5})["dtype"].mistake("nf4") is None
    assert CONDITIONS["dtype"].mistake("nf4") is not None


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ({"nf4": 0}, "the bytes of one element of nf4 must be a number from"),
        ({"nf4": float("nan")}, "the bytes of one element of nf4 must be a number from"),
        ({"nf4": True}, "the bytes of one element of nf4 must be a number from"),
        ({"nf4": "half"}, "the bytes of one element of nf4 must be a number from"),
        ({"": 1}, "the name of a data type must be"),
        ({3: 1}, "the name of a data type must be"),
        ({"fp16": 4}, "an element of fp16 has 2 bytes (got 4)"),
        ({"float16": 2}, "float16 is another name of fp16"),
        ("nf4", "must be data types with the bytes of one element"),
    ],
)
def test_what_cannot_be_stated_is_told(written: object, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + sentence.replace("(", r"\(").replace(")", r"\)")):
        stated_dtypes(written)


def test_two_statements_may_not_contradict_each_other() -> None:
    assert joined_dtypes({"nf4": 0.5}, {"nf4": 0.5, "fp6": 0.75}) == {"nf4": 0.5, "fp6": 0.75}
    with pytest.raises(ValueError, match=r"an element of nf4 has 0\.5 bytes here and 1 there"):
        joined_dtypes({"nf4": 0.5}, {"nf4": 1.0})


def test_narrow_and_unheard_of_types_may_differ_more_from_torch() -> None:
    assert output_tolerance("fp32") < output_tolerance("fp16") < output_tolerance("nf4") == output_tolerance("int8")
