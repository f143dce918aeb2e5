"""The search for good settings of one regressor, within its share of the time, kept in a journal that can go on.

A study asks for fits and is told what came of them; who makes them, where and how many at once, is no concern of it.
A journal is a file that Optuna's own tools read: `optuna-dashboard study.journal`.
"""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from medn.core.errors import MednError
from medn.regressors.regressor import Regressor, Settings
from medn.training.attempt import PLACES_TO_WARM_UP, Attempt, Tried

if TYPE_CHECKING:
    import optuna

Result = TypeVar("Result")

STUDY = "study"
MOST_TRIALS = 100
"""More trials choose by luck on the validation rows rather than by merit."""

LARGEST_SHARE = 1 / 2
"""What one trial may take of the time, so that several can be compared."""

FIRST_SHARE = 3 / 4
"""What the first may take, whose settings are good ones: where a fit takes so long, half of one is no comparison."""

LEAST_SHARE = 0.05
"""What any may take, however little time is left."""

LEAST_GAIN = 0.01
"""Errors that are lower by a smaller share than this are as good."""

FEWEST_TO_STOP_BY = 4
"""A fit is hopeless if it errs more than half of those that came to an end did at the same step, once so many have."""


class NothingFitted(MednError):
    """No trial of a regressor came to an end."""


@dataclass(frozen=True)
class Tuned(Generic[Result]):
    """The best settings, what was fitted with them, and how the search went."""

    settings: Settings
    error: float
    fitted: Result | None
    """None where it was found before, and whoever asks has kept what was fitted then, or fits it again."""
    fit_seconds: float
    trials: int = 1
    pruned: int = 0
    failed: int = 0
    reasons: tuple[str, ...] = ()
    """Why trials failed, each reason once."""

    @property
    def result(self) -> Result:
        assert self.fitted is not None, "asked for what is kept elsewhere"
        return self.fitted


