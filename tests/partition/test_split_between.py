"""The split between two devices is the best of all there are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medn.core.errors import UsageError
from medn.partition.graph import OUTSIDE, LayerGraph, Link, Tensor
from medn.partition.split import PLACES, Place, Placement, SplitCosts, split_between

SECONDS = st.floats(0, 10).map(lambda value: round(value, 3))


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> LayerGraph:
    """Any graph: several inputs, several readers, outputs that are also read, layers that nobody reads."""
    layers = draw(st.integers(1, most))
    tensors = []
    for source in range(OUTSIDE, layers):
        readers = draw(st.sets(st.integers(source + 1, layers - 1))) if source + 1 < layers else set()
        tensors.append(Tensor(source, tuple(sorted(readers)), draw(st.integers(0, 50)), draw(st.booleans())))
    return LayerGraph(tuple(f"layer {index}" for index in range(layers)), tuple(tensors))


@st.composite
def costs(draw: st.DrawFn) -> SplitCosts:
    graph = draw(graphs())
    here_s, there_s = [], []
    for _ in graph.names:
        only = draw(st.sampled_from(["both", "both", "both", "here", "there"]))
        here_s.append(math.inf if only == "there" else draw(SECONDS))
        there_s.append(math.inf if only == "here" else draw(SECONDS))
    links = st.builds(Link, st.sampled_from([1.0, 10.0, 1000.0]), st.sampled_from([0.0, 0.5]))
    places: tuple[Place, ...] = PLACES
    return SplitCosts(
        graph,
        np.array(here_s),
        np.array(there_s),
        draw(links),
        draw(st.none() | links),
        draw(st.sampled_from(places)),
    )


def cost(costs: SplitCosts, places: Sequence[Place]) -> float:
    """The seconds of a split, moving each tensor when it is first needed and keeping the copy."""
    total = sum(
        here if place == "here" else there
        for here, there, place in zip(costs.here_s, costs.there_s, places, strict=True)
    )
    for tensor in costs.graph.tensors:
        home: Place = "here" if tensor.source == OUTSIDE else places[tensor.source]
        held: set[Place] = {home}
        needed = [places[reader] for reader in tensor.readers] + ([costs.outputs] if tensor.is_output else [])
        for place in needed:
            if place not in held:
                held.add(place)
                link = costs.link if home == "here" else costs.back or costs.link
                total += link.latency_s + tensor.size_bytes / link.bytes_per_s
    return float(total)


def goes_back(graph: LayerGraph, places: Sequence[Place]) -> bool:
    return any(
        tensor.source != OUTSIDE and places[tensor.source] == "there" and places[reader] == "here"
        for tensor in graph.tensors
        for reader in tensor.readers
    )


def solve(costs: SplitCosts, one_way: bool = False) -> Placement:
    return split_between(
        costs.graph, costs.here_s, costs.there_s, costs.link, back=costs.back, outputs=costs.outputs, one_way=one_way
    )


@settings(max_examples=100, deadline=None)
@given(costs())
def test_no_split_of_any_graph_is_faster(costs: SplitCosts) -> None:
    best = min(cost(costs, places) for places in itertools.product(PLACES, repeat=len(costs.graph)))
    found = solve(costs)
    assert found.total_s == pytest.approx(best, abs=1e-9)
    assert cost(costs, found.places) == pytest.approx(found.total_s)


@settings(max_examples=100, deadline=None)
@given(costs())
def test_no_split_that_goes_over_once_is_faster(costs: SplitCosts) -> None:
    allowed = [each for each in itertools.product(PLACES, repeat=len(costs.graph)) if not goes_back(costs.graph, each)]
    best = min(cost(costs, places) for places in allowed)
    if math.isinf(best):
        with pytest.raises(UsageError, match="goes over only once"):
            solve(costs, one_way=True)
        return
    found = solve(costs, one_way=True)
    assert not goes_back(costs.graph, found.places)
    assert found.total_s == pytest.approx(best, abs=1e-9)


def diamond(size_bytes: float = 10) -> LayerGraph:
    """A layer that two others read, whose results a last one joins."""
    return LayerGraph(
        ("stem", "left", "right", "join"),
        (
            Tensor(OUTSIDE, (0,), 0),
            Tensor(0, (1, 2), size_bytes),
            Tensor(1, (3,), 0),
            Tensor(2, (3,), 0),
            Tensor(3, (), 0, True),
        ),
    )


def test_a_tensor_with_two_readers_there_crosses_once() -> None:
    found = split_between(diamond(), np.array([0, 9, 9, 0.0]), np.array([99, 1, 1, 0.0]), Link(bytes_per_s=1))
    assert found.places[:3] == ("here", "there", "there")
    assert found.transfer_s == 10


def test_a_branch_alone_can_go_over() -> None:
    found = split_between(diamond(1), np.array([1, 9, 1, 1.0]), np.array([9, 1, 9, 9.0]), Link(bytes_per_s=1))
    assert found.places == ("here", "there", "here", "here")


def test_with_a_slow_link_everything_stays_here() -> None:
    found = split_between(diamond(), np.full(4, 2.0), np.full(4, 1.0), Link(bytes_per_s=1, latency_s=9))
    assert (found.places, found.compute_s, found.transfer_s) == (("here",) * 4, 8.0, 0.0)


def test_outputs_that_are_wanted_there_need_not_come_back() -> None:
    graph = LayerGraph(("only",), (Tensor(OUTSIDE, (0,), 1), Tensor(0, (), 50, True)))
    arguments = (graph, np.array([9.0]), np.array([1.0]), Link(bytes_per_s=1))
    assert split_between(*arguments).places == ("here",)
    assert split_between(*arguments, outputs="there").places == ("there",)


def test_the_way_back_may_have_another_link() -> None:
    graph = LayerGraph(("only",), (Tensor(OUTSIDE, (0,), 1), Tensor(0, (), 50, True)))
    found = split_between(graph, np.array([9.0]), np.array([1.0]), Link(bytes_per_s=1), back=Link(bytes_per_s=100))
    assert (found.places, found.compute_s, found.transfer_s) == (("there",), 1.0, 1.5)


def test_a_long_chain_is_cut_where_least_crosses() -> None:
    """Every layer is faster there, so that the cheapest cut is found only by pushing through the whole chain."""
    layers = 2000
    sizes = [1e9, *np.linspace(900, 500, layers - 1), 1]
    graph = LayerGraph(
        tuple(map(str, range(layers))),
        tuple(
            Tensor(source, (source + 1,) if source + 1 < layers else (), size, source + 1 == layers)
            for source, size in enumerate(sizes, start=OUTSIDE)
        ),
    )
    found = split_between(graph, np.full(layers, 2.0), np.full(layers, 1.0), Link(bytes_per_s=1))
    costs = [cost_of_prefix(sizes, here, layers) for here in range(layers + 1)]
    assert found.total_s == pytest.approx(min(costs))


def cost_of_prefix(sizes: Sequence[float], here: int, layers: int) -> float:
    """The cost when the first `here` layers stay."""
    crossing = 0.0 if here == layers else sizes[here] + sizes[-1]
    return 2.0 * here + (layers - here) + crossing


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"here_s": np.array([1.0])}, "here_s: must be 4 numbers from 0 on"),
        ({"there_s": np.array([1, 2, 3, np.nan])}, "there_s: must be 4 numbers from 0 on"),
        ({"here_s": np.array([1, -2, 3, 4.0])}, "here_s: must be 4 numbers from 0 on"),
        ({"here_s": ["a", 1, 2, 3]}, "here_s: must be 4 numbers from 0 on"),
        ({"here_s": None}, "here_s: must be 4 numbers from 0 on"),
        ({"here_s": np.full(4, 1e308)}, "here_s: together too large to be counted"),
        ({"link": Link(5e-324)}, "link: it is too slow to be counted for what crosses"),
        ({"outputs": "hear"}, "no place named 'hear'. Did you mean 'here'?"),
        ({"here_s": np.array([1, math.inf, 3, 4]), "there_s": np.array([1, math.inf, 3, 4])}, "layer 'left' can run"),
        (
            {"here_s": np.array([math.inf, 1, 1, 1]), "there_s": np.array([1, 1, 1, math.inf]), "one_way": True},
            "layer 'join' can run only here and needs 'stem', which can run only there",
        ),
    ],
)
def test_what_cannot_be_asked_is_told(change: dict[str, object], sentence: str) -> None:
    arguments = {"graph": diamond(), "here_s": np.ones(4), "there_s": np.ones(4), "link": Link(1.0)} | change
    with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
        split_between(**arguments)  # type: ignore[arg-type]


def test_only_places_can_be_priced() -> None:
    with pytest.raises(UsageError, match="places: must be 4 times 'here' or 'there'"):
        SplitCosts(diamond(), np.ones(4), np.ones(4), Link(1.0)).evaluate(["here"])


def test_each_side_holds_its_parameters_and_what_is_alive_there() -> None:
    graph = LayerGraph(
        ("a", "b", "c"),
        (Tensor(OUTSIDE, (0,), 8), Tensor(0, (1, 2), 4), Tensor(1, (2,), 2), Tensor(2, (), 1, True)),
        (100, 200, 300),
    )
    costs = SplitCosts(graph, np.ones(3), np.ones(3), Link(1.0))
    assert costs.evaluate(["here", "there", "here"]).here_bytes == 400 + (8 + 4)
    assert costs.evaluate(["here", "there", "here"]).there_bytes == 200 + (4 + 2)
    assert costs.evaluate(["here"] * 3).there_bytes == 0


def test_what_crosses_inside_of_a_loop_crosses_each_time() -> None:
    graph = LayerGraph(("a", "b"), (Tensor(0, (1,), 3, times=10),))
    assert SplitCosts(graph, np.ones(2), np.ones(2), Link(1.0, 0.5)).evaluate(["here", "there"]).transfer_s == 35.0


def test_layers_that_take_years_on_one_side_leave_the_others_exact() -> None:
    graph = LayerGraph(("a", "b", "c"), (Tensor(0, (1,), 1), Tensor(1, (2,), 1), Tensor(2, (), 1, True)))
    found = split_between(graph, np.array([1e18, 0.25, 1.0]), np.array([1.0, 4.0, 4.0]), Link(1.0))
    assert found.places == ("there", "here", "here")
    assert found.total_s == 1.0 + 1.0 + 0.25 + 1.0
