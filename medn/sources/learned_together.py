"""The network that has learned known devices together: trained once for a run that leans on them, and kept there.

RUN/sources/together/KIND.safetensors holds it, with some of the rows it learned from: nothing of the new device is in
it, so that whatever is trained on top of it may be judged on any row of that device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from medn.core.atomic import atomic_write
from medn.core.table import Array, Schema
from medn.regressors.encoding import Encoding
from medn.regressors.shared_encoder import DeviceRows, SharedEncoder
from medn.regressors.views import View
from medn.runs.tables import KindTable
from medn.sources.device_rows import side_by_side, tables_of
from medn.sources.source_views import LearnedWhere, SourceView

FOLDER = "together"
SUFFIX = ".safetensors"
FACTS = "medn"
VERSION = 1

FEWEST_ROWS = 50
"""Fewer rows tell no network anything."""


def network_path(sources: Path, kind: str) -> Path:
    return sources / FOLDER / f"{quote(kind, safe='')}{SUFFIX}"


def measured_on(runs: Sequence[Path], kind: str) -> dict[str, KindTable]:
    """By device, what it has learned a kind from, of the runs that say so."""
    found: dict[str, KindTable] = {}
    for run in runs:
        for device, table in tables_of(run, kind).items():
            found[device if device not in found else f"{device} of {run.name}"] = table
    return found


def learn_together(tables: Mapping[str, KindTable], seconds: float, seed: int = 0) -> SharedEncoder | None:
    """One network for what was measured on several devices; None where that is too little."""
    rows = side_by_side(tables, seed)
    if rows is None or len(rows.inputs) < FEWEST_ROWS:
        return None
    return SharedEncoder.fit(rows, seconds, seed)


def seen_from(shared: SharedEncoder, table: KindTable) -> SharedEncoder:
    """The same network as it sees the rows of another device's table."""
    rows = shared.rows
    low, high = rows.inputs.min(axis=0).astype(np.float64), rows.inputs.max(axis=0).astype(np.float64)
    usual: dict[str, Any] = {}
    for place, name in enumerate(rows.schema.names):
        values, counts = np.unique(rows.inputs[:, place], return_counts=True)
        most = float(values[counts.argmax()])
        if name in rows.schema.categories:
            low[place] = high[place] = most
            usual[name] = rows.schema.categories[name][int(most)]
        else:
            usual[name] = most
    seen = LearnedWhere(" and ".join(rows.names), rows.schema, low, high, _remainders(table, rows.schema), usual)
    return shared.seen_by(SourceView(seen, table).view())


def _remainders(table: KindTable, schema: Schema) -> list[str]:
    from medn.runs.inputs import remainders

    return [name for name in remainders(table.layer_kind) if name in schema.names]


def save_network(path: Path, shared: SharedEncoder) -> None:
    import safetensors.numpy

    rows = shared.rows
    arrays = {f"step.{place}.{name}": own for place, (_, step) in enumerate(shared.steps) for name, own in step.items()}
    arrays |= {"weight": shared.weight, "bias": shared.bias, **shared.encoding.arrays}
    arrays |= {"inputs": rows.inputs, "logs": rows.logs, "device": rows.device}
    facts = {
        "version": VERSION,
        "steps": [[name, list(step)] for name, step in shared.steps],
        "names": list(rows.names),
        "columns": list(rows.schema.names),
        "categories": {name: list(known) for name, known in rows.schema.categories.items()},
        **shared.encoding.facts,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    atomic_write(path, safetensors.numpy.save(plain, {FACTS: json.dumps(facts)}))


def read_network(path: Path) -> SharedEncoder | None:
    """What was kept; None where nothing was, or what this version cannot read: it can be learned again."""
    import safetensors.numpy
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
        arrays = safetensors.numpy.load(path.read_bytes())
        if facts["version"] != VERSION:
            return None
        return _restored(facts, arrays)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def _restored(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> SharedEncoder:
    schema = Schema(tuple(facts["columns"]), {name: tuple(known) for name, known in facts["categories"].items()})
    rows = DeviceRows(schema, arrays["inputs"], arrays["logs"], arrays["device"], tuple(facts["names"]))
    steps = tuple(
        (name, {array: arrays[f"step.{place}.{array}"] for array in own})
        for place, (name, own) in enumerate(facts["steps"])
    )
    weight: Array = arrays["weight"]
    own = Encoding.restore(facts, arrays)
    return SharedEncoder(rows, own, steps, weight, arrays["bias"], View.same(len(schema.names)))
