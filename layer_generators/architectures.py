"""Layers as real networks have them, for sweeps that should measure what people run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from medn.core.values import Layer
from medn.layer_generators.blocks import Recipe
from medn.layer_generators.dense_networks import DENSE_NETWORKS
from medn.layer_generators.fused import fused_layers
from medn.layer_generators.image_networks import IMAGE_NETWORKS
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sequence_networks import SEQUENCE_NETWORKS


def architectures() -> dict[str, Callable[[], Recipe]]:
    """The networks by name; each call of a value goes through the layers of one, in order, repeats included."""
    return {**IMAGE_NETWORKS, **DENSE_NETWORKS, **SEQUENCE_NETWORKS}


@cache
def _all_layers() -> tuple[Layer, ...]:
    found: dict[Layer, None] = {}
    for network in architectures().values():
        layers = [layer_kinds[kind].layer(**parameters) for kind, parameters in network()]
        found |= dict.fromkeys([*layers, *fused_layers(layers)])
    return tuple(found)


def architecture_layers(kind_name: str) -> list[Layer]:
    """Every different layer of one kind in the networks, always in the same order.

    >>> len(architecture_layers("lstm")) > 5
    True
    """
    kind = layer_kinds[kind_name]
    return [layer for layer in _all_layers() if layer.kind == kind.name]