def open_journal(path: Path) -> optuna.Study:
    """The study that a journal holds, mended where a kill has cut it short. One process writes to a journal."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        written = path.read_bytes()
        whole = written[: written.rfind(b"\n") + 1]
        if whole != written:
            path.write_bytes(whole)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)  # left by a process that was killed
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    return optuna.create_study(storage=storage, study_name=STUDY, load_if_exists=True, direction="minimize")


class _Partly:
    """A trial that draws only what is not fixed."""

    def __init__(self, trial: Any, fixed: Settings) -> None:
        self.trial = trial
        self.fixed = fixed

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False) -> Any:
        return self.fixed[name] if name in self.fixed else self.trial.suggest_float(name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> Any:
        return self.fixed[name] if name in self.fixed else self.trial.suggest_int(name, low, high, step=step, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self.fixed[name] if name in self.fixed else self.trial.suggest_categorical(name, choices)


def suggested(regressor: Regressor, trial: Any, fixed: Settings) -> Settings:
    """The settings of a trial, with those that are fixed as they are."""
    partly: Any = _Partly(trial, fixed)
    return {**regressor.suggest(partly if fixed else trial), **fixed}


def _going_on(journal: optuna.Study, seed: int) -> optuna.Study:
    """A study in memory that knows what the journal holds: every step of a trial in the journal would cost a sync."""
    import optuna

    past = journal.get_trials(deepcopy=False)
    # A study that goes on must not draw what it drew before.
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed + len(past)))
    study.add_trials(past)
    return study


@dataclass(eq=False)
class Study(Generic[Result]):
    """The settings of a regressor being searched: asks for fits, several at once if need be, and is told their errors.

    What the journal holds already counts. `patience` is how many trials in a row may better nothing before the search
    ends. `follows` is what is left of the time for what follows the search, in fits of the best settings. What was
    fitted with the settings `kept` need not be fitted again. The best of many settings is so by luck too: the errors of
    all but those to start from count as larger by the share `doubt`.
    """

    regressor: Regressor
    journal: Path
    seconds: float
    rows: int = 0
    seed: int = 0
    fixed: Settings = field(default_factory=dict)
    most_trials: int = MOST_TRIALS
    patience: int | None = None
    follows: float = 0.0
    kept: Settings | None = None
    doubt: float = 0.0
    clock: Callable[[], float] = time.monotonic
    is_over: bool = False
    """Set by whoever wants no more trials."""

    def __post_init__(self) -> None:
        self.deadline = self.clock() + self.seconds
        self._asked: dict[int, optuna.Trial] = {}
        self._found: tuple[int, Tried[Result]] | None = None
        """The number and the outcome of the best trial, if it was made here."""

    @cached_property
    def _written(self) -> optuna.Study:
        return open_journal(self.journal)

    @cached_property
    def _study(self) -> optuna.Study:
        study = _going_on(self._written, self.seed)
        start = self.regressor.start(self.rows).items()
        study.enqueue_trial({name: value for name, value in start if name not in self.fixed}, skip_if_exists=True)
        return study

    @property
    def under_way(self) -> int:
        """How many fits were asked for whose outcome is not known yet."""
        return len(self._asked)

    @property
    def has_found(self) -> bool:
        """Whether a fit came to an end."""
        return bool(self._ended())

    def ask(self) -> Attempt | None:
        """The next fit; None where no other is worth it now."""
        if self.is_over or not self._worth_another():
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = self._study.ask()
            settings = suggested(self.regressor, trial, self.fixed)
        trial.set_user_attr("settings", dict(settings))
        self._asked[trial.number] = trial
        return Attempt(
            trial.number,
            settings,
            self._trial_seconds(LARGEST_SHARE if trial.number else FIRST_SHARE),
            error_to_beat=self._error_to_beat(trial.number),
            hopeless_above=self._hopeless_above(),
            is_only=self.most_trials <= 1 or not trial.params,
        )

    def tell(self, attempt: Attempt, tried: Tried[Result]) -> None:
        """What came of a fit that was asked for. Whatever went wrong in it is kept with its reason."""
        from optuna.trial import TrialState

        trial = self._asked.pop(attempt.number)
        for place, error in tried.reports.items():
            trial.report(error, place)
        if tried.reason:
            trial.set_user_attr("reason", tried.reason)
            self._study.tell(trial, state=TrialState.FAIL)
        elif tried.error is None:
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, tried.error)
        frozen = self._study.get_trials(deepcopy=False)[attempt.number]
        if frozen.datetime_complete:  # the time of the fit, wherever it waited before and afterwards
            frozen.datetime_start = frozen.datetime_complete - timedelta(seconds=tried.seconds)
        self._written.add_trial(frozen)
        if tried.result is not None and self._best().number == attempt.number:
            self._found = attempt.number, tried

    def forget(self, attempt: Attempt) -> None:
        """Nothing is known of a fit that was asked for, through no fault of its own."""
        from optuna.trial import TrialState

        self._study.tell(self._asked.pop(attempt.number), state=TrialState.FAIL)
        frozen = self._study.get_trials(deepcopy=False)[attempt.number]
        frozen.user_attrs = {**frozen.user_attrs, "reason": "its worker was lost"}

    def again(self, settings: Settings) -> Attempt:
        """A fit of the best settings, which were found before and nobody has kept."""
        return Attempt(-1, settings, self._trial_seconds(LARGEST_SHARE), is_only=True)

    def tuned(self) -> Tuned[Result]:
        """What the search has found so far."""
        from optuna.trial import TrialState

        trials = [each for each in self._trials() if each.state != TrialState.RUNNING]
        ended = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        failed = [trial for trial in trials if trial.state == TrialState.FAIL]
        reasons = tuple(dict.fromkeys(str(trial.user_attrs["reason"]) for trial in failed))
        if not ended:
            raise NothingFitted(f"none of {len(trials)} trials came to an end: {'; '.join(reasons) or 'all pruned'}")
        chosen = self._best()
        found = self._found[1] if self._found and self._found[0] == chosen.number else None
        return Tuned(
            chosen.user_attrs["settings"],
            chosen.value or 0.0,
            found.result if found else None,
            found.seconds if found else 0.0,
            len(trials),
            len(trials) - len(ended) - len(failed),
            len(failed),
            reasons,
        )

    def progress(self) -> tuple[int, float]:
        """How many trials there were, and the lowest error so far; infinite before the first came to an end."""
        trials = self._trials()
        return len(trials), _lowest(trials)

    def _trials(self) -> list[optuna.trial.FrozenTrial]:
        """Those that were begun."""
        from optuna.trial import TrialState

        return [each for each in self._study.get_trials(deepcopy=False) if each.state != TrialState.WAITING]

    def _ended(self) -> list[optuna.trial.FrozenTrial]:
        from optuna.trial import TrialState

        return self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    def _best(self) -> optuna.trial.FrozenTrial:
        """Of those that came to an end, the one whose error counts as the smallest, the first of several."""
        return min(self._ended(), key=lambda trial: (trial.value or 0.0) * self._counts(trial.number))

    def _counts(self, number: int) -> float:
        return 1 + self.doubt if number else 1.0

    def _error_to_beat(self, number: int) -> float:
        if not self._ended():
            return math.inf
        best = self._best()
        return (best.value or 0.0) * self._counts(best.number) / self._counts(number)

    def _hopeless_above(self) -> Mapping[int, float]:
        """By the place of a report, the median of what fits that came to an end had there."""
        reports: dict[int, list[float]] = {}
        ended = self._ended()
        if len(ended) < FEWEST_TO_STOP_BY:
            return {}
        for trial in ended:
            for place, error in trial.intermediate_values.items():
                if place >= PLACES_TO_WARM_UP and math.isfinite(error):
                    reports.setdefault(place, []).append(error)
        return {place: statistics.median(errors) for place, errors in reports.items()}

    def _worth_another(self) -> bool:
        """The first trial is always made; another one only if it can come to an end."""
        trials = self._trials()
        ended = [trial for trial in self._ended() if trial.duration]
        left = self._seconds_left()
        if not ended:
            return not trials or (left > 0 and len(trials) < self.most_trials)
        if not ended[0].params:  # everything is fixed, there is nothing to search
            return False
        usual = statistics.median(trial.duration.total_seconds() for trial in ended if trial.duration)
        return len(trials) < self.most_trials and left > usual / 2 and not self._is_settled(trials)

    def _is_settled(self, trials: Sequence[optuna.trial.FrozenTrial]) -> bool:
        """Whether the last trials have bettered nothing worth telling."""
        if self.patience is None:
            return False
        before, since = trials[: -self.patience], trials[-self.patience :]
        return len(before) > 0 and _lowest(since) > (1 - LEAST_GAIN) * _lowest(before)

    def _seconds_left(self) -> float:
        """For further trials, beside what follows the best so far."""
        best = min(self._ended(), key=lambda trial: trial.value or 0.0, default=None)
        kept = best.duration.total_seconds() if best and best.duration else 0.0
        return self.deadline - self.clock() - self.follows * kept

    def _trial_seconds(self, share: float) -> float:
        """What one trial may take, and what would follow it."""
        left = min(self._seconds_left(), (self.deadline - self.clock()) / (1 + self.follows))
        return max(min(left, self.seconds * share), self.seconds * LEAST_SHARE)


def _lowest(trials: Sequence[optuna.trial.FrozenTrial]) -> float:
    from optuna.trial import TrialState

    return min((each.values[0] for each in trials if each.state == TrialState.COMPLETE), default=math.inf)
