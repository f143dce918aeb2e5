"""Everything about an object that a call could change, to be compared before and after: tensors bit by bit."""

from __future__ import annotations

import hashlib
import random
import types
import weakref
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

Snapshot = Mapping[str, Hashable]
"""The state at each path."""


def snapshot(value: Any, path: str = "model") -> Snapshot:
    """What the value and all that it holds look like: attributes, items, closures, and tensors with their memory."""
    state: dict[str, Hashable] = {}
    _look(value, path, state, {})
    return state


def random_snapshot() -> Snapshot:
    """The states of the random generators that everybody shares, and what torch is set to."""
    import numpy as np
    import torch

    return {
        "random": random.getstate(),
        "numpy.random": str(np.random.get_state()),  # it is the shared one that matters
        "torch": _digest(torch.get_rng_state().numpy().tobytes()),
        "dtype": str(torch.get_default_dtype()),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """The paths at which two imprints differ."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def changes_by_capture(model: Any, inputs: Any) -> list[str]:
    """What differs once the model was captured, where nothing should."""
    from medn.capture.capture import capture

    def everything() -> Snapshot:
        return {**snapshot(model), **snapshot(inputs, "inputs"), **random_snapshot()}

    before = everything()
    capture(model, inputs)
    return differences(before, everything())


def _look(value: Any, path: str, state: dict[str, Hashable], seen: dict[int, str]) -> None:
    import numpy as np
    import torch

    if id(value) in seen:
        state[path] = f"same as {seen[id(value)]}"
        return
    if isinstance(value, (int, float, complex, str, bytes, type, types.ModuleType, types.NoneType)):
        state[path] = (type(value).__name__, repr(value))
        return
    seen[id(value)] = path
    state[path] = (type(value).__qualname__, id(value))
    if isinstance(value, torch.Tensor):
        state[f"{path}#tensor"] = _tensor(value)
    elif isinstance(value, np.ndarray):
        state[f"{path}#array"] = _digest(value.tobytes())
    for name, part in _parts(value):
        _look(part, f"{path}{name}", state, seen)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{place}]", part) for place, part in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from ((f"[{place}]", part) for place, part in enumerate(sorted(value, key=repr)))
    elif isinstance(value, types.FunctionType):
        yield from ((f"<{place}>", cell.cell_contents) for place, cell in enumerate(value.__closure__ or ()))
        yield ".__defaults__", value.__defaults__
    elif isinstance(value, weakref.ref):
        yield "()", value()
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    # The attributes of a function, a tensor or a container too.
    yield from ((f".{name}", part) for name, part in sorted(getattr(value, "__dict__", {}).items()))
    if isinstance(value, torch.Tensor) and value.is_leaf:
        yield ".grad", value.grad


def _tensor(tensor: Any) -> Hashable:
    import torch

    if tensor.is_meta or isinstance(tensor, torch.nn.UninitializedParameter):
        return (str(tensor.device), str(tensor.dtype))
    content = tensor.detach().contiguous().flatten().view(torch.uint8) if tensor.numel() else torch.empty(0)
    facts = (str(tensor.device), str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
    return (*facts, tensor.data_ptr(), _digest(content.numpy().tobytes()))


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
