"""A copy of a model that shares nothing with it that a call could change.

Objects are copied as they lie in memory: neither `__deepcopy__` nor `__getstate__` of the model's own classes is
called. Tensors are replaced by what `copy_tensor` makes of them, so that weights need not be copied. Code is shared,
but not what a function of the model encloses, nor the modules it knows by global names: a hook or a replaced `forward`
often names the model itself. The functions and classes that were met are listed, so that the state they reach can be
restored.
"""

from __future__ import annotations

import copy
import enum
import functools
import io
import os
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from medn.core.errors import UsageError

CopyTensor = Callable[[torch.Tensor], torch.Tensor]
"""Makes the tensor that stands for another in a copy."""
CODE = (type, types.FunctionType, functools._lru_cache_wrapper, property, staticmethod, classmethod)
FIXED = (
    *(bool, int, float, complex, str, bytes, range, slice, types.NoneType, types.EllipsisType, types.ModuleType),
    *(types.CodeType, types.MappingProxyType, enum.Enum),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, torch.fx.Graph, torch.fx.Node),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket, np.dtype, np.generic),
)
"""Immutable, or left alone by a call of a model."""
LOCKS = {type(make()): make for make in (threading.Lock, threading.RLock)}
LARGEST_ARRAY_BYTES = 64 << 20
"""Larger numpy arrays are not copied but shown in a form that cannot be written to."""
MAX_DEPTH = 100_000
"""Calls within one another; the copies of nested modules nest as deeply."""


class NotCopied:
    """Stands where something cannot be copied, and says so as soon as it is used."""

    def __init__(self, kind: str, where: str) -> None:
        self.__dict__["_message"] = (
            f"{where} is a {kind}, which cannot be copied, and a call must not use the model's own"
        )

    def _refuse(self, *arguments: Any) -> Any:
        raise UsageError(self.__dict__["_message"])

    __getattr__ = __setattr__ = __call__ = __iter__ = __next__ = __enter__ = __exit__ = __len__ = __bool__ = _refuse
    __getitem__ = __setitem__ = __contains__ = __await__ = __aiter__ = __anext__ = _refuse


class _Released:
    """The class of a copy when it is released."""


_UNRELEASED: list[Any] = []
"""Copies that cannot be released."""


