"""A layer made real: its module, inputs and expected outputs, filled with numbers that do not surprise a kernel.

A layer is built anew at every short visit, so building must cost little: modules are made without initialising
them, and their memory is filled by copying from one pool of random numbers that a process draws once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import medn
from medn.core.errors import MednError
from medn.core.values import Condition, Layer, content_key
from medn.devices.file_cache import cached
from medn.devices.onnx_export import export_onnx
from medn.devices.pool import POOL_SIZE, Fill, indices, pool
from medn.layer_generators.kind import TensorSpec, layer_kinds

if TYPE_CHECKING:
    import torch

TORCH_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
"""What torch computes in, where that is not float32. Layers in any other data type, such as int8, are converted by the
backend afterwards, and their inputs and outputs stay as they are."""


class WrongOutput(MednError):
    """A backend computed something other than torch did."""


class Workload:
    """A layer under a condition, ready to be handed to a backend. Equal layers hold equal numbers."""

    def __init__(
        self,
        layer: Layer,
        condition: Condition,
        module: torch.nn.Module,
        inputs: tuple[torch.Tensor, ...],
        onnx_cache: Path | None,
        fills: Sequence[Fill] = (),
    ) -> None:
        self.layer = layer
        self.condition = condition
        self.module = module
        self.inputs = inputs
        self.fills = tuple(fills)
        """What its weights and inputs were filled with."""
        self._onnx_cache = onnx_cache
        self._expected: list[NDArray[np.float32]] | None = None

    def expected(self) -> list[NDArray[np.float32]]:
        """What torch computes on the CPU, outputs flattened to one list."""
        import torch

        if self._expected is None:
            on_cpu = all(tensor.device.type == "cpu" for tensor in self.inputs)
            source = self if on_cpu else make_workload(self.layer, self.condition)
            with torch.inference_mode():
                self._expected = to_arrays(source.module(*source.inputs))
        return self._expected

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """The inputs for a backend that is not torch."""
        return [tensor.numpy() for tensor in self.inputs]

    def output_error(self, outputs: list[NDArray[np.float32]]) -> float:
        """How far a backend's outputs are from torch's."""
        return output_error(outputs, self.expected())

    def onnx_file(self) -> bytes:
        """The layer as an ONNX model with fixed shapes. Raises `Unsupported` where torch cannot export it."""
        return export_onnx(self.module, self.inputs, self._onnx_cache, self._key())

    def kept(self, form: str, make: Callable[[], bytes]) -> bytes:
        """Another form of the layer that takes long to make, kept beside its ONNX file."""
        return cached(self._onnx_cache, f"{self._key()}.{form}", make)

    def _key(self) -> str:
        import torch

        dtype = torch_dtype(self.condition)
        return content_key([self.layer.key, self.condition.batch_size, dtype, torch.__version__, medn.__version__])


def torch_dtype(condition: Condition) -> str:
    """The name of what torch computes in."""
    return TORCH_DTYPES.get(condition.dtype, "float32")


def make_workload(layer: Layer, condition: Condition, onnx_cache: Path | None = None, device: str = "cpu") -> Workload:
    """Build a layer and its inputs on a torch device.

    >>> layer = layer_kinds["linear"].layer(in_features=3, out_features=2)
    >>> make_workload(layer, Condition(batch_size=4)).expected()[0].shape
    (4, 2)
    """
    import torch

    kind = layer_kinds[layer.kind]
    values = kind.values_of(layer)
    dtype = getattr(torch, torch_dtype(condition))
    with torch.device(device), _without_random_initialisation():
        module = kind.build(values)
    module = module.eval().requires_grad_(False).to(dtype)
    filler = _Filler(layer, device)
    for parameter in module.parameters():
        filler.fill(parameter, scale=_weight_scale(parameter))
    inputs = tuple(filler.input(spec, dtype) for spec in kind.inputs(values, condition.batch_size))
    return Workload(layer, condition, module, inputs, onnx_cache, filler.fills)


def to_arrays(outputs: object) -> list[NDArray[np.float32]]:
    """The tensors in a module's result, however nested, as one flat list of arrays on the host."""
    import torch

    if isinstance(outputs, torch.Tensor):
        return [outputs.to(device="cpu", dtype=torch.float32).numpy()]
    if isinstance(outputs, (list, tuple)):
        return [array for part in outputs for array in to_arrays(part)]
    return []  # attention gives None in place of the weights nobody asked for


