"""A registry finds its entries by itself: one file in one folder with one decorator adds an entry.

A user's own entries live in the user's own modules, named in the environment variable MEDN_PLUGINS with commas
between them; child processes inherit it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from medn.core.errors import UsageError, reason_of, unknown

PLUGINS = "MEDN_PLUGINS"


def brought_along(what: str, name: object) -> str:
    """The sentence for something that a file names and nobody registered: it may be the user's own.

    >>> brought_along("layer kind", "my_op")
    "this medn knows no layer kind named 'my_op'. If a module of yours brings it, name the module in MEDN_PLUGINS"
    """
    return f"this medn knows no {what} named {name!r}. If a module of yours brings it, name the module in {PLUGINS}"


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)
Class = TypeVar("Class", bound=type)


class Registry(Generic[Entry]):
    """Entries of one sort by name, one instance of each class that its module registered.

    The modules of `package` are imported at the first look-up, never when the registry is made.

    >>> shapes: Registry[Named] = Registry("shape", package="medn.core")
    >>> @shapes.register
    ... class Circle:
    ...     name = "circle"
    >>> shapes["circle"].name
    'circle'
    """

    def __init__(self, what: str, package: str) -> None:
        self.what = what
        self.package = package
        self._entries: dict[str, Entry] = {}
        self._discovered = False

    def register(self, entry_class: Class) -> Class:
        entry: Entry = entry_class()
        if entry.name in self._entries:
            raise ValueError(f"two entries of the {self.what} registry are named {entry.name!r}")
        self._entries[entry.name] = entry
        return entry_class

    def _discover(self) -> None:
        if not self._discovered:
            import_modules(self.package)
            self._discovered = True

    def __getitem__(self, name: str) -> Entry:
        self._discover()
        try:
            return self._entries[name]
        except KeyError:
            raise UsageError(unknown(self.what, name, self._entries)) from None

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self._discover()
        return len(self._entries)

    def values(self) -> list[Entry]:
        return [self[name] for name in self]


def import_modules(package_name: str) -> None:
    """Import every module of a package, and the user's own ones, so that what they register is known."""
    package = importlib.import_module(package_name)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package_name}.{module.name}")
    for name in filter(None, (written.strip() for written in os.environ.get(PLUGINS, "").split(","))):
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # it is somebody else's module, and may fail in any way
            raise UsageError(f"{PLUGINS} names {name!r}, which cannot be imported: {reason_of(error)}") from None
