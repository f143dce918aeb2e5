"""Captures a torch module or an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.core.packages import need

if TYPE_CHECKING:
    import torch


MAX_OPERATORS = 200_000


def capture(
    model: torch.nn.Module | str | Path,
    example_inputs: Any = None,
    batch_size: int | None = None,
    max_operators: int = MAX_OPERATORS,
) -> CapturedModel:
    """The layers of a model in order, with the tensors that flow between them; where possible from shapes alone.

    `example_inputs` of a module: a tensor, a sequence of arguments or a mapping of keyword arguments, on any device;
    tensors on the meta device will do. Of an ONNX file: the same, or shapes by input name, needed only where the
    file leaves sizes open. `batch_size` replaces the first axis of the inputs. A module whose call takes more than
    `max_operators` is given up: it may never end. The module and its inputs are left unchanged.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(64, 10), torch.nn.ReLU())
    >>> for each in capture(net, torch.zeros(8, 64)).layers:
    ...     print(each.layer)
    linear(bias=True, in_features=64, out_features=10, rows=1)
    activation(elements=10, function=relu)
    """
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"batch_size: must be at least 1 (got {batch_size})")
    if max_operators < 1:
        raise UsageError(f"max_operators: must be at least 1 (got {max_operators})")
    needed = "onnx" if isinstance(model, (str, Path)) else "torch"
    need("capturing this model", needed)
    if isinstance(model, (str, Path)):
        from medn.capture.onnx_capture import capture_onnx

        return capture_onnx(Path(model), example_inputs, batch_size)
    _check_module(model, example_inputs)
    from medn.capture.torch_capture import capture_module

    return capture_module(model, example_inputs, batch_size, max_operators)


def _check_module(model: object, example_inputs: Any) -> None:
    """What is easily given in its place gets a sentence of its own."""
    import torch

    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"a model must be a torch module or the path of an ONNX file (got {type(model).__name__})")
    if example_inputs is None:
        raise UsageError(f"{type(model).__name__}: example_inputs: missing, such as torch.zeros(1, 3, 224, 224)")
