"""Bundles that are wrong in one or two places: facts of the manifest and arrays of the parts, exchanged with a purpose.

Random bytes rarely get past the hashes and the shape of JSON. These do, so that what lies behind is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.fuzz.harness import Draw

Json = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Place = tuple[Any, Any]
"""A dict or a list, and a key or an index of it."""

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 255, 2**31, 2**63, 10**12, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1e-300, -1e-300, 1e38, 1e100, 1e308, -1e308, 709.0, -745.0),
    *("", "x", "waves", "dense", "trees", "constant", "held", "own", "linear", "\x1b[2J", "x" * 5000, "\ud800"),
    *([], {}, [1.0], [[]], ["x"], {"x": 1}, [0] * 100),
)
NUMBERS = (0.0, -1.0, 1.0, 1e-45, 1e38, -1e38, 1e100, 1e300, -1e300, 127.0, 255.0, 32767.0)


def places(value: Any) -> Iterator[Place]:
    """Everything that could be exchanged."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in below:
        yield value, key
        yield from places(part)


def mutate_facts(facts: Json, draw: Draw) -> None:
    holder, key = _pick(list(places(facts)), draw)
    value = holder[key]
    way = draw.between(0, 9)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, list):
        holder.insert(draw.between(0, len(holder)), value)
    elif way == 2:  # something else of the same bundle
        other, name = _pick(list(places(facts)), draw)
        holder[key] = other[name]
    elif way <= 5 and isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = _pick([value * 2, value / 3, -value, value + 1, value - 1, value * 1e30, value * 1e-30], draw)
    elif way == 6 and isinstance(value, str):
        holder[key] = value + _pick(["x", "\x1b[31m", "\n", "é" * 300], draw)
    else:
        holder[key] = _pick(JUNK, draw)


def _values(array: NDArray[Any], draw: Draw) -> NDArray[Any]:
    """One number, a part of them or all of them exchanged, in the type that the array has."""
    changed = array.copy().ravel()
    if changed.size:
        number = np.array(_pick(NUMBERS, draw))
        with np.errstate(all="ignore"):
            if draw.between(0, 1):
                changed[draw.between(0, changed.size - 1)] = number.astype(changed.dtype)
            else:
                changed[: draw.between(1, changed.size)] = number.astype(changed.dtype)
    return changed.reshape(array.shape)


def _order(array: NDArray[Any], draw: Draw) -> NDArray[Any]:
    generator = np.random.default_rng(draw.between(0, 2**16))
    return generator.permutation(array.ravel()).reshape(array.shape)


def _step(array: NDArray[Any], draw: Draw) -> NDArray[Any]:
    """A number that is nearly right: a place in a tree, a column, a code."""
    changed = array.copy().ravel()
    if changed.size:
        place = draw.between(0, changed.size - 1)
        with np.errstate(all="ignore"):
            changed[place] = changed[place] + changed.dtype.type(1) * (-1 if draw.between(0, 1) else 1)
    return changed.reshape(array.shape)


TYPES = ("f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u4", "?")
CHANGES: tuple[Callable[[NDArray[Any], Draw], NDArray[Any]], ...] = (
    _values,
    _values,
    _order,
    _step,
    _step,
    lambda array, draw: array[: draw.between(0, len(array))] if array.ndim else array,
    lambda array, draw: array.T,
    lambda array, draw: array[None],
    lambda array, draw: array.reshape(-1),
    lambda array, draw: np.concatenate([array, array]) if array.ndim else array,
    lambda array, draw: np.nan_to_num(array).astype(_pick(TYPES, draw)),
    lambda array, draw: array * array.dtype.type(2) if array.dtype.kind == "f" else array,
)


def mutate_arrays(arrays: Arrays, draw: Draw) -> None:
    name = _pick(sorted(arrays), draw)
    way = draw.between(0, 19)
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[name] = arrays[_pick(sorted(arrays), draw)]
    else:
        with np.errstate(all="ignore"):
            arrays[name] = np.ascontiguousarray(_pick(CHANGES, draw)(arrays[name], draw))


def _pick(choices: Any, draw: Draw) -> Any:
    return choices[draw.between(0, len(choices) - 1)]
