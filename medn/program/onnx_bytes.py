"""ONNX models as bytes, written directly: the format is nested fields of a number, a length and a content each.

Only what programs need, so that writing a model takes no library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

IR_VERSION = 8
OPSETS = {"": 17, "ai.onnx.ml": 3}
TYPES = {"float32": 1, "int64": 7, "string": 8, "bool": 9, "float64": 11}
"""The format's numbers for types."""

Attribute = int | Sequence[bytes] | NDArray[np.float32] | NDArray[np.int64]
Shape = Sequence[int | str]
"""Sizes, or names of sizes that a model does not decide."""


def varints(numbers: ArrayLike) -> bytes:
    """Whole numbers from zero up, seven bits a byte, the last byte of each without its highest bit.

    >>> varints([1, 300]).hex(" ")
    '01 ac 02'
    """
    left = np.atleast_1d(np.asarray(numbers, dtype=np.uint64))
    columns, present = [left & np.uint64(127)], [np.ones(len(left), dtype=bool)]
    while (left := left >> np.uint64(7)).any():
        columns[-1] |= np.where(left > 0, np.uint64(128), np.uint64(0))
        columns.append(left & np.uint64(127))
        present.append(left > 0)
    written: NDArray[np.uint8] = np.column_stack(columns).astype(np.uint8)[np.column_stack(present)]
    return written.tobytes()


def nested(number: int, content: bytes | str) -> bytes:
    """A field with a length: text, bytes, packed numbers or fields inside."""
    inside = content.encode() if isinstance(content, str) else content
    return varints([number << 3 | 2, len(inside)]) + inside


def whole(number: int, value: int) -> bytes:
    return varints([number << 3, value % 2**64])  # below zero as its complement


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        content, kind = whole(3, value), 2
    elif not isinstance(value, np.ndarray):
        written = {text: nested(9, text) for text in set(value)}
        content, kind = b"".join(map(written.__getitem__, value)), 8
    elif value.dtype.kind == "f":
        content, kind = nested(7, value.astype("<f4").tobytes()), 6
    else:
        content, kind = nested(8, varints(value)), 7
    return nested(1, name) + content + whole(20, kind)


class Graph:
    """A computation, put together one step after the other."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._known: dict[Any, str] = {}

    def input(self, name: str, type_: str, shape: Shape) -> str:
        self._inputs.append(_described(name, type_, shape))
        return name

    def constant(self, values: NDArray[Any]) -> str:
        """The name of an array; of one type of those that the format has here."""
        array = np.ascontiguousarray(values)
        raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
        key = (array.dtype.str, array.shape, raw)
        if key not in self._known:
            name = self._known[key] = f"constant{len(self._constants)}"
            shape = b"".join(whole(1, size) for size in array.shape)
            self._constants.append(shape + whole(2, TYPES[array.dtype.name]) + nested(8, name) + nested(9, raw))
        return self._known[key]

    def step(
        self, operation: str, *inputs: str, domain: str = "", attributes: Mapping[str, Attribute] | None = None
    ) -> str:
        """Apply an operation; gives the name of its result."""
        return self.steps(operation, *inputs, domain=domain, attributes=attributes)[0]

    def steps(
        self,
        operation: str,
        *inputs: str,
        domain: str = "",
        attributes: Mapping[str, Attribute] | None = None,
        results: int = 1,
    ) -> list[str]:
        """The same of an operation with several results."""
        names = [f"step{len(self._nodes)}_{place}" for place in range(results)]
        fields = [*(nested(1, each) for each in inputs), *(nested(2, each) for each in names)]
        fields += [nested(4, operation), nested(7, domain)]
        fields += [nested(5, _attribute(*each)) for each in (attributes or {}).items()]
        self._nodes.append(b"".join(fields))
        return names

    def output(self, name: str, result: str, type_: str, shape: Shape) -> None:
        self._nodes.append(nested(1, result) + nested(2, name) + nested(4, "Identity"))
        self._outputs.append(_described(name, type_, shape))

    def model(self, name: str, about: str = "", facts: Mapping[str, str] | None = None) -> bytes:
        """The whole model, with a sentence about it and facts that programs may read."""
        graph = [nested(1, node) for node in self._nodes] + [nested(2, name)]
        graph += [nested(5, constant) for constant in self._constants]
        graph += [nested(11, each) for each in self._inputs] + [nested(12, each) for each in self._outputs]
        opsets = [nested(8, nested(1, domain) + whole(2, version)) for domain, version in OPSETS.items()]
        told = [nested(14, nested(1, key) + nested(2, value)) for key, value in (facts or {}).items()]
        written = [whole(1, IR_VERSION), nested(2, "medn"), nested(6, about), nested(7, b"".join(graph))]
        return b"".join([*written, *opsets, *told])


def _described(name: str, type_: str, shape: Shape) -> bytes:
    sizes = [nested(1, nested(2, size) if isinstance(size, str) else whole(1, size)) for size in shape]
    return nested(1, name) + nested(2, nested(1, whole(1, TYPES[type_]) + nested(2, b"".join(sizes))))