class Copier:
    """Copies whatever it is given, each object once, for as long as the `with` lasts."""

    def __init__(self, copy_tensor: CopyTensor) -> None:
        self.code: list[Any] = []
        """Functions and classes that were met; they are not copied."""
        self._copy_tensor = copy_tensor
        self._copies: dict[int, Any] = {}
        self._originals: list[Any] = []
        """Kept, so that no other object gets the address of one that was copied."""

    def __enter__(self) -> Copier:
        return self

    def __exit__(self, *error: object) -> None:
        """Release the copies without calling `__del__`: it would clean up what the originals still need."""
        for copied in self._copies.values():
            if hasattr(type(copied), "__del__") and not isinstance(copied, io.IOBase):
                try:
                    object.__setattr__(copied, "__class__", _Released)
                except TypeError:  # its memory is not that of a plain object
                    _UNRELEASED.append(copied)

    def copy(self, value: Any, where: str = "the model") -> Any:
        with _deep_calls():
            return self._copied(value, where)

    def _copied(self, value: Any, where: str) -> Any:
        if isinstance(value, CODE) and not _encloses(value):
            self.code.append(value)
            return value
        if isinstance(value, FIXED):
            return value
        if id(value) not in self._copies:
            self._originals.append(value)
            try:
                self._copies[id(value)] = self._made(value, where)
            except UsageError:
                raise
            except Exception:  # whatever a class raises that refuses to be copied
                self._copies[id(value)] = NotCopied(type(value).__name__, where)
        return self._copies[id(value)]

    def _made(self, value: Any, where: str) -> Any:
        special = _SPECIAL.get(type(value))
        if special is not None:
            return special(self, value, where)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, where)
        if isinstance(value, weakref.ref):
            return weakref.ref(referent) if (referent := self._copied(value(), where)) is not None else value
        if isinstance(value, io.IOBase) and not isinstance(value, (io.StringIO, io.BytesIO)):
            return _reopened(value, where)
        return self._instance(value, where)

    def _tuple(self, value: tuple[Any, ...], where: str) -> Any:
        return tuple([self._copied(item, where) for item in value])

    def _mapping(self, value: dict[Any, Any], where: str) -> Any:
        copied = self._copies[id(value)] = copy.copy(value)
        copied.clear()
        for key, part in list(value.items()):
            copied[self._copied(key, where)] = self._copied(part, f"{where}.{key}" if isinstance(key, str) else where)
        return copied

    def _sequence(self, value: list[Any] | deque[Any], where: str) -> Any:
        copied = self._copies[id(value)] = copy.copy(value)
        copied.clear()
        copied.extend([self._copied(part, where) for part in value])
        return copied

    def _set(self, value: set[Any], where: str) -> Any:
        copied: set[Any] = set()
        self._copies[id(value)] = copied
        copied.update([self._copied(part, where) for part in value])
        return copied

    def _tensor(self, value: torch.Tensor, where: str) -> torch.Tensor:
        copied = self._copies[id(value)] = self._copy_tensor(value)
        if value.__dict__ and copied is not value:
            for name, part in value.__dict__.items():
                copied.__dict__.setdefault(name, self._copied(part, f"{where}.{name}"))
        return copied

    def _instance(self, value: Any, where: str) -> Any:
        """An object with attributes, as it lies in memory; one with other insides by the protocol of its own."""
        kind = type(value)
        self.code.append(kind)
        plain = kind.__module__.partition(".")[0] not in sys.stdlib_module_names
        if not plain or isinstance(value, torch.jit.ScriptModule):
            return self._by_protocol(value, where)
        try:
            copied = object.__new__(kind)
        except TypeError:  # its memory is not that of a plain object
            return self._by_protocol(value, where)
        self._copies[id(value)] = copied
        for name, part in list(getattr(value, "__dict__", {}).items()):
            copied.__dict__[name] = self._copied(part, where if name == "_modules" else f"{where}.{name}")
        for name in slots_of(kind):
            if hasattr(value, name):
                object.__setattr__(copied, name, self._copied(getattr(value, name), f"{where}.{name}"))
        return copied

    def _by_protocol(self, value: Any, where: str) -> Any:
        if isinstance(value, np.ndarray) and value.nbytes > LARGEST_ARRAY_BYTES:
            view = value.view()
            view.flags.writeable = False
            return view
        if hasattr(type(value), "__deepcopy__"):
            return copy.deepcopy(value, self._copies)
        reduced: Any = value.__reduce_ex__(4)
        if isinstance(reduced, str):
            return value
        make, arguments, state, items, pairs = [*reduced, None, None, None][:5]
        copied = self._copies[id(value)] = make(*self._copied(tuple(arguments), where))
        state = self._copied(state, where)
        if hasattr(copied, "__setstate__") and state is not None:
            copied.__setstate__(state)
        else:
            _set_state(copied, state)
        for part in items or ():
            copied.append(self._copied(part, where))
        for key, part in pairs or ():
            copied[self._copied(key, where)] = self._copied(part, where)
        return copied

    def _method(self, value: types.MethodType, where: str) -> Any:
        return types.MethodType(self._copied(value.__func__, where), self._copied(value.__self__, where))

    def _function(self, value: types.FunctionType, where: str) -> Any:
        self.code.append(value)
        cells = tuple([self._cell(cell, where) for cell in value.__closure__ or ()])
        names = dict(value.__globals__) if _global_modules(value) else value.__globals__
        copied = types.FunctionType(value.__code__, names, value.__name__, None, cells)
        self._copies[id(value)] = copied
        for name in _global_modules(value):
            names[name] = self._copied(names[name], name)
        copied.__defaults__ = self._copied(value.__defaults__, where)
        copied.__kwdefaults__ = self._copied(value.__kwdefaults__, where)
        copied.__dict__.update(self._copied(value.__dict__, where))
        for cell, original in zip(cells, value.__closure__ or (), strict=True):
            self._fill(cell, original, where)
        return copied

    def _cell(self, cell: types.CellType, where: str) -> types.CellType:
        if id(cell) not in self._copies:
            self._originals.append(cell)
            self._copies[id(cell)] = types.CellType()
        copied: types.CellType = self._copies[id(cell)]
        return copied

    def _fill(self, cell: types.CellType, original: types.CellType, where: str) -> None:
        try:
            cell.cell_contents = self._copied(original.cell_contents, where)
        except ValueError:  # nothing in it yet
            return

    def _built_in(self, value: types.BuiltinMethodType, where: str) -> Any:
        """A method of something built in, such as `acquire` of a lock; of a module it is a plain function."""
        owner = value.__self__
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return value
        return getattr(self._copied(owner, where), value.__name__)

    def _proxy(self, value: Any, where: str) -> Any:
        return weakref.proxy(self._copied(value.__reduce_ex__.__self__, where))

    def _thread_local(self, value: threading.local, where: str) -> Any:
        copied = self._copies[id(value)] = threading.local()
        copied.__dict__.update(self._copied(dict(value.__dict__), where))
        return copied


