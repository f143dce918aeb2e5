"""Undoes what a call of a model changes beside the model itself: global names, random state, settings."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from medn.capture.reachable_state import ReachableState

Setting = tuple[Callable[[], Any], Callable[[Any], Any]]
"""How it is read, and how it is set."""

GENERATORS: tuple[Setting, ...] = (
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),  # the global one
    (torch.get_rng_state, torch.set_rng_state),
)
SETTINGS: tuple[Setting, ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
)


@contextmanager
def undo_side_effects(code: Iterable[Any]) -> Iterator[None]:
    """Undo, also after a failure, all changes to state that these functions and classes can reach."""
    with ExitStack() as stack:
        for read, write in _generators():
            stack.callback(write, read())
        for setting in SETTINGS:
            stack.callback(_set, setting, setting[0]())
        stack.callback(ReachableState(code).restore)
        if "torch._dynamo" in sys.modules:  # compiled code would be specialised for these shapes
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _generators() -> Iterator[Setting]:
    yield from GENERATORS
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        yield torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all


def _set(setting: Setting, before: Any) -> None:
    read, write = setting
    if read() != before:
        write(before)
