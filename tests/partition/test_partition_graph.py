"""Graphs to be partitioned, from captured models, and what they ask a predictor."""

from __future__ import annotations

import pytest

from medn.capture.captured_model import CapturedLayer, CapturedModel, Port
from medn.core.errors import UsageError
from medn.layer_generators.kind import layer_kinds
from medn.partition.graph import OUTSIDE, LayerGraph, Link, Tensor, graph_of


def captured_layer(name: str, output_bytes: int, inputs: dict[int, int], elements: int | None = None) -> CapturedLayer:
    """A ReLU of so many elements, or an operator that no kind knows."""
    layer = None if elements is None else layer_kinds["activation"].layer(function="relu", elements=elements)
    return CapturedLayer(
        name=name,
        operator="aten.something",
        layer=layer,
        batch_size=2,
        dtype="fp32",
        flops=0,
        moved_bytes=1600,
        parameter_bytes=7,
        output_bytes=output_bytes,
        inputs=tuple(inputs),
        input_bytes=tuple(inputs.values()),
    )


@pytest.fixture
def model() -> CapturedModel:
    """The first layer is read by halves, the second one whole by two."""
    return CapturedModel(
        layers=(
            captured_layer("stem", 100, {-1: 40}, elements=64),
            captured_layer("block.left", 80, {0: 50}, elements=200),
            captured_layer("block.right", 60, {0: 50, 1: 80, -2: 8}),
            captured_layer("block", 20, {1: 80, 2: 10}, elements=64),
        ),
        inputs=(Port("image", (2, 5), "fp32", 40), Port("mask", (2, 1), "fp32", 8)),
        outputs=(Port("result", (2, 4), "fp32", 20, (3,)),),
        parameter_bytes=28,
        batch_size=2,
        how="by hand",
    )


def test_a_captured_model_becomes_a_graph(model: CapturedModel) -> None:
    graph = graph_of(model)
    assert set(graph.tensors) == {
        Tensor(OUTSIDE, (0,), 40),
        Tensor(OUTSIDE, (2,), 8),
        Tensor(0, (1, 2), 100),
        Tensor(1, (2, 3), 80),
        Tensor(2, (3,), 10),
        Tensor(3, (), 20, True),
    }
    assert graph.names == ("stem", "block.left", "block.right", "block")
    assert graph.parameter_bytes == (7, 7, 7, 7)


def test_what_crosses_at_each_place_counts_every_tensor_once(model: CapturedModel) -> None:
    assert graph_of(model).crossing_bytes().tolist() == [48, 108, 188, 90, 20]


def test_a_larger_batch_makes_larger_tensors(model: CapturedModel) -> None:
    graph = graph_of(model)
    assert graph.scaled(4).crossing_bytes().tolist() == (4 * graph.crossing_bytes()).tolist()


def test_a_graph_needs_a_layer() -> None:
    with pytest.raises(UsageError, match="at least one layer"):
        LayerGraph((), ())


def test_a_reader_must_come_after_its_source() -> None:
    with pytest.raises(UsageError, match="its readers must be later layers"):
        LayerGraph(("a", "b"), (Tensor(1, (0,), 1),))


def test_a_tensor_has_no_negative_size() -> None:
    with pytest.raises(UsageError, match="size_bytes must be from 0 on"):
        LayerGraph(("a", "b"), (Tensor(0, (1,), -1),))


def test_every_layer_has_its_parameters() -> None:
    with pytest.raises(UsageError, match="parameter_bytes: must be 2"):
        LayerGraph(("a", "b"), (), (1,))


def test_a_link_must_carry_something() -> None:
    with pytest.raises(UsageError, match="bytes_per_s: must be above 0"):
        Link(0)


def test_a_link_cannot_be_early() -> None:
    with pytest.raises(UsageError, match="latency_s: must be a number from 0 on"):
        Link(1, -1)
