"""The multi-task encoder-decoder network (MEDN) in torch.

The encoder takes the encoded inputs of a kind of layer, waves of the numeric ones beside them, into one representation;
each decoder reads one task from it. Several kinds can share the encoder's blocks: an entry and decoders belong to one.
The path from a kind's inputs to its latency is a plain sequence of steps, which is all that is deployed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import silu

from medn.network.design import Design

Step = tuple[str, dict[str, NDArray[np.float32]]]
"""The name of a computation and its arrays, free of torch."""

LATENCY = "latency"
NARROWEST = 16
NARROWING = 8


@dataclass(frozen=True, eq=False)
class CommonColumns:
    """Columns that all kinds have, brought to one scale for the part of the entry that all kinds share."""

    columns: tuple[int, ...]
    """Where they are among the encoded inputs of this kind."""
    factor: NDArray[np.float64]
    shift: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KindShape:
    """What the network must know of a kind to make its entry and its decoders."""

    encoded_width: int
    numeric: int
    """How many of the encoded columns are numbers; they come first."""
    outputs: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Centre and spread of the targets of each task."""
    common: CommonColumns | None = None
    has_scale: bool = False
    """Whether a factor is learned for each of its columns."""


class Waves(nn.Module):
    """Numeric columns are followed by sines and cosines of them, so that a staircase is a few waves away."""

    def __init__(self, numeric: int, frequencies: int, spread: float) -> None:
        super().__init__()
        self.numeric = numeric
        self.frequencies = nn.Parameter(torch.randn(numeric, frequencies) * (2 * math.pi * spread))

    def forward(self, encoded: Tensor) -> Tensor:
        angles = (encoded[:, : self.numeric, None] * self.frequencies).flatten(1)
        return torch.cat([encoded, torch.sin(angles), torch.cos(angles)], dim=1)

    def step(self) -> Step:
        return "waves", {"frequencies": as_array(self.frequencies)}


class EntryLayer(nn.Module):
    """From a kind's columns to the representation; what all kinds have in common has weights of its own.

    The scale of a column moves all weights that read it at once; it is part of them in the step that is deployed.
    """

    factor: Tensor
    shift: Tensor

    def __init__(self, own: nn.Linear, has_scale: bool, common: CommonColumns | None, shared: nn.Linear | None) -> None:
        super().__init__()
        self.own = own
        self.scale = nn.Parameter(torch.ones(own.in_features)) if has_scale else None
        self.shared = shared
        if common:
            self.columns = list(common.columns)
            self.register_buffer("factor", torch.tensor(common.factor, dtype=torch.float32))
            self.register_buffer("shift", torch.tensor(common.shift, dtype=torch.float32))

    def forward(self, values: Tensor) -> Tensor:
        result: Tensor = self.own(values if self.scale is None else values * self.scale)
        if self.shared is not None:
            result = result + self.shared(values[:, self.columns] * self.factor + self.shift)
        return result

    def step(self) -> Step:
        weight, bias = self.own.weight.detach().clone(), self.own.bias.detach().clone()
        if self.scale is not None:
            weight *= self.scale.detach()
        if self.shared is not None:
            weight[:, self.columns] += self.shared.weight.detach() * self.factor
            bias += self.shared.weight.detach() @ self.shift
        return dense_step(weight, bias)


