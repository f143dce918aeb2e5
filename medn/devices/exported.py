"""A layer as it is sent to a device without torch: its ONNX file, inputs and expected outputs, in few bytes.

What was filled from the pool is not sent: the device draws the same numbers. So the parts are lists of pieces, each
either a number of bytes that follow, or a place in the pool. A layer of a hundred megabytes is sent in a few kilobytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import medn
from medn.core.values import Condition, Layer, content_key
from medn.devices.backend import Unsupported
from medn.devices.file_cache import cached
from medn.devices.pool import Fill
from medn.devices.workload import Workload, WrongOutput, make_workload, output_error, torch_dtype

FORMAT = 1
LEAST_BYTES = 512
"""Fewer are sent as they are."""
MOST_COMPARED = 1 << 16
"""Elements of an output that are compared: all of a smaller one, of a larger one these, spread evenly."""

Json = dict[str, Any]
Piece = int | list[Any]
"""Bytes that follow, or [position, scale, shape, transposed]."""


def export_key(layer: Layer, condition: Condition) -> str:
    """Names what `export_layer` makes."""
    made_by = (importlib.metadata.version("torch"), medn.__version__, FORMAT)
    return content_key([layer.key, condition.batch_size, torch_dtype(condition), *made_by])


def export_layer(layer: Layer, condition: Condition, onnx_cache: Path | None = None) -> bytes:
    """The layer with what torch computes of it. Raises `Unsupported` where torch cannot export it."""
    workload = make_workload(layer, condition, onnx_cache)
    onnx = workload.onnx_file()
    parts: list[tuple[Json, bytes]] = [({"sha256": hashlib.sha256(onnx).hexdigest()}, onnx)]
    parts += [_described(array) for array in workload.arrays]
    outputs = workload.expected()
    for output in outputs:
        head, compared = _described(_compared(output, *_places(output)))
        step, largest = _places(output)
        parts.append(({**head, "step": step, "largest": largest, "output": list(output.shape)}, compared))
    heads, contents = [], []
    for head, content in parts:
        pieces, rest = _to_pieces(content, workload.fills)
        heads.append({**head, "pieces": pieces})
        contents += rest
    written = {"format": FORMAT, "inputs": len(workload.arrays), "outputs": len(outputs), "parts": heads}
    return b"\n".join([json.dumps(written).encode(), b"".join(contents)])


class ExportedWorkload(Workload):
    """The layer where it runs."""

    def __init__(self, content: bytes, layer: Layer, condition: Condition, cache: Path | None, key: str) -> None:
        self.layer = layer
        self.condition = condition
        self._onnx_cache = cache
        self._name = key
        line, _, rest = content.partition(b"\n")
        head = json.loads(line)
        if head["format"] != FORMAT:
            raise WrongOutput(f"the layer was exported in format {head['format']}, this medn reads {FORMAT}")
        described: Sequence[Json] = head["parts"]
        contents = list(_from_pieces([part["pieces"] for part in described], memoryview(rest)))
        self._onnx = contents[0]
        if hashlib.sha256(self._onnx).hexdigest() != described[0]["sha256"]:
            raise WrongOutput("the ONNX file that was put together here is not the one that was sent")
        arrays = [_array(part, part_content) for part, part_content in zip(described[1:], contents[1:], strict=True)]
        self._arrays = arrays[: head["inputs"]]
        self._outputs = list(zip(described[1 + head["inputs"] :], arrays[head["inputs"] :], strict=True))

    def __getattr__(self, name: str) -> Any:
        if name in ("module", "inputs"):
            raise Unsupported("it takes torch's module, and the layer came as an ONNX file: state takes_module = True")
        raise AttributeError(name)

    @property
    def arrays(self) -> list[NDArray[Any]]:
        return self._arrays

    def onnx_file(self) -> bytes:
        return bytes(self._onnx)

    def kept(self, form: str, make: Callable[[], bytes]) -> bytes:
        return cached(self._onnx_cache, f"{self._name}.{form}", make)

    def output_error(self, outputs: list[NDArray[np.float32]]) -> float:
        got = [output.shape for output in outputs]
        wanted = [tuple(part["output"]) for part, _ in self._outputs]
        if got != wanted:
            raise WrongOutput(f"outputs have the shapes {got} where torch gives {wanted}")
        if not all(np.isfinite(output).all() for output in outputs):
            raise WrongOutput("the output has values that are not finite")
        ours = [
            _compared(output, part["step"], part["largest"])
            for output, (part, _) in zip(outputs, self._outputs, strict=True)
        ]
        return output_error(ours, [theirs for _, theirs in self._outputs])


def _described(array: NDArray[Any]) -> tuple[Json, bytes]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}, array.tobytes()


def _array(head: Json, content: bytearray) -> NDArray[Any]:
    return np.frombuffer(content, dtype=np.dtype(head["dtype"])).reshape(head["shape"])


def _places(output: NDArray[np.float32]) -> tuple[int, int]:
    """Every how many elements one is compared, an odd number, and which element is the largest."""
    step = -(-output.size // MOST_COMPARED)
    return max(1, step | 1 if step > 1 else step), int(np.abs(output).argmax()) if output.size else 0


def _compared(output: NDArray[np.float32], step: int, largest: int) -> NDArray[np.float32]:
    flat = output.reshape(-1)
    return np.concatenate([flat[::step], flat[largest : largest + 1]])


def _to_pieces(content: bytes, fills: Sequence[Fill]) -> tuple[list[Piece], list[bytes]]:
    """The content as pieces, and the bytes of those that are sent: tensors are found as they are or transposed."""
    found: list[tuple[int, int, Fill, bool]] = []
    for fill in sorted(fills, key=lambda each: each.count, reverse=True):
        if 4 * fill.count < LEAST_BYTES:
            continue
        array = fill.array()
        for transposed in (False, True) if array.ndim == 2 else (False,):
            start = content.find((array.T if transposed else array).tobytes())
            if start >= 0:
                found.append((start, start + array.nbytes, fill, transposed))
                break
    pieces: list[Piece] = []
    rest: list[bytes] = []
    end = 0
    for start, stop, fill, transposed in sorted(found, key=lambda each: each[0]):
        if start < end:
            continue
        pieces += [start - end, [fill.position, fill.scale, list(fill.shape), transposed]]
        rest.append(content[end:start])
        end = stop
    return [*pieces, len(content) - end], [*rest, content[end:]]


def _from_pieces(parts: Sequence[Sequence[Piece]], rest: memoryview) -> Iterator[bytearray]:
    """What `_to_pieces` took apart, part after part."""
    place = 0
    for pieces in parts:
        content = bytearray()
        for piece in pieces:
            if isinstance(piece, int):
                content += rest[place : place + piece]
                place += piece
            else:
                position, scale, shape, transposed = piece
                array = Fill(position, scale, tuple(shape)).array()
                content += (np.ascontiguousarray(array.T) if transposed else array).data.cast("B")
        yield content
