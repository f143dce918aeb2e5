"""Tensors like others, on memory of their own: those that share memory share it again."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import is_lazy

PLAIN = (torch.Tensor, torch.nn.Parameter)


class Twins:
    """Makes the twin of any tensor, with the same values or, on the meta device, without any."""

    def __init__(self, with_data: bool) -> None:
        self._with_data = with_data
        self._made: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        """Both memories of each pair: as long as the first is kept, no other has its address."""

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        if is_lazy(tensor):
            return self._uninitialized(tensor)
        plain = type(tensor) in PLAIN and tensor.layout is torch.strided
        made = self.view(tensor) if plain and not (tensor.is_conj() or tensor.is_neg()) else self._apart(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(made, tensor.requires_grad)
        return made.requires_grad_() if tensor.requires_grad and tensor.is_leaf else made

    def view(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same part of the other memory."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._made:
            self._made[storage._cdata] = (storage, self._memory(storage))
        memory = self._made[storage._cdata][1]
        empty = torch.empty(0, dtype=tensor.dtype, device=memory.device)
        return empty.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's memory has a twin already."""
        return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in self._made

    def _memory(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if self._with_data:
            return storage.clone()  # type: ignore[no-untyped-call, no-any-return]
        return torch.UntypedStorage(storage.nbytes(), device="meta")  # type: ignore[no-untyped-call]

    def _apart(self, tensor: torch.Tensor) -> torch.Tensor:
        """The twin of what is more than a view of some memory, such as a sparse tensor."""
        if self._with_data:
            return tensor.detach().clone()
        if tensor.layout is torch.strided:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        return torch.empty_like(tensor, device="meta", requires_grad=False)

    def _uninitialized(self, tensor: Any) -> torch.Tensor:
        """A lazy module's parameter takes its shape at the first call, and its device from here."""
        facts: dict[str, Any] = {"device": tensor.device if self._with_data else "meta", "dtype": tensor.dtype}
        made: torch.Tensor = type(tensor)(requires_grad=tensor.requires_grad, **facts)
        return made
