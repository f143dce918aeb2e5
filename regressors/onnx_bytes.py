"""ONNX models as bytes, written directly: the format is nested fields of a number, a length and a content each.

Only what deployed forms need, so that predicting takes onnxruntime alone and not the library that writes ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

INPUT, OUTPUT = "inputs", "outputs"
IR_VERSION = 8
OPSETS = {"": 17, "ai.onnx.ml": 3}
FLOAT = 1
"""The format's number for single precision."""

Attribute = int | Sequence[bytes] | NDArray[np.float32] | NDArray[np.int64]


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
    return varints([number << 3, value])


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        content, kind = whole(3, value), 2
    elif not isinstance(value, np.ndarray):
        written = {text: nested(9, text) for text in set(value)}
        content, kind = b"".join(written[text] for text in value), 8
    elif value.dtype.kind == "f":
        content, kind = nested(7, value.astype("<f4").tobytes()), 6
    else:
        content, kind = nested(8, varints(value)), 7
    return nested(1, name) + content + whole(20, kind)


class Graph:
    """A computation on rows of `width` numbers in single precision, put together one step after the other."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: NDArray[np.float32]) -> str:
        name = f"constant{len(self._constants)}"
        raw = np.ascontiguousarray(values, dtype="<f4").tobytes()
        shape = b"".join(whole(1, size) for size in values.shape)
        self._constants.append(shape + whole(2, FLOAT) + nested(8, name) + nested(9, raw))
        return name

    def step(
        self, operation: str, *inputs: str, domain: str = "", attributes: Mapping[str, Attribute] | None = None
    ) -> str:
        """Apply an operation; gives the name of its result."""
        name = f"step{len(self._nodes)}"
        fields = [*(nested(1, each) for each in inputs), nested(2, name), nested(4, operation), nested(7, domain)]
        fields += [nested(5, _attribute(*each)) for each in (attributes or {}).items()]
        self._nodes.append(b"".join(fields))
        return name

    def model(self, result: str, columns: int = 1) -> bytes:
        """The whole model, whose output is the result of a step."""
        self._nodes.append(nested(1, result) + nested(2, OUTPUT) + nested(4, "Identity"))
        graph = [nested(1, node) for node in self._nodes] + [nested(2, "form")]
        graph += [nested(5, constant) for constant in self._constants]
        graph += [nested(11, _rows(INPUT, self.width)), nested(12, _rows(OUTPUT, columns))]
        opsets = [nested(8, nested(1, domain) + whole(2, version)) for domain, version in OPSETS.items()]
        return whole(1, IR_VERSION) + nested(7, b"".join(graph)) + b"".join(opsets)


def _rows(name: str, width: int) -> bytes:
    """Any number of rows of so many columns."""
    shape = nested(1, b"") + nested(1, whole(1, width))
    return nested(1, name) + nested(2, nested(1, whole(1, FLOAT) + nested(2, shape)))
