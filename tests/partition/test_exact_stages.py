"""Stages are counted exactly: nothing is left over of a sum, and memory holds what is at work."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medn.core.errors import UsageError
from medn.partition.graph import OUTSIDE, LayerGraph, Link, Tensor
from medn.partition.stages import Pipeline, pipeline_stages

SIZES = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.0, 3.0, 1e-9, 1e6]) | st.floats(0, 1e3)
SECONDS = st.sampled_from([0.0, 0.1, 0.25, 1.0, 3.0]) | st.floats(0, 5)


@st.composite
def graphs(draw: st.DrawFn) -> LayerGraph:
    """Sizes that no binary number holds exactly, and whose sums do not go away by themselves."""
    layers = draw(st.integers(1, 7))
    tensors = []
    for source in range(OUTSIDE, layers):
        readers = draw(st.sets(st.integers(source + 1, layers - 1), max_size=3)) if source + 1 < layers else set()
        tensors.append(Tensor(source, tuple(sorted(readers)), draw(SIZES), draw(st.booleans())))
    parameters = tuple(draw(SIZES) for _ in range(layers))
    return LayerGraph(tuple(map(str, range(layers))), tuple(tensors), parameters)


def alive(graph: LayerGraph, tensor: Tensor, layer: int) -> bool:
    last = len(graph) if tensor.is_output else max(tensor.readers, default=tensor.source)
    return tensor.source <= layer <= last


def crossing(graph: LayerGraph, cut: int) -> Fraction:
    found = (each for each in graph.tensors if each.source < cut)
    return sum(
        (Fraction(each.size_bytes) for each in found if each.is_output or max(each.readers, default=-1) >= cut),
        Fraction(),
    )


def memory(graph: LayerGraph, start: int, stop: int, in_flight: int) -> Fraction:
    """Worked out layer by layer and tensor by tensor."""
    held = [
        sum((Fraction(each.size_bytes) for each in graph.tensors if alive(graph, each, layer)), Fraction())
        for layer in range(start, stop)
    ]
    parameters = sum(map(Fraction, graph.parameter_bytes[start:stop]), Fraction())
    return parameters + in_flight * max(held)


def slowest(
    graph: LayerGraph, seconds: Any, link: Link, stops: Sequence[int], limits: Sequence[float], in_flight: Sequence[int]
) -> float:
    found = 0.0
    for device, (start, stop) in enumerate(zip((0, *stops), stops, strict=False)):
        if memory(graph, start, stop, in_flight[device]) > limits[device]:
            return math.inf
        sent = crossing(graph, stop) if stop < len(graph) else 0
        transfer_s = link.latency_s + float(sent) / link.bytes_per_s if sent else 0.0
        found = max(found, math.fsum(seconds[device][start:stop]) + transfer_s)
    return found


@settings(max_examples=300, deadline=None)
@given(graphs(), st.data())
def test_no_stages_are_faster_by_exact_arithmetic(graph: LayerGraph, data: st.DataObject) -> None:
    devices = data.draw(st.integers(1, min(3, len(graph))))
    seconds = [[data.draw(SECONDS) for _ in graph.names] for _ in range(devices)]
    if data.draw(st.booleans()):  # as people write that a device should not run a layer
        seconds[data.draw(st.integers(0, devices - 1))][data.draw(st.integers(0, len(graph) - 1))] = 1e18
    link = Link(data.draw(st.sampled_from([1.0, 1e9])), data.draw(st.sampled_from([0.0, 4.0])))
    in_flight = [data.draw(st.integers(1, 3)) for _ in range(devices)]
    # Limits that stages meet to the byte.
    bounds = [(a, b) for a in range(len(graph)) for b in range(a + 1, len(graph) + 1)]
    limits = [math.inf] * devices
    if data.draw(st.booleans()):
        for device in range(devices):
            start, stop = data.draw(st.sampled_from(bounds))
            limits[device] = max(float(memory(graph, start, stop, in_flight[device])), 1e-300)
    choices = [(*inner, len(graph)) for inner in itertools.combinations(range(1, len(graph)), devices - 1)]
    best = min(slowest(graph, seconds, link, stops, limits, in_flight) for stops in choices)
    options = {"memory_limits": limits, "in_flight": in_flight}
    if math.isinf(best):
        with pytest.raises(UsageError, match="memory_limits: too low"):
            pipeline_stages(graph, np.array(seconds), link, **options)  # type: ignore[arg-type]
        return
    found = pipeline_stages(graph, np.array(seconds), link, **options)  # type: ignore[arg-type]
    assert found.slowest_s == pytest.approx(best, rel=1e-12)
    stops = [stage.stop for stage in found.stages]
    assert slowest(graph, seconds, link, stops, limits, in_flight) == pytest.approx(best, rel=1e-12)
    for stage, many in zip(found.stages, in_flight, strict=True):
        assert stage.memory_bytes == pytest.approx(float(memory(graph, stage.start, stage.stop, many)), rel=1e-12)


def test_nothing_is_left_over_of_a_sum() -> None:
    """0.1 + 0.2 - 0.3 is 6e-17, and no byte crosses into the last layer."""
    tensors = (Tensor(0, (1,), 0.1), Tensor(0, (1,), 0.2), Tensor(0, (1,), 0.3))
    graph = LayerGraph(("a", "b", "c"), tensors)
    assert graph.crossing_bytes().tolist() == [0.0, 0.6, 0.0, 0.0]
    found = pipeline_stages(graph, np.array([[1.0, 5.0, 9.0], [9.0, 9.0, 6.0]]), Link(1e9, latency_s=4.0))
    assert found.slowest_s == 6.0


def chain(*sizes: float, parameter_bytes: Sequence[float] = ()) -> LayerGraph:
    tensors = tuple(Tensor(source, (source + 1,), size) for source, size in enumerate(sizes))
    return LayerGraph(tuple(map(str, range(len(sizes) + 1))), tensors, tuple(parameter_bytes))


def test_a_stage_holds_its_parameters_and_the_most_that_is_alive_at_once() -> None:
    graph = chain(10, 40, 5, parameter_bytes=[1, 1, 1, 1])
    (stage,) = pipeline_stages(graph, np.ones((1, 4)), Link(1.0)).stages
    assert stage.memory_bytes == 4 + 50


def test_batches_in_flight_hold_their_tensors_each() -> None:
    graph = chain(10, 40, 5, parameter_bytes=[1, 1, 1, 1])
    (stage,) = pipeline_stages(graph, np.ones((1, 4)), Link(1.0), in_flight=3).stages
    assert stage.memory_bytes == 4 + 3 * 50


def test_a_stage_that_fits_with_one_batch_in_flight_may_not_with_two() -> None:
    graph = chain(0, 0, 90, parameter_bytes=[5, 5, 5, 5])
    options = {"seconds": np.ones((2, 4)), "link": Link(1e9), "memory_limits": [200.0, 100.0]}
    pipeline_stages(graph, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="memory_limits: too low for 2 stages"):
        pipeline_stages(graph, in_flight=2, **options)  # type: ignore[arg-type]


def test_the_memory_that_would_do_is_told_and_does() -> None:
    graph = chain(30, 70, 20, parameter_bytes=[5, 50, 5, 5])
    with pytest.raises(UsageError, match="at least") as caught:
        pipeline_stages(graph, np.ones((2, 4)), Link(1e9), memory_limits=[10, 30])
    words = str(caught.value).split("(")[1].removesuffix(" bytes)")
    needed = [float(each.replace(",", "")) for each in words.split(", ")]
    pipeline_stages(graph, np.ones((2, 4)), Link(1e9), memory_limits=needed)


def test_a_loop_is_not_cut() -> None:
    tensors = (Tensor(0, (1,), 1), Tensor(1, (2,), 1, times=5), Tensor(2, (3,), 1))
    graph = LayerGraph(("a", "b", "c", "d"), tensors)
    found = pipeline_stages(graph, np.ones((2, 4)), Link(1e9))
    assert [(stage.start, stage.stop) for stage in found.stages] != [(0, 2), (2, 4)]
    with pytest.raises(UsageError, match="with 2 places to cut"):
        pipeline_stages(graph, np.ones((4, 4)), Link(1e9))


NAN = math.nan
GRAPH = chain(1, 1, parameter_bytes=[1, 1, 1])


def two_stages(link: Link = Link(1), **options: Any) -> Pipeline:  # noqa: B008
    return pipeline_stages(GRAPH, np.ones((2, 3)), link, **options)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: LayerGraph((), ()), "a graph needs at least one layer"),
        (lambda: LayerGraph(("a",), (Tensor(0, (0,), 1),)), "its readers must be later layers"),
        (lambda: LayerGraph(("a", "b"), (Tensor(1, (0,), 1),)), "its readers must be later layers"),
        (lambda: LayerGraph(("a", "b"), (Tensor(0, (2,), 1),)), "its readers must be later layers"),
        (lambda: LayerGraph(("a", "b"), (Tensor(0, ("b",), 1),)), "readers must be the numbers of layers"),  # type: ignore[arg-type]
        (lambda: LayerGraph(("a", "b"), (Tensor(0, (0.5,), 1),)), "readers must be the numbers of layers"),  # type: ignore[arg-type]
        (lambda: LayerGraph(("a", "b"), (Tensor(2, (), 1),)), r"source: must be .* from 0 to 1, or OUTSIDE \(got 2\)"),
        (lambda: LayerGraph(("a", "b"), (Tensor(-3, (1,), 1),)), r"source: .* or OUTSIDE \(got -3\)"),
        (lambda: LayerGraph(("a", "b"), (Tensor("a", (1,), 1),)), "source: must be a layer"),  # type: ignore[arg-type]
        (lambda: LayerGraph(("a", "b"), (Tensor(0, (1,), NAN),)), "size_bytes must be from 0 on"),
        (lambda: LayerGraph(("a", "b"), (Tensor(0, (1,), "1"),)), "size_bytes must be from 0 on"),  # type: ignore[arg-type]
        (lambda: LayerGraph(("a", "b"), (Tensor(0, (1,), 1, times=0),)), "times must be from 1 on"),
        (lambda: LayerGraph(("a", "b"), (Tensor(0, (1,), 1e308), Tensor(0, (1,), 1e308))), "too large to be counted"),
        (lambda: LayerGraph(("a", "b"), (), (1, NAN)), "parameter_bytes: must be 2 numbers from 0 on"),
        (lambda: LayerGraph(("a", "b"), (), (1, -1)), "parameter_bytes: must be 2 numbers from 0 on"),
        (lambda: LayerGraph(("a", "b"), (), (1, math.inf)), "parameter_bytes: must be 2 numbers from 0 on"),
        (lambda: Link("fast"), "bytes_per_s: must be above 0"),  # type: ignore[arg-type]
        (lambda: Link(NAN), "bytes_per_s: must be above 0"),
        (lambda: Link(1, NAN), "latency_s: must be a number from 0 on"),
        (lambda: Link(1, None), "latency_s: must be a number from 0 on"),  # type: ignore[arg-type]
        (lambda: GRAPH.scaled(-1), "must be above 0"),
        (lambda: GRAPH.scaled(NAN), "must be above 0"),
        (lambda: pipeline_stages(GRAPH, [["x"] * 3], Link(1)), "seconds: must be numbers from 0 on"),  # type: ignore[arg-type]
        (lambda: pipeline_stages(GRAPH, [[1, 2], [1]], Link(1)), "seconds: must be numbers from 0 on"),  # type: ignore[arg-type]
        (lambda: pipeline_stages(GRAPH, np.full((1, 3), NAN), Link(1)), "seconds: must be numbers from 0 on"),
        (lambda: pipeline_stages(GRAPH, np.full((1, 3), -1.0), Link(1)), "seconds: must be numbers from 0 on"),
        (lambda: pipeline_stages(GRAPH, np.full((1, 3), 1e308), Link(1)), "seconds: .* too large to be counted"),
        (lambda: two_stages(Link(5e-324)), "link: .* too slow to be counted"),
        (lambda: two_stages(cuts=[7]), r"cuts: must be layers from 0 to 2 \(got 7\)"),
        (lambda: two_stages(cuts=["1"]), "cuts: must be layers"),  # type: ignore[list-item]
        (lambda: two_stages(memory_limits=["x", 1]), "memory_limits: must be 2 numbers"),  # type: ignore[list-item]
        (lambda: two_stages(in_flight=0), "in_flight: must be whole numbers from 1 on"),
        (lambda: two_stages(in_flight=[1]), "in_flight: must be whole numbers from 1 on"),
        (lambda: two_stages(in_flight=1.5), "in_flight: must be whole numbers"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_odd_input_is_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_layers_may_stand_apart_from_one_another_and_have_the_same_name() -> None:
    graph = LayerGraph(("a", "a", "a"), (Tensor(0, (2, 2), 1), Tensor(0, (2,), 1)))
    assert graph.crossing_bytes().tolist() == [0, 2, 2, 0]
    assert pipeline_stages(graph, np.ones((3, 3)), Link(1.0)).slowest_s == 3.0
