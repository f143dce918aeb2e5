"""One regressor trained on the tables of one device: tuned, exported, checked, scored, calibrated, saved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from medn.core.errors import MednError, StoreError, reason_of
from medn.core.metrics import has_learned, score
from medn.core.splits import FOLDS
from medn.core.units import percent
from medn.core.values import content_key
from medn.deployed.beyond import BOUNDED, HELD
from medn.deployed.candidate import Candidate
from medn.deployed.checked import Checked
from medn.deployed.facts import TrainingFacts, Trials
from medn.deployed.packing import pack, unpack
from medn.regressors.form import Form, restore
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings, regressors
from medn.training.candidate_store import candidate_folder, load_candidate, save_candidate
from medn.training.extrapolation import LEAST_WORK, check
from medn.training.learning import Learning, are_in_folds, constant_values, learn, shipped
from medn.training.prepared import Prepared
from medn.training.scoring import judged
from medn.training.tuning import MOST_TRIALS, Tuned, Watch, tune, unwatched

ALL_KINDS = "all-kinds"
"""Where the journal of a family lies that learns all kinds of a device at once."""

LARGEST_DIFFERENCE = 1e-4
"""How far a deployed form may be from what was fitted, relative, for any row."""

EXTRAPOLATION_SHARE = 0.2
"""Of a job's time, kept back from the search for one more fit that tells how it does beyond the range."""

LEAST_CHECK_S = 0.5
"""What a check may take even where the search has left less: most families need no longer for one more fit."""

SHORTEST_CHECK = 0.5
"""The share of the time that its rows would take to learn: a fit that is stopped then goes on beyond them alike."""

FITTED_ONCE = 0.1
"""The share of a family without settings, of what it would get to search them."""

SAVING_SHARE = 0.1
"""Of a search, what saving the best so far may take."""

REFIT_FACTOR = 2.0
"""What a fit on all rows may take, in fits of a fold, which has four fifths of them."""

LEAST_REFIT_S = 0.5

MOST_TRIALS_IN_FOLDS = 20
"""On few layers more trials choose by luck."""

Together = Mapping[str, Learning]


class NothingLearned(MednError):
    """One number for everything would predict better."""


class NotTheSame(MednError):
    """A deployed form does not predict what the fitted regressor does."""


@dataclass(frozen=True, eq=False)
class Job:
    """One regressor on one device: a single kind, or all of them where the regressor learns them together."""

    root: Path
    device: str
    regressor: str
    tables: Mapping[str, Prepared]
    split: str
    seed: int
    budget_s: float
    """Of the whole training."""
    seconds: float
    """Of this job."""
    settings: Settings = field(default_factory=dict)
    """Fixed by the user and not searched."""

    @property
    def share(self) -> float:
        """What its time is weighed with."""
        regressor = regressors[self.regressor]
        return regressor.share * len(self.tables) * (1.0 if regressor.is_tunable else FITTED_ONCE)

    @property
    def journal(self) -> Path:
        """Another table, split or seed is another study: its trials say nothing about this one."""
        folder = ALL_KINDS if regressors[self.regressor].shares_kinds else next(iter(self.tables))
        return candidate_folder(self.root, self.device, folder, self.regressor) / f"study-{self.key[:8]}.journal"

    @property
    def key(self) -> str:
        tables = {kind: prepared.source.key for kind, prepared in self.tables.items()}
        fixed = [dict(self.settings)] if self.settings else []
        return content_key([self.device, self.regressor, tables, self.split, self.seed, *fixed])

    def candidate(self, kind: str, reason: str = "") -> Candidate:
        """What is known before anything is learned."""
        prepared = self.tables[kind]
        source = prepared.source
        return Candidate(
            device=self.device,
            kind=kind,
            regressor=self.regressor,
            reason=reason,
            facts=TrainingFacts(
                key=self.key,
                budget_s=self.budget_s,
                seed=self.seed,
                split=self.split,
                table=prepared.table.key,
                split_sizes=prepared.rows.sizes,
                inputs=source.choice.as_json(),
                target=prepared.table.target.target.definition,
                schema=source.table.schema,
                constants=source.constants,
                left_out=source.left_out,
                unstable=source.unstable,
                noise=source.noise,
                devices=() if source.devices == (self.device,) else source.devices,
                sheets=source.sheets,
                dtypes=source.dtypes,
            ),
        )


def run_job(job: Job, watch: Watch = unwatched) -> list[Candidate]:
    """Train, and save one candidate for each kind; whatever goes wrong is the reason of a failed one."""
    began = time.monotonic()
    regressor = regressors[job.regressor]
    try:
        tuned = _tuned(job, regressor, watch)
    except Exception as failure:  # a family may fail in any way its library does
        return fail_job(job, reason_of(failure))
    left = job.seconds - (time.monotonic() - began)
    made = _candidates(job, regressor, tuned, _checked(job, regressor, tuned, left))
    return [_saved(job, candidate if candidate.is_good else _rather_the_last(job, candidate)) for candidate in made]


def fail_job(job: Job, reason: str) -> list[Candidate]:
    """Save a failed candidate for each kind."""
    return [_saved(job, _rather_the_last(job, job.candidate(kind, reason))) for kind in job.tables]


