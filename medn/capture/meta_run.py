"""Running a model without its data: tensors have shapes only, and questions about values are answered.

Small tensors that follow from constants, example inputs and buffers alone are computed beside the shapes, so that most
questions (is the mask all ones? how long is the sequence?) get the true answer. What depends on weights or large
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
from medn.capture.operators import Listener, is_mixture, mixture, tensors_in, written_by
from medn.capture.tensor_copies import Twins

LARGEST_KNOWN = 4096
"""Elements of a tensor whose values are followed."""

aten = torch.ops.aten

PICKING_NONZERO = (aten.nonzero, aten.index)
"""Their output is as long as there are elements that are not zero, or true."""


class KnownValues:
    """Tensors on the meta device, and the values of the small ones as far as they do not depend on the model's data."""

    def __init__(self) -> None:
        self._values = WeakIdKeyDictionary()
        self._without_data = WeakIdKeyDictionary()
        self._shapes, self._copies = Twins(with_data=False), Twins(with_data=True)

    def learn(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """The value is the tensor's from now on: what changes the one changes the other."""
        if value.numel() <= LARGEST_KNOWN and not value.is_meta:
            self._values[tensor] = value.detach().cpu()

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        found: torch.Tensor | None = self._values.get(tensor)  # type: ignore[no-untyped-call]
        return found

    def to_meta(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same tensor without data; a small one that is no parameter keeps a copy of its values aside."""
        if tensor.is_meta:
            return tensor
        if tensor not in self._without_data:
            self._without_data[tensor] = self.twin(tensor)
        found: torch.Tensor = self._without_data[tensor]
        return found

    def twin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Like `to_meta`, but a new one of what has no data already."""
        made = self._shapes.of(tensor)
        if not isinstance(tensor, torch.nn.Parameter) and tensor.numel() <= LARGEST_KNOWN and not tensor.is_meta:
            self.learn(made, self._value(tensor))
        return made

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the values. Small memories are copied whole, so that their views share the copy too."""
        small = tensor.layout is torch.strided and tensor.untyped_storage().nbytes() <= 8 * LARGEST_KNOWN
        return self._copies.of(tensor) if small else tensor.detach().clone()

    def compute(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What the operator returns, or None where it works on values that are not known."""
        given = tensors_in((arguments, keywords))
        if torch.Tag.nondeterministic_seeded in function.tags or any(self.of(tensor) is None for tensor in given):
            self._forget(written_by(function, arguments, keywords))
            return None
        arguments, keywords = tree_map_only(torch.Tensor, self.of, (arguments, keywords))
        if "device" in keywords:
            keywords["device"] = torch.device("cpu")
        return function(*arguments, **keywords)

    def _forget(self, changed: Iterable[torch.Tensor]) -> None:
        """A value is no longer known once something unknown is written into its memory."""
        storages = {tensor.untyped_storage()._cdata for tensor in changed}
        if storages:
            for tensor in list(self._values):
                if tensor.untyped_storage()._cdata in storages:
                    del self._values[tensor]


class AnsweringMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A run on shapes alone: whatever device the model's code names, tensors are made on the meta device."""

    def __init__(
        self, known: KnownValues, listener: Listener, guesses: Guesses, made: list[ReferenceType[torch.Tensor]]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self._guesses = guesses
        self._listener = listener
        self._made = made
        """Is given every tensor that the run makes, for as long as somebody keeps it."""
        self._all_true = WeakIdKeyDictionary()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments, keywords = tree_map_only(torch.Tensor, self.known.to_meta, (args, kwargs or {}))
        if is_mixture(function, arguments):
            with self:
                return mixture(self._ends(*arguments[:3]), *arguments, **keywords)
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
            value = self.known.compute(function, arguments, keywords)
            if value is None and function.overloadpacket in PICKING_NONZERO:
                return self._all_picked(function, arguments, keywords)
            if value is None:
                raise
            output = tree_map_only(torch.Tensor, lambda each: torch.empty_like(each, device="meta"), value)
        else:
            small = all(tensor.numel() <= LARGEST_KNOWN for tensor in tensors_in(output))
            value = self.known.compute(function, arguments, keywords) if small else None
        if value is not None:
            for tensor, known in zip(tensors_in(output), tensors_in(value), strict=True):
                self.known.learn(tensor, known)
        return output

    def _all_picked(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """How many elements are not zero, only data would tell: taken are all."""
        with _config.patch(meta_nonzero_assume_all_nonzero=True):  # type: ignore[attr-defined]
            output = function(*arguments, **keywords)
        self._guesses.add("all elements of a mask")
        return output

    def answer(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's values; a guess where nobody can know: conditions on all elements hold, others do not."""
        known = self.known.of(tensor)
        if known is not None:
            return known
        value: Any = tensor in self._all_true if tensor.dtype is torch.bool else 1
        self._guesses.add(str(value))
        return torch.full(tensor.shape, value, dtype=tensor.dtype)

    def _ends(self, rows: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> list[int]:
        """Where each expert's share of the rows ends; equal shares where data alone would tell."""
        known = self.known.of(offsets)
        if known is not None:
            return [int(end) for end in known]
        self._guesses.add("equal shares of the rows")
        return [len(rows) * (expert + 1) // len(weights) for expert in range(len(weights))]


class ReadingMode(TorchFunctionMode):
    """Methods that read a tensor's memory directly, answered like the questions about single values."""

    def __init__(self, answering: AnsweringMode) -> None:
        super().__init__()
        self._answering = answering

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__):
            with _disable_current_modes():
                answer = self._answering.answer(self._answering.known.to_meta(args[0]))
                return function(answer, *args[1:], **(kwargs or {}))
        return function(*args, **(kwargs or {}))
