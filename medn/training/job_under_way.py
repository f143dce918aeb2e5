"""A job while it is fitted: which fits it wants next, what came of them, and in the end its candidates, saved.

The study of its settings stays here, in the process of whoever asked; fits are made elsewhere, one after the other or
several at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from medn.core.units import percent
from medn.deployed.candidate import Candidate, deployed_of, scores_of
from medn.deployed.facts import Trials
from medn.regressors.regressor import regressors
from medn.training.attempt import Attempt, Tried
from medn.training.candidate_store import save_candidate
from medn.training.job import Job, Round, last_candidates
from medn.training.learning import are_in_folds
from medn.training.scoring import row_us
from medn.training.train_regressor import REFIT_SLACK, Outcome, Request, Together, fit_request, more_rows
from medn.training.tuning import MOST_TRIALS, NothingFitted, Study, Tuned

EXTRAPOLATION_SHARE = 0.2
"""Of a job's time, kept back from the search for one more fit that tells how it does beyond the range."""

MOST_TRIALS_IN_FOLDS = 20
"""On few layers more trials choose by luck."""

LUCK = 4.0
"""By how much other settings must be better than those a search starts from, as a share, times the number of layers: of
40 layers by a tenth, or they are as likely to be worse on others."""

PATIENCE_IN_FOLDS = 10
"""On few layers a search ends after so many trials that bettered nothing."""