class Residual(nn.Module):
    """Adds what two dense layers make of the representation; starts by adding nothing."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        nn.init.zeros_(self.down.weight)

    def forward(self, values: Tensor) -> Tensor:
        return values + cast(Tensor, self.down(silu(self.up(silu(values)))))

    def step(self) -> Step:
        up, down = dense_step(self.up.weight, self.up.bias)[1], dense_step(self.down.weight, self.down.bias)[1]
        return "residual", {
            f"{name}_{part}": array for name, arrays in (("up", up), ("down", down)) for part, array in arrays.items()
        }


class Output(nn.Module):
    """The last layer of a decoder, in the units of its targets."""

    centre: Tensor
    spread: Tensor

    def __init__(self, width: int, centre: NDArray[np.float64], spread: NDArray[np.float64]) -> None:
        super().__init__()
        self.dense = nn.Linear(width, len(centre))
        self.register_buffer("centre", torch.tensor(centre, dtype=torch.float32))
        self.register_buffer("spread", torch.tensor(spread, dtype=torch.float32))

    def forward(self, values: Tensor) -> Tensor:
        return cast(Tensor, self.dense(values) * self.spread + self.centre)

    def step(self) -> Step:
        return dense_step(self.dense.weight * self.spread[:, None], self.dense.bias * self.spread + self.centre)


class Network(nn.Module):
    """One encoder, and a decoder per kind and task."""

    def __init__(self, design: Design, kinds: Mapping[str, KindShape]) -> None:
        super().__init__()
        common = [shape.common for shape in kinds.values() if shape.common]
        shared = nn.Linear(len(common[0].columns), design.width, bias=False) if common else None
        self.entries = nn.ModuleDict()
        self.decoders = nn.ModuleDict()
        for kind, shape in kinds.items():
            self.entries[kind] = _entry(design, shape, shared)
            self.decoders[kind] = nn.ModuleDict(
                {task: nn.Sequential(nn.SiLU(), Output(design.width, *scale)) for task, scale in shape.outputs.items()}
            )
        self.blocks = nn.Sequential(*(_block(design) for _ in range(design.blocks)))
        tasks = {task for shape in kinds.values() for task in shape.outputs}
        learns_weights = design.task_weight is None and len(tasks) > 1
        self.task_weight = design.task_weight
        # Of each task's uncertainty, the logarithm.
        self.log_variances = nn.ParameterDict({task: torch.zeros(()) for task in sorted(tasks) if learns_weights})

    def forward(self, kind: str, encoded: Tensor) -> dict[str, Tensor]:
        """What each task's decoder of this kind says."""
        representation = self.blocks(self.entries[kind](encoded))
        decoders = cast(nn.ModuleDict, self.decoders[kind])
        return {task: decoder(representation) for task, decoder in decoders.items()}

    def path(self, kind: str) -> nn.Sequential:
        """From the encoded inputs of a kind to the logarithm of its latency, sharing weights with this network."""
        decoder = cast(nn.ModuleDict, self.decoders[kind])[LATENCY]
        return nn.Sequential(*_flat(self.entries[kind]), *_flat(self.blocks), *_flat(decoder))


def _entry(design: Design, shape: KindShape, shared: nn.Linear | None) -> nn.Sequential:
    waves = [Waves(shape.numeric, design.frequencies, design.frequency_spread)] if design.frequencies else []
    width = shape.encoded_width + 2 * design.frequencies * shape.numeric
    return nn.Sequential(*waves, EntryLayer(nn.Linear(width, design.width), shape.has_scale, shape.common, shared))


def _block(design: Design) -> nn.Module:
    if design.residual:
        return Residual(design.width, design.hidden)
    return nn.Sequential(nn.SiLU(), nn.Linear(design.width, design.width))


def within_limit(design: Design, kinds: Mapping[str, KindShape]) -> Design:
    """The design, narrowed until no kind's path has more parameters than it allows."""
    for width in range(design.width, NARROWEST, -NARROWING):
        narrowed = replace(design, width=width)
        # On this device of torch's, tensors have shapes but no values: only the parameters are counted.
        with torch.device("meta"):
            network = Network(narrowed, kinds)
        if max(parameter_count(network.path(kind)) for kind in kinds) <= design.parameter_limit:
            return narrowed
    return replace(design, width=min(design.width, NARROWEST))


def _flat(module: nn.Module) -> list[nn.Module]:
    """The steps of a module, sequences opened."""
    if isinstance(module, nn.Sequential):
        return [step for child in module for step in _flat(child)]
    return [module]


def steps_of(path: nn.Sequential) -> list[Step]:
    """A path as computations on arrays."""
    return [_step(module) for module in path]


def _step(module: nn.Module) -> Step:
    if isinstance(module, nn.SiLU):
        return "silu", {}
    if isinstance(module, nn.Linear):
        return dense_step(module.weight, module.bias)
    return cast(Step, cast(Any, module).step())


def dense_step(weight: Tensor, bias: Tensor) -> Step:
    return "dense", {"weight": np.ascontiguousarray(as_array(weight).T), "bias": as_array(bias)}


def as_array(values: Tensor) -> NDArray[np.float32]:
    return values.detach().numpy().astype(np.float32)


def parameter_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
