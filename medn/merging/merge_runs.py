"""Several runs as one: every visit once, each with its environment, all committed in one step.

What is written follows from the runs alone, so a merge that was stopped is made by the same command, and one of runs
that have grown since adds what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from medn.core.errors import StoreError, TooNoisy, UsageError
from medn.core.statistic import choose_target
from medn.core.store import BlockVisit, MeasuredBlock, Store
from medn.core.units import percent
from medn.core.values import Measurement, Point, Visit
from medn.merging.device_names import DeviceNames, check_one_environment, names_kept_apart, own_names
from medn.merging.overlap import Overlap, overlaps, shared_visits
from medn.merging.source_run import SourceRun, VisitKey, read_held, read_source_runs, visit_key
from medn.runs.folder import RunFolder
from medn.runs.imported_kinds import ImportedKinds
from medn.runs.measured import read_measured, record_target
from medn.runs.stated_dtypes import keep_dtypes
from medn.runs.tables import SHEETS_NOTE

MERGED_NOTE = "merged"
"""Where a run keeps which runs it was made of: by their folders, the names that their devices got."""

VISITS_PER_NOTICE = 1_000
SAID_OF_A_RUN = ("inputs", "drop", "unstable_above")
"""What the note of a config says beside names, which a merged run can have only one of."""


NO_NAMES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class MergeOutcome:
    points: int
    visits: int
    """In the merged run."""
    added: int
    """Visits that were not there yet."""
    shared: int
    """Visits that stood in several of the runs, and were taken once."""
    overlaps: tuple[Overlap, ...]
    renamed: tuple[tuple[str, str, str], ...]
    """Run, device and the name that it has here."""
    notes: tuple[str, ...]
    """What the runs say in different ways, in words."""

    @property
    def beyond_noise(self) -> list[Overlap]:
        return [each for each in self.overlaps if each.beyond_noise]


def merge_runs(
    paths: Sequence[Path],
    folder: RunFolder,
    *,
    keep_apart: bool = False,
    mix_environments: bool = False,
    strict: bool = False,
    on_visits: Callable[[int], None] | None = None,
) -> MergeOutcome:
    """Bring runs together in `folder`; they themselves are only read. With `strict`, not where they disagree."""
    if folder.path.resolve() in [path.resolve() for path in paths]:
        raise UsageError(f"--out {folder.path}: is one of the runs to be merged, which are not changed; choose another")
    runs = read_source_runs(paths)
    if not keep_apart and not mix_environments:
        check_one_environment(runs)
    ImportedKinds.of({key: manifest for run in runs for key, manifest in run.environments.items()})
    target, _ = choose_target(_pooled(runs))
    found = overlaps(runs, target)
    if strict:
        _check_agreement(found)
    names = names_kept_apart(runs, found) if keep_apart else own_names(runs)
    with folder.undone_on_error(), folder.locked(), folder.store() as store:
        _check_merged_before(store, runs, names)
        notes = _write_notes(store, runs, names)
        held = [(read_held(store, folder.path, "out"), NO_NAMES)] if store.visited() else []
        sources = [(run, names[run.name]) for run in runs]
        # One commit for all of them: a run that is half merged could not be told from one with fewer points.
        # What is held already comes first, so that its passes keep their numbers; the journal leaves it as it is.
        store.record(_counted(_visits([*held, *sources]), on_visits))
        store.record_blocks(_blocks(sources))
        measurements, chosen = read_measured(store)
        record_target(store, chosen)
    visits = sum(len(measurement.visits) for measurement in measurements)
    renamed = [(run, old, new) for run, devices in names.items() for old, new in devices.items() if old != new]
    return MergeOutcome(
        points=len(measurements),
        visits=visits,
        added=visits - sum(run.visits for run, _ in held),
        shared=shared_visits(runs).total(),
        overlaps=tuple(found),
        renamed=tuple(renamed),
        notes=tuple(notes),
    )


def _pooled(runs: Sequence[SourceRun]) -> list[Measurement]:
    """All visits to a point together, whatever run they are of."""
    found: dict[str, Measurement] = {}
    for measurement in (each for run in runs for each in run.measurements):
        known = found.setdefault(measurement.point.key, replace(measurement, visits=()))
        found[measurement.point.key] = replace(known, visits=(*known.visits, *measurement.visits))
    return list(found.values())


def _check_agreement(found: Sequence[Overlap]) -> None:
    for each in found:
        if each.beyond_noise:
            raise TooNoisy(
                f"{each.kind} on {each.device} differs by {percent(each.difference)} between {' and '.join(each.runs)} "
                f"(mean of {each.points} points), where each repeats to {percent(each.noise)}; nothing was merged. "
                "Without --strict both are kept, with --keep-apart under names of their own"
            )


def _check_merged_before(store: Store, runs: Sequence[SourceRun], names: DeviceNames) -> None:
    """What is there already must have been made from these runs, under the same names."""
    if not store.visited():
        return
    out, merged = store.path.parent, store.read_note(MERGED_NOTE)
    if merged is None:
        raise StoreError(f"{out} holds measurements that no merge brought there. Choose another folder with --out")
    given = {str(run.path.resolve()): names[run.name] for run in runs}
    if missing := [path for path in merged if path not in given]:
        raise StoreError(f"{out} was merged from {missing[0]} too. Name it again, or choose another folder with --out")
    for path, devices in merged.items():
        if changed := {device: name for device, name in devices.items() if given[path].get(device, name) != name}:
            device, name = next(iter(changed.items()))
            raise StoreError(
                f"{out} calls {device} of {path} {name!r}, which now would be {given[path][device]!r}. "
                "Choose another folder with --out"
            )


def _write_notes(store: Store, runs: Sequence[SourceRun], names: DeviceNames) -> list[str]:
    """What is known of the merged run beside its visits; sentences where runs say it in different ways."""
    for run in runs:
        keep_dtypes(store, run.dtypes)
        for key, manifest in run.environments.items():
            store.add_environment(key, manifest)
    known = store.read_note("config") or {}  # of an earlier merge, which others may have read
    config, told = _config([known, *(run.config for run in runs)])
    backends = _joined([known.get("backends", {}), *(_backends(run, names[run.name]) for run in runs)])
    sheets = _joined([store.read_note(SHEETS_NOTE) or {}, *(_by_name(run.sheets, names[run.name]) for run in runs)])
    store.note("config", {"name": store.path.parent.name, **config, "backends": backends})
    store.note(SHEETS_NOTE, sheets)
    if reasons := _joined([run.probe_reasons for run in runs]):
        store.note("probe_reasons", reasons)
    store.note(MERGED_NOTE, {str(run.path.resolve()): names[run.name] for run in runs})
    return told


def _joined(said: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the first says that says anything of a name."""
    return {name: value for each in reversed(said) for name, value in each.items()}


