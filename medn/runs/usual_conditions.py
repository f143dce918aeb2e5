"""What a query means that does not say: each column of the circumstances with the value at which most was measured."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medn.core.quantities import measured_columns
from medn.core.store import JOURNAL_NAME
from medn.core.values import Scalar
from medn.runs.folder import RunFolder
from medn.runs.tables import Source

QUIET: Mapping[str, Scalar] = {"batch_size": 1, "utilization": 0.0}
"""What a query means that does not say, whatever was measured most."""

OFTEN = 0.05
"""The share of the measurements from which on a value counts as one that was chosen, not one that happened."""

Conditions = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""The circumstances of all that was measured, by device and kind."""


def measured_conditions(path: Path, source: Source) -> Conditions:
    """Of every visit, probes among them; of every row where tables are all that was kept."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    if (path / JOURNAL_NAME).is_file():
        with RunFolder(path).store(must_exist=True) as store:
            for kind, device, condition in store.conditions():
                found.setdefault((device, kind), []).append(condition)
        return found
    for kind, rows in source.rows.items():
        own = {"device", *measured_columns(), *(each.name for each in source.layer_kind(kind).parameters)}
        for row in rows:
            condition = {name: value for name, value in row.items() if name not in own}
            found.setdefault((row["device"], kind), []).append(condition)
    return found


def usual_conditions(conditions: Conditions, device: str, kind: str) -> dict[str, Scalar]:
    """Those of one kind on one device; a device of no measurement stands for all devices together."""
    own = conditions.get((device, kind))
    every = own or [each for (_, other), found in conditions.items() if other == kind for each in found]
    values: dict[str, list[Scalar]] = {}
    for condition in every:
        for name, value in condition.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return {**{name: _usual(found) for name, found in values.items()}, **QUIET}


def _usual(values: Sequence[Scalar]) -> Scalar:
    """The value seen most often; the median of numbers that hardly repeat, such as those of a probe."""
    value, count = Counter(values).most_common(1)[0]
    if isinstance(value, str) or count > len(values) * OFTEN:
        return value
    return statistics.median(float(each) for each in values)
