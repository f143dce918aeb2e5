"""Whether optional packages are installed, and the one sentence that says which to install for what."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from medn.core.errors import MednError


def is_installed(package: str) -> bool:
    """Told without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # what it is a part of is missing, or it is blocked
        return False


def missing(what: str, packages: Iterable[str], extra: str = "train", requirement: str = "") -> str | None:
    """What to install before something can be done, in one sentence; None if everything is there.

    What medn has no extra for is installed by a `requirement`, as pip takes it.

    >>> missing("a report", ["numpy", "no_such_package"])
    "a report needs no_such_package: pip install 'medn[train]'"
    """
    absent = [package for package in packages if not is_installed(package)]
    remedy = f"pip install '{requirement}'" if requirement else install(extra)
    return f"{what} needs {' and '.join(absent)}: {remedy}" if absent else None


def need(what: str, *packages: str, extra: str = "train", requirement: str = "") -> None:
    """Refuse to start what would fail halfway for want of a package."""
    if sentence := missing(what, packages, extra, requirement):
        raise MednError(sentence)


def install(extra: str) -> str:
    return f"pip install 'medn[{extra}]'"
