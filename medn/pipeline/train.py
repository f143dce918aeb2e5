"""Training a run: every regressor for every kind of every device, in parallel, within a time, resumable."""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from medn.core.errors import MednError, NothingMeasured, StoreError, UsageError, unknown
from medn.core.ranges import learn_range
from medn.core.splits import Split
from medn.pipeline.candidates import Candidate, candidate_folder, load_candidate
from medn.pipeline.further import further_jobs
from medn.pipeline.inputs import remainders
from medn.pipeline.judging import Prepared
from medn.pipeline.run_folder import RunFolder
from medn.pipeline.tables import Source, kind_table, read_source
from medn.pipeline.training import Job, run_job, with_roofline
from medn.pipeline.tuning import one_line
from medn.regressors.regressor import regressors

POOLED = "all-devices"
"""Stands for the device of candidates that learn from several."""

FEWEST_LAYERS = 8
"""With fewer different layers no part of a split says anything."""

FITTED_ONCE = 0.1
"""The share of a family without settings, of what it would get to search them."""

SHORTEST_S = 1.0
"""Every family gets this much, or it could not show anything."""

FURTHER_SHARE = 0.05
"""Of the time, for memory and energy: their families are light and hardly need a search."""

WATCH_EVERY_S = 0.5


@dataclass(frozen=True)
class Refused:
    """A kind that cannot be learned, and why."""

    device: str
    kind: str
    reason: str


@dataclass(frozen=True)
class TrainOutcome:
    candidates: tuple[Candidate, ...]
    """All of this run's candidates for what was asked for, failed ones too, without their forms."""
    refused: tuple[Refused, ...]
    trained: int
    """How many of the candidates were made now; the others were there already."""
    elapsed_s: float

    def best(self) -> list[Candidate]:
        return best_candidates(self.candidates)


OnProgress = Callable[[int, int, Sequence[Candidate]], None]
"""Called when a job ends: jobs done, jobs in all, the candidates it made."""


def validation_error(candidate: Candidate) -> float:
    return candidate.scores["validation"]["mape"]


def best_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """For each device and kind the candidate with the smallest validation error."""
    found: dict[tuple[str, str], Candidate] = {}
    for candidate in sorted((each for each in candidates if each.is_good), key=validation_error):
        found.setdefault((candidate.device, candidate.kind), candidate)
    return [found[place] for place in sorted(found)]


def candidates_root(folder: Path, split: Split) -> Path:
    """Where candidates lie: those of a random split are the product, all others answer a question of their own."""
    run = folder.parent if folder.suffix == ".parquet" else folder
    if split.sort == "random":
        return run / "candidates"
    return run / f"candidates-{re.sub('[^A-Za-z0-9.+-]+', '-', str(split))}"


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
    on_progress: OnProgress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> TrainOutcome:
    """Train what a run has measured. Candidates that are there already, from the same data, are kept."""
    began = clock()
    split = split or Split()
    chosen = [regressors[name].name for name in families] or list(regressors)
    source = read_source(folder)
    wrong = [unknown("measured layer kind", kind, source.rows) for kind in kinds if kind not in source.rows]
    if wrong:
        raise UsageError("; ".join(wrong))
    run = RunFolder(candidates_root(folder, split).parent)
    with run.locked():
        prepared, refused = prepare(source, kinds or sorted(source.rows), split, seed, without_unstable)
        if not prepared:
            raise NothingMeasured("; ".join(f"{each.kind} on {each.device}: {each.reason}" for each in refused))
        planned = _jobs(prepared, chosen, candidates_root(folder, split), split, seed, seconds, source)
        kept = {index: found for index, job in enumerate(planned) if (found := _finished(job))}
        waiting = _with_rooflines([job for index, job in enumerate(planned) if index not in kept], seed)
        further = [job for job in _further_jobs(prepared, run.path, split, seed, seconds, source) if not _finished(job)]
        made = [candidate for found in kept.values() for candidate in found]
        done = len(kept)
        if on_progress and kept:
            on_progress(done, len(planned), made)
        trained = 0
        own_s = seconds * (1 - FURTHER_SHARE) if further else seconds
        for candidates in _run(waiting, jobs, began + own_s, SHORTEST_S, clock):
            made += candidates
            done, trained = done + 1, trained + len(candidates)
            if on_progress:
                on_progress(done, len(planned), candidates)
        for _ in _run(further, jobs, clock() + FURTHER_SHARE * seconds, 0.0, clock):
            pass
    order = sorted(made, key=lambda each: (each.device, each.kind, each.regressor))
    return TrainOutcome(tuple(order), tuple(refused), trained, clock() - began)


