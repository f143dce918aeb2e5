"""An ONNX file becomes the same layers as the module it was exported from, without its weights being read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.devices.onnx_export import export_onnx
from tests.conftest import load_plugins

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file of nodes; inputs and outputs as shapes by name, weights as arrays by name."""

    def written(nodes: Any, inputs: Any, outputs: Any, weights: Any = None, opset: int = 23, **types: int) -> Path:
        def infos(shapes: Any) -> list[onnx.ValueInfoProto]:
            return [
                helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
                for name, shape in shapes.items()
            ]

        held = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
        graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), held)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.save(model, tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return written


def kinds(model: CapturedModel) -> list[str | None]:
    return [each.layer.kind if each.layer else None for each in model.layers]


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def exported(tmp_path: Path, module: torch.nn.Module, *inputs: torch.Tensor) -> Path:
    path = tmp_path / "exported.onnx"
    path.write_bytes(export_onnx(module.eval(), inputs, None, ""))
    return path


NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "convolutions": (
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 8, 3, groups=8, dilation=2),
            torch.nn.MaxPool2d(3, 2, 1),
            torch.nn.AvgPool2d(2),
            torch.nn.ConvTranspose2d(8, 4, 2, stride=2),
            torch.nn.Sigmoid(),
        ),
        (2, 3, 32, 32),
    ),
    "others": (
        lambda: torch.nn.Sequential(
            torch.nn.LayerNorm(8), torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4, bias=False)
        ),
        (2, 5, 8),
    ),
    "recurrent": (lambda: torch.nn.LSTM(4, 6, batch_first=False, bidirectional=True), (7, 2, 4)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_those_of_the_module_that_was_exported(name: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    module, example = make(), torch.zeros(shape)
    own = capture(module, example)
    model = capture(exported(tmp_path, module, example))
    # The steps of a recurrent layer are brought into torch's order by copies.
    known = [layer for layer in model.layers if layer.layer and layer.layer.kind != "copy"]
    expected = [layer.layer for layer in own.layers]
    if name == "others":  # a product and the bias are two operators there
        assert [kind for kind in kinds(model) if kind != "elementwise"] == [each.kind for each in expected if each]
    else:
        assert [each.layer for each in known] == expected
    assert model.unknown_flops_share == 0
    assert model.flops == pytest.approx(own.flops, rel=0.05)


def test_rows_and_batch_are_told_apart_in_a_product_with_a_weight(write: Write) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    model = capture(write([node], {"x": [3, 7, 4]}, {"y": None}, {"w": ones(4, 5)}))
    (found,) = model.layers
    assert found.layer is not None
    assert (found.layer.kind, found.layer.values["rows"], found.batch_size) == ("linear", 7, 3)
    assert (found.name, found.operator, found.parameter_bytes) == ("product", "MatMul", 80)


def test_products_of_computed_matrices_are_pairs_of_each_batch_entry(write: Write) -> None:
    node = helper.make_node("MatMul", ["x", "y"], ["z"])
    model = capture(write([node], {"x": [2, 3, 4, 5], "y": [2, 3, 5, 6]}, {"z": None}))
    assert model.layers[0].layer is not None
    assert model.layers[0].layer.values == {"matrices": 3, "rows": 4, "inner": 5, "columns": 6}
    assert [edge.source for edge in model.edges] == [-1, -2]


@pytest.mark.parametrize(
    ("node", "shapes", "kind"),
    [
        (helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1), ([2, 4], (6, 4), (6,)), "linear"),
        (helper.make_node("Gemm", ["x", "w"], ["y"]), ([2, 4], (4, 6)), "linear"),
        (helper.make_node("GlobalAveragePool", ["x"], ["y"]), ([2, 4, 5, 5],), "adaptive_avg_pool2d"),
        (helper.make_node("RMSNormalization", ["x", "w"], ["y"]), ([2, 5, 4], (4,)), "rms_norm"),
        (helper.make_node("InstanceNormalization", ["x", "w", "b"], ["y"]), ([2, 4, 5, 5], (4,), (4,)), "group_norm"),
        (
            helper.make_node("GroupNormalization", ["x", "w", "b"], ["y"], num_groups=2),
            ([2, 4, 5, 5], (4,), (4,)),
            "group_norm",
        ),
        (helper.make_node("Softmax", ["x"], ["y"]), ([2, 5, 4],), "softmax"),
        (helper.make_node("Gelu", ["x"], ["y"], approximate="tanh"), ([2, 5],), "activation"),
        (helper.make_node("HardSwish", ["x"], ["y"]), ([2, 5],), "activation"),
        (helper.make_node("Concat", ["x", "x"], ["y"], axis=1), ([2, 5, 4, 4],), "concat"),
        (helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=3), ([5, 2, 4], (1, 9, 4), (1, 9, 3)), "gru"),
        (
            helper.make_node("Attention", ["x", "x", "x"], ["y"], q_num_heads=2, kv_num_heads=2, is_causal=1),
            ([2, 5, 8],),
            "attention",
        ),
        (
            helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]),
            ([1, 3, 8, 8], (4, 3, 3, 3)),
            "conv2d",
        ),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else None,
)
def test_operator_is_known_as(node: onnx.NodeProto, shapes: Any, kind: str, write: Write) -> None:
    weights = {name: ones(*shape) for name, shape in zip("wbr"[: len(shapes) - 1], shapes[1:], strict=True)}
    if node.op_type == "GRU":
        weights = {"w": ones(1, 9, 4), "r": ones(1, 9, 3)}
    model = capture(write([node], {"x": shapes[0]}, {"y": None}, weights))
    assert kinds(model) == [kind]


