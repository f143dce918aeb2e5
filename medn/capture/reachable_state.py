"""The state that code can reach beside its arguments, saved so that it can be restored.

These are the names that the code uses: class attributes, closures, default arguments and global names, with the
containers and objects they hold. Caches of functions that were filled meanwhile are cleared.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from medn.capture.model_copy import CODE, FIXED, names_in, slots_of

OPAQUE = {*sys.stdlib_module_names, "numpy"}
"""Objects of their classes are not searched."""
LIBRARIES = {*OPAQUE, "torch", "medn"}
"""Their global names are not part of the model."""
CONTAINERS = (OrderedDict, dict, list, deque, set)
MAX_ITEMS = 10_000
"""Items of a container that are searched; of a longer one, only the items themselves are restored."""
MAX_OBJECTS = 300_000
"""Objects that are searched."""
LARGEST_ARRAY_BYTES = 1 << 20
ABSENT = object()


class ReachableState:
    """Everything that can be reached from some functions and classes, as it is now."""

    def __init__(self, code: Iterable[Any]) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._names: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        """By namespace: the names that are used, as they are now."""
        self._seen: dict[int, Any] = {}
        self._used = {"forward"}
        self._unused: dict[str, list[Any]] = {}
        """Methods of classes by the names that no code has used so far."""
        self._pending = list(code)
        while self._pending and len(self._seen) < MAX_OBJECTS:
            value = self._pending.pop()
            if id(value) not in self._seen and not isinstance(value, _IGNORED):
                self._seen[id(value)] = value
                with suppress(Exception):  # an object that raises when it is read is not restored
                    self._look(value)

    def restore(self) -> None:
        for undo in self._undo:
            try:
                undo()
            except Exception as error:  # whatever a class raises; the others are restored all the same
                warnings.warn(f"something that the model's code changed could not be restored: {error}", stacklevel=2)
        for space, before in self._names.values():
            _restore_names(space, before)

    def _look(self, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, CONTAINERS):
            self._container(value)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._cache(value)
        elif isinstance(value, np.ndarray):
            if value.nbytes <= LARGEST_ARRAY_BYTES and value.flags.writeable:
                self._undo.append(functools.partial(np.copyto, value, value.copy()))
        elif isinstance(value, torch.Generator):
            self._undo.append(functools.partial(value.set_state, value.get_state()))
        elif isinstance(value, (tuple, frozenset)):
            self._pending.extend(value)
        elif isinstance(value, weakref.ref):
            self._pending.append(value())
        elif isinstance(value, tuple(_PARTS)):
            names = next(names for kind, names in _PARTS.items() if isinstance(value, kind))
            self._pending.extend(getattr(value, name) for name in names)
        else:
            self._object(value)

    def _function(self, function: types.FunctionType) -> None:
        for cell in function.__closure__ or ():
            self._cell(cell)
        defaults = function.__defaults__, function.__kwdefaults__
        self._pending += [*defaults, function.__dict__]
        if not _of_library(function.__globals__.get("__name__")):
            names = names_in(function.__code__)
            for name in names - self._used:
                self._pending += self._unused.pop(name, ())
            self._used |= names
            for module in self._use(function.__globals__, names):
                self._use(vars(module), names)

    def _use(self, space: dict[str, Any], names: frozenset[str]) -> list[types.ModuleType]:
        """Save these names of a namespace; returns the modules among them."""
        before = self._names.setdefault(id(space), (space, {}))[1]
        new = {name: space.get(name, ABSENT) for name in names if name not in before}
        before |= new
        self._pending += new.values()
        modules = [module for name in names if isinstance(module := before[name], types.ModuleType)]
        return [module for module in modules if not _of_library(module.__name__)]

    def _cell(self, cell: types.CellType) -> None:
        try:
            before = cell.cell_contents
        except ValueError:  # nothing in it yet
            return
        self._undo.append(lambda: setattr(cell, "cell_contents", before))
        self._pending.append(before)

    def _class(self, kind: type) -> None:
        if _of_library(kind.__module__):
            return
        before = dict(vars(kind))
        self._undo.append(lambda: _restore_class(kind, before))
        self._pending += kind.__mro__[1:]
        for name, member in before.items():
            name = kind.__name__ if name == "__init__" else name
            used = name in self._used or name.startswith("__") or not isinstance(member, CODE)
            (self._pending if used else self._unused.setdefault(name, [])).append(member)

    def _container(self, value: Any) -> None:
        base: Any = next(container for container in CONTAINERS if isinstance(value, container))
        fill = base.extend if base in (list, deque) else base.update
        before = list(base.items(value) if issubclass(base, dict) else value)

        def undo() -> None:
            now = base.items(value) if issubclass(base, dict) else value
            if len(now) != len(before) or not all(map(_identical, now, before)):
                base.clear(value)
                fill(value, before)

        self._undo.append(undo)
        if len(before) <= MAX_ITEMS:
            self._pending += base.values(value) if issubclass(base, dict) else before

    def _cache(self, cached: Any) -> None:
        before = cached.cache_info()
        self._undo.append(lambda: cached.cache_info().misses != before.misses and cached.cache_clear())
        self._pending.append(cached.__wrapped__)

    def _object(self, value: Any) -> None:
        kind = type(value)
        if kind.__module__.partition(".")[0] in OPAQUE and not isinstance(value, types.SimpleNamespace):
            return
        self._pending += [kind, getattr(value, "__dict__", None)]
        for name in slots_of(kind):
            if not hasattr(value, name):
                continue
            before = getattr(value, name)
            self._undo.append(functools.partial(_restore_slot, value, name, before))
            self._pending.append(before)


_IGNORED = (*FIXED, types.BuiltinFunctionType, torch.Tensor)
"""Tensors are not restored: no operator writes into those of others while a model is captured."""
_PARTS: Mapping[type, tuple[str, ...]] = {
    types.MethodType: ("__func__", "__self__"),
    functools.partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset"),
}


def _of_library(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in LIBRARIES


def _identical(one: Any, other: Any) -> bool:
    pair = type(one) is tuple and type(other) is tuple and len(one) == len(other) == 2
    return one is other or (pair and one[0] is other[0] and one[1] is other[1])


def _restore_names(space: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name, value in before.items():
        if space.get(name, ABSENT) is not value:
            if value is ABSENT:
                del space[name]
            else:
                space[name] = value


def _restore_slot(value: Any, name: str, before: Any) -> None:
    if getattr(value, name, ABSENT) is not before:
        object.__setattr__(value, name, before)


def _restore_class(kind: type, before: Mapping[str, Any]) -> None:
    now = dict(vars(kind))
    for name in now.keys() - before.keys():
        type.__delattr__(kind, name)
    for name, value in before.items():
        if now.get(name, ABSENT) is not value:
            type.__setattr__(kind, name, value)