def _backends(run: SourceRun, names: Mapping[str, str]) -> dict[str, Any]:
    return _by_name(run.config.get("backends", {}), names)


def _by_name(said: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(device, device): each for device, each in said.items()}


def _config(configs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """What the first config says that says anything, and where others say something else."""
    found: dict[str, Any] = {}
    told = []
    for name in ("seed", *SAID_OF_A_RUN):
        said = [config[name] for config in configs if name in config]
        if said:
            found[name] = said[0]
        if name in SAID_OF_A_RUN and any(each != said[0] for each in said):
            told.append(f"the runs differ in {name}; that of the first is kept: {said[0]}")
    return found, told


def _visits(runs: Sequence[tuple[SourceRun, Mapping[str, str]]]) -> Iterator[tuple[Point, Visit]]:
    """Every visit once. It keeps the number of its pass, or where an earlier run has that one, gets the next."""
    recorded: Counter[VisitKey] = Counter()
    passes: dict[str, set[int]] = {}
    for run, names in runs:
        own: Counter[VisitKey] = Counter()  # a table may hold a row twice: the second is not the first seen again
        for measurement in run.measurements:
            point = replace(measurement.point, device=names.get(measurement.point.device, measurement.point.device))
            taken = passes.setdefault(point.key, set())
            program = run.programs.get(measurement.point.key, {})
            for visit in measurement.visits:
                key = visit_key(point.key, visit, run.environments)
                own[key] += 1
                if own[key] <= recorded[key]:
                    continue
                recorded[key] = own[key]
                number = visit.pass_number if visit.pass_number not in taken else max(taken) + 1
                taken.add(number)
                yield point, replace(visit, point_key=point.key, pass_number=number, program=program)


def _blocks(runs: Sequence[tuple[SourceRun, Mapping[str, str]]]) -> Iterator[tuple[MeasuredBlock, BlockVisit]]:
    for run, names in runs:
        for block, visits in run.blocks:
            named = replace(block, device=names.get(block.device, block.device))
            yield from ((named, visit) for visit in visits)


def _counted(
    entries: Iterator[tuple[Point, Visit]], on_visits: Callable[[int], None] | None
) -> Iterator[tuple[Point, Visit]]:
    for number, entry in enumerate(entries, start=1):
        yield entry
        if on_visits and number % VISITS_PER_NOTICE == 0:
            on_visits(VISITS_PER_NOTICE)
