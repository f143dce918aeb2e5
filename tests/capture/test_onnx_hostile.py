"""ONNX files that are damaged or made to do harm: one sentence each, and soon."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from experiments.fuzz.onnx_models import attempt
from medn.capture.capture import capture
from medn.core.errors import UsageError

Change = Callable[[onnx.ModelProto], Any]


def small() -> onnx.ModelProto:
    """A convolution, a pool, a choice and a loop."""
    image = [1, 4, 8, 8]
    kept = helper.make_tensor_value_info("kept", TensorProto.FLOAT, [1, 4, 4, 4])
    branch = helper.make_graph([helper.make_node("Relu", ["b"], ["kept"])], "branch", [], [kept])
    other = helper.make_graph([helper.make_node("Tanh", ["b"], ["kept"])], "branch", [], [kept])
    state, after = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 4, 4]) for name in ("state", "after"))
    step = helper.make_tensor_value_info("step", TensorProto.INT64, [])
    go = helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    body = helper.make_graph([helper.make_node("Relu", ["state"], ["after"])], "body", [step, go, state], [go, after])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("If", ["flag"], ["c"], "choice", then_branch=branch, else_branch=other),
        helper.make_node("Loop", ["times", "true", "c"], ["y"], "loop", body=body),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, image),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    weights = {"w": np.ones((4, 4, 3, 3), np.float32), "times": np.array(3), "true": np.array(True)}
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(
        nodes, "graph", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], held
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def attribute(model: onnx.ModelProto, node: int, name: str) -> onnx.AttributeProto:
    return next(each for each in model.graph.node[node].attribute if each.name == name)


def drop_attribute(node: int, name: str) -> Change:
    return lambda model: model.graph.node[node].attribute.remove(attribute(model, node, name))


def set_size(value: int) -> Change:
    def change(model: onnx.ModelProto) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = value

    return change


def set_weight(**fields: Any) -> Change:
    def change(model: onnx.ModelProto) -> None:
        for name, value in fields.items():
            if name == "dims":
                model.graph.initializer[0].dims[:] = value
            else:
                setattr(model.graph.initializer[0], name, value)

    return change


CHANGES: dict[str, tuple[Change, str]] = {
    "a negative size": (set_size(-8), r"x: axis 2 \(got -8\) has no size"),
    "no size": (set_size(0), r"x: axis 2 \(got 0\) has no size"),
    "an enormous size": (set_size(2**62), "too large for any memory"),
    "a weight of negative size": (
        set_weight(dims=[4, 4, -3, 3]),
        r"'w': sizes must be from 0 on \(got \[4, 4, -3, 3\]\)",
    ),
    "a weight larger than its data": (set_weight(dims=[4, 4, 3, 9]), "weight 'w': "),
    "a weight of no type": (set_weight(data_type=99), "'w': no such element type: 99"),
    "a tensor that nothing makes": (
        lambda model: model.graph.node[1].input.__setitem__(0, "nothing"),
        "tensor 'nothing' is read, and nothing before makes it",
    ),
    "an output that nothing makes": (lambda model: setattr(model.graph.output[0], "name", "z"), "tensor 'z' is read"),
    "nodes in another order": (lambda model: model.graph.node.insert(0, model.graph.node[3]), "tensor 'c' is read"),
    "an attribute left out": (drop_attribute(1, "kernel_shape"), "Required attribute 'kernel_shape' is missing"),
    "an attribute of another type": (
        lambda model: attribute(model, 0, "pads").CopyFrom(helper.make_attribute("pads", "x")),
        r"node 'conv' \(Conv\) is malformed: Mismatched attribute type",
    ),
    "too few numbers in an attribute": (lambda model: attribute(model, 0, "pads").ints.pop(), "node 'conv'"),
    "steps of nothing": (lambda model: attribute(model, 1, "strides").ints.__setitem__(0, 0), "node 'pool'"),
    "steps back": (lambda model: attribute(model, 1, "strides").ints.__setitem__(0, -1), "node 'pool'"),
    "a choice without a branch": (drop_attribute(2, "else_branch"), "it has no else_branch"),
    "a branch without a result": (lambda model: attribute(model, 2, "then_branch").g.output.pop(), "node 'choice'"),
    "a loop without a body": (drop_attribute(3, "body"), "node 'loop'"),
    "a body with an input too few": (lambda model: attribute(model, 3, "body").g.input.pop(), "node 'loop'"),
    "a body with an output too few": (lambda model: attribute(model, 3, "body").g.output.pop(), "node 'loop'"),
    "an output that the body has not": (lambda model: model.graph.node[3].output.append("more"), "node 'loop'"),
    "a body that reads nothing": (
        lambda model: attribute(model, 3, "body").g.node[0].input.__setitem__(0, "q"),
        "tensor 'q' is read",
    ),
    "no version": (lambda model: setattr(model.opset_import[0], "version", 0), "must be a name with a version above 0"),
    "an input that is no tensor": (
        lambda model: model.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(onnx.TypeProto())),
        "x: only tensors can be inputs",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_malformed_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    change, said = CHANGES[name]
    model = small()
    change(model)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UsageError, match=said) as caught:
        capture(tmp_path / "model.onnx")
    assert str(caught.value).startswith(str(tmp_path / "model.onnx"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(1, 4, -8, 8), (0, 4, 8, 8), (1, 4, "h", 8), 7, (1, 4, float("nan"), 8)], ids=str)
def test_example_sizes_must_be_sizes(shape: Any, tmp_path: Path) -> None:
    onnx.save(small(), tmp_path / "model.onnx")
    with pytest.raises(UsageError, match="must be"):
        capture(tmp_path / "model.onnx", {"x": shape})


def test_text_of_a_file_is_shown_without_control_characters(tmp_path: Path) -> None:
    model = small()
    model.graph.node[0].name = "\x1b[2Jconv\nnext line"
    onnx.save(model, tmp_path / "model.onnx")
    assert capture(tmp_path / "model.onnx").layers[0].name == "\\x1b[2Jconv next line"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(UsageError, match="not a file"):
        capture(tmp_path / "model.onnx")


def test_what_would_be_enormous_is_not_computed(tmp_path: Path) -> None:
    """A few bytes that ask for a tensor of terabytes."""
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["a"]), helper.make_node("Add", ["a", "x"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1] if name == "x" else None) for name in "xy")
    size = numpy_helper.from_array(np.array([2**40]), "size")
    graph = helper.make_graph(nodes, "graph", [x], [y], [size])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    assert capture(tmp_path / "m.onnx").layers[0].flops == 2**40


def test_damaged_files_are_captured_or_refused() -> None:
    """A few hundred of those that the fuzzer tries."""
    once, random = attempt([small().SerializeToString()]), np.random.default_rng(0)
    for _ in range(300):
        once(random.bytes(64))
