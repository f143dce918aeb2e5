"""What a sweep for given layers draws their parameters from: sizes with a margin, everything else as it occurs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from medn.core.parameters import Parameter
from medn.core.values import Layer, Scalar
from medn.layer_generators.kind import LayerKind
from medn.layer_generators.samplers.listed import LARGEST_FACTOR, SMALL_FACTOR, sizes_of

WAYS = ((SMALL_FACTOR, 8), *((factor, 1) for factor in (SMALL_FACTOR, 2.0, 4.0, LARGEST_FACTOR)))
"""How far beyond the sizes that occur, and the multiples that are kept at most: the first that gives enough layers."""
ENOUGH_LAYERS = 60


def domains_around(kind: LayerKind, layers: Sequence[Layer]) -> dict[str, Any]:
    """A domain for every parameter of the kind, as a config writes them, that holds these layers and their neighbours.

    >>> from medn.layer_generators.kind import layer_kinds
    >>> linear = layer_kinds["linear"]
    >>> domains_around(linear, [linear.layer(in_features=512, out_features=64)])["in_features"]
    {'log_range': [341, 768], 'multiple_of': 8}
    """
    values = [kind.complete(layer.values) for layer in layers]
    columns = {parameter: tuple(each[parameter.name] for each in values) for parameter in kind.parameters}
    sizes = set().union(*(sizes_of(kind, each) for each in values))
    scaled = {parameter: _sizes(column) for parameter, column in columns.items() if parameter.name in sizes}
    scaled = {parameter: column for parameter, column in scaled.items() if min(column) > 0}  # a range has no 0
    domains = {parameter.name: _as_they_occur(parameter, column) for parameter, column in columns.items()}
    for margin, unit in WAYS:
        ranges = {parameter: _range(parameter, column, margin, unit) for parameter, column in scaled.items()}
        # Sizes that are equal in every layer stay equal in their neighbours: they vary as one.
        counts = {column: _count(ranges[parameter]) for parameter, column in scaled.items()}
        if math.prod(counts.values()) >= ENOUGH_LAYERS:
            break
    return domains | {parameter.name: written for parameter, written in ranges.items()}


def _sizes(column: Sequence[Scalar]) -> tuple[int, ...]:
    return tuple(int(value) for value in column)


def _as_they_occur(parameter: Parameter, column: Sequence[Scalar]) -> Any:
    occurring = sorted(set(column), key=str if parameter.type is str else float)
    return occurring if len(occurring) > 1 else occurring[0]


def _range(parameter: Parameter, column: Sequence[int], margin: float, largest_unit: int) -> dict[str, Any]:
    low, high = min(column), max(column)
    # Multiples as they occur; but one that is large beside the smallest size would leave it without neighbours.
    unit = math.gcd(largest_unit, *column)
    while unit > 1 and low < 4 * unit:
        unit //= 2
    least, most = max(parameter.low or 1, low / margin, 1), min(parameter.high or math.inf, high * margin)
    return {"log_range": [math.floor(least), math.ceil(most)], "multiple_of": unit}


def _count(written: dict[str, Any]) -> int:
    low, high = written["log_range"]
    return int(high // written["multiple_of"] - (low - 1) // written["multiple_of"])
