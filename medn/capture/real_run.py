"""A real run that is recorded, and that writes into no memory but its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from medn.capture.operators import Listener, grouped_matmul, is_grouped_matmul, mutated_by, tensors_in
from medn.capture.tensor_copies import TensorCopies

DIRECT = (torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__)
"""They expose the memory itself."""


class ListeningMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Reports every operator to the listener.

    Memory that existed before the run is copied when an operator is about to write into it,
    and from then on the copy is used in its place.
    """

    def __init__(self, listener: Listener, own: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listener = listener
        self._copies = TensorCopies(with_data=True)
        self._own: dict[int, StorageWeakRef] = {}
        """Memories made by this run. A weak reference costs no memory, and keeps the address from being used again."""
        self._keep(own)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments, keywords = tree_map_only(torch.Tensor, self._current, (args, kwargs or {}))
        if is_grouped_matmul(function, arguments):
            with self:
                return grouped_matmul(arguments[2].tolist(), *arguments, **keywords)
        if not all(map(self.owns, mutated_by(function, arguments, keywords))):
            for tensor in mutated_by(function, arguments, keywords):
                self._copies.of(tensor)
            arguments, keywords = tree_map_only(torch.Tensor, self._current, (arguments, keywords))
        output = function(*arguments, **keywords)
        storages = {tensor.untyped_storage()._cdata for tensor in _strided(tensors_in((arguments, keywords)))}
        self._keep(tensor for tensor in tensors_in(output) if _memory(tensor) not in storages)
        self._listener(function, arguments, keywords, output)
        return output

    def owns(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's memory was made by this run."""
        return tensor.layout is not torch.strided or _memory(tensor) in self._own

    def _current(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self._copies.has(tensor):
            return tensor
        copied = self._copies.view(tensor)
        self._keep([copied])
        return copied

    def _keep(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in _strided(tensors):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._own:
                self._own[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]


class DirectReadMode(TorchFunctionMode):
    """Reads of memory without an operator get a copy of what is not the run's own."""

    def __init__(self, listening: ListeningMode) -> None:
        super().__init__()
        self._listening = listening

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in DIRECT and not self._listening.owns(args[0]):
            args = (args[0].clone(), *args[1:])
        return function(*args, **(kwargs or {}))


def _strided(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for tensor in tensors if tensor.layout is torch.strided]


def _memory(tensor: torch.Tensor) -> int | None:
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else None
