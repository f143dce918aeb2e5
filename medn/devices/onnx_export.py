"""The one way from a torch module to an ONNX file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.core.packages import install, is_installed
from medn.core.text import first_line
from medn.devices.backend import Unsupported
from medn.devices.file_cache import cached
from medn.devices.native_output import captured_prints

if TYPE_CHECKING:
    import torch

OPSET = 17
LARGEST_MODEL_BYTES = 2**31 - 2**20
"""An ONNX file is one protobuf message, and those end at two gigabytes."""


def export_onnx(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], cache: Path | None, key: str) -> bytes:
    """The module as an ONNX model with fixed shapes; `key` names module, inputs and exporter in the cache."""
    return cached(cache, f"{key}.onnx", lambda: _export(module, inputs))


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
