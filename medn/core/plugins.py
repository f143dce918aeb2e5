"""Modules of others that register entries: importing one is all that is done with it.

An installed package names its module as an entry point of the group `medn.plugins`. A module of one's own, which
nobody installs, is named in the environment variable MEDN_PLUGINS, with commas between several; child processes
inherit it.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medn.core.errors import UsageError, reason_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGINS = "MEDN_PLUGINS"
GROUP = "medn.plugins"

BRING = f"If a package brings it, install the package here; if a module of yours does, name the module in {PLUGINS}"
"""Both ways, for who reads a run or a bundle of somebody who has more than medn's own."""

_installed: list[Plugin] | None = None


@dataclass(frozen=True)
class Plugin:
    """A module that an installed package names."""

    name: str
    distribution: str
    module: str
    failure: str | None
    """Why it cannot be imported; None if it could."""


def load_named() -> None:
    """Import the modules of MEDN_PLUGINS; whoever names one wants it, so one that fails ends what was begun."""
    for name in filter(None, (written.strip() for written in os.environ.get(PLUGINS, "").split(","))):
        if reason := _failure(name):
            raise UsageError(f"{PLUGINS} names {name!r}, which cannot be imported: {reason}")


def installed() -> list[Plugin]:
    """Those of installed packages, imported once in a process; one that fails takes no other with it."""
    global _installed
    if _installed is None:
        from importlib.metadata import entry_points  # takes longer than the whole of `import medn`

        points = entry_points(group=GROUP)
        _installed = [Plugin(each.name, _package(each), each.module, _failure(each.module)) for each in points]
    return _installed


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def failures() -> list[str]:
    """A sentence for each installed plug-in that could not be imported, as far as they were looked for."""
    return [
        f"the plug-in {each.name!r} of {each.distribution} cannot be imported: {each.failure}"
        for each in _installed or ()
        if each.failure
    ]


def _failure(module: str) -> str | None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # it is somebody else's module, and may fail in any way
        return reason_of(error)
    return None