def test_padding_on_one_side_only_keeps_the_size_of_the_output(write: Write) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], pads=[0, 0, 1, 1])
    (found,) = capture(write([node], {"x": [1, 3, 8, 8]}, {"y": None}, {"w": ones(4, 3, 3, 3)})).layers
    assert found.flops == 2 * 4 * 4 * 4 * 27


def test_clipping_between_zero_and_six_is_relu6_and_other_bounds_are_not(write: Write) -> None:
    for high, expected in ((6.0, "activation"), (5.0, None)):
        bounds = {"low": np.float32(0), "high": np.float32(high)}
        path = write([helper.make_node("Clip", ["x", "low", "high"], ["y"])], {"x": [2, 4]}, {"y": None}, bounds)
        assert kinds(capture(path)) == [expected]


def test_rows_picked_from_a_weight_are_an_embedding(write: Write) -> None:
    node = helper.make_node("Gather", ["table", "tokens"], ["y"])
    path = write([node], {"tokens": [2, 7]}, {"y": None}, {"table": ones(50, 4)}, tokens=TensorProto.INT64)
    (found,) = capture(path).layers
    assert found.layer is not None
    assert found.layer.values == {"vocabulary": 50, "features": 4, "tokens": 7}


def test_views_pass_on_and_a_transpose_is_a_copy(write: Write) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"]),
        helper.make_node("Tanh", ["c"], ["y"]),
    ]
    model = capture(write(nodes, {"x": [2, 3, 4]}, {"y": None}))
    assert [each.operator for each in model.layers] == ["Relu", "Transpose", "Tanh"]
    assert [(edge.source, edge.target) for edge in model.edges] == [(-1, 0), (0, 1), (1, 2)]
    assert kinds(model) == ["activation", "copy", "activation"]


def test_a_transpose_is_read_as_the_axes_it_swaps(write: Write) -> None:
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1, 3])
    (found,) = capture(write([node], {"x": [2, 5, 6, 8]}, {"y": None})).layers
    assert found.layer is not None
    assert (found.layer.values, found.batch_size) == ({"outer": 1, "rows": 5, "columns": 6, "inner": 8}, 2)


@pytest.mark.parametrize(("operator", "exponent"), [("Neg", None), ("Pow", 2.0), ("Pow", 3.0)])
def test_signs_squares_and_cubes_are_products_with_a_number(
    write: Write, operator: str, exponent: float | None
) -> None:
    weights = {} if exponent is None else {"exponent": np.float32(exponent)}
    node = helper.make_node(operator, ["x", *weights], ["y"])
    (found,) = capture(write([node], {"x": [2, 5, 6]}, {"y": None}, weights)).layers
    assert found.layer is not None
    assert (found.layer.values["operation"], found.layer.values["broadcast"]) == ("mul", "scalar")


