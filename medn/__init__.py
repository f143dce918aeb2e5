"""medn predicts what every layer of a neural network costs on a device.

The folders `layer_generators`, `regressors` and `selection` belong to this package. A wheel holds them inside
`medn/`; a checkout holds them beside it, so there this package's search path leads to them.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medn.predictor.predictor import Predictor

__version__ = "0.1.0"

_here = Path(__file__).resolve().parent
if not (_here / "layer_generators").is_dir():
    from medn.checkout import add_folders

    add_folders(__path__, _here.parent)


def load(path: str | PathLike[str], device: str | None = None) -> Predictor:
    """The predictor in a bundle, a file NAME.medn; with several devices in it, say which."""
    from medn.predictor.predictor import load as load_predictor

    return load_predictor(path, device)
