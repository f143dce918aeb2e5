"""Training a run: every regressor for every kind of every device, in parallel, within a time, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from medn.core.errors import NothingMeasured, StoreError, UsageError
from medn.core.registry import known_name
from medn.core.splits import Split
from medn.core.store import JOURNAL_NAME
from medn.deployed.candidate import Candidate, scores_of
from medn.regressors.regressor import regressors, usual_families
from medn.runs.folder import RunFolder
from medn.runs.measured import record_target
from medn.runs.tables import Source, read_source
from medn.training.candidate_store import candidate_folder, candidates_root, load_candidate
from medn.training.config import FamilySettings
from medn.training.extrapolation import made_ready
from medn.training.fit_processes import Fitters, OnWait, Timetable, least_seconds
from medn.training.further_quantities import further_jobs
from medn.training.prepared import Prepared, Refused, Tables, prepare, write_tables
from medn.training.train_regressor import Job

SHORTEST_S = 1.0
"""Every fit gets this much, or it could not show anything."""

FURTHER_SHARE = 0.05
FURTHER_SHORTEST_S = 0.1
"""Of the time, for memory and energy: their families are light and hardly need a search."""


@dataclass(frozen=True)
class TrainOutcome:
    candidates: tuple[Candidate, ...]
    """All of this run's candidates for what was asked for, failed ones too, without their forms."""
    refused: tuple[Refused, ...]
    trained: int
    """How many of the candidates were made now; the others were there already."""
    elapsed_s: float
    loading_s: float = 0.0
    """What loading libraries took, of the time of all processes together."""

    def best(self) -> list[Candidate]:
        return best_candidates(self.candidates)


@dataclass(frozen=True)
class Plan:
    """What is to be fitted, and how long that takes at least."""

    waiting: Sequence[Job]
    further: Sequence[Job]
    processes: int
    asked_s: float

    @property
    def least_s(self) -> float:
        own = least_seconds(len(self.waiting), self.processes, SHORTEST_S)
        return own + least_seconds(len(self.further), self.processes, FURTHER_SHORTEST_S)

    @property
    def own_s(self) -> float:
        return self.asked_s - self.further_s

    @property
    def further_s(self) -> float:
        return FURTHER_SHARE * self.asked_s if self.further else 0.0

    @property
    def families(self) -> int:
        return len({job.regressor for job in self.waiting})

    @property
    def kinds(self) -> int:
        return len({kind for job in self.waiting for kind in job.tables})


OnProgress = Callable[[int, int, Sequence[Candidate]], None]
"""Called when a job ends: jobs done, jobs in all, the candidates it made."""


def validation_error(candidate: Candidate) -> float:
    return scores_of(candidate).validation.mape


def best_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """For each device and kind the candidate with the smallest validation error."""
    found: dict[tuple[str, str], Candidate] = {}
    for candidate in sorted((each for each in candidates if each.is_good), key=validation_error):
        found.setdefault((candidate.device, candidate.kind), candidate)
    return [found[place] for place in sorted(found)]


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
) -> TrainOutcome:
    """Train what a run has measured. Candidates that are there already, from the same data, are kept."""
    began = clock()
    split = split or Split()
    chosen = [regressors[name].name for name in families] or usual_families()
    fixed = settings or {}
    source = read_source(folder)
    kinds = [known_name("measured layer kind", kind, source.rows) for kind in kinds]
    run = RunFolder(candidates_root(folder, split).parent)
    with run.locked():
        prepared, refused = prepare(source, kinds or sorted(source.rows), split, seed, without_unstable)
        if not prepared:
            error = UsageError if any(each.is_split_wrong for each in refused) else NothingMeasured
            raise error("; ".join(f"{each.kind} on {each.device}: {each.reason}" for each in refused))
        _record_target(folder, source)
        write_tables(folder, source, split, prepared)
        planned = _jobs(prepared, chosen, candidates_root(folder, split), split, seed, seconds, fixed)
        kept = {index: found for index, job in enumerate(planned) if (found := _finished(job, retry_failed))}
        waiting = _made_ready([job for index, job in enumerate(planned) if index not in kept], seed)
        further = [
            job
            for job in _further_jobs(prepared, run.path, split, seed, seconds, fixed)
            if not _finished(job, retry_failed)
        ]
        plan = Plan(waiting, further, jobs, seconds)
        if on_plan:
            on_plan(plan)
        made = [candidate for found in kept.values() for candidate in found]
        done = len(kept)
        if on_progress and kept:
            on_progress(done, len(planned), made)
        trained = 0
        with Fitters(jobs, on_wait) as fitters:
            for candidates in fitters.run(Timetable(waiting, jobs, plan.own_s, SHORTEST_S, clock)):
                made += candidates
                done, trained = done + 1, trained + len(candidates)
                if on_progress:
                    on_progress(done, len(planned), candidates)
            for _ in fitters.run(Timetable(further, jobs, plan.further_s, FURTHER_SHORTEST_S, clock)):
                pass
    order = sorted(made, key=lambda each: (each.device, each.kind, each.regressor))
    return TrainOutcome(tuple(order), tuple(refused), trained, clock() - began, fitters.loading_s)


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
    ]
    return sorted(found, key=lambda job: (job.share, job.regressor))


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


def _finished(job: Job, retry_failed: bool) -> list[Candidate] | None:
    """The candidates of a job that is done, failed ones too: the same key, and no less time."""
    found = []
    for kind in job.tables:
        try:
            candidate = load_candidate(candidate_folder(job.root, job.device, kind, job.regressor))
        except StoreError:
            return None
        is_done = candidate.is_good or not retry_failed
        if not (is_done and candidate.facts.key == job.key and candidate.facts.budget_s >= job.budget_s):
            return None
        found.append(candidate.without_form())
    return found