class JobUnderWay:
    """Asked for requests until it has its candidates; told what came of each."""

    def __init__(self, job: Job, clock: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self.clock = clock
        self.candidates: list[Candidate] | None = None
        """Saved, and without their forms; None while it goes on."""
        self.under_way = 0
        """Requests whose outcome is not known yet."""
        self._end = clock() + job.seconds
        self._last = last_candidates(job)
        self._study = None if job.some_rows or not regressors[job.regressor].is_tunable else self._new_study()
        self._is_finishing = False
        self._as_it_is = False
        """Whether what was found is taken without further fits."""

    def next_request(self) -> Request | None:
        """What to do next; None where that depends on what is under way, or where all is done."""
        if self.candidates is not None or self._is_finishing:
            return None
        request = self._only_fit() if self._study is None else self._next_trial() or self._finish(self._study)
        self.under_way += request is not None
        return request

    def spare_request(self) -> Request | None:
        """One more trial beside those under way, for a process that has nothing else to do."""
        is_searching = self._study and self._study.under_way and self.job.round == Round.SEARCH
        request = self._next_trial() if is_searching and not self._is_finishing else None
        self.under_way += request is not None
        return request

    def _next_trial(self) -> Request | None:
        attempt = self._study.ask() if self._study else None
        if attempt is None:
            return None
        self._is_finishing = attempt.is_only
        return self._request(attempt)

    def heard(self, request: Request, outcome: Outcome) -> None:
        """What came of a request."""
        self.under_way -= 1
        if self.candidates is not None:
            return
        if request.attempt and outcome.tried:
            self._told(request.attempt, outcome.tried)
        if self._is_finishing and self.candidates is None:
            self.candidates = [self._made(each) for each in outcome.candidates]

    def failed(self, request: Request, reason: str, seconds: float) -> None:
        """The process of a fit has died or was stopped: the search ends, with the best of what came before."""
        self.under_way -= 1
        if self.candidates is not None:
            return
        if request.attempt and self._study:
            self._told(request.attempt, Tried(seconds, reason=reason))
            self._study.is_over = True
        elif request.tuned and request.seconds is not None and not are_in_folds(self.job.tables):
            self._is_finishing, self._as_it_is = False, True
        else:
            self.give_up(reason)

    def lost(self, request: Request, reason: str) -> None:
        """Nobody could be found to make a fit: the search ends with what came before, if anything did."""
        self.under_way -= 1
        if self.candidates is not None:
            return
        if self._study and request.attempt and request.attempt.number >= 0:
            self._study.forget(request.attempt)
            self._study.is_over = True
            if not request.attempt.is_only and self._study.has_found:
                return
        self.give_up(reason, budget_s=0.0)

    def give_up(self, reason: str, budget_s: float | None = None) -> None:
        """A failed candidate for each kind; without a budget to its name the next training tries it again."""
        job = self.job if budget_s is None else replace(self.job, budget_s=budget_s)
        self.candidates = fail_job(job, reason)

    def prolong(self, loading_s: float) -> None:
        """Loading libraries is not fitting."""
        self._end += loading_s
        if self._study:
            self._study.deadline += loading_s

    @property
    def seconds_left(self) -> float:
        return self._end - self.clock()

    def progress(self) -> str:
        about = f"{self.job.regressor} for {' and '.join(self.job.tables)}"
        if self._study is None:
            return about
        trials, error = self._study.progress()
        return f"{about}: trial {trials}, {percent(error)}" if error < float("inf") else about

    def _request(self, attempt: Attempt | None = None, tuned: Tuned[Together] | None = None) -> Request:
        checked = {kind: each.checked for kind, each in self._last.items() if each.checked}
        return Request(None if self._as_it_is else self.seconds_left, attempt, tuned, checked)

    def _only_fit(self) -> Request:
        """The fit of a family that is not searched, or of some rows, which are no rows of a search."""
        job, regressor = self.job, regressors[self.job.regressor]
        start = regressor.start(job.rows) if job.some_rows else regressor.defaults
        seconds = job.seconds if job.some_rows else job.seconds * (1 - EXTRAPOLATION_SHARE) / (1 + _follows(job))
        self._is_finishing = True
        return self._request(Attempt(-1, {**start, **job.settings}, seconds, is_only=True))

    def _new_study(self) -> Study[Together]:
        job, in_folds = self.job, are_in_folds(self.job.tables)
        most_trials = MOST_TRIALS_IN_FOLDS if in_folds else MOST_TRIALS
        return Study(
            regressors[job.regressor],
            job.journal,
            job.seconds * (1 - EXTRAPOLATION_SHARE),
            rows=job.rows,
            seed=job.seed,
            fixed=job.settings,
            most_trials=most_trials if job.round == Round.SEARCH else 1,
            patience=PATIENCE_IN_FOLDS if in_folds else None,
            follows=_follows(job),
            kept=self._kept_settings(),
            doubt=LUCK / sum(len(set(prepared.validation.groups)) for prepared in job.tables.values()),
            clock=self.clock,
        )

    def _kept_settings(self) -> dict[str, object] | None:
        """The settings of the candidates that are there, if a whole job has made them of all rows."""
        whole = [each.facts for each in self._last.values() if each.facts.budget_s and each.facts.has_all_rows]
        return dict(whole[0].settings) if len(whole) == len(self.job.tables) else None

    def _finish(self, study: Study[Together]) -> Request | None:
        """From the best that was found to candidates; None while trials are under way, or where it is all there."""
        if study.under_way:
            return None
        try:
            tuned = study.tuned()
        except NothingFitted as failure:
            self.give_up(str(failure))
            return None
        if tuned.fitted is None and tuned.settings == study.kept:
            self.candidates = [_saved(self.job, self._gone_on(self._last[kind], tuned)) for kind in self.job.tables]
            return None
        self._is_finishing = True
        return self._request(study.again(tuned.settings)) if tuned.fitted is None else self._request(tuned=tuned)

    def _told(self, attempt: Attempt, tried: Tried[Together]) -> None:
        if self._study and attempt.number >= 0:
            self._study.tell(attempt, tried)
            if attempt.is_only and tried.error is None:
                self._study.is_over, self._is_finishing = True, False
        elif tried.error is None:
            self.give_up(tried.reason)

    def _made(self, candidate: Candidate) -> Candidate:
        if not candidate.is_good:
            return _saved(self.job, _rather_the_last(self.job, candidate))
        trials = _trials(self._study.tuned()) if self._study else Trials(made=1)
        # What a prediction takes is told by this machine for all of them, wherever they were fitted.
        taken_us = row_us(deployed_of(candidate).form, self.job.tables[candidate.kind])
        candidate = replace(candidate, facts=replace(candidate.facts, trials=trials), row_us=taken_us)
        return _saved(self.job, _in_round(candidate, self.job, self._last.get(candidate.kind)))

    def _gone_on(self, last: Candidate, tuned: Tuned[Together]) -> Candidate:
        """The last candidate, after a search that has found nothing better."""
        facts = replace(last.facts, budget_s=self.job.budget_s, trials=_trials(tuned))
        return _in_round(replace(last, facts=facts), self.job, last)


def run_job(job: Job) -> list[Candidate]:
    """All of a job in this process, where nothing stops it but itself."""
    found = JobUnderWay(job)
    while request := found.next_request():
        found.heard(request, fit_request(job, request))
    assert found.candidates is not None, "a job without requests has its candidates"
    return found.candidates


def fail_job(job: Job, reason: str) -> list[Candidate]:
    """Save a failed candidate for each kind."""
    return [_saved(job, _rather_the_last(job, job.candidate(kind, reason))) for kind in job.tables]


def _follows(job: Job) -> float:
    """What follows a search, in fits of the best settings."""
    return 0.0 if are_in_folds(job.tables) else REFIT_SLACK * more_rows(job)


def _rather_the_last(job: Job, failed: Candidate) -> Candidate:
    """The good candidate that an earlier round, training or trial made, if there is one, with the reason."""
    last = last_candidates(job).get(failed.kind)
    if last is None:
        return failed
    trials = last.facts.trials.and_failed(failed.reason)
    budget_s = failed.facts.budget_s
    found = replace(last, facts=replace(last.facts, budget_s=budget_s, trials=trials))
    return _in_round(found, job, last) if budget_s else found


def _in_round(candidate: Candidate, job: Job, last: Candidate | None = None) -> Candidate:
    """The candidate with its error noted for the round of its job, and for those before that it was not in."""
    error, before = scores_of(candidate).validation.mape, last.facts.rounds[: job.round] if last else ()
    between = (before[-1] if before else error,) * (job.round - len(before))
    return replace(candidate, facts=replace(candidate.facts, rounds=(*before, *between, error)))


def _saved(job: Job, candidate: Candidate) -> Candidate:
    save_candidate(job.root, candidate)
    return candidate.without_form()


def _trials(tuned: Tuned[Together]) -> Trials:
    return Trials(tuned.trials, tuned.pruned, tuned.failed, tuned.reasons)
