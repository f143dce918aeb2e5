"""Names of a package that are imported when they are first used, so that importing the package stays light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from medn.core.packages import need


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], submodules: Sequence[str] = (), needs: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package that shows names of these modules.

    `needs` are libraries without which none of them can be imported.
    """
    module_of = {name: module for module, names in modules.items() for name in names}
    shown = sorted([*module_of, *submodules])

    def find(name: str) -> Any:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        need(package, *needs)
        found = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return find, lambda: shown, shown
