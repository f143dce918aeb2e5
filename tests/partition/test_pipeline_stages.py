"""Pipeline stages are the best of all there are."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medn.core.errors import UsageError
from medn.core.table import Array
from medn.partition.graph import OUTSIDE, LayerGraph, Link, Tensor
from medn.partition.stages import Pipeline, pipeline_stages

LINK = Link(bytes_per_s=1.0)


@dataclass(frozen=True, eq=False)
class Case:
    graph: LayerGraph
    seconds: Array
    link: Link
    limits: list[float] | None
    cuts: set[int] | None

    def solve(self, any_order: bool = False) -> Pipeline:
        return pipeline_stages(
            self.graph, self.seconds, self.link, memory_limits=self.limits, cuts=self.cuts, any_order=any_order
        )

    def slowest_s(self, stops: Sequence[int], order: Sequence[int]) -> float:
        """The seconds of the slowest stage, infinite where one does not fit; worked out tensor by tensor."""
        slowest = 0.0
        for device, start, stop in zip(order, (0, *stops), stops, strict=False):
            if self.limits and self.memory_bytes(start, stop) > self.limits[device]:
                return math.inf
            crossing = sum(
                tensor.size_bytes
                for tensor in self.graph.tensors
                if tensor.source < stop and (tensor.is_output or any(reader >= stop for reader in tensor.readers))
            )
            sent = self.link.seconds(crossing) if crossing and stop < len(self.graph) else 0.0
            slowest = max(slowest, float(self.seconds[device, start:stop].sum()) + sent)
        return slowest

    def memory_bytes(self, start: int, stop: int) -> float:
        """The parameters of a stage, and the most that tensors hold while one of its layers runs."""
        layers = len(self.graph)
        alive = [
            sum(
                tensor.size_bytes
                for tensor in self.graph.tensors
                if tensor.source <= layer
                and layer <= (layers if tensor.is_output else max(tensor.readers, default=tensor.source))
            )
            for layer in range(start, stop)
        ]
        return sum(self.graph.parameter_bytes[start:stop]) + max(alive)

    def all_stops(self) -> Iterable[tuple[int, ...]]:
        layers = len(self.graph)
        inner = range(1, layers) if self.cuts is None else sorted(self.cuts)
        for chosen in itertools.combinations(inner, len(self.seconds) - 1):
            yield (*chosen, layers)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    layers = draw(st.integers(2, 7))
    devices = draw(st.integers(1, min(layers, 4)))
    tensors = [
        Tensor(
            source,
            tuple(sorted(draw(st.sets(st.integers(source + 1, layers - 1), max_size=3)))),
            draw(st.integers(0, 20)),
            draw(st.booleans()),
        )
        for source in range(OUTSIDE, layers - 1)
    ]
    sizes = tuple(float(draw(st.integers(0, 9))) for _ in range(layers))
    seconds = [[draw(st.floats(0, 10)) for _ in range(layers)] for _ in range(devices)]
    limits = draw(st.none() | st.lists(st.integers(1, 40).map(float), min_size=devices, max_size=devices))
    cuts = draw(st.none() | st.sets(st.integers(1, layers - 1), min_size=devices - 1))
    graph = LayerGraph(tuple(map(str, range(layers))), tuple(tensors), sizes)
    return Case(graph, np.array(seconds), Link(draw(st.sampled_from([1.0, 5.0])), 0.25), limits, cuts)


@settings(max_examples=100, deadline=None)
@given(cases(), st.booleans())
def test_no_stages_have_a_faster_slowest_one(case: Case, any_order: bool) -> None:
    given_order = tuple(range(len(case.seconds)))
    orders = list(itertools.permutations(given_order)) if any_order else [given_order]
    best = min(case.slowest_s(stops, order) for stops in case.all_stops() for order in orders)
    if math.isinf(best):
        with pytest.raises(UsageError, match="memory_limits: too low"):
            case.solve(any_order)
        return
    found = case.solve(any_order)
    stops = [stage.stop for stage in found.stages]
    order = [stage.device for stage in found.stages]
    assert found.slowest_s == pytest.approx(best)
    assert case.slowest_s(stops, order) == pytest.approx(best)
    assert tuple(stops) in set(case.all_stops())
    assert sorted(order) == list(given_order)


def chain(*sizes: float, parameter_bytes: Sequence[float] = ()) -> LayerGraph:
    """Layers one after the other, with so many bytes between them."""
    tensors = tuple(Tensor(source, (source + 1,), size) for source, size in enumerate(sizes))
    return LayerGraph(tuple(map(str, range(len(sizes) + 1))), tensors, tuple(parameter_bytes))


def bounds(found: Pipeline) -> list[tuple[int, int]]:
    return [(stage.start, stage.stop) for stage in found.stages]


def test_stages_are_balanced_by_seconds() -> None:
    found = pipeline_stages(chain(0, 0, 0, 0), np.tile([4.0, 1, 1, 1, 1], (2, 1)), LINK)
    assert bounds(found) == [(0, 1), (1, 5)]
    assert (found.slowest_s, found.total_s) == (4.0, 8.0)


def test_before_a_slow_last_layer_the_others_are_balanced_too() -> None:
    found = pipeline_stages(chain(*[0] * 6), np.tile([1.0, 1, 1, 1, 1, 1, 9], (4, 1)), LINK)
    assert bounds(found) == [(0, 2), (2, 4), (4, 6), (6, 7)]


def test_a_large_tensor_is_not_sent() -> None:
    found = pipeline_stages(chain(0, 100, 0), np.ones((2, 4)), LINK)
    assert bounds(found)[0][1] != 2
    assert found.slowest_s == 3.0


def test_a_tensor_that_skips_stages_is_passed_through_them() -> None:
    graph = LayerGraph(("a", "b", "c"), (Tensor(0, (1, 2), 8), Tensor(1, (2,), 2)))
    found = pipeline_stages(graph, np.ones((3, 3)), LINK)
    assert [stage.transfer_s for stage in found.stages] == [8.0, 10.0, 0.0]


def test_a_device_with_little_memory_gets_few_layers() -> None:
    graph = chain(0, 0, 0, parameter_bytes=[5, 5, 5, 5])
    found = pipeline_stages(graph, np.ones((2, 4)), LINK, memory_limits=[5, 100])
    assert bounds(found) == [(0, 1), (1, 4)]
    assert [stage.memory_bytes for stage in found.stages] == [5, 15]


def test_the_best_order_of_the_devices_is_found() -> None:
    seconds = np.array([[1.0, 1, 9], [9.0, 9, 1]])
    assert [stage.device for stage in pipeline_stages(chain(0, 0), seconds[::-1], LINK, any_order=True).stages] == [
        1,
        0,
    ]


def test_stages_begin_only_where_a_cut_is_allowed() -> None:
    assert bounds(pipeline_stages(chain(0, 0, 0), np.ones((2, 4)), LINK, cuts=[0, 1])) == [(0, 1), (1, 4)]


def test_the_smallest_memory_that_would_do_is_told_and_does() -> None:
    graph = chain(0, 0, 0, parameter_bytes=[300, 300, 300, 100])
    with pytest.raises(UsageError) as caught:
        pipeline_stages(graph, np.ones((2, 4)), LINK, memory_limits=[400, 400])
    assert str(caught.value) == (
        "memory_limits: too low for 2 stages; at least 1.5 times as much is needed (600, 600 bytes)"
    )
    assert bounds(pipeline_stages(graph, np.ones((2, 4)), LINK, memory_limits=[600, 600])) == [(0, 2), (2, 4)]


@pytest.mark.parametrize(
    ("seconds", "options", "sentence"),
    [
        (np.ones(4), {}, "seconds: must be numbers from 0 on, a row of 4 for each device"),
        (np.ones((2, 3)), {}, "seconds: must be numbers from 0 on, a row of 4 for each device"),
        (np.full((2, 4), math.inf), {}, "seconds: must be numbers from 0 on"),
        (np.ones((5, 4)), {}, "with 3 places to cut there can be 1 to 4 stages (got 5)"),
        (np.ones((0, 4)), {}, "with 3 places to cut there can be 1 to 4 stages (got 0)"),
        (np.ones((3, 4)), {"cuts": [2]}, "with 1 places to cut there can be 1 to 2 stages (got 3)"),
        (np.ones((2, 4)), {"memory_limits": [1]}, "memory_limits: must be 2 numbers above 0"),
        (np.ones((2, 4)), {"memory_limits": [1, 0]}, "memory_limits: must be 2 numbers above 0"),
    ],
)
def test_what_cannot_be_asked_of_a_pipeline_is_told(
    seconds: Array, options: dict[str, list[int]], sentence: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        pipeline_stages(chain(0, 0, 0), seconds, LINK, **options)  # type: ignore[arg-type]


def test_only_few_devices_are_reordered() -> None:
    graph = chain(*[0] * 8)
    with pytest.raises(UsageError, match="any_order: for at most 7 devices"):
        pipeline_stages(graph, np.ones((8, 9)), LINK, any_order=True)
