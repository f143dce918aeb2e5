"""Time by promise: every family shows once what it can do, and only those that can still win get more.

Three rounds. The look fits every family once, with good settings; where rows are many, on some of them. The whole round
fits those of promise on all rows, as many as there is time for. The search tries other settings of the best of them.
What was decided is kept with the candidates, so that a training that goes on decides alike.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from medn.core.errors import StoreError
from medn.core.splits import some_layers
from medn.deployed.candidate import Candidate, scores_of
from medn.regressors.regressor import regressors
from medn.selection.ensembles import choose_weights
from medn.training.candidate_store import candidate_folder, load_candidate, update_facts
from medn.training.job import Job, Place, Round, last_candidates
from medn.training.learning import are_in_folds
from medn.training.prepared import Prepared

LOOK_ROWS = 3000
"""What a look learns from where there are more rows: enough to tell families apart, and a moment for most of them."""

LOOK_SHARE = 0.2
"""Of the time, for all looks together, where they leave out rows."""

FIRST_SHARE = 0.6
"""The same where they see all of them, so that only a search can follow."""

QUICK = 0.3
"""A family whose share of the time is no larger has its look however short the time is."""

GAIN = 0.25
"""Errors fall with about this power of the rows learned from, as far as a family can use them."""

COST = 0.8
"""The time of a fit grows with about this power of the rows."""

HOPELESS = 1.5
"""A family that errs so many times as much as the best is not fitted on more rows."""

FEW = 3
"""With no more families than this there is nothing to choose from: all of them search from the start."""

LEAST_KEPT, MOST_KEPT = 2, 6
"""How many families of a kind are fitted on all rows, at least and at most."""

MOST_SEARCHED = 4
"""How many of them go on to search, at most."""

WHOLE_FITS = 3.0
"""What a fit on all rows takes with all that follows it, in fits judged by a look: what ships learns from more rows,
and is checked."""

CUT_SHORT = 2.0
"""How many times as long as its look suggests a family learns that fills its time."""

FEWEST_TRIALS = 3
"""With less time than for so many a search has little to choose from, and fewer families search."""

Standings = Mapping[Place, Mapping[str, Candidate]]
"""The good candidates so far, by place and family."""


@dataclass(frozen=True, eq=False)
class Halving:
    """The rounds of a training."""

    planned: Sequence[Job]
    waiting: Sequence[Job]
    """Those of them that are not done yet."""
    processes: int
    retry_failed: bool

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        return tuple(Round) if len({job.regressor for job in self.planned}) > FEW else (Round.SEARCH,)

    @property
    def cannot_wait(self) -> int:
        """How many jobs have a fit however short the time is."""
        if self.rounds == (Round.SEARCH,):
            return len(self.waiting)
        return sum(not can_wait(job) for job in self.waiting)

    def seconds(self, round: Round | None, left: float) -> float:
        """What a round has of the time that is left."""
        if round != Round.LOOK or not self.waiting:
            return left
        return left * statistics.fmean(LOOK_SHARE if is_thinned(job) else FIRST_SHARE for job in self.waiting)

    def jobs(self, round: Round, left: float) -> list[Job]:
        """What a round has to do, the most promising first; what the last one passes over is noted as decided."""
        open_jobs = [job for job in self.waiting if not standing(job, round, self.retry_failed)]
        if round == Round.LOOK:
            return sorted(map(look, open_jobs), key=_turn)
        if self.rounds == (Round.SEARCH,):
            return open_jobs
        standings = read_standings(self.planned)
        if round == Round.WHOLE:
            return whole(open_jobs, standings, left * self.processes)
        chosen = search(open_jobs, standings, left * self.processes)
        going_on = {id(job.tables) for job in chosen}
        for job in open_jobs:
            if id(job.tables) not in going_on:
                _pass_over(job, standings)
        return chosen


def standing(job: Job, round: Round, retry_failed: bool = False) -> list[Candidate] | None:
    """The candidates of a job that is done with a round, failed ones too; None if one is missing.

    A look is the same whatever time there is. Everything else counts only from a training with no less of it.
    """
    found = []
    for kind in job.tables:
        try:
            candidate = load_candidate(candidate_folder(job.root, job.device, kind, job.regressor))
        except StoreError:
            return None
        facts = candidate.facts
        had_time = facts.budget_s >= job.budget_s
        if candidate.is_good:
            is_done = round < len(facts.rounds) if facts.rounds else had_time  # an earlier version knew no rounds
            is_done = is_done and (had_time or round == Round.LOOK)
        else:
            is_done = had_time and not retry_failed
        if not is_done or facts.key != job.key:
            return None
        found.append(candidate.without_form())
    return found


def read_standings(jobs: Sequence[Job]) -> Standings:
    found: dict[Place, dict[str, Candidate]] = defaultdict(dict)
    for job in jobs:
        for kind, candidate in last_candidates(job).items():
            found[job.device, kind][job.regressor] = candidate
    return found


def _pass_over(job: Job, standings: Standings) -> None:
    """Note that a job has been considered for all rounds."""
    for kind in job.tables:
        if candidate := standings.get((job.device, kind), {}).get(job.regressor):
            rounds = list(candidate.facts.rounds) or [scores_of(candidate).validation.mape]
            rounds += rounds[-1:] * (len(Round) - len(rounds))
            folder = candidate_folder(job.root, job.device, kind, job.regressor)
            update_facts(folder, {"rounds": rounds, "budget_s": job.budget_s})


def is_thinned(job: Job) -> bool:
    """Whether the first fit leaves out rows."""
    return not are_in_folds(job.tables) and job.rows > LOOK_ROWS


def can_wait(job: Job) -> bool:
    """Whether a look is none of the quick ones, which come first, so that every kind has something early."""
    return job.share > QUICK * len(job.tables) or regressors[job.regressor].is_late


def _turn(job: Job) -> tuple[bool, bool, float]:
    """Of those that can wait, what is given more time wins more often."""
    return job.can_wait, regressors[job.regressor].is_late, -job.share if job.can_wait else job.share


def look(job: Job) -> Job:
    """The first fit of a family."""
    job = replace(job, round=Round.LOOK, can_wait=can_wait(job))
    if not is_thinned(job):
        return job
    tables = {
        kind: replace(each, train=some_layers(each.train, LOOK_ROWS, job.seed)) for kind, each in job.tables.items()
    }
    return replace(job, tables=tables, some_rows=True)


def whole(jobs: Sequence[Job], standings: Standings, seconds: float) -> list[Job]:
    """Of the jobs whose look left out rows, those to be fitted on all of them in so many seconds of all processes."""
    found: list[Job] = []
    for rank, job in _ranked(jobs, standings):
        if rank >= MOST_KEPT or not is_thinned(job):
            continue
        cost_s = WHOLE_FITS * _fit_seconds(job, standings)
        if rank < LEAST_KEPT or cost_s <= seconds:
            found.append(replace(job, round=Round.WHOLE, can_wait=True, weight=cost_s))
            seconds -= cost_s
    return found


def search(jobs: Sequence[Job], standings: Standings, seconds: float) -> list[Job]:
    """Of the jobs that have fitted all rows, those to try other settings in so many seconds of all processes."""
    found: list[Job] = []
    for rank, job in _ranked(jobs, standings):
        has_all_rows = all(candidate.facts.has_all_rows for candidate in _candidates(job, standings))
        if rank >= MOST_SEARCHED or not regressors[job.regressor].is_tunable or not has_all_rows:
            continue
        cost_s = (FEWEST_TRIALS + WHOLE_FITS) * _fit_seconds(job, standings)
        if not found or cost_s <= seconds:
            found.append(replace(job, round=Round.SEARCH, can_wait=True, weight=cost_s))
            seconds -= cost_s
    return found


def _candidates(job: Job, standings: Standings) -> list[Candidate]:
    return [standings[place][job.regressor] for place in job.places if job.regressor in standings.get(place, {})]


def _fit_seconds(job: Job, standings: Standings) -> float:
    """What one fit of all rows takes, judged by the last one."""
    factor = CUT_SHORT if regressors[job.regressor].fills_time else 1.0
    seconds = [
        each.facts.fit_seconds * (1.0 if each.facts.has_all_rows else factor) * _more_rows(each, job.rows) ** COST
        for each in _candidates(job, standings)
    ]
    return float(max([*seconds, 1e-3]))


def _more_rows(candidate: Candidate, rows: int) -> float:
    """How many times as many of so many rows a family can use as it has learned from."""
    most = regressors[candidate.regressor].largest or rows
    return max(min(rows, most) / max(min(candidate.facts.learned_rows, most), 1), 1.0)


def _ranked(jobs: Sequence[Job], standings: Standings) -> Iterator[tuple[int, Job]]:
    """Jobs with their rank in their kind, the most promising first, without those that cannot win any more.

    What learns several kinds at once is judged by all of them: it must have promise for at least half.
    """
    tables = {place: job.tables[place[1]] for job in jobs for place in job.places}
    orders = {place: by_promise(standings.get(place, {}), prepared) for place, prepared in tables.items()}
    ranked = []
    for job in jobs:
        ranks = [orders[place].index(job.regressor) for place in job.places if job.regressor in orders[place]]
        if 2 * len(ranks) >= len(job.tables):
            ranked.append((round(statistics.median(ranks)), job))
    yield from sorted(ranked, key=lambda each: each[0])


def by_promise(candidates: Mapping[str, Candidate], prepared: Prepared) -> list[str]:
    """Families that can still win: the best, then those that an ensemble would be made of, then by their errors.

    An ensemble gains from what errs elsewhere, so that it takes other families than the errors alone would. Errors are
    those to be expected of all rows.
    """
    rows = len(prepared.rows.train)
    errors = {
        name: scores_of(candidate).validation.mape / _more_rows(candidate, rows) ** GAIN
        for name, candidate in candidates.items()
    }
    hopeful = [
        name for name in sorted(errors, key=errors.__getitem__) if errors[name] <= HOPELESS * min(errors.values())
    ]
    held = prepared.validation
    logs = {name: logs[: len(held)] for name in hopeful if (logs := candidates[name].held_out) is not None}
    layers = len(np.unique(held.groups))
    weights = choose_weights(logs, held.target, layers=layers, most=MOST_KEPT) if logs else {}
    return sorted(hopeful, key=lambda name: (name != hopeful[0], -weights.get(name, 0.0)))
