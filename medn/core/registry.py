"""A registry finds its entries by itself: one file in one folder with one decorator adds an entry.

Entries of others come with plug-ins (medn/core/plugins.py). Who asks for one of medn's own does not wait for those of
installed packages: they are looked for when a name is not known, and when all are listed.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

from medn.core.errors import UsageError, did_you_mean, unknown
from medn.core.plugins import BRING, failures, installed, load_named
from medn.core.text import shown


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)
Class = TypeVar("Class", bound=type)


def _instance(entry_class: Any) -> Any:
    return entry_class()


class Registry(Generic[Entry]):
    """Entries of one sort by name: one instance of each class that its module registered, or what `make` makes of it.

    The modules of `package` are imported at the first look-up, never when the registry is made. In names `-` and `_`
    are the same.

    >>> shapes: Registry[Named] = Registry("shape", package="medn.core")
    >>> @shapes.register
    ... class Circle:
    ...     name = "full_circle"
    >>> shapes["full-circle"].name
    'full_circle'
    """

    def __init__(self, what: str, package: str, make: Callable[[Any], Entry] = _instance) -> None:
        self.what = what
        self.package = package
        self._make = make
        self._entries: dict[str, Entry] = {}
        self._imported: dict[str, ModuleType] = {}
        """The modules that registered entries, by the entry's key; of code that is in no module there is none."""
        self._has_own = False
        self._is_ready = False

    def register(self, entry_class: Class) -> Class:
        entry, module = self._make(entry_class), entry_class.__module__
        if not re.fullmatch(r"\w[\w.-]*", str(entry.name)):
            allowed = "letters, digits, '_', '-' and '.'"
            raise UsageError(f"a {self.what} is named with {allowed} (got {entry.name!r} in {module})")
        if not module.startswith(f"{self.package}."):
            self._load_own()  # so that of two with one name it is the stranger's that is refused
        self._drop_abandoned()
        key = _spelling(entry.name)
        known = self._entries.setdefault(key, entry)
        if known is not entry:
            raise UsageError(f"two {self.what}s are named {entry.name!r}, in {known.__module__} and in {module}")
        if module in sys.modules:
            self._imported[key] = sys.modules[module]
        return entry_class

    def _drop_abandoned(self) -> None:
        """What a module registered before its import failed goes with it: the module may be imported once more."""
        for key, module in list(self._imported.items()):
            if sys.modules.get(module.__name__) is not module:
                del self._entries[key], self._imported[key]

    def _load_own(self) -> None:
        if not self._has_own:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self.package}.{module.name}")
            self._has_own = True

    def _make_ready(self) -> None:
        if not self._is_ready:
            self._load_own()
            load_named()
            self._is_ready = True

    def _load_all(self) -> None:
        self._make_ready()
        installed()
        self._drop_abandoned()

    def _find(self, name: object) -> Entry | None:
        if not isinstance(name, str):
            return None
        key = _spelling(name)
        self._make_ready()
        if key not in self._entries:
            self._load_all()
        return self._entries.get(key)

    def __getitem__(self, name: str) -> Entry:
        entry = self._find(name)
        if entry is None:
            raise UsageError("; ".join([unknown(self.what, name, self), *failures()]))
        return entry

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        return iter(sorted(entry.name for entry in self._entries.values()))

    def __len__(self) -> int:
        self._load_all()
        return len(self._entries)

    def values(self) -> list[Entry]:
        return [self[name] for name in self]

    def absence(self, name: object) -> str:
        """The sentence for a name that a file holds and nobody registered here: it may be somebody's own."""
        near = did_you_mean(name, self) if isinstance(name, str) else ""
        return "; ".join([f"this medn knows no {self.what} named {shown(name)}.{near} {BRING}", *failures()])

    def spelled(self, name: str) -> str:
        """The name as its entry has it; as it is, where there is none."""
        entry = self._find(name)
        return name if entry is None else entry.name


def _spelling(name: str) -> str:
    return name.replace("-", "_")


def spelled(name: str, known: Iterable[str]) -> str:
    """The one of the known names that is meant, whether it is written with `-` or with `_`; as it is, where none is.

    >>> spelled("torch_cuda", ["torch", "torch-cuda"]), spelled("tocrh", ["torch"])
    ('torch-cuda', 'tocrh')
    """
    names = list(known)
    return name if name in names else next((each for each in names if _spelling(each) == _spelling(name)), name)


def known_name(what: str, name: str, known: Iterable[str]) -> str:
    """The same, where a name must be one of the known ones.

    >>> known_name("layer kind", "rms-norm", ["rms_norm", "linear"])
    'rms_norm'
    """
    names = list(known)
    meant = spelled(name, names) if isinstance(name, str) else name
    if meant not in names:
        raise UsageError(unknown(what, name, names))
    return meant
