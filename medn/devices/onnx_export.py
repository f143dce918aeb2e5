"""The one way from a torch module to an ONNX file, with a bounded cache on disk."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.core.atomic import atomic_write
from medn.core.packages import install, is_installed
from medn.core.text import first_line
from medn.devices.backend import Unsupported
from medn.devices.native_output import captured_prints

if TYPE_CHECKING:
    import torch

OPSET = 17
LARGEST_MODEL_BYTES = 2**31 - 2**20
"""An ONNX file is one protobuf message, and those end at two gigabytes."""
LARGEST_CACHED_BYTES = 128 * 2**20
CACHE_BYTES = 2 * 2**30
CACHE_FILES = 4096
"""The cache holds no single file above the first bound, and in all no more bytes and files than the others say."""


def export_onnx(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], cache: Path | None, key: str) -> bytes:
    """The module as an ONNX model with fixed shapes; `key` names module, inputs and exporter in the cache."""
    return cached(cache, f"{key}.onnx", lambda: _export(module, inputs))


def cached(cache: Path | None, name: str, make: Callable[[], bytes]) -> bytes:
    """The file of this name in the cache; made first, and kept if there is a cache, where it is not there."""
    if cache is None:
        return make()
    file = cache / name
    with suppress(FileNotFoundError):
        return file.read_bytes()
    content = make()
    if len(content) <= LARGEST_CACHED_BYTES:
        cache.mkdir(parents=True, exist_ok=True)
        atomic_write(file, content)
        _prune(cache)
    return content


def _export(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> bytes:
    weights = sum(tensor.numel() * tensor.element_size() for tensor in (*module.parameters(), *module.buffers()))
    if weights > LARGEST_MODEL_BYTES:
        raise Unsupported(f"its weights take {weights / 2**30:.1f} GiB and an ONNX file holds at most 2 GiB")
    with captured_prints(), warnings.catch_warnings(action="ignore"), plain_attention():
        try:
            return _export_traced(module, inputs)
        except Exception as error:  # an exporter fails with whatever error its innermost operator raised
            traced = error
        reason = f"torch cannot export it to ONNX: {first_line(traced)}"
        if not is_installed("onnxscript"):
            raise Unsupported(f"{reason}. Its other exporter might: {install('train')}") from traced
        try:
            return _export_captured(module, inputs)
        except Exception as captured:
            raise Unsupported(reason) from captured


def _export_traced(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> bytes:
    import torch

    _teach_rms_norm()
    buffer = io.BytesIO()
    torch.onnx.export(
        module,
        inputs,
        buffer,  # type: ignore[arg-type]  # the traced exporter takes any writable object
        dynamo=False,
        opset_version=OPSET,
        input_names=input_names(len(inputs)),
    )
    return buffer.getvalue()


def _export_captured(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> bytes:
    import torch

    program = torch.onnx.export(module, inputs, dynamo=True, verbose=False, input_names=input_names(len(inputs)))
    assert program is not None
    return bytes(program.model_proto.SerializeToString())


@lru_cache(maxsize=1)
def _teach_rms_norm() -> None:
    """The one operator of the layer kinds that the traced exporter does not know; ONNX has it from opset 23 on."""
    import torch
    from torch.onnx import symbolic_helper

    @symbolic_helper.parse_args("v", "is", "v", "f")
    def rms_norm(graph: Any, value: Any, shape: list[int], weight: Any, epsilon: float | None) -> Any:
        axes = list(range(-len(shape), 0))
        smallest = torch.finfo(torch.float32).eps if epsilon is None else epsilon
        mean = graph.op("ReduceMean", graph.op("Mul", value, value), axes_i=axes, keepdims_i=1)
        raised = graph.op("Add", mean, graph.op("Constant", value_t=torch.tensor(smallest)))
        scaled = graph.op("Div", value, graph.op("Sqrt", raised))
        return scaled if symbolic_helper._is_none(weight) else graph.op("Mul", scaled, weight)

    torch.onnx.register_custom_op_symbolic("aten::rms_norm", rms_norm, OPSET)  # type: ignore[attr-defined]


def input_names(count: int) -> list[str]:
    """The names an exported model gives its inputs, in the order of the module's arguments."""
    return [f"input_{index}" for index in range(count)]


@contextmanager
def plain_attention() -> Iterator[None]:
    """Attention's fused fast path is one operator that no exporter knows."""
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _prune(folder: Path) -> None:
    """Remove the oldest files until the cache is within its bounds."""
    files = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # another process prunes the same folder
            status = entry.stat()
            files.append((status.st_mtime_ns, status.st_size, entry.path))
    files.sort(reverse=True)
    total = 0
    for count, (_, size, path) in enumerate(files, start=1):
        total += size
        if count > CACHE_FILES or total > CACHE_BYTES:
            Path(path).unlink(missing_ok=True)
