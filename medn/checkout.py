"""In a checkout three folders of this package stand beside it. They are found there, and nothing else is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, MutableSequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

FOLDERS = ("layer_generators", "regressors", "selection")


class Beside:
    """Finds modules for an entry of the package's search path that is no directory, but a choice of folders of one."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self.root], target) if name.rpartition(".")[2] in FOLDERS else None

    def iter_modules(self, prefix: str = "") -> Iterable[tuple[str, bool]]:
        """What `pkgutil` lists: names, and whether they are packages."""
        return [(prefix + folder, True) for folder in FOLDERS]


def add_folders(search_path: MutableSequence[str], root: Path) -> None:
    """Have the folders that stand in `root` found by the package with this search path."""
    entry = str(root / f"[{'|'.join(FOLDERS)}]")

    def hook(path: str) -> Beside:
        if path != entry:
            raise ImportError(path)  # as a path hook says that others are to look at it
        return Beside(root)

    sys.path_hooks.append(hook)
    search_path.append(entry)
