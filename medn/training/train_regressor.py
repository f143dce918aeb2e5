"""One regressor trained on the tables of one device: tuned, exported, checked, scored, calibrated, saved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import replace

from medn.core.errors import reason_of
from medn.core.splits import FOLDS
from medn.deployed.beyond import BOUNDED, HELD
from medn.deployed.candidate import Candidate, scores_of
from medn.deployed.checked import Checked
from medn.deployed.facts import TRAIN, Trials
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings, regressors
from medn.training.candidate_store import save_candidate
from medn.training.extrapolation import LEAST_WORK, check, checked_share, restored
from medn.training.job import Job, Round, last_candidates
from medn.training.learning import Learning, are_in_folds, learn, refit
from medn.training.scoring import judged, way_beyond
from medn.training.shipped_form import check_learned, shipped_form
from medn.training.tuning import MOST_TRIALS, Tuned, Watch, fitted_once, tune, unwatched

EXTRAPOLATION_SHARE = 0.2
"""Of a job's time, kept back from the search for one more fit that tells how it does beyond the range."""

LEAST_CHECK_S = 0.5
"""What a check may take even where the search has left less: most families need no longer for one more fit."""

SHORTEST_CHECK = 0.5
"""The share of the time that its rows would take to learn: a fit that is stopped then goes on beyond them alike."""

SAVING_SHARE = 0.1
"""Of a search, what saving the best so far may take."""

REFIT_FACTOR = 2.0
"""What a fit on all rows may take, in fits of a fold, which has four fifths of them."""

REFIT_SLACK = 1.2
"""What is kept for it of the time, in what it should take."""

LATEST_REFIT = 2.0
"""A fit on all rows is begun though it should take so many times the time that is left: it is worth more."""

LEAST_REFIT_S = 0.5
"""What a fit on all rows may take in any case."""

MOST_TRIALS_IN_FOLDS = 20
"""On few layers more trials choose by luck."""

LUCK = 4.0
"""By how much other settings must be better than those a search starts from, as a share, times the number of layers: of
40 layers by a tenth, or they are as likely to be worse on others."""

PATIENCE_IN_FOLDS = 10
"""On few layers a search ends after so many trials that bettered nothing."""

Last = Mapping[str, Candidate]
"""By kind, the good candidates that earlier rounds or trainings have made of the same data."""

Together = Mapping[str, Learning]


def run_job(job: Job, watch: Watch = unwatched) -> list[Candidate]:
    """Train, and save one candidate for each kind; whatever goes wrong is the reason of a failed one."""
    began = time.monotonic()
    regressor, last = regressors[job.regressor], last_candidates(job)
    try:
        tuned = _tuned(job, regressor, last, watch)
    except Exception as failure:  # a family may fail in any way its library does
        return fail_job(job, reason_of(failure))
    if tuned.fitted is None:
        return [_saved(job, _gone_on(job, last[kind], tuned)) for kind in job.tables]
    left = job.seconds - (time.monotonic() - began)
    checked = _checked(job, regressor, tuned, last, left - _refit_seconds(job, tuned))
    left = job.seconds - (time.monotonic() - began)
    made = _candidates(job, regressor, tuned, checked, left)
    return [
        _saved(job, in_round(candidate, job, last.get(candidate.kind)))
        if candidate.is_good
        else _saved(job, _rather_the_last(job, candidate))
        for candidate in made
    ]


def fail_job(job: Job, reason: str) -> list[Candidate]:
    """Save a failed candidate for each kind."""
    return [_saved(job, _rather_the_last(job, job.candidate(kind, reason))) for kind in job.tables]


def _rather_the_last(job: Job, failed: Candidate) -> Candidate:
    """The good candidate that an earlier round, training or trial made, if there is one, with the reason."""
    last = last_candidates(job).get(failed.kind)
    if last is None:
        return failed
    trials = last.facts.trials.and_failed(failed.reason)
    budget_s = failed.facts.budget_s
    found = replace(last, facts=replace(last.facts, budget_s=budget_s, trials=trials))
    return in_round(found, job, last) if budget_s else found


def _gone_on(job: Job, last: Candidate, tuned: Tuned[Together]) -> Candidate:
    """The last candidate, after a search that has found nothing better."""
    facts = replace(last.facts, budget_s=job.budget_s, trials=_trials(tuned))
    return in_round(replace(last, facts=facts), job, last)


def in_round(candidate: Candidate, job: Job, last: Candidate | None = None) -> Candidate:
    """The candidate with its error noted for the round of its job, and for those before that it was not in."""
    error, before = scores_of(candidate).validation.mape, last.facts.rounds[: job.round] if last else ()
    between = (before[-1] if before else error,) * (job.round - len(before))
    return replace(candidate, facts=replace(candidate.facts, rounds=(*before, *between, error)))


