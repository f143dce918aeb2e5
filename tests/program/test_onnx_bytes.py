"""ONNX written by hand is what the library reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.program.onnx_bytes import Graph, varints


def one_varint(number: int) -> list[int]:
    rest, low = number >> 7, number & 127
    return [low | 128, *one_varint(rest)] if rest else [low]


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_whole_numbers_are_written_seven_bits_a_byte(numbers: list[int]) -> None:
    assert list(varints(numbers)) == [byte for number in numbers for byte in one_varint(number)]


def test_the_onnx_library_reads_what_is_written() -> None:
    onnx = pytest.importorskip("onnx")
    graph = Graph()
    numbers = graph.input("numbers", "float64", ["rows", 2])
    graph.input("name", "string", ["rows"])
    graph.output("sum", graph.step("Add", numbers, graph.constant(np.array([1.0, 2.0]))), "float64", ["rows", 2])
    model = onnx.load_model_from_string(graph.model("adding", "adds", {"made by": "a test"}))
    onnx.checker.check_model(model, full_check=True)
    assert [each.name for each in model.graph.input] == ["numbers", "name"]
    assert {each.key: each.value for each in model.metadata_props} == {"made by": "a test"}


def test_an_array_is_written_once() -> None:
    graph = Graph()
    assert graph.constant(np.ones(3)) == graph.constant(np.ones(3)) != graph.constant(np.ones(3, np.float32))


def test_attributes_arrive_as_they_were_given() -> None:
    onnx = pytest.importorskip("onnx")
    graph = Graph()
    given = {"one": -5, "many": np.array([0, 300]), "numbers": np.array([0.5], np.float32), "strings": [b"a", b"bc"]}
    result = graph.step("Some", "inputs", domain="ai.onnx.ml", attributes=given)
    graph.output("outputs", result, "float64", ["rows"])
    node = onnx.load_model_from_string(graph.model("some")).graph.node[0]
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert values == {"one": -5, "many": [0, 300], "numbers": [0.5], "strings": [b"a", b"bc"]}
    assert (node.op_type, node.domain, list(node.input)) == ("Some", "ai.onnx.ml", ["inputs"])
