"""How fast a device reads what is in no cache: no layer was ever seen to read faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from medn.core.data_sheet import NO_SHEET
from medn.core.dataset import Row
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.table import Array
from medn.layer_generators.features import analytic_columns
from medn.layer_generators.kind import layer_kinds
from medn.runs.tables import Source


def streaming_rates(source: Source, cache_bytes: float) -> dict[str, float]:
    """The most bytes per second that a measured layer read from memory, by device; none where nothing had to be."""
    found: dict[str, float] = {}
    for device in source.devices:
        rates = [
            _rates([row for row in rows if row["device"] == device], kind, cache_bytes, source.dtypes)
            for kind, rows in source.rows.items()
            if kind not in source.imported.declared  # nobody knows what those read
        ]
        fastest = max((float(each.max(initial=0.0)) for each in rates), default=0.0)
        if fastest > 0:
            found[device] = fastest
    return found


def _rates(rows: Sequence[Row], kind: str, cache_bytes: float, dtypes: Mapping[str, float]) -> Array:
    """Bytes read per second by each layer of a kind, less what a cache may have held."""
    names = [*(parameter.name for parameter in layer_kinds[kind].parameters), "batch_size", "dtype"]
    good = [
        row
        for row in rows
        if row["status"] == "ok" and row["latency_s"] and all(row.get(name) is not None for name in names)
    ]
    if not good:
        return np.empty(0)
    columns = {name: np.array([row[name] for row in good]) for name in names}
    in_cache = np.array([0.0 if row.get("cache") == "cold" else cache_bytes for row in good])
    read = np.asarray(
        analytic_columns(layer_kinds[kind], columns, NO_SHEET, {**ELEMENT_BYTES, **dtypes})["bytes_read"],
        dtype=np.float64,
    )
    seconds = np.array([row["latency_s"] for row in good], dtype=np.float64)
    return np.asarray(np.maximum(read - in_cache, 0.0) / seconds)