def prepare(
    source: Source, kinds: Sequence[str], split: Split, seed: int, without_unstable: bool
) -> tuple[dict[str, dict[str, Prepared]], list[Refused]]:
    """The split tables by device and kind, and the kinds that cannot be learned."""
    prepared: dict[str, dict[str, Prepared]] = {}
    refused = []
    for device in [None] if split.sort == "device" else source.devices:
        for kind in kinds:
            if device and all(row["device"] != device for row in source.rows[kind]):
                continue
            try:
                table = kind_table(source, kind, device=device, without_unstable=without_unstable)
                layers = len(set(table.table.groups))
                if layers < FEWEST_LAYERS:
                    raise UsageError(f"too few different layers to learn from: {layers}, needed {FEWEST_LAYERS}")
                parts = split.parts(table.table, seed)
            except MednError as error:
                refused.append(Refused(device or POOLED, kind, one_line(error)))
                continue
            names = ("train", "validation", "calibration", "test")
            train, validation, calibration, test = (table.table.take(getattr(parts, name)) for name in names)
            known = learn_range(train, validation, seed, remainders(table.layer_kind))
            prepared.setdefault(device or POOLED, {})[kind] = Prepared(
                table, parts, known, train, validation, calibration, test
            )
    return prepared, refused


def _jobs(
    prepared: dict[str, dict[str, Prepared]],
    families: Sequence[str],
    root: Path,
    split: Split,
    seed: int,
    seconds: float,
    source: Source,
) -> list[Job]:
    """Everything to be trained, the quick families first so that every kind has something early."""
    found = [
        Job(root, device, name, group, str(split), seed, seconds, 0.0, source.target)
        for device, tables in prepared.items()
        for name in families
        for group in ([tables] if regressors[name].shares_kinds else [{kind: tables[kind]} for kind in tables])
    ]
    return sorted(found, key=lambda job: (_share(job), job.regressor))


def _with_rooflines(jobs: Sequence[Job], seed: int) -> list[Job]:
    """Every kind gets its roofline once, whatever families learn it: all that ships goes on with the same one."""
    ready = cache(partial(with_roofline, seed=seed))
    return [replace(job, tables={kind: ready(each) for kind, each in job.tables.items()}) for job in jobs]


def _further_jobs(
    prepared: dict[str, dict[str, Prepared]], run: Path, split: Split, seed: int, seconds: float, source: Source
) -> list[Job]:
    """What memory and energy are learned by; only from the split that the product is made of."""
    families = [name for name in regressors if regressors[name].learns_further]
    jobs = _jobs(prepared, families, run, split, seed, seconds, source) if split.sort == "random" else []
    return [further for job in jobs for further in further_jobs(job, run)]


def _share(job: Job) -> float:
    """What a job's time is weighed with."""
    regressor = regressors[job.regressor]
    return regressor.share * len(job.tables) * (1.0 if regressor.is_tunable else FITTED_ONCE)


def _finished(job: Job) -> list[Candidate] | None:
    """The candidates of a job that is done: the same key, and no less time. Failed ones are tried again."""
    found = []
    for kind in job.tables:
        try:
            candidate = load_candidate(candidate_folder(job.root, job.device, kind, job.regressor))
        except StoreError:
            return None
        enough = candidate.budget_s >= job.budget_s or not regressors[job.regressor].is_tunable
        if not (candidate.is_good and candidate.key == job.key and enough):
            return None
        found.append(candidate.without_form())
    return found


def _run(
    waiting: Sequence[Job], processes: int, deadline: float, shortest_s: float, clock: Callable[[], float]
) -> Iterator[list[Candidate]]:
    """The jobs in as many processes, one thread each; time that one job leaves goes to those after it."""
    import joblib

    def timed() -> Iterator[object]:
        for place, job in enumerate(waiting):
            share = _share(job) / sum(map(_share, waiting[place:]))
            left = max(deadline - clock(), 0.0) * min(processes, len(waiting) - place)
            # No job outlasts the deadline, however few are left to share the time between them.
            granted = min(share * left, deadline - clock())
            yield joblib.delayed(work)(replace(job, seconds=max(granted, shortest_s)))

    work = partial(_run_beside, os.getpid()) if processes > 1 else run_job
    backend = {"backend": "loky", "inner_max_num_threads": 1} if processes > 1 else {"backend": "sequential"}
    with joblib.parallel_config(**backend), warnings.catch_warnings():
        # A worker whose memory has grown is replaced by a new one, which is as it should be.
        warnings.filterwarnings("ignore", message="A worker stopped")
        parallel = joblib.Parallel(
            n_jobs=processes, batch_size=1, pre_dispatch=processes, return_as="generator_unordered"
        )
        yield from parallel(timed())


def _run_beside(parent: int, job: Job) -> list[Candidate]:
    _end_with(parent)
    return run_job(job)


@cache
def _end_with(parent: int) -> None:
    """End this process when the one that started it has ended: the next run does its work again."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