def _rather_the_last(job: Job, failed: Candidate) -> Candidate:
    """The good candidate that an earlier training or trial made of the same data, if there is one, with the reason."""
    try:
        last = load_candidate(candidate_folder(job.root, job.device, failed.kind, job.regressor))
    except StoreError:
        return failed
    if not last.is_good or last.facts.key != job.key:
        return failed
    trials = last.facts.trials.and_failed(failed.reason)
    return replace(last, facts=replace(last.facts, budget_s=failed.facts.budget_s, trials=trials))


def _saved(job: Job, candidate: Candidate) -> Candidate:
    save_candidate(job.root, candidate)
    return candidate.without_form()


def _tuned(job: Job, regressor: Regressor, watch: Watch) -> Tuned[Together]:
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
                save_candidate(job.root, replace(candidate, facts=replace(candidate.facts, budget_s=0.0)))
        ended = time.monotonic()
        next_save = ended + (ended - began) / SAVING_SHARE

    seconds = job.seconds * (1 - EXTRAPOLATION_SHARE)
    rows = max(len(prepared.train) for prepared in job.tables.values())
    return tune(
        regressor,
        fit,
        judge,
        journal=job.journal,
        seconds=seconds,
        rows=rows,
        seed=job.seed,
        fixed=job.settings,
        most_trials=MOST_TRIALS_IN_FOLDS if are_in_folds(job.tables) else MOST_TRIALS,
        watch=watch,
        on_better=save,
    )


def _checked(job: Job, regressor: Regressor, tuned: Tuned[Together], seconds: float) -> Mapping[str, Checked]:
    """By kind; nothing where the time left is less than a fit takes, or where the fit fails."""
    seconds = max(seconds, LEAST_CHECK_S)
    if seconds < SHORTEST_CHECK * LEAST_WORK * _one_fit_seconds(job, tuned):
        return {}
    try:
        return check(regressor, job.tables, tuned.settings, Effort(seconds, job.seed))
    except Exception:  # a family may fail in any way its library does, and what it is needed for is done
        return {}


def _one_fit_seconds(job: Job, tuned: Tuned[Together]) -> float:
    return tuned.fit_seconds / (FOLDS if are_in_folds(job.tables) else 1)


def _candidates(
    job: Job, regressor: Regressor, tuned: Tuned[Together], checked: Mapping[str, Checked] | None = None
) -> list[Candidate]:
    """The candidate of every kind."""
    effort = Effort(max(REFIT_FACTOR * _one_fit_seconds(job, tuned), LEAST_REFIT_S), job.seed)
    try:
        fitted = shipped(regressor, job.tables, tuned.settings, tuned.result, effort)
    except Exception as failure:  # a family may fail in any way its library does
        return [job.candidate(kind, reason_of(failure)) for kind in job.tables]
    return [_finish(job, kind, tuned, fitted[kind], (checked or {}).get(kind)) for kind in job.tables]


def _finish(job: Job, kind: str, tuned: Tuned[Together], fitted: Fitted, checked: Checked | None) -> Candidate:
    """The candidate of one kind, from its fitted regressor."""
    blank, prepared, learned = job.candidate(kind), job.tables[kind], tuned.result[kind]
    try:
        _check_learned(learned, prepared)
        form = _exported(fitted, prepared)
        default = BOUNDED if regressors[job.regressor].extrapolates else HELD
        out_of_fold = learned.log_values if prepared.folds is not None else None
        found = judged(blank, prepared, form, prepared.roofline, default, checked, out_of_fold)
    except Exception as failure:  # a family may fail in any way its library does
        return job.candidate(kind, reason_of(failure))
    trials = Trials(tuned.trials, tuned.pruned, tuned.failed, tuned.reasons)
    facts = replace(found.facts, settings=tuned.settings, trials=trials, fit_seconds=tuned.fit_seconds)
    return replace(found, facts=facts)


def _check_learned(learned: Learning, prepared: Prepared) -> None:
    """What had no time to learn is not offered: it would stand beside others as if it were one of them."""
    held, constant, predicted = prepared.validation, constant_values(prepared), np.exp(learned.log_values)
    if has_learned(predicted, held.target, constant):
        return
    errors = [score(values, held.target).mape for values in (predicted, constant)]
    own, plain = map(percent, errors)
    raise NothingLearned(f"it had no time to learn: an error of {own}, one number for every layer has {plain}")


def _exported(fitted: Fitted, prepared: Prepared) -> Form:
    """The deployed form, read back from what is saved, if it says what the fitted regressor says."""
    inputs = np.concatenate([prepared.validation.inputs, prepared.test.inputs])
    form = restore(unpack(*pack(fitted.export().parts())), inputs.shape[1])
    expected, deployed = fitted.predict(inputs), form.predict(inputs)
    if not (np.isfinite(deployed) & (deployed > 0)).all():
        raise NotTheSame("the deployed form predicts latencies that are not positive numbers")
    difference = float(np.abs(deployed / expected - 1).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise NotTheSame(f"the deployed form differs by {difference:.2g} from the fitted regressor")
    return form
