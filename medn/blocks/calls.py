"""How the sub-modules of a model are called while it runs, and each as a module that takes and gives tensors alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medn.capture.operators import tensors_in
from medn.model.measured_models import Timeable

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ModuleCall:
    """The arguments of a sub-module: the tensors among them, and what puts these back in their places."""

    module: torch.nn.Module
    tensors: tuple[torch.Tensor, ...]
    arguments: Callable[[tuple[torch.Tensor, ...]], tuple[Any, Any]]


def callable_names(model: Timeable) -> set[str]:
    """The sub-modules that a run of the model calls once, and with some tensor."""
    calls: dict[str, list[bool]] = {}

    def note(name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        calls.setdefault(name, []).append(bool(tensors_in((positional, named))))

    _run_watched(model, note)
    return {name for name, made in calls.items() if made == [True]}


def recorded_calls(model: Timeable, names: Collection[str]) -> dict[str, ModuleCall]:
    """How these sub-modules are called in a run of the model, tensors copied: the model may change them in place."""
    calls: dict[str, ModuleCall] = {}

    def record(name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        if name in names:
            calls[name] = _call(model[0].get_submodule(name), positional, named)

    _run_watched(model, record)
    return calls


def _run_watched(model: Timeable, watch: Callable[[str, tuple[Any, ...], dict[str, Any]], None]) -> None:
    """Run a model, telling the arguments of each call of a sub-module."""
    import torch

    module, inputs = model

    def hook(name: str) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], None]:
        return lambda _, positional, named: watch(name, positional, named)

    handles = [
        each.register_forward_pre_hook(hook(name), with_kwargs=True) for name, each in module.named_modules() if name
    ]
    try:
        with torch.inference_mode():
            module(*inputs)
    finally:
        for handle in handles:
            handle.remove()


def _call(module: torch.nn.Module, positional: tuple[Any, ...], named: Mapping[str, Any]) -> ModuleCall:
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, structure = tree_flatten((positional, dict(named)))
    is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
    others = [None if tensor else leaf for leaf, tensor in zip(leaves, is_tensor, strict=True)]

    def arguments(tensors: tuple[torch.Tensor, ...]) -> tuple[Any, Any]:
        given = iter(tensors)
        filled = [next(given) if tensor else leaf for leaf, tensor in zip(others, is_tensor, strict=True)]
        together: tuple[Any, Any] = tree_unflatten(filled, structure)
        return together

    with torch.inference_mode(False):  # a tensor of inference mode could not be exported
        own = tuple(leaf.clone() for leaf, tensor in zip(leaves, is_tensor, strict=True) if tensor)
    return ModuleCall(module, own, arguments)


def timeable(call: ModuleCall) -> Timeable:
    """The sub-module with weights of its own: others of the blocks may hold the same."""
    import torch
    from torch.utils._pytree import tree_flatten

    class FlatCall(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = copy.deepcopy(call.module)

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            positional, named = call.arguments(tensors)
            leaves, _ = tree_flatten(self.block(*positional, **named))
            return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))

    return FlatCall().eval().requires_grad_(False), call.tensors
