"""ONNX written by hand is what the library reads, and onnxruntime computes what numpy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.core.table import Schema
from medn.regressors.encoding import Encoding
from medn.regressors.forms.network import NetworkForm
from medn.regressors.forms.trees import Trees, tree
from medn.regressors.onnx_bytes import INPUT, Graph, varints


def small_trees() -> Trees:
    grown = tree([0, 1, -1, -1, -1], [0.5, 7, 0, 0, 0], [1, 2, -1, -1, -1], [4, 3, -1, -1, -1], [0, 0, 1, 2, 3])
    return Trees.from_trees([grown, grown], base=0.0, width=200)


def random_network(frequencies: int = 2) -> NetworkForm:
    """Every sort of step, with weights that mean nothing."""
    random = np.random.default_rng(0)
    schema = Schema(("a", "b", "c", "mode"), {"mode": ("x", "y", "z")})
    inputs = np.column_stack([10 ** random.uniform(0, 4, (50, 2)), random.uniform(0, 1, 50), random.integers(0, 3, 50)])
    encoding = Encoding.fit(schema, inputs)
    wide = encoding.width + 2 * 3 * frequencies

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    steps = [
        ("waves", {"frequencies": weights(3, frequencies)}),
        ("dense", {"weight": weights(wide, 8), "bias": weights(8)}),
        ("residual", {"up": weights(8, 12), "up_bias": weights(12), "down": weights(12, 8), "down_bias": weights(8)}),
        ("silu", {}),
        ("dense", {"weight": weights(8, 1), "bias": weights(1)}),
    ]
    return NetworkForm(encoding, steps, (-2.0, 2.0))


def network_inputs(rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    random = np.random.default_rng(1)
    columns = [10 ** random.uniform(0, 4, (rows, 2)), random.uniform(0, 1, rows), random.integers(-1, 3, rows)]
    return np.column_stack(columns).astype(np.float32).astype(np.float64)


def one_varint(number: int) -> list[int]:
    rest, low = number >> 7, number & 127
    return [low | 128, *one_varint(rest)] if rest else [low]


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_whole_numbers_are_written_seven_bits_a_byte(numbers: list[int]) -> None:
    assert list(varints(numbers)) == [byte for number in numbers for byte in one_varint(number)]


@pytest.mark.parametrize("model", [small_trees().onnx_model(), random_network().onnx_model()], ids=["trees", "network"])
def test_the_onnx_library_reads_what_is_written(model: bytes) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.checker.check_model(onnx.load_model_from_string(model), full_check=True)


def test_attributes_arrive_as_they_were_given() -> None:
    onnx = pytest.importorskip("onnx")
    graph = Graph(3)
    given = {"one": 5, "many": np.array([0, 300]), "numbers": np.array([0.5], np.float32), "strings": [b"a", b"bc"]}
    graph.step("Some", INPUT, domain="ai.onnx.ml", attributes=given)
    node = onnx.load_model_from_string(graph.model("step0")).graph.node[0]
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    assert values == {"one": 5, "many": [0, 300], "numbers": [0.5], "strings": [b"a", b"bc"]}
    assert (node.op_type, node.domain, list(node.input)) == ("Some", "ai.onnx.ml", [INPUT])


@pytest.mark.parametrize("frequencies", [1, 3])
@pytest.mark.parametrize("rows", [1, 700])
def test_onnxruntime_computes_a_network_as_numpy_does(rows: int, frequencies: int) -> None:
    pytest.importorskip("onnxruntime")
    form, inputs = random_network(frequencies), network_inputs(rows)
    expected = np.clip(form.walk(form.encoding.transform(inputs).astype(np.float32)), -2, 2)
    assert form.log_value(inputs) == pytest.approx(expected, abs=1e-5)
    assert [form.one(row) for row in inputs[:20]] == pytest.approx(expected[:20], abs=1e-5)
