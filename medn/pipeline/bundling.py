"""From what selection chose to the bundle that is shipped."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medn.bundle.bundle import Bundle, Entry, write_bundle
from medn.core.dataset import OUTCOME_COLUMNS
from medn.core.errors import UsageError
from medn.core.store import JOURNAL_NAME
from medn.core.values import Scalar
from medn.devices.cache import largest_cache_bytes
from medn.pipeline.candidates import Candidate
from medn.pipeline.further import load_further
from medn.pipeline.run_folder import RunFolder
from medn.pipeline.streaming import streaming_rates
from medn.pipeline.tables import imported_kinds, read_source

SUFFIX = ".medn"
QUIET: Mapping[str, Scalar] = {"batch_size": 1, "utilization": 0.0}
"""What a query means that does not say, whatever was measured most."""

OFTEN = 0.05
"""The share of the measurements from which on a value counts as one that was chosen, not one that happened."""


def bundle_run(folder: Path, chosen: Sequence[Candidate], path: Path | None = None) -> Path:
    """Write the bundle of a run, RUN/NAME.medn if no path is given, and say where it is."""
    target = path or folder / f"{folder.resolve().name}{SUFFIX}"
    write_bundle(target, made_bundle(folder, chosen, target.stem))
    return target


def made_bundle(folder: Path, chosen: Sequence[Candidate], name: str) -> Bundle:
    """The bundle of a run, in memory."""
    if not chosen:
        raise UsageError(f"nothing was chosen to put into a bundle of {folder}")
    conditions, further = _conditions(folder), load_further(folder)
    declared = imported_kinds(folder).declared
    entries = [
        Entry(
            latency=candidate,
            further=further.get((candidate.device, candidate.kind), {}),
            usual=_usual_values(_of(conditions, candidate)),
            declared=declared.get(candidate.kind),
        )
        for candidate in sorted(chosen, key=lambda each: (each.device, each.kind))
    ]
    environments, backends = _machines(folder)
    streaming = streaming_rates(read_source(folder), largest_cache_bytes(environments))
    return Bundle(name, tuple(entries), environments, backends=backends, streaming=streaming)


def _of(conditions: Mapping[tuple[str, str], list[dict[str, Any]]], candidate: Candidate) -> list[dict[str, Any]]:
    """What a candidate learned from; one for several devices belongs to none of them."""
    own = conditions.get((candidate.device, candidate.kind))
    return own or [each for (_, kind), found in conditions.items() if kind == candidate.kind for each in found]


def _machines(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The environments that were measured, and the backends of devices with names of their own."""
    if not (folder / JOURNAL_NAME).is_file():
        return {}, {}
    with RunFolder(folder).store(must_exist=True) as store:
        written = (store.read_note("config") or {}).get("backends", {})
        return store.environments(), {name: backend for name, backend in written.items() if name != backend}


def _conditions(folder: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The circumstances of all that was measured, by device and kind."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    if (folder / JOURNAL_NAME).is_file():
        with RunFolder(folder).store(must_exist=True) as store:
            for kind, device, condition in store.conditions():
                found.setdefault((device, kind), []).append(condition)
        return found
    source = read_source(folder)
    for kind, rows in source.rows.items():
        own = {"device", *OUTCOME_COLUMNS, *(each.name for each in source.layer_kind(kind).parameters)}
        for row in rows:
            condition = {name: value for name, value in row.items() if name not in own}
            found.setdefault((row["device"], kind), []).append(condition)
    return found


def _usual_values(conditions: Sequence[Mapping[str, Any]]) -> dict[str, Scalar]:
    """Each column of the circumstances with the value at which most was measured."""
    values: dict[str, list[Scalar]] = {}
    for condition in conditions:
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
