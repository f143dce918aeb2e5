"""Sliding windows over one, two or three axes, written once for convolutions and pools.

An axis is the end of its parameters' names: `kernel_h`, `stride_h`, `padding_h`, `dilation_h` and `in_h` belong to "h".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from medn.core.values import Scalar
from medn.layer_generators.kind import Column, Parameter, Values, integer
from medn.layer_generators.operation import Shape

Axes = tuple[str, ...]


def per_axis(values: Values, part: str, axes: Axes) -> tuple[Any, ...]:
    return tuple(getattr(values, f"{part}_{axis}") for axis in axes)


def by_axis(part: str, axes: Axes, sizes: Shape) -> dict[str, Scalar]:
    """Sizes read off an operation, as parameters; a single size holds for every axis.

    >>> by_axis("stride", ("h", "w"), (2,))
    {'stride_h': 2, 'stride_w': 2}
    """
    spread = tuple(sizes) * len(axes) if len(sizes) == 1 else tuple(sizes)
    return {f"{part}_{axis}": size for axis, size in zip(axes, spread, strict=True)}


def input_sizes(axes: Axes) -> tuple[Parameter, ...]:
    return tuple(integer(f"in_{axis}", f"size of the input along {axis}", 1, 1_048_576) for axis in axes)


def window_parameters(axes: Axes) -> tuple[Parameter, ...]:
    return (
        *(integer(f"kernel_{axis}", f"size of the window along {axis}", 1, 1024) for axis in axes),
        *(integer(f"stride_{axis}", f"step of the window along {axis}", 1, 1024, default=1) for axis in axes),
        *(integer(f"padding_{axis}", f"added on both sides along {axis}", 0, 1024, default=0) for axis in axes),
    )


def dilation_parameters(axes: Axes) -> tuple[Parameter, ...]:
    about = "distance of the window's elements along"
    return tuple(integer(f"dilation_{axis}", f"{about} {axis}", 1, 64, default=1) for axis in axes)


def axis_shorthands(axes: Axes, *parts: str) -> dict[str, tuple[str, ...]]:
    """One name for a part that is alike along every axis; windows and inputs have a `size`.

    >>> axis_shorthands(("h", "w"), "kernel", "stride")
    {'kernel_size': ('kernel_h', 'kernel_w'), 'stride': ('stride_h', 'stride_w')}
    """
    names = {"kernel": "kernel_size", "in": "in_size", "out": "out_size"}
    return {names.get(part, part): tuple(f"{part}_{axis}" for axis in axes) for part in parts}


def window_span(values: Values, axis: str) -> Column:
    """How much of the input one window covers along an axis, its gaps included; not every window has gaps."""
    return getattr(values, f"dilation_{axis}", 1) * (getattr(values, f"kernel_{axis}") - 1) + 1


def window_counts(values: Values, axes: Axes, round_up: Column = False) -> tuple[Column, ...]:
    """How many windows fit along each axis: the size of the output.

    With `round_up` a last, partly covered window counts too, if it starts inside the input or its left padding.
    """
    counts = []
    for axis in axes:
        size, stride, padding = (getattr(values, f"{part}_{axis}") for part in ("in", "stride", "padding"))
        room = size + 2 * padding - window_span(values, axis)
        count = (room + round_up * (stride - 1)) // stride + 1
        counts.append(count - round_up * ((count - 1) * stride >= size + padding))
    return tuple(counts)


def window_rules(values: Values, axes: Axes) -> Iterator[str]:
    for axis in axes:
        covered = window_span(values, axis)
        padded = getattr(values, f"in_{axis}") + 2 * getattr(values, f"padding_{axis}")
        if covered > padded:
            yield f"kernel_{axis}: the window covers {covered} but the padded input has only {padded}"


def same_padding(given: Mapping[str, Scalar], axes: Axes) -> tuple[dict[str, Scalar], list[str]]:
    """Paddings that keep the size at stride 1, for the convenience of that name."""
    paddings: dict[str, Scalar] = {}
    mistakes = []
    for axis in axes:
        name = f"padding_{axis}"
        kernel: Any = given.get(f"kernel_{axis}", 1)
        dilation: Any = given.get(f"dilation_{axis}", 1)
        paddings[name] = dilation * (kernel - 1) // 2
        if name in given:
            mistakes.append(f"same_padding: {name} is given too; give one of the two")
    return paddings, mistakes


def product(sizes: tuple[Column, ...]) -> Column:
    """The product of numbers or of columns."""
    return math.prod(sizes[1:], start=sizes[0])
