"""Running a model on the meta device: tensors have shapes only, and reads of values get an answer.

Small tensors that follow from constants, example inputs and buffers alone are computed beside the shapes, so that most
reads (is the mask all ones? how long is the sequence?) get the true value. What depends on weights or large
inputs is guessed, and the guesses are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch.fx.experimental import _config
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from medn.capture.data_dependence import Guesses
from medn.capture.operators import Listener, grouped_matmul, is_grouped_matmul, mutated_by, tensors_in
from medn.capture.tensor_copies import TensorCopies

MAX_TRACKED_ELEMENTS = 4096
"""Values of larger tensors are not tracked."""

aten = torch.ops.aten

SELECTING_NONZERO = (aten.nonzero, aten.index)
"""Their output is as long as there are nonzero elements."""


class TrackedValues:
    """Tensors on the meta device, and the values of the small ones as far as they do not depend on the model's data."""

    def __init__(self) -> None:
        self._values = WeakIdKeyDictionary()
        self._without_data = WeakIdKeyDictionary()
        self._shapes, self._copies = TensorCopies(with_data=False), TensorCopies(with_data=True)

    def learn(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Track the value from now on: what changes the one changes the other."""
        if value.numel() <= MAX_TRACKED_ELEMENTS and not value.is_meta:
            self._values[tensor] = value.detach().cpu()

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        value: torch.Tensor | None = self._values.get(tensor)  # type: ignore[no-untyped-call]
        return value

    def to_meta(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same tensor without data; of a small one that is no parameter the values are tracked."""
        if tensor.is_meta:
            return tensor
        if tensor not in self._without_data:
            self._without_data[tensor] = self.copy_without_data(tensor)
        meta: torch.Tensor = self._without_data[tensor]
        return meta

    def copy_without_data(self, tensor: torch.Tensor) -> torch.Tensor:
        """Like `to_meta`, but always a new tensor."""
        meta = self._shapes.of(tensor)
        if not isinstance(tensor, torch.nn.Parameter) and tensor.numel() <= MAX_TRACKED_ELEMENTS and not tensor.is_meta:
            self.learn(meta, self._value(tensor))
        return meta

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the values. Small memories are copied whole, so that their views share the copy too."""
        small = tensor.layout is torch.strided and tensor.untyped_storage().nbytes() <= 8 * MAX_TRACKED_ELEMENTS
        return self._copies.of(tensor) if small else tensor.detach().clone()

    def compute(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What the operator returns, or None where an input is unknown."""
        tensors = tensors_in((arguments, keywords))
        if torch.Tag.nondeterministic_seeded in function.tags or any(self.of(tensor) is None for tensor in tensors):
            self._forget(mutated_by(function, arguments, keywords))
            return None
        arguments, keywords = tree_map_only(torch.Tensor, self.of, (arguments, keywords))
        if "device" in keywords:
            keywords["device"] = torch.device("cpu")
        return function(*arguments, **keywords)

    def _forget(self, changed: Iterable[torch.Tensor]) -> None:
        """A value is unknown once something unknown is written into its storage."""
        storages = {tensor.untyped_storage()._cdata for tensor in changed}
        if storages:
            for tensor in list(self._values):
                if tensor.untyped_storage()._cdata in storages:
                    del self._values[tensor]


class MetaMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A run on shapes alone: whatever device the model's code names, tensors are made on the meta device."""

    def __init__(
        self,
        values: TrackedValues,
        listener: Listener,
        guesses: Guesses,
        made: list[ReferenceType[torch.Tensor]],
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values = values
        self._guesses = guesses
        self._listener = listener
        self._made = made
        """Weak references to all tensors that the run makes."""
        self._all_true = WeakIdKeyDictionary()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments, keywords = tree_map_only(torch.Tensor, self.values.to_meta, (args, kwargs or {}))
        if is_grouped_matmul(function, arguments):
            with self:
                return grouped_matmul(self._ends(*arguments[:3]), *arguments, **keywords)
        if function is aten._local_scalar_dense.default:
            return self.answer(arguments[0]).item()
        if function is aten.equal.default:
            return self.answer(arguments[0]).equal(self.answer(arguments[1]))
        if any(argument.name == "device" for argument in function._schema.arguments):
            keywords["device"] = torch.device("meta")
        output = self._run(function, arguments, keywords)
        if function.overloadpacket is aten.all:
            self._all_true[output] = True
        self._made += map(ref, tensors_in(output))
        self._listener(function, arguments, keywords, output)
        return output

    def _run(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        try:
            output = function(*arguments, **keywords)
        except Exception:  # some operators cannot tell their output's shape without data: each says so differently
            value = self.values.compute(function, arguments, keywords)
            if value is None and function.overloadpacket in SELECTING_NONZERO:
                return self._all_nonzero(function, arguments, keywords)
            if value is None:
                raise
            output = tree_map_only(torch.Tensor, lambda tensor: torch.empty_like(tensor, device="meta"), value)
        else:
            small = all(tensor.numel() <= MAX_TRACKED_ELEMENTS for tensor in tensors_in(output))
            value = self.values.compute(function, arguments, keywords) if small else None
        if value is not None:
            for tensor, tracked in zip(tensors_in(output), tensors_in(value), strict=True):
                self.values.learn(tensor, tracked)
        return output

    def _all_nonzero(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Only data would tell how many elements are nonzero: all are assumed to be."""
        with _config.patch(meta_nonzero_assume_all_nonzero=True):  # type: ignore[attr-defined]
            output = function(*arguments, **keywords)
        self._guesses.add("all elements of a mask")
        return output

    def answer(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's values; where they are unknown a guess: conditions on all elements hold, others do not."""
        value = self.values.of(tensor)
        if value is not None:
            return value
        guess: Any = tensor in self._all_true if tensor.dtype is torch.bool else 1
        self._guesses.add(str(guess))
        return torch.full(tensor.shape, guess, dtype=tensor.dtype)

    def _ends(self, rows: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> list[int]:
        """Where each expert's share of the rows ends; equal shares where it depends on data."""
        tracked = self.values.of(offsets)
        if tracked is not None:
            return [int(end) for end in tracked]
        self._guesses.add("equal shares of the rows")
        return [len(rows) * (expert + 1) // len(weights) for expert in range(len(weights))]


class MetaReadMode(TorchFunctionMode):
    """Methods that read a tensor's memory directly get the same answers as reads of single values."""

    def __init__(self, mode: MetaMode) -> None:
        super().__init__()
        self._mode = mode

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__):
            with _disable_current_modes():
                tensor = self._mode.answer(self._mode.values.to_meta(args[0]))
                return function(tensor, *args[1:], **(kwargs or {}))
        return function(*args, **(kwargs or {}))
