"""Copies of tensors on memory of their own; tensors that share memory have copies that share it."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parameter import is_lazy

PLAIN = (torch.Tensor, torch.nn.Parameter)


class TensorCopies:
    """Copies any tensor, with its values or, on the meta device, without."""

    def __init__(self, with_data: bool) -> None:
        self._with_data = with_data
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        """The storage and its copy by address: as long as the first is kept, no other has its address."""

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        if is_lazy(tensor):
            return self._uninitialized(tensor)
        plain = type(tensor) in PLAIN and tensor.layout is torch.strided
        copied = self.view(tensor) if plain and not (tensor.is_conj() or tensor.is_neg()) else self._apart(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(copied, tensor.requires_grad)
        return copied.requires_grad_() if tensor.requires_grad and tensor.is_leaf else copied

    def view(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same view of the copied storage."""
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = (storage, self._memory(storage))
        memory = self._storages[storage._cdata][1]
        empty = torch.empty(0, dtype=tensor.dtype, device=memory.device)
        return empty.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor's storage was copied already."""
        return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in self._storages

    def _memory(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if self._with_data:
            return storage.clone()  # type: ignore[no-untyped-call, no-any-return]
        return torch.UntypedStorage(storage.nbytes(), device="meta")  # type: ignore[no-untyped-call]

    def _apart(self, tensor: torch.Tensor) -> torch.Tensor:
        """The copy of what is more than a strided view, such as a sparse tensor."""
        if self._with_data:
            return tensor.detach().clone()
        if tensor.layout is torch.strided:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        return torch.empty_like(tensor, device="meta", requires_grad=False)

    def _uninitialized(self, tensor: Any) -> torch.Tensor:
        """A lazy module's parameter takes its shape at the first call, and its device from here."""
        facts: dict[str, Any] = {"device": tensor.device if self._with_data else "meta", "dtype": tensor.dtype}
        copied: torch.Tensor = type(tensor)(requires_grad=tensor.requires_grad, **facts)
        return copied