def reshaping(write: Write) -> Path:
    """The batch and the rows are folded by a chain of operators on shapes, as exporters write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batches"]),
        helper.make_node("Concat", ["batches", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    held = {"zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1]), "w": ones(12, 5)}
    return write(nodes, {"x": ["N", "length", 4]}, {"y": None}, held)


def test_sizes_left_open_follow_from_example_shapes(write: Write) -> None:
    model = capture(reshaping(write), {"x": (6, 3, 4)})
    assert (kinds(model), model.batch_size) == (["linear"], 6)
    assert model.outputs[0].shape == (6, 5)


def test_batch_size_replaces_the_first_axis(write: Write) -> None:
    assert capture(reshaping(write), {"x": np.zeros((6, 3, 4))}, batch_size=9).layers[0].batch_size == 9


def test_sizes_left_open_are_asked_for(write: Write) -> None:
    with pytest.raises(UsageError, match=r"x: axis 1 \(length\) has no size"):
        capture(reshaping(write))


def test_an_unknown_input_gets_the_near_miss(write: Write) -> None:
    with pytest.raises(UsageError, match=r"no input named 'xx'\. Did you mean 'x'"):
        capture(reshaping(write), {"xx": (6, 3, 4)})


def test_a_batch_size_that_the_file_has_built_in_is_said(write: Write) -> None:
    node = helper.make_node("Reshape", ["x", "target"], ["y"])
    path = write([node], {"x": [1, 3, 4]}, {"y": [1, 12]}, {"target": np.array([1, 12])})
    assert capture(path).layers == ()
    with pytest.raises(UsageError, match=r"\(2, 3, 4\) cannot become \(1, 12\).*another batch size"):
        capture(path, batch_size=2)


def test_what_follows_from_weights_alone_is_no_layer(write: Write) -> None:
    nodes = [helper.make_node("Transpose", ["w"], ["turned"]), helper.make_node("MatMul", ["x", "turned"], ["y"])]
    model = capture(write(nodes, {"x": [2, 4]}, {"y": None}, {"w": ones(5000, 4)}))
    assert (kinds(model), model.parameter_bytes) == (["linear"], 80_000)


def test_the_branch_that_a_constant_condition_takes_is_followed(write: Write) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(f"{operator}_out", TensorProto.FLOAT, [2, 4])
        return helper.make_graph([helper.make_node(operator, ["x"], [f"{operator}_out"])], operator, [], [output])

    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch("Relu"), else_branch=branch("Tanh"))
    model = capture(write([node], {"x": [2, 4]}, {"y": [2, 4]}, {"flag": np.array(False)}))
    assert [each.operator for each in model.layers] == ["Tanh"]
    assert model.outputs[0].producers == (0,)


def test_integer_products_count_flops_without_being_a_kind(write: Write) -> None:
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    path = write([node], {"x": [2, 4]}, {"y": None}, {"w": np.ones((4, 3), np.int8)}, x=TensorProto.INT8)
    model = capture(path)
    assert (kinds(model), model.flops, model.unknown_flops_share) == ([None], 2 * 2 * 4 * 3, 1.0)


def test_sums_over_indices_count_flops(write: Write) -> None:
    node = helper.make_node("Einsum", ["x", "y"], ["z"], equation="...id,...jd->...ij")
    model = capture(write([node], {"x": [2, 3, 4, 5], "y": [2, 3, 6, 5]}, {"z": None}))
    assert model.flops == 2 * 2 * 3 * 4 * 6 * 5


def test_functions_of_the_file_are_looked_into(tmp_path: Path) -> None:
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Relu", ["a"], ["c"]), helper.make_node("Tanh", ["c"], ["b"])],
        [helper.make_opsetid("", 18)],
    )
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Twice", ["x"], ["y"], domain="own")], "graph", [x], [y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    onnx.save(helper.make_model(graph, functions=[twice], opset_imports=opsets), tmp_path / "model.onnx")
    assert kinds(capture(tmp_path / "model.onnx")) == ["activation", "activation"]


def test_weights_kept_beside_the_file_are_not_needed(tmp_path: Path, write: Write) -> None:
    model = onnx.load(
        write([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [2, 4]}, {"y": None}, {"w": ones(4, 3)})
    )
    onnx.save(model, tmp_path / "big.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    assert capture(str(tmp_path / "big.onnx")).parameter_bytes == 48


def test_an_operator_of_another_maker_needs_its_shape_declared(write: Write) -> None:
    nodes = [helper.make_node("Own", ["x"], ["a"], "own", domain="maker"), helper.make_node("Relu", ["a"], ["y"])]
    path = write(nodes, {"x": [2, 4]}, {"y": [2, 4]})
    with pytest.raises(UsageError, match=r"node 'own' \(maker.Own\): the shape of its output 'a' is unknown"):
        capture(path)
    model = onnx.load(path)
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 4]))
    onnx.save(model, path)
    assert [each.operator for each in capture(path).unknown_operators] == ["maker.Own"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"no model at all", "not an ONNX file"), (b"", "without any operator"), (None, "cannot be read")],
)
def test_a_bad_file_is_one_sentence(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        capture(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_shapes_that_depend_on_constants_are_exact(write: Write) -> None:
    nodes = [helper.make_node("NonZero", ["mask"], ["places"]), helper.make_node("Gather", ["x", "places"], ["y"])]
    path = write(nodes, {"x": [9, 4]}, {"y": None}, {"mask": np.array([1, 0, 1, 1])})
    assert capture(path).outputs[0].shape == (1, 3, 4)


def test_an_attention_operator_tells_its_heads_of_keys(write: Write) -> None:
    node = helper.make_node("Attention", ["q", "k", "k"], ["y"], q_num_heads=6, kv_num_heads=2, is_causal=1)
    (found,) = capture(write([node], {"q": [2, 5, 48], "k": [2, 5, 16]}, {"y": None})).layers
    assert found.layer is not None
    assert found.layer.values == {
        **{"heads": 6, "kv_heads": 2, "head_size": 8, "query_length": 5, "key_length": 5, "causal": True}
    }


@pytest.mark.parametrize(("past", "expected"), [(0, {"causal": True, "window": 3}), (4, {"causal": False})])
def test_grouped_attention_tells_its_window(past: int, expected: dict[str, Any], write: Write) -> None:
    attributes = {"num_heads": 6, "kv_num_heads": 2, "local_window_size": 3, "domain": "com.microsoft"}
    names = ["q", "k", "v", *(["past", "past"] if past else [])]
    node = helper.make_node("GroupQueryAttention", names, ["y"], **attributes)
    inputs: dict[str, Any] = {"q": [2, 5, 48], "k": [2, 5, 16], "v": [2, 5, 16]}
    inputs |= {"past": [2, 2, past, 8]} if past else {}
    (found,) = capture(write([node], inputs, {"y": [2, 5, 48]})).layers
    assert found.layer is not None
    sizes = {"heads": 6, "kv_heads": 2, "head_size": 8, "query_length": 5, "key_length": 5 + past}
    assert found.layer.values == {**sizes, **expected}


def test_a_kind_of_ones_own_brings_its_operator(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    load_plugins(monkeypatch, "depth_to_space")
    shuffle = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")
    (found,) = capture(write([shuffle], {"x": [3, 12, 8, 8]}, {"y": None})).layers
    assert found.layer is not None
    assert found.layer.kind == "test_depth_to_space"
    assert (found.layer.values, found.batch_size) == ({"channels": 3, "in_size": 8, "factor": 2}, 3)


def test_a_node_that_its_kind_does_not_take_is_of_no_kind(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    load_plugins(monkeypatch, "depth_to_space")
    shuffle = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2)
    assert kinds(capture(write([shuffle], {"x": [3, 12, 8, 8]}, {"y": None}))) == [None]
