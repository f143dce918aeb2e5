"""Training a run: every regressor for every kind of every device, in parallel, within a time, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from medn.core.errors import NothingMeasured, UsageError
from medn.core.registry import known_name
from medn.core.splits import Split
from medn.core.store import JOURNAL_NAME
from medn.deployed.candidate import Candidate, scores_of
from medn.regressors.regressor import regressors, usual_families
from medn.runs.folder import RunFolder
from medn.runs.measured import record_target
from medn.runs.tables import Source, read_source
from medn.sources.run_sources import KnownDevices, has_network
from medn.training.candidate_store import candidates_root
from medn.training.config import FamilySettings
from medn.training.extrapolation import made_ready
from medn.training.fitters import Fitters, OnWait, no_time_left
from medn.training.further_quantities import further_jobs
from medn.training.halving import Halving, standing
from medn.training.job import Job, Round
from medn.training.prepared import Prepared, Refused, Tables, prepare, write_tables
from medn.training.timetable import Timetable, least_seconds
from medn.training.workers import LOCAL, check_place, fitters_on

SHORTEST_S = 1.0
"""Every fit gets this much, or it could not show anything."""

FURTHER_SHARE = 0.05
FURTHER_SHORTEST_S = 0.1
"""Of the time, for memory and energy: their families are light and hardly need a search."""

MANY_SHARE = 0.25
"""The same where rows are so many that families which take longer are worth their time."""


@dataclass(frozen=True, repr=False)
class TrainOutcome:
    candidates: tuple[Candidate, ...]
    """All of this run's candidates for what was asked for, failed ones too, without their forms."""
    refused: tuple[Refused, ...]
    trained: int
    """How many of the candidates were made now; the others were there already."""
    elapsed_s: float
    loading_s: float = 0.0
    """What loading libraries took, of the time of all processes together."""
    unused_s: float = 0.0
    """What was left of the time when there was nothing more to gain."""
    retries: int = 0
    """Fits that were begun again because their worker was lost, as far as that was seen from here."""
    processes: int = 1
    """How many fits there were at once."""

    def __repr__(self) -> str:
        best = self.best()
        told = ", ".join(f"{each.kind} on {each.device} by {each.regressor}" for each in best[:3])
        more = f" and {len(best) - 3} more" if len(best) > 3 else ""
        failed = sum(not each.is_good for each in self.candidates)
        return (
            f"<TrainOutcome: {len(self.candidates)} candidates, {failed} of them failed; best: {told or 'none'}{more}>"
        )

    def best(self) -> list[Candidate]:
        return best_candidates(self.candidates)


@dataclass(frozen=True)
class Plan:
    """What is to be fitted, and how long that takes at least."""

    waiting: Sequence[Job]
    further: Sequence[Job]
    processes: int
    asked_s: float
    cannot_wait: int
    """How many of what is waiting have a fit however short the time is."""

    @property
    def least_s(self) -> float:
        own = least_seconds(self.cannot_wait, self.processes, SHORTEST_S)
        return own + least_seconds(len(self.further), self.processes, FURTHER_SHORTEST_S)

    @property
    def own_s(self) -> float:
        return self.asked_s - self.further_s

    @property
    def further_s(self) -> float:
        if not self.further:
            return 0.0
        takes_long = any(regressors[job.regressor].further_rows for job in self.further)
        return (MANY_SHARE if takes_long else FURTHER_SHARE) * self.asked_s

    @property
    def families(self) -> int:
        return len({job.regressor for job in self.waiting})

    @property
    def kinds(self) -> int:
        return len({kind for job in self.waiting for kind in job.tables})


OnProgress = Callable[[int, int, Sequence[Candidate]], None]
"""Called when a job ends: jobs done, jobs in all, the candidates it made."""


def place_of(candidate: Candidate) -> tuple[str, str, str]:
    return candidate.device, candidate.kind, candidate.regressor


def validation_error(candidate: Candidate) -> float:
    return scores_of(candidate).validation.mape


