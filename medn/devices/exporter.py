"""The program that exports layers for devices elsewhere: `python -m medn.devices.exporter ONNX_CACHE`.

A process of its own, as torch may take any time and any memory for a layer, or crash.
"""

from __future__ import annotations

import sys
from pathlib import Path

from medn.core.values import Condition, Layer, freeze
from medn.devices.exported import export_key, export_layer
from medn.devices.file_cache import keep
from medn.devices.requests import Json, answer_requests


class LayerExporter:
    def __init__(self, cache: Path) -> None:
        self.cache = cache

    def start(self, request: Json) -> Json:
        import torch

        torch.set_num_threads(1)  # who exports may run beside what is measured
        return {}

    def export(self, request: Json) -> Json:
        """Write an exported layer into the cache, if it is not there already, and tell its file."""
        layer = Layer(request["kind"], freeze(request["layer"]))
        condition = Condition(**request["condition"])
        file = self.cache / f"{export_key(layer, condition)}.layer"
        if not file.exists():
            keep(self.cache, file.name, export_layer(layer, condition))
        return {"file": str(file)}


def main(cache: str) -> None:
    exporter = LayerExporter(Path(cache))
    answer_requests({"start": exporter.start, "export": exporter.export})


if __name__ == "__main__":
    main(sys.argv[1])
