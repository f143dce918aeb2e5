"""One regressor fitted on the tables of one device: tried, and what is the best exported, checked, scored, calibrated.

Runs in a process of its own, on this machine or another, and writes nothing: whoever asked keeps what comes of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from medn.core.errors import reason_of
from medn.core.splits import FOLDS
from medn.deployed.candidate import Candidate
from medn.deployed.checked import Checked
from medn.deployed.facts import TRAIN
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings, regressors
from medn.training.attempt import Attempt, Tried, attempted
from medn.training.extrapolation import LEAST_WORK, check, checked_share, restored, usual_way
from medn.training.job import Job
from medn.training.learning import Exported, Learning, are_in_folds, learn, refit
from medn.training.scoring import judged, way_beyond
from medn.training.shipped_form import check_learned, exported, shipped_form
from medn.training.tuning import Tuned

LEAST_CHECK_S = 0.5
"""What a check may take even where the search has left less: most families need no longer for one more fit."""

SHORTEST_CHECK = 0.5
"""The share of the time that its rows would take to learn: a fit that is stopped then goes on beyond them alike."""

REFIT_FACTOR = 2.0
"""What a fit on all rows may take, in fits of a fold, which has four fifths of them."""

REFIT_SLACK = 1.2
"""What is kept for it of the time, in what it should take."""

LATEST_REFIT = 2.0
"""A fit on all rows is begun though it should take so many times the time that is left: it is worth more."""

LEAST_REFIT_S = 0.5
"""What a fit on all rows may take in any case."""

Together = Mapping[str, Learning]


@dataclass(frozen=True, eq=False)
class Request:
    """What is to be done for a job: a fit of these settings, or candidates of what a search has found; or both."""

    seconds: float | None
    """What is left of the job's time; None where what was found is to be taken as it is, without further fits."""
    attempt: Attempt | None = None
    tuned: Tuned[Together] | None = None
    checked: Mapping[str, Mapping[str, NDArray[Any]]] = field(default_factory=dict)
    """By kind, the check that an earlier round has made."""

    def within(self, seconds: float) -> Request:
        """The same in less time, for one that is begun again."""
        attempt = self.attempt and replace(self.attempt, seconds=min(self.attempt.seconds, seconds))
        return replace(self, attempt=attempt, seconds=self.seconds and min(self.seconds, seconds))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a request."""

    tried: Tried[Together] | None = None
    candidates: tuple[Candidate, ...] = ()


def fit_request(job: Job, request: Request) -> Outcome:
    """Whatever goes wrong is the reason of an attempt or of a failed candidate."""
    began, regressor = time.monotonic(), regressors[job.regressor]
    tried, tuned = None, request.tuned
    if request.attempt:
        tried = _tried(job, regressor, request.attempt)
        if not request.attempt.is_only:
            return Outcome(tried)
        if tried.error is None:
            return Outcome(tried)
        tuned = Tuned(request.attempt.settings, tried.error, tried.result, tried.seconds)
        tried = replace(tried, result=None)
    assert tuned is not None, "there is something to finish"
    if request.seconds is None:
        return Outcome(tried, tuple(_candidates(job, regressor, tuned)))
    left = request.seconds - (time.monotonic() - began)
    checked = _checked(job, regressor, tuned, request.checked, left - _refit_seconds(job, tuned))
    left = request.seconds - (time.monotonic() - began)
    return Outcome(tried, tuple(_candidates(job, regressor, tuned, checked, left)))


def _tried(job: Job, regressor: Regressor, attempt: Attempt) -> Tried[Together]:
    def fit(settings: Settings, effort: Effort) -> Together:
        return learn(regressor, job.tables, settings, effort)

    def judge(learned: Together) -> float:
        return statistics.fmean(learned[kind].error(prepared) for kind, prepared in job.tables.items())

    tried = attempted(attempt, fit, judge, job.seed)
    if attempt.is_only or tried.result is None or tried.error is None:
        return tried
    if tried.error >= attempt.error_to_beat:
        return replace(tried, result=None)
    try:
        return replace(tried, result=_portable(job, tried.result))
    except Exception as failure:  # a family may fail in any way its library does
        return Tried(tried.seconds, reports=tried.reports, reason=reason_of(failure))


def _portable(job: Job, learned: Together) -> Together:
    """The same as plain arrays."""
    return {
        kind: replace(own, fitted=Exported(exported(own.fitted, job.tables[kind]), own.fitted.step_errors))
        if own.fitted
        else own
        for kind, own in learned.items()
    }


def _checked(
    job: Job,
    regressor: Regressor,
    tuned: Tuned[Together],
    made: Mapping[str, Mapping[str, NDArray[Any]]],
    seconds: float,
) -> Mapping[str, Checked]:
    """By kind, what an earlier round has found, else now; nothing of some rows, without time, or if the fit fails."""
    known = {kind: restored(each, job.tables[kind]) for kind, each in made.items()}
    if all(known.get(kind) for kind in job.tables):
        return {kind: each for kind, each in known.items() if each}
    seconds = max(seconds, LEAST_CHECK_S)
    if job.some_rows or seconds < SHORTEST_CHECK * LEAST_WORK * _one_fit_seconds(job, tuned) * checked_share(job.rows):
        return {}
    try:
        return check(regressor, job.tables, tuned.settings, Effort(seconds, job.seed))
    except Exception:  # a family may fail in any way its library does, and what it is needed for is done
        return {}


def _one_fit_seconds(job: Job, tuned: Tuned[Together]) -> float:
    return tuned.fit_seconds / (FOLDS if are_in_folds(job.tables) else 1)


def more_rows(job: Job) -> float:
    """How many times as many rows what ships learns from as a fit that others are held out from."""
    learned, train = (sum(len(getattr(each, part)) for each in job.tables.values()) for part in ("learned", "train"))
    return FOLDS / (FOLDS - 1) if are_in_folds(job.tables) else learned / train


def _refit_seconds(job: Job, tuned: Tuned[Together]) -> float:
    """About what a fit on all rows takes, without the steps after the best one."""
    tried = max((len(own.fitted.step_errors) for own in tuned.result.values() if own.fitted), default=0)
    steps = max(own.steps or 0 for own in tuned.result.values())
    return _one_fit_seconds(job, tuned) * more_rows(job) * (steps / tried if tried else 1.0)


def _refitted(job: Job, regressor: Regressor, tuned: Tuned[Together], seconds: float | None) -> Mapping[str, Fitted]:
    """By kind, fitted on every row that is not for test; nothing where there is no time, or where the fit fails.

    In folds it is the only fit there is: it has its time, and its failure is one.
    """
    in_folds = are_in_folds(job.tables)
    if job.some_rows:
        return {}
    if in_folds:
        seconds = REFIT_FACTOR * _one_fit_seconds(job, tuned)
    else:
        needed = _refit_seconds(job, tuned)
        if seconds is None or needed > max(LATEST_REFIT * seconds, LEAST_REFIT_S):
            return {}
        seconds = max(seconds, REFIT_SLACK * needed)
    effort = Effort(max(seconds, LEAST_REFIT_S), job.seed)
    rows = {kind: prepared.learned for kind, prepared in job.tables.items()}
    try:
        return refit(regressor, rows, tuned.settings, [own.steps for own in tuned.result.values()], effort)
    except Exception:  # a family may fail in any way its library does
        if in_folds:
            raise
        return {}


def _candidates(
    job: Job,
    regressor: Regressor,
    tuned: Tuned[Together],
    checked: Mapping[str, Checked] | None = None,
    seconds: float | None = None,
) -> list[Candidate]:
    """The candidate of every kind; without seconds for a fit on all rows, that of the rows it had so far."""
    try:
        fitted = _refitted(job, regressor, tuned, seconds)
    except Exception as failure:  # a family may fail in any way its library does
        return [job.candidate(kind, reason_of(failure)) for kind in job.tables]
    return [_finish(job, kind, tuned, fitted.get(kind), (checked or {}).get(kind)) for kind in job.tables]


def _finish(job: Job, kind: str, tuned: Tuned[Together], refitted: Fitted | None, checked: Checked | None) -> Candidate:
    """The candidate of one kind, from what was learned of it."""
    blank, prepared, learned = job.candidate(kind), job.tables[kind], tuned.result[kind]
    try:
        check_learned(learned, prepared)
        way = way_beyond(prepared, checked, usual_way(regressors[job.regressor]))
        form, learned_from = shipped_form(learned, refitted, prepared)
        edge = prepared.edge if learned_from == TRAIN else prepared.shipped_edge
        found = judged(blank, prepared, form, edge, way, learned.held_out(prepared, way), checked)
    except Exception as failure:  # a family may fail in any way its library does
        return job.candidate(kind, reason_of(failure))
    facts = replace(
        found.facts,
        settings=tuned.settings,
        fit_seconds=tuned.fit_seconds,
        steps=learned.steps,
        learned_from=learned_from,
        learned_rows=len(prepared.train if learned_from == TRAIN else prepared.learned),
    )
    return replace(found, facts=facts)