def best_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """For each device and kind the candidate with the smallest validation error."""
    found: dict[tuple[str, str], Candidate] = {}
    for candidate in sorted((each for each in candidates if each.is_good), key=validation_error):
        found.setdefault((candidate.device, candidate.kind), candidate)
    return [found[place] for place in sorted(found)]


def _check_no_programs(source: Source, folder: Path) -> None:
    """A schedule's number says nothing of its latency, so layers cannot be learned from rows that have one."""
    if any(row.get("schedule") for rows in source.rows.values() for row in rows):
        raise UsageError(f"{folder} holds tensor programs, not layers. Learn from them with: medn programs {folder}")


def train_run(
    folder: Path,
    *,
    seconds: float = 300.0,
    kinds: Sequence[str] = (),
    families: Sequence[str] = (),
    jobs: int = 1,
    seed: int = 0,
    split: Split | None = None,
    without_unstable: bool = False,
    retry_failed: bool = False,
    settings: FamilySettings | None = None,
    on_progress: OnProgress | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    on_wait: OnWait | None = None,
    clock: Callable[[], float] = time.monotonic,
    on: str = LOCAL,
    on_options: Mapping[str, Any] = MappingProxyType({}),
) -> TrainOutcome:
    """Train what a run has measured. Candidates that are there already, from the same data, are kept.

    `on` is where fits are made (`medn.training.workers`), with options for that place.
    """
    check_place(on)
    began = clock()
    split = split or Split()
    run = RunFolder(candidates_root(folder, split).parent)
    known = KnownDevices.of_run(run.path)
    chosen = [regressors[name].name for name in families] or usual_families(bool(known.bundles), has_network(run.path))
    fixed = settings or {}
    source = read_source(folder)
    _check_no_programs(source, folder)
    kinds = [known_name("measured layer kind", kind, source.rows) for kind in kinds]
    opened = clock()
    with run.locked(), fitters_on(on, jobs, run.path, on_options, on_wait) as fitters:
        began += clock() - opened  # a queue may let workers wait for hours
        jobs, wanted = fitters.processes, kinds or sorted(source.rows)
        prepared, refused = prepare(source, wanted, split, seed, without_unstable, known=known)
        if not prepared:
            error = UsageError if any(each.is_split_wrong for each in refused) else NothingMeasured
            raise error("; ".join(f"{each.kind} on {each.device}: {each.reason}" for each in refused))
        _record_target(folder, source)
        write_tables(folder, source, split, prepared)
        planned = _jobs(prepared, chosen, candidates_root(folder, split), split, seed, seconds, fixed)
        kept = {id(job): found for job in planned if (found := standing(job, Round.SEARCH, retry_failed))}
        waiting = _made_ready([job for job in planned if id(job) not in kept], seed)
        further = [
            job
            for job in _further_jobs(prepared, run.path, split, seed, seconds, fixed)
            if not standing(job, Round.SEARCH, retry_failed)
        ]
        halving = Halving(planned, waiting, jobs, retry_failed)
        plan = Plan(waiting, further, jobs, seconds, halving.cannot_wait)
        if on_plan:
            on_plan(plan)
        made = {place_of(candidate): candidate for found in kept.values() for candidate in found}
        done, total, trained = len(kept), len(planned), set[tuple[str, str, str]]()
        if on_progress and kept:
            on_progress(done, total, list(made.values()))
        deadline = began + plan.own_s
        for more, candidates in _in_rounds(halving, fitters, deadline, clock):
            made |= {place_of(candidate): candidate for candidate in candidates}
            trained |= {place_of(candidate) for candidate in candidates}
            done += 1
            if on_progress:
                on_progress(done, max(total, done + more), candidates)
        unused_s = deadline - clock()
        for _ in fitters.run(Timetable(further, jobs, plan.further_s, FURTHER_SHORTEST_S, clock)):
            pass
    order = tuple(made[place] for place in sorted(made))
    return TrainOutcome(
        order,
        tuple(refused),
        len(trained),
        clock() - began,
        fitters.loading_s,
        unused_s,
        fitters.retries,
        jobs,
    )


