"""What is partitioned: layers in order, the tensors between them, and the link that tensors cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from medn.capture.values import CapturedModel
from medn.core.errors import UsageError
from medn.core.table import Array

OUTSIDE = -1
"""Where the inputs of the model come from, in the place of a layer."""


@dataclass(frozen=True)
class Tensor:
    """What one layer makes and others read. It crosses a link whole, and once for all readers on the other side."""

    source: int
    """The index of a layer, or `OUTSIDE`."""
    readers: tuple[int, ...]
    size_bytes: float
    is_output: bool = False
    """Whether the caller of the model reads it too."""


@dataclass(frozen=True)
class Link:
    """What lies between two devices."""

    bytes_per_s: float
    latency_s: float = 0.0
    """What every transfer takes, however small it is."""

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0:
            raise UsageError(f"bytes_per_s: must be above 0 (got {self.bytes_per_s})")
        if not 0 <= self.latency_s < math.inf:
            raise UsageError(f"latency_s: must be a number from 0 on (got {self.latency_s})")

    def seconds(self, size_bytes: float) -> float:
        """
        >>> Link(bytes_per_s=1e6, latency_s=0.01).seconds(5000)
        0.015
        """
        return self.latency_s + size_bytes / self.bytes_per_s


@dataclass(frozen=True)
class Graph:
    """The layers of a model in the order in which they run one by one."""

    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    parameter_bytes: tuple[float, ...] = ()
    """What each layer must keep in memory."""

    def __post_init__(self) -> None:
        if not self.names:
            raise UsageError("a graph needs at least one layer")
        if self.parameter_bytes and len(self.parameter_bytes) != len(self.names):
            raise UsageError(f"parameter_bytes: must be {len(self.names)}, as many as layers")
        for tensor in self.tensors:
            if not all(max(tensor.source, OUTSIDE) < reader < len(self.names) for reader in tensor.readers):
                raise UsageError(f"layer {tensor.source}: its readers must be later layers (got {tensor.readers})")
            if not 0 <= tensor.size_bytes < math.inf:
                raise UsageError(f"layer {tensor.source}: size_bytes must be from 0 on (got {tensor.size_bytes})")

    def __len__(self) -> int:
        return len(self.names)

    def scaled(self, factor: float) -> Graph:
        """The same graph with a batch so many times as large."""
        tensors = tuple(replace(tensor, size_bytes=factor * tensor.size_bytes) for tensor in self.tensors)
        return replace(self, tensors=tensors)

    def crossing_bytes(self) -> Array:
        """What crosses between layers i - 1 and i, for each i from 0 (what goes in) to the last (what comes out).

        >>> Graph(("a", "b"), (Tensor(OUTSIDE, (0,), 8), Tensor(0, (1,), 4), Tensor(1, (), 2, True))).crossing_bytes()
        array([8., 4., 2.])
        """
        change = np.zeros(len(self) + 2)
        for tensor in self.tensors:
            last = len(self) if tensor.is_output else max(tensor.readers, default=tensor.source)
            change[tensor.source + 1] += tensor.size_bytes
            change[last + 1] -= tensor.size_bytes
        return np.cumsum(change)[:-1]


def graph_of(model: CapturedModel) -> Graph:
    """The graph of a captured model.

    Of a tensor crosses as much as all its readers read together, but no more than all of it.
    """
    made: dict[int, float] = {index: layer.output_bytes for index, layer in enumerate(model.layers)}
    made |= {-1 - position: port.size_bytes for position, port in enumerate(model.inputs)}
    read: dict[int, float] = dict.fromkeys(made, 0)
    readers: dict[int, list[int]] = {source: [] for source in made}
    for edge in model.edges:
        read[edge.source] += edge.size_bytes
        readers[edge.source].append(edge.target)
    outputs = {source for port in model.outputs for source in port.producers}
    for port in model.outputs:
        for source in port.producers:
            read[source] += port.size_bytes
    return Graph(
        names=tuple(layer.name for layer in model.layers),
        tensors=tuple(
            Tensor(max(source, OUTSIDE), tuple(readers[source]), min(made[source], read[source]), source in outputs)
            for source in made
            if readers[source] or source in outputs
        ),
        parameter_bytes=tuple(layer.parameter_bytes for layer in model.layers),
    )


def module_starts(names: Sequence[str]) -> dict[int, str]:
    """The layers with which a module begins that was not at work before, and the path of that module.

    Programs that take a model apart do it by modules, so these are the places where they can.

    >>> module_starts(["stem", "blocks.0.conv", "blocks.0.relu", "blocks.0", "blocks.1.conv", "stem"])
    {0: 'stem', 1: 'blocks', 2: 'blocks.0.relu', 4: 'blocks.1'}
    """
    seen = {""}
    starts: dict[int, str] = {}
    for index, name in enumerate(names):
        parts = name.split(".") if name else []
        for path in (".".join(parts[:length]) for length in range(1, len(parts) + 1)):
            if path not in seen:
                starts.setdefault(index, path)
                seen.add(path)
    return starts
