"""Running a model without its data: tensors have shapes only, and questions about values are answered.

Small tensors that follow from constants, example inputs and buffers alone are computed beside the shapes, so that most
questions (is the mask all ones? how long is the sequence?) get the true answer. What depends on weights or large
inputs is guessed, and the guesses are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

LARGEST_KNOWN = 4096
"""Elements of a tensor whose values are followed."""

Listener = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
"""Is told of each operator: the overload, its arguments and keywords, and what it returned."""

aten = torch.ops.aten


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def written_by(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that an operator changes in place."""
    schema = function._schema
    if not schema.is_mutable:
        return []
    given = {argument.name: value for argument, value in zip(schema.arguments, arguments, strict=False)} | keywords
    changed = [each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    return tensors_in([given[name] for name in changed if name in given])


class KnownValues:
    """The values of small tensors on the meta device, as far as they do not depend on the model's data."""

    def __init__(self) -> None:
        self._values = WeakIdKeyDictionary()

    def learn(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        if value.numel() <= LARGEST_KNOWN and not value.is_meta:
            self._values[tensor] = value.detach().cpu()

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        found: torch.Tensor | None = self._values.get(tensor)  # type: ignore[no-untyped-call]
        return found

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


def grouped_product(
    rows: torch.Tensor, weights: torch.Tensor, offsets: Any = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """The products of all experts of a mixture, each with an equal share of the rows: data alone would tell more."""
    output = rows.new_empty((len(rows), weights.shape[-1]), dtype=out_dtype)
    experts = zip(*(each.tensor_split(len(weights)) for each in (rows, output)), weights, strict=True)
    for expert_rows, expert_output, weight in experts:
        if len(expert_rows):
            torch.mm(expert_rows, weight, out=expert_output)
    return output


class ListeningMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A real run, every operator of which is told to the listener."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listener = listener

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = function(*args, **(kwargs or {}))
        self._listener(function, args, kwargs or {}, output)
        return output


class AnsweringMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A run on shapes alone: whatever device the model's code names, tensors are made on the meta device."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = KnownValues()
        self.guesses = 0
        self._listener = listener
        self._without_data = WeakIdKeyDictionary()
        self._all_true = WeakIdKeyDictionary()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is aten._grouped_mm.default:
            with self:
                return grouped_product(*args, **(kwargs or {}))
        arguments, keywords = tree_map_only(torch.Tensor, self.to_meta, (args, kwargs or {}))
        if function is aten._local_scalar_dense.default:
            return self.answer(arguments[0]).item()
        if function is aten.equal.default:
            return self.answer(arguments[0]).equal(self.answer(arguments[1]))
        if any(argument.name == "device" for argument in function._schema.arguments):
            keywords["device"] = torch.device("meta")
        output = self._run(function, arguments, keywords)
        if function.overloadpacket is aten.all:
            self._all_true[output] = True
        self._listener(function, arguments, keywords, output)
        return output

    def _run(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        try:
            output = function(*arguments, **keywords)
        except Exception:  # some operators cannot tell their output's shape without data: each says so differently
            value = self.known.compute(function, arguments, keywords)
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

    def to_meta(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same tensor without data; one that the model's code made from numbers keeps its values aside."""
        if tensor.is_meta:
            return tensor
        if tensor not in self._without_data:
            self._without_data[tensor] = torch.empty_like(tensor, device="meta", requires_grad=False)
            if not isinstance(tensor, torch.nn.Parameter):
                self.known.learn(self._without_data[tensor], tensor)
        found: torch.Tensor = self._without_data[tensor]
        return found

    def answer(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's values; a guess where nobody can know: conditions on all elements hold, others do not."""
        known = self.known.of(tensor)
        if known is not None:
            return known
        self.guesses += 1
        if tensor.dtype is torch.bool:
            return torch.full(tensor.shape, tensor in self._all_true)
        return torch.ones(tensor.shape, dtype=tensor.dtype)


class ReadingMode(TorchFunctionMode):
    """Methods that read a tensor's memory directly, answered like the questions about single values."""

    def __init__(self, answering: AnsweringMode) -> None:
        super().__init__()
        self._answering = answering

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__):
            with _disable_current_modes():
                answer = self._answering.answer(self._answering.to_meta(args[0]))
                return function(answer, *args[1:], **(kwargs or {}))
        return function(*args, **(kwargs or {}))