def _in_rounds(
    halving: Halving, fitters: Fitters, deadline: float, clock: Callable[[], float]
) -> Iterator[tuple[int, list[Candidate]]]:
    """The candidates of each job as it ends, with how many jobs of its round are still to come."""
    late: list[Job] = []
    rounds: list[Round | None] = [*halving.rounds, None]
    begun: set[str] = set()
    while rounds:
        round, left = rounds[0], max(deadline - clock(), 0.0)
        # Looks that were postponed have their turn at the end, if there is time left after all.
        own = late if round is None else halving.jobs(round, left)
        if round == Round.WHOLE:
            own = [job for job in own if job.key not in begun]
            begun |= {job.key for job in own}
        # What fits on all rows leave of their time goes to those of other families.
        if round != Round.WHOLE or not own:
            rounds.pop(0)
        times = Timetable(own, halving.processes, halving.seconds(round, left), SHORTEST_S, clock, deadline)
        for candidates in fitters.run(times):
            yield len(times.waiting), candidates
        if round == Round.LOOK:
            late = times.postponed
    for place, job in enumerate(times.postponed):
        yield len(times.postponed) - place - 1, no_time_left(job)


def _record_target(folder: Path, source: Source) -> None:
    """Whoever reads the same visits later has the target that was learned."""
    if (folder / JOURNAL_NAME).is_file():
        with RunFolder(folder).store(must_exist=True) as store:
            record_target(store, source.target)


def _jobs(
    prepared: Tables,
    families: Sequence[str],
    root: Path,
    split: Split,
    seed: int,
    seconds: float,
    fixed: FamilySettings,
) -> list[Job]:
    """Everything to be trained, the quick families first so that every kind has something early."""
    found = [
        Job(root, device, name, group, str(split), seed, seconds, 0.0, fixed.get(name, {}))
        for device, tables in prepared.items()
        for name in families
        for group in (_alike(tables) if regressors[name].shares_kinds else [{kind: tables[kind]} for kind in tables])
        if not _is_without_sources(name, group, tables)
    ]
    return sorted(found, key=lambda job: (job.share, job.regressor))


def _is_without_sources(family: str, group: Mapping[str, Prepared], tables: Mapping[str, Prepared]) -> bool:
    """Whether a family leans on other devices and none of them knows a kind, though they do know others."""
    if not regressors[family].needs_sources:
        return False
    needs_rows = regressors[family].needs_source_rows

    def has(prepared: Prepared) -> bool:
        return bool(prepared.train.sources and (prepared.train.sources.shared or not needs_rows))

    return any(map(has, tables.values())) and not all(map(has, group.values()))


def _alike(tables: Mapping[str, Prepared]) -> list[dict[str, Prepared]]:
    """The kinds whose rows are in folds, and the others."""
    groups: dict[bool, dict[str, Prepared]] = {}
    for kind, prepared in tables.items():
        groups.setdefault(prepared.folds is None, {})[kind] = prepared
    return list(groups.values())


def _made_ready(jobs: Sequence[Job], seed: int) -> list[Job]:
    """Every kind gets its roofline once, whatever families learn it: all that ships goes on with the same one."""
    ready = cache(partial(made_ready, seed=seed))
    return [replace(job, tables={kind: ready(each) for kind, each in job.tables.items()}) for job in jobs]


def _further_jobs(
    prepared: Tables,
    run: Path,
    split: Split,
    seed: int,
    seconds: float,
    fixed: FamilySettings,
) -> list[Job]:
    """What memory and energy are learned by; only from the split that the product is made of."""
    families = [name for name in regressors if regressors[name].learns_further]
    jobs = _jobs(prepared, families, run, split, seed, seconds, fixed) if split.is_product else []
    return [further for job in jobs for further in further_jobs(job, run)]
