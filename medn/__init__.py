"""medn predicts what every layer of a neural network costs on a device.

The folders `layer_generators`, `regressors` and `selection` belong to this package. A wheel holds them inside
`medn/`; a checkout holds them beside it, so there the checkout's root joins this package's search path.
"""

from pathlib import Path

__version__ = "0.1.0"

_here = Path(__file__).resolve().parent
if not (_here / "layer_generators").is_dir():
    __path__.append(str(_here.parent))
