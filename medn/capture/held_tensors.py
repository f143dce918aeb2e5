"""The tensors that a model's code holds while it runs: each from the operator that made it until nobody refers to it.

Code keeps tensors longer than they are read: a variable of a caller lives on while what it calls runs. So how much
memory a model takes does not follow from its graph alone, and is seen while its code runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class _Held(NamedTuple):
    storage: StorageWeakRef
    size_bytes: int
    grows: bool
    """Whether it grows with the batch."""


class HeldTensors:
    """Storages that were made during a run; views of one share it, and it counts once."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}

    def add(self, tensors: Iterable[torch.Tensor], grows: bool) -> None:
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata not in self._held:
                reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
                self._held[storage._cdata] = _Held(reference, storage.nbytes(), grows)

    def bytes(self) -> tuple[int, int]:
        """What those take that are still held, and how much of it does not grow with the batch."""
        self._held = {
            address: each
            for address, each in self._held.items()
            if not each.storage.expired()  # type: ignore[no-untyped-call]
        }
        fixed = sum(each.size_bytes for each in self._held.values() if not each.grows)
        return sum(each.size_bytes for each in self._held.values()), fixed
