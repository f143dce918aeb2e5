"""A model split between two devices, such as a phone and a server: the placement of layers with the least latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from medn.core.errors import UsageError, unknown
from medn.core.table import Array
from medn.core.units import format_latency
from medn.partition.exact_sums import as_numbers, held_between, scale_of, whole
from medn.partition.flow import FlowNetwork
from medn.partition.graph import OUTSIDE, LayerGraph, Link, Tensor

Place = Literal["here", "there"]
PLACES: tuple[Place, Place] = ("here", "there")


@dataclass(frozen=True, repr=False)
class Placement:
    """Which device runs each layer, and the seconds of one run: layer after layer, waiting for each transfer.

    >>> Placement(("here", "there", "there"), 0.002, 0.001, 400.0, 800.0)
    <Placement of 1 layer here and 2 there: 3 ms, 1 ms of it transfers>
    """

    places: tuple[Place, ...]
    compute_s: float
    transfer_s: float
    here_bytes: float
    there_bytes: float
    """The peak memory of each device: the parameters of its layers, and the tensors it produced or received."""

    def __repr__(self) -> str:
        here, there = (self.places.count(place) for place in PLACES)
        layers = "1 layer" if here == 1 else f"{here:,} layers"
        seconds = f"{format_latency(self.total_s)}, {format_latency(self.transfer_s)} of it transfers"
        return f"<Placement of {layers} here and {there:,} there: {seconds}>"

    @property
    def total_s(self) -> float:
        """Computing and transfers together."""
        return self.compute_s + self.transfer_s


@dataclass(frozen=True, eq=False)
class SplitCosts:
    """What layers cost on each device and tensors between the two. The inputs are here."""

    graph: LayerGraph
    here_s: Array
    there_s: Array
    """Seconds of each layer; infinite where a device cannot run it."""
    link: Link
    back: Link | None = None
    """The link from there to here, where it is another one."""
    outputs: Place = "here"
    """Where the outputs are wanted."""

    def __post_init__(self) -> None:
        for name, seconds in (("here_s", self.here_s), ("there_s", self.there_s)):
            numbers = as_numbers(seconds)
            if numbers is None or numbers.shape != (len(self.graph),) or not (numbers >= 0).all():
                raise UsageError(f"{name}: must be {len(self.graph)} numbers from 0 on, one for each layer")
            object.__setattr__(self, name, numbers)
            if not math.isfinite(sum(numbers[np.isfinite(numbers)].tolist())):
                raise UsageError(f"{name}: together too large to be counted")
        for name, link in (("link", self.link), ("back", self.back or self.link)):
            if not math.isfinite(sum(link.seconds(tensor.size_bytes) * tensor.times for tensor in self.graph.tensors)):
                raise UsageError(f"{name}: it is too slow to be counted for what crosses")
        if self.outputs not in PLACES:
            raise UsageError(unknown("place", self.outputs, PLACES))
        stuck = np.isinf(self.here_s) & np.isinf(self.there_s)
        if stuck.any():
            raise UsageError(f"layer {self.graph.names[stuck.argmax()]!r} can run neither here nor there")

    def over_s(self, tensor: Tensor) -> float:
        return self.link.seconds(tensor.size_bytes) * tensor.times

    def back_s(self, tensor: Tensor) -> float:
        return (self.back or self.link).seconds(tensor.size_bytes) * tensor.times

    def evaluate(self, places: Sequence[Place]) -> Placement:
        """The cost of a given placement."""
        if len(places) != len(self.graph) or not all(place in PLACES for place in places):
            raise UsageError(f"places: must be {len(self.graph)} times 'here' or 'there'")
        compute_s = float(np.where(np.array(places) == "here", self.here_s, self.there_s).sum())
        transfer_s = 0.0
        for tensor in self.graph.tensors:
            source = "here" if tensor.source == OUTSIDE else places[tensor.source]
            readers = {places[reader] for reader in tensor.readers} | ({self.outputs} if tensor.is_output else set())
            if readers - {source}:
                transfer_s += self.over_s(tensor) if source == "here" else self.back_s(tensor)
        here_bytes, there_bytes = (self._held_bytes(place, places) for place in PLACES)
        return Placement(tuple(places), compute_s, transfer_s, here_bytes, there_bytes)

    def _held_bytes(self, device: Place, places: Sequence[Place]) -> float:
        """A device holds a tensor from when it is produced to the last layer there that reads it. What only the other
        device reads is sent as soon as it is produced."""
        spans = []
        for tensor in self.graph.tensors:
            source = "here" if tensor.source == OUTSIDE else places[tensor.source]
            readers = [reader for reader in tensor.readers if places[reader] == device]
            readers += [tensor.source] if source == device else []
            readers += [len(self.graph) - 1] if tensor.is_output and self.outputs == device else []
            spans.append((max(tensor.source, 0), max(max(readers), 0) + 1 if readers else 0))
        sizes = [tensor.size_bytes for tensor in self.graph.tensors]
        scale = scale_of(sizes)
        alive = held_between(whole(sizes, scale), spans, len(self.graph))
        own = zip(self.graph.parameter_bytes, places, strict=False)
        return math.fsum(size for size, place in own if place == device) + int(alive.max()) / scale


def split_between(
    graph: LayerGraph,
    here_s: Array,
    there_s: Array,
    link: Link,
    *,
    back: Link | None = None,
    outputs: Place = "here",
    one_way: bool = False,
) -> Placement:
    """The placement with the least seconds from inputs here to outputs where they are wanted.

    With `one_way`, what has gone over does not come back before the end: no layer here reads what was made there.

    >>> import medn, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(200, 25), torch.nn.Linear(25, 1))
    >>> graph = medn.graph_of(medn.capture(net, torch.zeros(1, 200)))
    >>> split_between(graph, [0.1, 5.0], [0.1, 0.5], Link(bytes_per_s=100)).places
    ('here', 'there')
    """
    costs = SplitCosts(graph, here_s, there_s, link, back, outputs)
    if one_way:
        _check_one_way(costs)
    here, there = len(graph), len(graph) + 1
    side = _network(costs, here, there, one_way).sink_side(here, there)
    return costs.evaluate([PLACES[is_there] for is_there in side[: len(graph)]])


def _network(costs: SplitCosts, here: int, there: int, one_way: bool) -> FlowNetwork:
    """A flow network in which every cut costs what the placement costs that has one side here and the other there."""
    graph = costs.graph
    network = FlowNetwork(len(graph) + 2)
    # More than any possible placement: edges of this capacity are never cut.
    finite = [*costs.here_s[np.isfinite(costs.here_s)], *costs.there_s[np.isfinite(costs.there_s)]]
    never = 1.0 + 2 * sum(finite) + 2 * sum(costs.over_s(each) + costs.back_s(each) for each in graph.tensors)
    for layer, (here_s, there_s) in enumerate(zip(costs.here_s.tolist(), costs.there_s.tolist(), strict=True)):
        # Of the two only the difference matters.
        if here_s > there_s:
            network.add_edge(layer, there, min(here_s - there_s, never))
        else:
            network.add_edge(here, layer, min(there_s - here_s, never))
    for tensor in graph.tensors:
        source = here if tensor.source == OUTSIDE else tensor.source
        readers = [*tensor.readers]
        if tensor.is_output:
            readers.append(here if costs.outputs == "here" else there)
        if len(readers) == 1:
            network.add_edge(source, readers[0], costs.over_s(tensor), costs.back_s(tensor))
        else:  # two nodes more, so that readers on the other side share one transfer
            over, back = network.add_node(), network.add_node()
            network.add_edge(source, over, costs.over_s(tensor))
            network.add_edge(back, source, costs.back_s(tensor))
            for reader in readers:
                network.add_edge(over, reader, never)
                network.add_edge(reader, back, never)
        if one_way and tensor.source != OUTSIDE:
            for reader in tensor.readers:
                network.add_edge(reader, source, never)
    return network


def _check_one_way(costs: SplitCosts) -> None:
    """Where some layers can run only there and others only here, every placement may need the way back."""
    sources: list[list[int]] = [[] for _ in costs.graph.names]
    for tensor in costs.graph.tensors:
        for reader in tensor.readers if tensor.source != OUTSIDE else ():
            sources[reader].append(tensor.source)
    names = costs.graph.names
    needs: dict[int, int] = {}
    """For layers that must be there: the layer that can run only there and that they need."""
    for layer, (here_s, there_s) in enumerate(zip(costs.here_s, costs.there_s, strict=True)):
        if math.isinf(here_s):
            needs[layer] = layer
        elif needed_here := [needs[source] for source in sources[layer] if source in needs]:
            needs[layer] = needed_here[0]
        if math.isinf(there_s) and layer in needs:
            raise UsageError(
                f"no split goes over only once: layer {names[layer]!r} can run only here and needs "
                f"{names[needs[layer]]!r}, which can run only there"
            )