def _saved(job: Job, candidate: Candidate) -> Candidate:
    save_candidate(job.root, candidate)
    return candidate.without_form()


def _tuned(job: Job, regressor: Regressor, last: Last, watch: Watch) -> Tuned[Together]:
    next_save = time.monotonic()

    def fit(settings: Settings, effort: Effort) -> Together:
        return learn(regressor, job.tables, settings, effort)

    def judge(learned: Together) -> float:
        return statistics.fmean(learned[kind].error(prepared) for kind, prepared in job.tables.items())

    def save(tuned: Tuned[Together]) -> None:
        """What a process that dies in a later trial leaves; with no time to its name, so that the next run goes on."""
        nonlocal next_save
        began = time.monotonic()
        if began < next_save:
            return
        for candidate in _candidates(job, regressor, tuned):
            if candidate.is_good:
                rounds = last[candidate.kind].facts.rounds if candidate.kind in last else ()
                facts = replace(candidate.facts, budget_s=0.0, rounds=rounds)
                save_candidate(job.root, replace(candidate, facts=facts))
        ended = time.monotonic()
        next_save = ended + (ended - began) / SAVING_SHARE

    in_folds, is_search = are_in_folds(job.tables), job.round == Round.SEARCH
    if job.some_rows:  # which are no rows of the search
        settings = {**regressor.start(job.rows), **job.settings}
        return fitted_once(settings, fit, judge, job.seconds, job.seed, watch)
    most_trials = MOST_TRIALS_IN_FOLDS if in_folds else MOST_TRIALS
    return tune(
        regressor,
        fit,
        judge,
        journal=job.journal,
        seconds=job.seconds * (1 - EXTRAPOLATION_SHARE),
        rows=job.rows,
        seed=job.seed,
        fixed=job.settings,
        most_trials=most_trials if is_search else 1,
        patience=PATIENCE_IN_FOLDS if in_folds else None,
        follows=0.0 if in_folds else REFIT_SLACK * _more_rows(job),
        kept=_kept(job, last),
        doubt=LUCK / sum(len(set(prepared.validation.groups)) for prepared in job.tables.values()),
        watch=watch,
        on_better=save if is_search else None,
    )


def _kept(job: Job, last: Last) -> Settings | None:
    """The settings of the candidates that are there, if a whole job has made them of all rows."""
    whole = [each.facts for each in last.values() if each.facts.budget_s and each.facts.has_all_rows]
    return whole[0].settings if len(whole) == len(job.tables) else None


def _checked(
    job: Job, regressor: Regressor, tuned: Tuned[Together], last: Last, seconds: float
) -> Mapping[str, Checked]:
    """By kind, what an earlier round has found, else now; nothing of some rows, without time, or if the fit fails."""
    known = {kind: restored(each.checked, job.tables[kind]) for kind, each in last.items() if each.checked}
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


def _more_rows(job: Job) -> float:
    """How many times as many rows what ships learns from as a fit that others are held out from."""
    learned, train = (sum(len(getattr(each, part)) for each in job.tables.values()) for part in ("learned", "train"))
    return FOLDS / (FOLDS - 1) if are_in_folds(job.tables) else learned / train


def _refit_seconds(job: Job, tuned: Tuned[Together]) -> float:
    """About what a fit on all rows takes, without the steps after the best one."""
    tried = max((len(own.fitted.step_errors) for own in tuned.result.values() if own.fitted), default=0)
    steps = max(own.steps or 0 for own in tuned.result.values())
    return _one_fit_seconds(job, tuned) * _more_rows(job) * (steps / tried if tried else 1.0)


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
        way = way_beyond(prepared, checked, BOUNDED if regressors[job.regressor].extrapolates else HELD)
        form, learned_from = shipped_form(learned, refitted, prepared)
        edge = prepared.edge if learned_from == TRAIN else prepared.shipped_edge
        found = judged(blank, prepared, form, edge, way, learned.held_out(prepared, way), checked)
    except Exception as failure:  # a family may fail in any way its library does
        return job.candidate(kind, reason_of(failure))
    facts = replace(
        found.facts,
        settings=tuned.settings,
        trials=_trials(tuned),
        fit_seconds=tuned.fit_seconds,
        steps=learned.steps,
        learned_from=learned_from,
        learned_rows=len(prepared.train if learned_from == TRAIN else prepared.learned),
    )
    return replace(found, facts=facts)


def _trials(tuned: Tuned[Together]) -> Trials:
    return Trials(tuned.trials, tuned.pruned, tuned.failed, tuned.reasons)
