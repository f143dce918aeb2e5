"""In a checkout some folders of this package stand beside it. They are found there, and nothing else is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, MutableSequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

FOLDERS = ("layer_generators", "regressors", "selection", "experiments/configs", "experiments/imports")
"""As `package_dir` in setup.cfg maps them; each is imported by its last name."""


class Beside:
    """Finds modules for an entry of the package's search path that is no directory, but a choice of folders of one."""

    def __init__(self, root: Path) -> None:
        self.parents = {Path(folder).name: str((root / folder).parent) for folder in FOLDERS}

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        parent = self.parents.get(name.rpartition(".")[2])
        return None if parent is None else PathFinder.find_spec(name, [parent], target)

    def iter_modules(self, prefix: str = "") -> Iterable[tuple[str, bool]]:
        """What `pkgutil` lists: names, and whether they are packages."""
        return [(prefix + folder, True) for folder in self.parents]


def add_folders(search_path: MutableSequence[str], root: Path) -> None:
    """Have the folders that stand in `root` found by the package with this search path."""
    entry = str(root / f"[{'|'.join(Path(folder).name for folder in FOLDERS)}]")

    def hook(path: str) -> Beside:
        if path != entry:
            raise ImportError(path)  # as a path hook says that others are to look at it
        return Beside(root)

    sys.path_hooks.append(hook)
    search_path.append(entry)
