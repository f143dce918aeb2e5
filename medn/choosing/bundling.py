"""From what selection chose to the bundle that is shipped."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from medn.bundle.bundle import Bundle, Entry, bundle_size, write_bundle
from medn.choosing.memory_rate import streaming_rates
from medn.core.dataset import OUTCOME_COLUMNS
from medn.core.errors import UsageError
from medn.core.store import JOURNAL_NAME
from medn.core.values import Scalar
from medn.deployed.candidate import Candidate
from medn.devices.cache import largest_cache_bytes
from medn.layer_generators.declared_kind import DeclaredKind
from medn.runs.folder import RunFolder
from medn.runs.tables import imported_kinds, read_source
from medn.training.further_quantities import Further, load_further

SUFFIX = ".medn"
QUIET: Mapping[str, Scalar] = {"batch_size": 1, "utilization": 0.0}
"""What a query means that does not say, whatever was measured most."""

LARGEST_SIZE = 10**9
COMMAS = 2
"""In the manifest, between an entry and the next: in the list of entries and in that of parts."""

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
    return Shipping.of(folder).bundle(name, sorted(chosen, key=lambda each: (each.device, each.kind)))


@dataclass(frozen=True, eq=False)
class Shipping:
    """What a bundle of a run holds beside the candidates."""

    usual: Callable[[str, str], Mapping[str, Scalar]]
    further: Further
    declared: Mapping[str, DeclaredKind]
    environments: Mapping[str, Any]
    backends: Mapping[str, str]
    streaming: Mapping[str, float]

    @classmethod
    def of(cls, folder: Path) -> Shipping:
        conditions = _conditions(folder)
        environments, backends = _machines(folder)
        return cls(
            cache(lambda device, kind: _usual_values(_of(conditions, device, kind))),
            load_further(folder),
            imported_kinds(folder).declared,
            environments,
            backends,
            streaming_rates(read_source(folder), largest_cache_bytes(environments)),
        )

    def bundle(self, name: str, chosen: Sequence[Candidate]) -> Bundle:
        entries = tuple(map(self._entry, chosen))
        return Bundle(name, entries, self.environments, backends=self.backends, streaming=self.streaming)

    def _entry(self, candidate: Candidate) -> Entry:
        return Entry(
            latency=candidate,
            further=self.further.get((candidate.device, candidate.kind), {}),
            usual=self.usual(candidate.device, candidate.kind),
            declared=self.declared.get(candidate.kind),
        )


class Sizes:
    """How many bytes the file has that candidates of a run are shipped in, found by packing them."""

    def __init__(self, folder: Path, places: int) -> None:
        self.shipping = Shipping.of(folder)
        self.name = folder.resolve().name
        self.last = max(places - 1, 0)
        self.fixed = bundle_size(self.shipping.bundle(self.name, ()))
        """What a bundle has before anything is in it."""

    def added(self, candidate: Candidate, costs: Mapping[str, float]) -> int:
        """What a candidate adds. Its own size stands in it as well, and takes no more room than the number here."""
        told = replace(candidate, costs={**costs, "bytes": LARGEST_SIZE})
        whole = bundle_size(self.shipping.bundle(self.name, (told,)), self.last)
        return whole - self.fixed + COMMAS


def _of(conditions: Mapping[tuple[str, str], list[dict[str, Any]]], device: str, kind: str) -> list[dict[str, Any]]:
    """What a candidate learned from; one for several devices belongs to none of them."""
    own = conditions.get((device, kind))
    return own or [each for (_, other), found in conditions.items() if other == kind for each in found]


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
