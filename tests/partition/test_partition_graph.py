"""Graphs to be partitioned, from captured models, and what they ask a predictor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import medn
from medn.capture.values import CapturedLayer, CapturedModel, Port
from medn.core.errors import UsageError
from medn.layer_generators.kind import layer_kinds
from medn.partition.graph import OUTSIDE, Graph, Link, Tensor, graph_of
from medn.partition.layer_table import layer_table


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
        Graph((), ())


def test_a_reader_must_come_after_its_source() -> None:
    with pytest.raises(UsageError, match="its readers must be later layers"):
        Graph(("a", "b"), (Tensor(1, (0,), 1),))


def test_a_tensor_has_no_negative_size() -> None:
    with pytest.raises(UsageError, match="size_bytes must be from 0 on"):
        Graph(("a", "b"), (Tensor(0, (1,), -1),))


def test_every_layer_has_its_parameters() -> None:
    with pytest.raises(UsageError, match="parameter_bytes: must be 2"):
        Graph(("a", "b"), (), (1,))


def test_a_link_must_carry_something() -> None:
    with pytest.raises(UsageError, match="bytes_per_s: must be above 0"):
        Link(0)


def test_a_link_cannot_be_early() -> None:
    with pytest.raises(UsageError, match="latency_s: must be a number from 0 on"):
        Link(1, -1)


def test_a_predictor_is_asked_for_every_layer_in_its_place(model: CapturedModel, bundle_path: Path) -> None:
    predictor = medn.load(bundle_path)
    table = layer_table(model, predictor.kinds)
    expected = [
        predictor.layer("activation", function="relu", elements=elements, batch_size=2).latency_s
        for elements in (64, 200, 1600 // (2 * 4 * 2), 64)
    ]
    np.testing.assert_allclose(table.predict_s(predictor), expected)
    assert table.stood_in == (2,)


def test_another_batch_size_and_condition_need_no_new_table(model: CapturedModel, bundle_path: Path) -> None:
    predictor = medn.load(bundle_path)
    seconds = layer_table(model, predictor.kinds).predict_s(predictor, batch_size=6, condition={"utilization": 0.5})
    expected = predictor.layer("activation", function="relu", elements=200, batch_size=6, utilization=0.5).latency_s
    assert seconds[1] == pytest.approx(expected)


def test_without_a_stand_in_the_layer_that_is_not_predicted_is_named(model: CapturedModel) -> None:
    with pytest.raises(UsageError, match=r"layer 'stem' \(aten.something\) is not predicted, nor is 'activation'"):
        layer_table(model, ["linear"])
