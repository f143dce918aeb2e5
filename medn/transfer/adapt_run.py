"""From a run of few measurements and bundles of known devices to a bundle for the new one.

Nothing here is another way to train: the bundles are put into the run, families that lean on them are trained beside
some that learn from the new device alone, and what ships is chosen among all of them as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import SelectOutcome, select_run
from medn.core.data_sheet import Sheet
from medn.core.errors import UsageError
from medn.deployed.candidate import Candidate, deployed_of
from medn.regressors.form import Form
from medn.regressors.forms.stack import Stack
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import regressors
from medn.runs.folder import RunFolder
from medn.runs.tables import SHEETS_NOTE, KindTable, Source, kind_table, read_source
from medn.selection.budget import Budget
from medn.sources.run_sources import KnownDevices, has_network, keep_network, keep_sources, source_files
from medn.training.train_run import OnProgress, TrainOutcome, train_run, validation_error
from medn.transfer.sheet_source import sheet_source

TARGET_ONLY = ("roofline", "gaussian_process", "lightgbm_on_roofline")
"""What learns from the new device alone: quick families that do well on few layers."""


TOGETHER_SHARE = 0.25
"""Of the time of training, for the network that learns known devices together."""


def adapting_families(has_rows: bool = False) -> list[str]:
    """All that lean on known devices, and some that do not: what is known elsewhere may mislead."""
    leaning = (
        each.name
        for each in regressors.values()
        if each.needs_sources and not each.only_by_name and (has_rows or not each.needs_source_rows)
    )
    return [*TARGET_ONLY, *leaning]


@dataclass(frozen=True, eq=False)
class AdaptOutcome:
    bundle: Path
    trained: TrainOutcome
    selected: SelectOutcome
    leaned_on: Mapping[str, Mapping[str, float]]
    """By device and kind, the share that each known device has in what was chosen; empty where none has any."""
    unusable: Mapping[str, str]
    """Known devices that could not be leaned on, with the reason."""
    elapsed_s: float

    def alone(self, chosen: Candidate) -> float | None:
        """The error on rows held out of the best that learned from the new device alone; None where nothing did."""
        errors = [
            validation_error(each)
            for each in self.trained.candidates
            if (each.device, each.kind) == (chosen.device, chosen.kind)
            and each.is_good
            and not regressors[each.regressor].needs_sources
        ]
        return min(errors, default=None)


def adapt_run(
    run: Path,
    sources: Sequence[Path],
    *,
    seconds: float = 60.0,
    budget: Budget | None = None,
    families: Sequence[str] = (),
    refit_all: bool = False,
    jobs: int = 1,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AdaptOutcome:
    """Learn what a run has measured of a new device, leaning on bundles of known ones, and write its bundle.

    The same call again keeps what is finished; the sources are kept in the run.
    """
    began = clock()
    families = [regressors[name].name for name in families]
    files = source_files(sources)
    runs = [file.parent for file in files]
    source = read_source(run)
    files += sheet_source(run, source, files)
    unusable = check_sources(KnownDevices.read(files), source)
    keep_sources(run, files)
    if not families or any(regressors[name].needs_source_rows for name in families):
        keep_network(run, runs, source.rows, TOGETHER_SHARE * seconds, seed)
    chosen = families or adapting_families(has_network(run))
    if any(regressors[name].needs_source_rows for name in chosen):
        seconds *= 1 - TOGETHER_SHARE  # however long the network took, so that the same call again has as much time
    trained = train_run(run, seconds=seconds, families=chosen, jobs=jobs, seed=seed, on_progress=on_progress)
    selected = select_run(run, budget or Budget(), refit_all=refit_all)
    bundle = bundle_run(run, selected.chosen)
    leaned_on = {f"{each.device}/{each.kind}": leaning(each) for each in selected.chosen}
    return AdaptOutcome(bundle, trained, selected, leaned_on, unusable, clock() - began)


def state_sheet(run: Path, sheet: Sheet) -> None:
    """Add numbers to the data sheet of the one device that a run has measured."""
    if not sheet:
        return
    devices = read_source(run).devices
    if len(devices) != 1:
        raise UsageError(f"--sheet: {run} has several devices: {', '.join(devices)}")
    with RunFolder(run).store(must_exist=True) as store:
        kept = store.read_note(SHEETS_NOTE) or {}
        store.note(SHEETS_NOTE, {**kept, devices[0]: {**kept.get(devices[0], {}), **sheet}})


def check_sources(known: KnownDevices, source: Source) -> dict[str, str]:
    """Why known devices cannot be leaned on, of those that cannot; an error where none can for any kind."""
    reasons: dict[str, str] = {}
    usable = 0
    for table in _tables(source):
        found = known.sources(table)
        usable += found.sources is not None
        reasons |= {f"{name}/{table.kind}": reason for name, reason in found.reasons.items()}
    if usable:
        return reasons
    if reasons:
        raise UsageError(next(iter(reasons.values())))
    kinds = sorted({entry.kind for bundle in known.bundles for entry in bundle.entries})
    raise UsageError(f"the sources know {', '.join(kinds)}, and the run has measured {', '.join(sorted(source.rows))}")


def _tables(source: Source) -> list[KindTable]:
    found = []
    for kind, rows in source.rows.items():
        devices = sorted({str(row["device"]) for row in rows if row["status"] == "ok" and row["latency_s"]})
        found += [kind_table(source, kind, device=device) for device in devices]
    return found


def leaning(candidate: Candidate) -> dict[str, float]:
    """The share of every known device in what a candidate predicts, the largest first."""
    shares = _shares(deployed_of(candidate).form, 1.0)
    return dict(sorted(shares.items(), key=lambda each: -abs(each[1])))


def _shares(form: Form, weight: float) -> dict[str, float]:
    found: dict[str, float] = {}
    if isinstance(form, WeightedSum):
        for inner, own in zip(form.forms, form.weights, strict=True):
            for name, share in _shares(inner, weight * own).items():
                found[name] = found.get(name, 0.0) + share
    elif isinstance(form, Stack):
        found = {name: weight * own for name, own in zip(form.sources.names, form.weights, strict=True)}
    return found
