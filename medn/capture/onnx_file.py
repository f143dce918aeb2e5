"""Reading an ONNX file within limits: it is not trusted, and a small file can describe something enormous."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from medn.core.errors import UsageError
from medn.core.mistaken import told_instead
from medn.core.text import first_line

MAX_BYTES = 2**31
"""More than that no protobuf message can hold; larger models keep their weights in other files."""
MAX_OPERATORS = 200_000
"""After its functions are inlined. The largest language models have some ten thousand."""

MAX_LEVELS = 64
"""Of functions that call functions."""

Function = tuple[str, str, str]
"""Domain, name and overload."""


def function_of(node: onnx.NodeProto) -> Function:
    return node.domain, node.op_type, node.overload


def read_onnx(path: Path) -> onnx.ModelProto:
    """The model, without its weights where these lie elsewhere."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a file")
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path}: not an ONNX file: {path.stat().st_size:,} bytes, which none can have")
        model = onnx.load(path, format="protobuf", load_external_data=False)  # whatever it is called
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (DecodeError, ValueError) as error:
        raise UsageError(f"{path}: not an ONNX file: {first_line(error)}{told_instead(path)}") from None
    if not model.graph.node:
        raise UsageError(f"{path}: not an ONNX file, or one without any operator{told_instead(path)}")
    _check_functions(path, model)
    return model


def _check_functions(path: Path, model: onnx.ModelProto) -> None:
    """Functions that call functions grow with every level, so the inlined operators are counted before."""
    calls = {
        (function.domain, function.name, function.overload): Counter(_all_functions(function.node))
        for function in model.functions
    }
    sizes: dict[Function, int] = {}
    for _ in range(MAX_LEVELS):
        waiting = [name for name in calls if name not in sizes]
        ready = [name for name in waiting if all(function in sizes for function in calls[name] if function in calls)]
        sizes |= {name: _expanded(calls[name], sizes) for name in ready}
    unresolved = [name for name in calls if name not in sizes]
    if unresolved:
        raise UsageError(f"{path}: function {unresolved[0][1][:80]!r} calls itself, or others {MAX_LEVELS} levels deep")
    total = _expanded(Counter(_all_functions(model.graph.node)), sizes)
    if total > MAX_OPERATORS:
        raise UsageError(f"{path}: its functions inline into {total:,} operators; at most {MAX_OPERATORS:,} are read")


def _expanded(calls: Counter[Function], sizes: dict[Function, int]) -> int:
    return sum(count * sizes.get(name, 1) for name, count in calls.items())


def _all_functions(nodes: Iterable[onnx.NodeProto]) -> Iterator[Function]:
    """Every operator, those in the bodies of others included."""
    for node in nodes:
        yield function_of(node)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _all_functions(body.node)
