"""The parameters of a network as a few long vectors: a step then costs a few operations, not a few per parameter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from medn.network.modules import Network


@dataclass(frozen=True, eq=False)
class Vector:
    """Parameters that the same kinds use, one after another. The network's own are views into it."""

    values: Tensor
    gradient: Tensor
    average: Tensor
    """Of the values, as the training went on."""
    kinds: frozenset[str]
    decays: bool
    """Weight matrices decay; biases, frequencies and the weights of the tasks do not."""

    @classmethod
    def of(cls, parameters: list[nn.Parameter], kinds: frozenset[str], decays: bool) -> Vector:
        values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        gradient = torch.zeros_like(values)
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, own, slope in zip(
            parameters, torch.split(values, sizes), torch.split(gradient, sizes), strict=True
        ):
            parameter.data = own.view_as(parameter)
            parameter.grad = slope.view_as(parameter)
        return cls(values, gradient, values.clone(), kinds, decays)


def vectors_of(network: Network) -> list[Vector]:
    """All parameters, by who uses them: a kind whose turn it is not is left as it is."""
    users: dict[nn.Parameter, set[str]] = {parameter: set() for parameter in network.parameters()}
    for kind in network.entries:
        for module in (network.entries[kind], network.blocks, network.decoders[kind], network.log_variances):
            for parameter in module.parameters():
                users[parameter].add(kind)
    together: dict[tuple[frozenset[str], bool], list[nn.Parameter]] = {}
    for name, parameter in network.named_parameters():
        key = frozenset(users[parameter]), name.endswith("weight")
        together.setdefault(key, []).append(parameter)
    return [Vector.of(parameters, *key) for key, parameters in together.items()]
