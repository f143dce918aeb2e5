"""Bodies of `If`, `Loop` and `Scan` in ONNX files are counted as often as they run, or it is said why not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
IMAGE = [1, 8, 16, 16]
CONVOLUTION_FLOPS = 2 * 8 * 8 * 9 * 16 * 16


def info(name: str, shape: Sequence[int | str] | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), name=f"{operator} {outputs}", **attributes)


def graph(nodes: Any, inputs: Any, outputs: Any, **weights: Any) -> onnx.GraphProto:
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    return helper.make_graph(nodes, "graph", inputs, outputs, held)


def captured(path: Path, main: onnx.GraphProto, functions: Any = (), **options: Any) -> CapturedModel:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = helper.make_model(main, opset_imports=opsets, ir_version=10, functions=functions)
    onnx.save(model, path / "model.onnx")
    return capture(path / "model.onnx", **options)


WEIGHT = np.ones((8, 8, 3, 3), np.float32)


def convolution(source: str, target: str, weight: str = "w") -> onnx.NodeProto:
    return node("Conv", f"{source} {weight}", target, pads=[1, 1, 1, 1])


def body(condition: str = "keep", nodes: Any = (), **weights: Any) -> onnx.GraphProto:
    """One convolution; the condition to go on is what came in unless it is said otherwise."""
    return graph(
        [convolution("state", "next"), *nodes],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
        [info(condition, [], BOOL), info("next", IMAGE)],
        **weights,
    )


def loop_model(path: Path, inner: onnx.GraphProto, trips: Any = 100, inputs: Any = (), names: str = "m c x") -> Any:
    held = {"w": WEIGHT, "c": np.array(True)} | ({"m": np.array(trips, np.int64)} if trips is not None else {})
    nodes = [node("Loop", names, "y", body=inner)]
    return captured(path, graph(nodes, [info("x", IMAGE), *inputs], [info("y", IMAGE)], **held))


def test_a_body_counts_as_often_as_a_constant_says(tmp_path: Path) -> None:
    model = loop_model(tmp_path, body())
    assert model.flops == 100 * CONVOLUTION_FLOPS
    assert [(layer.layer.kind if layer.layer else None, layer.repeats) for layer in model.layers] == [("conv2d", 100)]
    assert model.notes == ()


def test_a_trip_count_that_follows_from_shapes_is_known(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape two", "m"),
        node("Loop", "m c x", "y", body=body()),
    ]
    held = {"w": WEIGHT, "c": np.array(True), "two": np.int64(2)}
    model = captured(tmp_path, graph(nodes, [info("x", IMAGE)], [info("y", IMAGE)], **held))
    assert model.flops == 16 * CONVOLUTION_FLOPS


def test_an_enormous_trip_count_is_multiplied_and_not_expanded(tmp_path: Path) -> None:
    model = loop_model(tmp_path, body(), trips=10**18)
    assert len(model.layers) == 1
    assert model.flops == 10**18 * CONVOLUTION_FLOPS


@pytest.mark.parametrize("trips", [0, -3])
def test_a_body_that_never_runs_costs_nothing(trips: int, tmp_path: Path) -> None:
    model = loop_model(tmp_path, body(), trips=trips)
    assert (model.layers, model.outputs[0].producers) == ((), (-1,))


def test_a_condition_that_may_end_it_sooner_is_told(tmp_path: Path) -> None:
    ending = [node("ReduceMax", "next", "top", keepdims=0), node("Less", "top limit", "go")]
    model = loop_model(tmp_path, body("go", ending, limit=np.float32(9)), trips=50)
    assert model.flops > 50 * CONVOLUTION_FLOPS
    assert model.notes == ("node 'Loop y' (Loop): counted 50 times, the most it runs; it may end sooner",)


def test_a_condition_that_is_false_after_the_first_time_ends_it(tmp_path: Path) -> None:
    model = loop_model(tmp_path, body("stop", [], stop=np.array(False)))
    assert model.flops == CONVOLUTION_FLOPS


@pytest.mark.parametrize("trips", [None, 2**63 - 1], ids=["an input", "as many as there are numbers"])
def test_a_trip_count_that_only_a_real_run_knows_is_told(trips: int | None, tmp_path: Path) -> None:
    ending = [node("ReduceMax", "next", "top", keepdims=0), node("Less", "top limit", "go")]
    inner = body("go", ending, limit=np.float32(9))
    model = loop_model(tmp_path, inner, trips=trips, inputs=[info("m", [], INT64)] if trips is None else [])
    assert model.layers[0].repeats == 1
    assert model.notes == ("node 'Loop y' (Loop): how often it runs depends on data; counted once",)


def test_loops_in_loops_multiply(tmp_path: Path) -> None:
    inner = graph(
        [node("Loop", "m c state", "next", body=graph(
            [convolution("inner", "after")],
            [info("step", [], INT64), info("go", [], BOOL), info("inner", IMAGE)],
            [info("go", [], BOOL), info("after", IMAGE)],
        ))],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
        [info("keep", [], BOOL), info("next", IMAGE)],
    )  # fmt: skip
    assert loop_model(tmp_path, inner, trips=10).flops == 100 * CONVOLUTION_FLOPS


def test_too_many_times_is_one_sentence(tmp_path: Path) -> None:
    inner = body()
    for _ in range(4):
        inner = graph(
            [node("Loop", "m c state", "next", body=inner)],
            [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
            [info("keep", [], BOOL), info("next", IMAGE)],
        )
    with pytest.raises(UsageError, match=r"runs more than .* times") as caught:
        loop_model(tmp_path, inner, trips=10**18)
    assert "\n" not in str(caught.value)


def test_names_of_a_body_hide_those_of_another(tmp_path: Path) -> None:
    """Bodies beside one another may use the same names for tensors of other shapes."""
    nodes = [node("Loop", "m c x", "a", body=body()), node("MaxPool", "a", "b", kernel_shape=[2, 2], strides=[2, 2])]
    small = graph(
        [convolution("state", "next")],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", [1, 8, 8, 8])],
        [info("keep", [], BOOL), info("next", [1, 8, 8, 8])],
    )
    nodes.append(node("Loop", "m c b", "y", body=small))
    held = {"w": WEIGHT, "c": np.array(True), "m": np.array(10)}
    model = captured(tmp_path, graph(nodes, [info("x", IMAGE)], [info("y", None)], **held))
    assert [layer.repeats for layer in model.layers] == [10, 1, 10]
    assert model.layers[2].flops * 4 == model.layers[0].flops
    assert [layer.inputs for layer in model.layers] == [(-1,), (0,), (1,)]


def test_what_each_time_gives_is_stacked(tmp_path: Path) -> None:
    inner = graph(
        [convolution("state", "next"), node("ReduceMean", "next axes", "row", keepdims=0)],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
        [info("keep", [], BOOL), info("next", IMAGE), info("row", None)],
        axes=np.array([2, 3]),
    )
    held = {"w": WEIGHT, "c": np.array(True), "m": np.array(7)}
    main = graph([node("Loop", "m c x", "y rows", body=inner)], [info("x", IMAGE)], [info("rows", None)], **held)
    model = captured(tmp_path, main)
    assert model.outputs[0].shape == (7, 1, 8)
    assert model.layers[-1].output_bytes == 7 * 8 * 4
    assert [each.operator for each in model.unknown_operators] == ["Loop"]


def test_a_tensor_that_grows_is_counted_at_its_middle_size(tmp_path: Path) -> None:
    """One row more at each of 9 times, from 1 row on: 1 + 2 + ... + 9 rows are multiplied."""
    inner = graph(
        [node("MatMul", "rows v", "hidden"), node("Concat", "rows one", "more", axis=0)],
        [info("pass", [], INT64), info("keep", [], BOOL), info("rows", None)],
        [info("keep", [], BOOL), info("more", None)],
    )
    held = {"v": np.ones((4, 6), np.float32), "c": np.array(True), "m": np.array(9), "one": np.ones((1, 4), np.float32)}
    main = graph([node("Loop", "m c x", "y", body=inner)], [info("x", [1, 4])], [info("y", None)], **held)
    model = captured(tmp_path, main)
    products = [layer for layer in model.layers if layer.operator == "MatMul"]
    assert sum(layer.flops * layer.repeats for layer in products) == 45 * 2 * 4 * 6
    assert model.outputs[0].shape == (10, 4)
    assert model.notes == (
        "node 'Loop y' (Loop): its tensors grow; counted 9 times at the size they have in the middle",
    )


def test_sizes_that_follow_from_the_pass_are_those_of_the_first(tmp_path: Path) -> None:
    inner = graph(
        [node("Add", "pass one", "count"), node("Unsqueeze", "count zero", "length"),
         node("Expand", "start length", "filled"), node("Relu", "filled", "row"),
         node("ReduceSum", "row", "next", keepdims=0)],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", [])],
        [info("keep", [], BOOL), info("next", [])],
        one=np.int64(1), zero=np.array([0]), start=np.float32(0),
    )  # fmt: skip
    held = {"c": np.array(True), "m": np.array(7)}
    main = graph([node("Loop", "m c x", "y", body=inner)], [info("x", [])], [info("y", [])], **held)
    model = captured(tmp_path, main)
    assert {layer.repeats for layer in model.layers} == {7}
    assert model.notes == ("node 'Loop y' (Loop): sizes change between iterations; counted 7 times as in the first",)


def test_a_body_whose_sizes_cannot_be_told_is_an_unknown_operator(tmp_path: Path) -> None:
    inner = graph(
        [node("NonZero", "state", "places"), node("Cast", "places", "numbers", to=FLOAT),
         node("ReduceSum", "numbers", "total", keepdims=0), node("Add", "state total", "next")],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
        [info("keep", [], BOOL), info("next", IMAGE)],
    )  # fmt: skip
    model = loop_model(tmp_path, inner)
    assert [each.operator for each in model.unknown_operators] == ["Loop"]
    (note,) = model.notes
    assert note.startswith("node 'Loop y' (Loop): its body is not counted, only its inputs and outputs: ")
    assert "(NonZero): the shape of its output 'places" in note


def test_a_scan_runs_once_for_each_slice(tmp_path: Path) -> None:
    inner = graph(
        [node("MatMul", "row v", "product"), node("Add", "sum product", "next"), node("Relu", "next", "seen")],
        [info("sum", [2, 6]), info("row", [2, 4])],
        [info("next", [2, 6]), info("seen", [2, 6])],
    )
    nodes = [node("Scan", "start x", "last all", body=inner, num_scan_inputs=1)]
    held = {"v": np.ones((4, 6), np.float32)}
    inputs = [info("start", [2, 6]), info("x", [30, 2, 4])]
    model = captured(tmp_path, graph(nodes, inputs, [info("last", None), info("all", None)], **held))
    assert [(layer.operator, layer.repeats) for layer in model.layers] == [
        ("MatMul", 30),
        ("Add", 30),
        ("Relu", 30),
        ("Scan", 1),
    ]
    assert model.outputs[1].shape == (30, 2, 6)


@pytest.mark.parametrize(("axis", "sizes"), [(1, [2, 30, 4]), (-2, [2, 30, 4])])
def test_a_scan_may_go_along_another_axis(axis: int, sizes: list[int], tmp_path: Path) -> None:
    inner = graph([node("Relu", "row", "seen")], [info("row", [2, 4])], [info("seen", [2, 4])])
    attributes = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_output_axes": [axis]}
    nodes = [node("Scan", "x", "all", body=inner, **attributes)]
    model = captured(tmp_path, graph(nodes, [info("x", sizes)], [info("all", None)]))
    assert (model.layers[0].repeats, model.outputs[0].shape) == (30, (2, 30, 4))


def branches(**layers: int) -> onnx.NodeProto:
    """An `If` whose branches are so many convolutions."""
    made = {}
    for name, count in layers.items():
        nodes = [convolution("x" if index == 0 else f"h{index}", f"h{index + 1}") for index in range(count)]
        made[name] = graph(nodes, [], [info(f"h{count}", IMAGE)])
    return node("If", "flag", "y", **made)


@pytest.mark.parametrize(("then", "other"), [(3, 1), (1, 3)])
def test_of_an_undecided_if_the_branch_that_does_more_counts(then: int, other: int, tmp_path: Path) -> None:
    nodes = [branches(then_branch=then, else_branch=other), node("Relu", "y", "z")]
    inputs = [info("x", IMAGE), info("flag", [], BOOL)]
    model = captured(tmp_path, graph(nodes, inputs, [info("z", IMAGE)], w=WEIGHT))
    assert [layer.operator for layer in model.layers] == ["Conv"] * 3 + ["Relu"]
    assert model.layers[3].inputs == (2,)
    taken = "then_branch" if then > other else "else_branch"
    assert model.notes == (
        f"node 'If y' (If): its condition depends on data; the {taken} is counted, which does more "
        f"({3 * CONVOLUTION_FLOPS:,} FLOPs against {CONVOLUTION_FLOPS:,})",
    )


def test_an_if_in_a_loop_counts_as_often(tmp_path: Path) -> None:
    inner = graph(
        [node("If", "flag", "next",
              then_branch=graph([convolution("state", "a")], [], [info("a", IMAGE)]),
              else_branch=graph([node("Relu", "state", "a")], [], [info("a", IMAGE)]))],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
        [info("keep", [], BOOL), info("next", IMAGE)],
    )  # fmt: skip
    model = loop_model(tmp_path, inner, inputs=[info("flag", [], BOOL)])
    assert model.flops == 100 * CONVOLUTION_FLOPS
    assert len(model.notes) == 1


def test_weights_of_a_body_are_weights_of_the_model(tmp_path: Path) -> None:
    inner = graph(
        [convolution("state", "next", "own")],
        [info("pass", [], INT64), info("keep", [], BOOL), info("state", IMAGE)],
        [info("keep", [], BOOL), info("next", IMAGE)],
        own=WEIGHT,
    )
    model = loop_model(tmp_path, inner)
    assert model.layers[0].parameter_bytes == WEIGHT.nbytes
    assert model.parameter_bytes >= 2 * WEIGHT.nbytes


def test_a_function_with_a_loop_is_looked_into(tmp_path: Path) -> None:
    function = helper.make_function(
        "own", "Often", ["x", "w", "m", "c"], ["y"], [node("Loop", "m c x", "y", body=body())],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    nodes = [helper.make_node("Often", ["x", "w", "m", "c"], ["y"], domain="own")]
    held = {"w": WEIGHT, "c": np.array(True), "m": np.array(5)}
    model = captured(tmp_path, graph(nodes, [info("x", IMAGE)], [info("y", IMAGE)], **held), [function])
    assert model.flops == 5 * CONVOLUTION_FLOPS


def test_functions_that_open_into_too_many_operators_are_refused(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [node("Relu", "a", "b")], opsets)]
    for level in range(1, 12):
        calls = [helper.make_node(f"F{level - 1}", [f"t{i}"], [f"t{i + 1}"], domain="own") for i in range(10)]
        functions.append(helper.make_function("own", f"F{level}", ["t0"], ["t10"], calls, opsets))
    main = graph([helper.make_node("F11", ["x"], ["y"], domain="own")], [info("x", [2])], [info("y", [2])])
    with pytest.raises(UsageError, match=r"its functions inline into 1.*operators"):
        captured(tmp_path, main, functions)


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("own", 1)]
    nodes = [helper.make_node("F", ["a"], ["b"], domain="own")]
    main = graph([helper.make_node("F", ["x"], ["y"], domain="own")], [info("x", [2])], [info("y", [2])])
    with pytest.raises(UsageError, match="function 'F' calls itself"):
        captured(tmp_path, main, [helper.make_function("own", "F", ["a"], ["b"], nodes, opsets)])


def test_a_function_gets_the_attributes_it_is_called_with(tmp_path: Path) -> None:
    pool = node("MaxPool", "a", "b", strides=[2, 2])
    pool.attribute.append(onnx.AttributeProto(name="kernel_shape", ref_attr_name="size", type=onnx.AttributeProto.INTS))
    function = helper.make_function("own", "Pool", ["a"], ["b"], [pool], [helper.make_opsetid("", 18)], ["size"])
    nodes = [helper.make_node("Pool", ["x"], ["y"], domain="own", size=[2, 2], name="part")]
    model = captured(tmp_path, graph(nodes, [info("x", IMAGE)], [info("y", None)]), [function])
    assert model.outputs[0].shape == (1, 8, 8, 8)
    assert model.layers[0].name == "part/MaxPool b"


def test_of_an_undecided_if_the_only_branch_with_sizes_counts(tmp_path: Path) -> None:
    picked = graph([node("NonZero", "x", "places"), node("Cast", "places", "h", to=FLOAT)], [], [info("h", None)])
    other = graph([convolution("x", "h")], [], [info("h", IMAGE)])
    nodes = [node("If", "flag", "y", then_branch=picked, else_branch=other)]
    inputs = [info("x", IMAGE), info("flag", [], BOOL)]
    model = captured(tmp_path, graph(nodes, inputs, [info("y", None)], w=WEIGHT))
    assert model.flops == CONVOLUTION_FLOPS
    assert model.notes == (
        "node 'If y' (If): its condition depends on data; the else_branch is counted, sizes in the other are unknown",
    )


def test_a_body_that_cannot_be_counted_is_not_said_to_be(tmp_path: Path) -> None:
    """Its tensor doubles each time, and its condition may end it sooner: only the first of the two is to be told."""
    inner = graph(
        [node("Concat", "rows rows", "more", axis=0), node("ReduceMax", "more", "top", keepdims=0),
         node("Less", "top limit", "go")],
        [info("pass", [], INT64), info("keep", [], BOOL), info("rows", None)],
        [info("go", [], BOOL), info("more", None)],
        limit=np.float32(9),
    )  # fmt: skip
    held = {"c": np.array(True), "m": np.array(9)}
    main = graph([node("Loop", "m c x", "y", body=inner)], [info("x", [1, 4])], [info("y", [512, 4])], **held)
    model = captured(tmp_path, main)
    (note,) = model.notes
    assert note.endswith("its body is not counted, only its inputs and outputs: its tensors do not grow evenly")
    assert [each.operator for each in model.unknown_operators] == ["Loop"]
