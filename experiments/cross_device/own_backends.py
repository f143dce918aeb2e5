"""Four backends on this machine's CPU as devices: the same layers measured on each, by a sweep of a few minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import medn
from experiments.cross_device.tables import DeviceTable

BACKENDS = ("torch", "onnxruntime", "openvino", "mnn")
LAYERS = 240
"""Of each kind, on every backend."""

DRAWN: Mapping[str, Mapping[str, Any]] = {
    "conv2d": {
        "in_channels": {"log_range": [8, 256], "multiple_of": 8},
        "out_channels": {"log_range": [8, 256], "multiple_of": 8},
        "in_size": {"log_range": [7, 112]},
        "kernel_size": [1, 3, 5],
        "stride": [1, 2],
        "padding": [0, 1, 2],
        "dilation": 1,
        "groups": 1,
        "bias": False,
    },
    "linear": {
        "in_features": {"log_range": [32, 2048], "multiple_of": 8},
        "out_features": {"log_range": [32, 2048], "multiple_of": 8},
        "rows": {"log_range": [1, 128]},
    },
}


@dataclass(frozen=True)
class OwnTable(DeviceTable):
    """A kind of layer on all backends, measured here where it has not been."""

    source_family: str = "gaussian_process"

    def imported(self, data: Path, out: Path) -> Path:
        run = out / f"{self.name}-devices"
        if not (run / "measured").is_file():  # a sweep that was broken off goes on
            medn.sweep(self._config(), run)
            (run / "measured").touch()
        return run

    def _config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "devices": list(BACKENDS),
            "budget": {"points": LAYERS * len(BACKENDS)},
            "layers": {self.file: dict(DRAWN[self.file])},
            "conditions": {"batch_size": [1, 2, 4], "threads": 1, "per_layer": 1},
            "limits": {"flops": 3e8, "memory_bytes": 3e7},
            "measure": {"visits": 3, "visit_time": 0.02, "max_visits": 3},
        }


OWN_TABLES = {f"cpu_{kind}": OwnTable(f"cpu_{kind}", kind, "", lambda row: True) for kind in DRAWN}
