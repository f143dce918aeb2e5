"""Lets torchvision be imported beside a torch without CUDA.

Its wheels for Linux are built for CUDA. Beside another torch their library does not load, and torchvision, and with it
timm, then fails to import over two operators that nobody declared. This file needs nothing of medn: `make install` runs
it, and it puts a copy of itself into the environment, so that programs which know nothing of medn can import both too.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

LIBRARY_MODULE = "torchvision.extension"
"""The module that loads torchvision's library; torch is imported by then."""


class Waiting:
    """Asked for every module before it is imported, finds none; prepares torch when it is torchvision's turn."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == LIBRARY_MODULE and path:
            sys.meta_path.remove(self)
            if not library_loads(Path(path[0])):
                declare_operators()
        return None


def prepare() -> None:
    """From now on an import of torchvision succeeds, whether its library loads or not."""
    if not any(type(finder).__name__ == Waiting.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, Waiting())


def library_loads(folder: Path) -> bool:
    import torch

    try:
        for library in folder.glob("_C.*"):
            torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    except OSError:
        return False
    return True


def declare_operators() -> None:
    """The two operators that torchvision expects at its import; to call them is still an error, and says why."""
    import torch

    if hasattr(torch.ops.torchvision, "nms"):
        return
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
    DECLARED.append(library)


DECLARED: list[object] = []
"""Operators are declared for as long as the library that declares them is kept."""


def install() -> None:
    """Have every program of this environment prepared for torchvision."""
    folder, name = Path(sysconfig.get_path("purelib")), Path(__file__).stem
    (folder / f"{name}.py").write_bytes(Path(__file__).read_bytes())
    (folder / f"{name}.pth").write_text(f"import {name}; {name}.prepare()\n")


if __name__ == "__main__":
    install()
