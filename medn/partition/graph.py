"""The graph that is partitioned: layers in order, the tensors between them, and the link that tensors cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from medn.capture.captured_model import CapturedModel, check_captured
from medn.core.errors import UsageError
from medn.core.table import Array
from medn.partition.exact_sums import held_between, is_amount, scale_of, whole

OUTSIDE = -1
"""The source of the model's inputs, which is no layer."""


@dataclass(frozen=True)
class Tensor:
    """The output of one layer that others read. It crosses a link whole, and once for all readers on the other side."""

    source: int
    """The index of a layer, or `OUTSIDE`."""
    readers: tuple[int, ...]
    size_bytes: float
    is_output: bool = False
    """Whether the caller of the model reads it too."""
    times: int = 1
    """How often it is written and read in one run of the model, as inside a loop."""


@dataclass(frozen=True)
class Link:
    """The connection between two devices.

    >>> Link(bytes_per_s=1e6, latency_s=0.01).seconds(5000)
    0.015
    """

    bytes_per_s: float
    latency_s: float = 0.0
    """Of every transfer, however small."""

    def __post_init__(self) -> None:
        if not (is_amount(self.bytes_per_s) or self.bytes_per_s == math.inf) or not self.bytes_per_s:
            raise UsageError(f"bytes_per_s: must be above 0 (got {self.bytes_per_s})")
        if not is_amount(self.latency_s):
            raise UsageError(f"latency_s: must be a number from 0 on (got {self.latency_s})")

    def seconds(self, size_bytes: float) -> float:
        """What a transfer of so many bytes takes."""
        return self.latency_s + size_bytes / self.bytes_per_s


@dataclass(frozen=True)
class LayerGraph:
    """The layers of a model in the order in which they run one by one."""

    names: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    parameter_bytes: tuple[float, ...] = ()
    """What each layer must keep in memory."""

    def __post_init__(self) -> None:
        if not self.names:
            raise UsageError("a graph needs at least one layer")
        amounts = all(map(is_amount, self.parameter_bytes))
        if self.parameter_bytes and (len(self.parameter_bytes) != len(self.names) or not amounts):
            raise UsageError(f"parameter_bytes: must be {len(self.names)} numbers from 0 on, one for each layer")
        for tensor in self.tensors:
            self._check(tensor)
        if not math.isfinite(sum(map(float, (*self.parameter_bytes, *(tensor.size_bytes for tensor in self.tensors))))):
            raise UsageError("the sizes of its tensors and parameters are together too large to be counted")

    def _check(self, tensor: Tensor) -> None:
        last = len(self.names) - 1
        if not isinstance(tensor.source, (int, np.integer)) or not OUTSIDE <= tensor.source <= last:
            raise UsageError(f"source: must be a layer from 0 to {last}, or OUTSIDE (got {tensor.source!r})")
        if not all(isinstance(reader, (int, np.integer)) for reader in tensor.readers):
            raise UsageError(f"layer {tensor.source}: its readers must be the numbers of layers (got {tensor.readers})")
        if not all(tensor.source < reader <= last for reader in tensor.readers):
            raise UsageError(f"layer {tensor.source}: its readers must be later layers (got {tensor.readers})")
        if not is_amount(tensor.size_bytes):
            raise UsageError(f"layer {tensor.source}: size_bytes must be from 0 on (got {tensor.size_bytes!r})")
        if not isinstance(tensor.times, int) or tensor.times < 1:
            raise UsageError(f"layer {tensor.source}: times must be from 1 on (got {tensor.times!r})")

    def __len__(self) -> int:
        return len(self.names)

    def scaled(self, factor: float) -> LayerGraph:
        """The same graph with a batch so many times as large."""
        if not is_amount(factor) or not factor:
            raise UsageError(f"factor: must be above 0 (got {factor})")
        tensors = tuple(replace(tensor, size_bytes=factor * tensor.size_bytes) for tensor in self.tensors)
        return replace(self, tensors=tensors)

    def last_use(self, tensor: Tensor) -> int:
        """The last layer that reads a tensor, or its own where none does; the number of layers for an output."""
        return len(self) if tensor.is_output else max(tensor.readers, default=tensor.source)

    def crossing_bytes(self) -> Array:
        """Bytes between layers i - 1 and i, for each i from 0 (the inputs) to the number of layers (the outputs).

        >>> tensors = Tensor(OUTSIDE, (0,), 8), Tensor(0, (1,), 4), Tensor(1, (), 2, True)
        >>> LayerGraph(("a", "b"), tensors).crossing_bytes()
        array([8., 4., 2.])
        """
        sizes = [tensor.size_bytes for tensor in self.tensors]
        spans = [(tensor.source + 1, self.last_use(tensor) + 1) for tensor in self.tensors]
        scale = scale_of(sizes)
        crossing = held_between(whole(sizes, scale), spans, len(self) + 1)
        return np.array([total / scale for total in crossing.tolist()])


def graph_of(model: CapturedModel) -> LayerGraph:
    """The graph of a captured model.

    The bytes of a tensor that cross are those that all its readers read together, at most all of it.

    >>> import medn, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Linear(16, 10))
    >>> graph_of(medn.capture(net, torch.zeros(1, 64))).crossing_bytes()
    array([256.,  64.,  40.])
    """
    check_captured(model)
    produced_bytes: dict[int, float] = {index: layer.output_bytes for index, layer in enumerate(model.layers)}
    produced_bytes |= {-1 - position: port.size_bytes for position, port in enumerate(model.inputs)}
    read_bytes: dict[int, float] = dict.fromkeys(produced_bytes, 0)
    readers: dict[int, list[int]] = {source: [] for source in produced_bytes}
    times = dict.fromkeys(produced_bytes, 1)
    for target, layer in enumerate(model.layers):
        for source, size_bytes in zip(layer.inputs, layer.input_bytes, strict=True):
            read_bytes[source] += size_bytes
            readers[source].append(target)
            times[source] = max(times[source], model.crossings(source, target))
    outputs = {source for port in model.outputs for source in port.producers}
    for port in model.outputs:
        for source in port.producers:
            read_bytes[source] += port.size_bytes
    return LayerGraph(
        names=tuple(layer.name for layer in model.layers),
        tensors=tuple(
            Tensor(
                max(source, OUTSIDE),
                tuple(readers[source]),
                min(produced_bytes[source], read_bytes[source]),
                source in outputs,
                times[source],
            )
            for source in produced_bytes
            if readers[source] or source in outputs
        ),
        parameter_bytes=tuple(layer.parameter_bytes for layer in model.layers),
    )


def module_starts(names: Sequence[str]) -> dict[int, str]:
    """The layers that are the first of a module, and the path of that module.

    Tools that split a model do it by modules, so these are the possible cut points.

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
