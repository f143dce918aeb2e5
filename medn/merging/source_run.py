"""A run that is to be merged with others: everything its journal holds, read and never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medn.core.calm import with_calm
from medn.core.errors import NothingMeasured, StoreError, UsageError
from medn.core.mistaken import told_instead
from medn.core.preempted import with_processor_time
from medn.core.store import JOURNAL_NAME, BlockVisit, MeasuredBlock, Store
from medn.core.values import Measurement, Visit
from medn.runs.folder import RunFolder
from medn.runs.stated_dtypes import read_dtypes
from medn.runs.tables import SHEETS_NOTE

VisitKey = tuple[object, ...]
"""Equal for one visit in two journals, such as a run and its copy hold it."""


@dataclass(frozen=True, eq=False)
class SourceRun:
    name: str
    """What tells it from the other runs, in words."""
    path: Path
    measurements: Sequence[Measurement]
    environments: Mapping[str, Mapping[str, Any]]
    environments_of: Mapping[str, frozenset[str]]
    """By device, where it was measured."""
    config: Mapping[str, Any]
    sheets: Mapping[str, Any]
    dtypes: Mapping[str, float]
    probe_reasons: Mapping[str, str]
    programs: Mapping[str, Mapping[str, Any]]
    """Tensor programs that were measured, by the keys of their points."""
    blocks: Sequence[tuple[MeasuredBlock, Sequence[BlockVisit]]]
    """Blocks of models that were timed."""

    @property
    def visits(self) -> int:
        return sum(len(measurement.visits) for measurement in self.measurements)


def read_source_runs(paths: Sequence[Path]) -> list[SourceRun]:
    """The runs in the order they were named; one that stands there twice is refused."""
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(paths):
        twice = next(path for path in paths if resolved.count(path.resolve()) > 1)
        raise UsageError(f"{twice} is named twice; name each run once")
    if len(paths) < 2:
        raise UsageError("name at least two runs to be merged")
    return [_read(path, name) for path, name in zip(paths, _told_apart(resolved), strict=True)]


def _read(path: Path, name: str) -> SourceRun:
    if not (path / JOURNAL_NAME).is_file():
        if path.is_dir() and any(path.rglob("*.parquet")):
            raise UsageError(f"{path} holds tables and no journal ({JOURNAL_NAME}): merge the runs that they came from")
        raise StoreError(f"{path} is no run: it holds no {JOURNAL_NAME}{told_instead(path)}")
    with RunFolder(path).store(must_exist=True) as store:
        return read_held(store, path, name)


def read_held(store: Store, path: Path, name: str) -> SourceRun:
    """What an open journal holds."""
    measurements = with_processor_time(with_calm(list(store.measurements())))
    if not measurements:
        raise NothingMeasured(f"{path} holds no measurements yet, so there is nothing to merge")
    environments_of: dict[str, set[str]] = {}
    for environment, devices in store.devices_by_environment().items():
        for device in devices:
            environments_of.setdefault(device, set()).add(environment)
    return SourceRun(
        name,
        path,
        measurements,
        store.environments(),
        {device: frozenset(found) for device, found in environments_of.items()},
        store.read_note("config") or {},
        store.read_note(SHEETS_NOTE) or {},
        read_dtypes(store),
        store.read_note("probe_reasons") or {},
        dict(store.programs()),
        list(store.blocks()),
    )


def _told_apart(paths: Sequence[Path]) -> list[str]:
    """The last parts of paths, as many as it takes until no two are the same."""
    for count in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def visit_key(point_key: str, visit: Visit, environments: Mapping[str, Mapping[str, Any]]) -> VisitKey:
    """What was measured is known by its moment; what was imported by its table, whenever it was brought in."""
    manifest = environments[visit.environment_id]
    origin: tuple[object, ...] = (visit.environment_id, visit.started_at)
    if "source" in manifest:
        origin = (manifest.get("sha256", visit.environment_id), manifest.get("part"))
    return (point_key, *origin, visit.status, visit.reason, visit.samples.wall_s.tobytes())