def _random_generator(copier: Copier, value: torch.Generator, where: str) -> torch.Generator:
    return torch.Generator(value.device).set_state(value.get_state())


def _new_lock(copier: Copier, value: Any, where: str) -> Any:
    return LOCKS[type(value)]()


_SPECIAL: dict[type, Callable[[Copier, Any, str], Any]] = {
    tuple: Copier._tuple,
    **dict.fromkeys((dict, OrderedDict, defaultdict), Copier._mapping),
    **dict.fromkeys((list, deque), Copier._sequence),
    set: Copier._set,
    **dict.fromkeys((weakref.ProxyType, weakref.CallableProxyType), Copier._proxy),
    types.FunctionType: Copier._function,
    types.MethodType: Copier._method,
    types.BuiltinMethodType: Copier._built_in,
    threading.local: Copier._thread_local,
    torch.Generator: _random_generator,
    **dict.fromkeys(LOCKS, _new_lock),
}


def _encloses(value: Any) -> bool:
    """Whether a function has something of its own to be copied."""
    return isinstance(value, types.FunctionType) and bool(value.__closure__ or _global_modules(value))


def _global_modules(function: types.FunctionType) -> list[str]:
    """Global names of modules, or of their methods, that a function uses: the model itself may be among them."""
    values = [(name, function.__globals__.get(name)) for name in names_in(function.__code__)]
    return [name for name, value in values if isinstance(getattr(value, "__self__", value), torch.nn.Module)]


@functools.lru_cache(maxsize=100_000)
def names_in(code: types.CodeType) -> frozenset[str]:
    """The names that code uses for globals and attributes, that of inner functions included."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return frozenset(code.co_names).union(*map(names_in, inner))


def slots_of(kind: type) -> Iterator[str]:
    """The names of attributes that lie beside an object's `__dict__`."""
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            name = f"_{base.__name__.lstrip('_')}{name}" if private else name
            if isinstance(getattr(kind, name, None), types.MemberDescriptorType):  # and not a property in its place
                yield name


def _set_state(target: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        target.__dict__.update(attributes)
    for name, part in (slots or {}).items():
        setattr(target, name, part)


def _reopened(file: Any, where: str) -> Any:
    """An open file opened once more, at the same position; what is written is discarded."""
    try:
        name, mode = os.devnull if file.writable() else file.name, file.mode
        opened = open(name, mode) if "b" in mode else open(name, mode, encoding=file.encoding)  # noqa: SIM115
        opened.seek(0 if file.writable() else file.tell())
    except (OSError, AttributeError, ValueError, TypeError):  # closed, a socket, or telling no name
        return NotCopied(type(file).__name__, where)
    return opened


@contextmanager
def _deep_calls() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