def output_error(actual: list[NDArray[np.float32]], expected: list[NDArray[np.float32]]) -> float:
    """The largest difference, relative to the largest expected value of the same output.

    >>> output_error([np.array([1.0, 2.0], np.float32)], [np.array([1.0, 4.0], np.float32)])
    0.5
    """
    got, wanted = [array.shape for array in actual], [array.shape for array in expected]
    if got != wanted:
        raise WrongOutput(f"outputs have the shapes {got} where torch gives {wanted}")
    errors = [0.0]
    for ours, theirs in zip(actual, expected, strict=True):
        if not np.isfinite(theirs).all():
            raise WrongOutput("torch's own output has values that are not finite, so there is nothing to compare with")
        if not np.isfinite(ours).all():
            raise WrongOutput("the output has values that are not finite where torch's are")
        largest = float(np.abs(theirs).max(initial=0.0))
        errors.append(float(np.abs(ours - theirs).max(initial=0.0)) / (largest or 1.0))
    return max(errors)


@lru_cache(maxsize=1)
def _without_random_initialisation() -> AbstractContextManager[object]:
    """Modules made in this context leave the memory of their weights as it is; buffers are set as ever."""
    import torch
    from torch.nn import init
    from torch.overrides import TorchFunctionMode

    skipped = {
        *(init.uniform_, init.normal_, init.trunc_normal_),
        *(init.kaiming_uniform_, init.kaiming_normal_, init.xavier_uniform_, init.xavier_normal_),
        *(torch.Tensor.uniform_, torch.Tensor.normal_),
    }

    class SkipRandom(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in skipped:
                return args[0] if args else kwargs["tensor"]
            return function(*args, **(kwargs or {}))

    return SkipRandom()


@lru_cache(maxsize=2)
def _pool(device: str) -> torch.Tensor:
    import torch

    return torch.from_numpy(pool()).to(device)


def _weight_scale(parameter: torch.Tensor) -> float:
    """Keeps outputs as large as inputs: a weight is divided by the root of the number of products that are summed."""
    if parameter.dim() < 2:
        return 1.0
    return 1.0 / math.sqrt(max(1, parameter.numel() // max(1, parameter.shape[0])))


class _Filler:
    """Walks through the pool from a place that the layer's key gives."""

    def __init__(self, layer: Layer, device: str) -> None:
        self._pool = _pool(device)
        self._position = int(layer.key, 16) % POOL_SIZE
        self.fills: list[Fill] = []

    def fill(self, tensor: torch.Tensor, scale: float = 1.0) -> None:
        import torch

        self.fills.append(Fill(self._position, scale, tuple(tensor.shape)))
        flat, filled = tensor.view(-1), 0
        while filled < flat.numel():
            count = min(flat.numel() - filled, POOL_SIZE - self._position)
            source = self._pool.narrow(0, self._position, count)
            torch.mul(source, scale, out=flat.narrow(0, filled, count))
            filled += count
            self._position = (self._position + count) % POOL_SIZE

    def input(self, spec: TensorSpec, dtype: torch.dtype) -> torch.Tensor:
        import torch

        if spec.indices_below is not None:
            drawn = indices(self._position, spec.indices_below, spec.shape)
            return torch.from_numpy(drawn).to(self._pool.device)
        tensor = torch.empty(spec.shape, dtype=dtype, device=self._pool.device)
        self.fill(tensor)
        return tensor
