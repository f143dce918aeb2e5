"""The search for good settings of one regressor, within its share of the time, kept in a journal that can go on.

A journal is a file that Optuna's own tools read: `optuna-dashboard study.journal`.
"""

from __future__ import annotations

import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from medn.core.errors import MednError, reason_of
from medn.regressors.regressor import Effort, Regressor, Settings

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

LEAST_GAIN = 0.01
"""Errors that are lower by a smaller share than this are as good."""

STEP_GROWTH = 1.25
"""Errors of a fit under way are compared at steps that grow by this factor: often enough to stop a hopeless one."""


Watch = Callable[[int, float], None]
"""Told, while a fit goes on, the number of its trial and the lowest validation error of that so far."""


def unwatched(trial: int, error: float) -> None:
    pass


class NothingFitted(MednError):
    """No trial of a regressor came to an end."""


@dataclass(frozen=True)
class Tuned(Generic[Result]):
    """The best settings, what was fitted with them, and how the search went."""

    settings: Settings
    error: float
    fitted: Result | None
    """None where it was found before, and whoever asks has kept what was fitted then."""
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


def tune(
    regressor: Regressor,
    fit: Callable[[Settings, Effort], Result],
    judge: Callable[[Result], float],
    *,
    journal: Path,
    seconds: float,
    rows: int = 0,
    seed: int = 0,
    threads: int = 1,
    fixed: Settings | None = None,
    most_trials: int = MOST_TRIALS,
    patience: int | None = None,
    follows: float = 0.0,
    kept: Settings | None = None,
    doubt: float = 0.0,
    watch: Watch = unwatched,
    on_better: Callable[[Tuned[Result]], None] | None = None,
) -> Tuned[Result]:
    """Search the settings of a regressor; `judge` gives the validation error of what `fit` made of so many rows.

    A family without settings is fitted once, and so is one whose settings are all `fixed`. What the journal holds
    already counts. `patience` is how many trials in a row may better nothing before the search ends. `follows` is what
    is left of the time for what follows the search, in fits of the best settings. What was fitted with the settings
    `kept` need not be fitted again. The best of many settings is so by luck too: the errors of all but those to start
    from count as larger by the share `doubt`.
    `on_better` is told whenever a trial of a search is the best so far.
    """
    fixed = fixed or {}
    if regressor.is_tunable:
        deadline = time.monotonic() + seconds
        search = _Search(
            regressor,
            fit,
            judge,
            rows,
            seed,
            threads,
            fixed,
            deadline,
            seconds,
            most_trials,
            patience,
            follows,
            kept,
            doubt,
            journal,
            watch,
            on_better,
        )
        return search.run()
    return fitted_once({**regressor.defaults, **fixed}, fit, judge, seconds / (1 + follows), seed, watch, threads)


def fitted_once(
    settings: Settings,
    fit: Callable[[Settings, Effort], Result],
    judge: Callable[[Result], float],
    seconds: float,
    seed: int,
    watch: Watch,
    threads: int = 1,
) -> Tuned[Result]:
    """One fit without a search."""
    began = time.monotonic()
    result = fit(settings, Effort(seconds, seed, threads, lambda step, error: watch(1, error)))
    return Tuned(settings, _checked(judge(result)), result, time.monotonic() - began)


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


def _tried_file(journal: Path) -> Path:
    """Holds the settings that are being fitted, for the parent of a process that dies with them."""
    return journal.with_suffix(".trying")


def blame(journal: Path, reason: str) -> None:
    """Count the trial that a process died in as failed, so that the search does not draw the same again."""
    import optuna
    from optuna.distributions import json_to_distribution

    file = _tried_file(journal)
    if not file.exists():
        return
    try:
        tried = json.loads(file.read_text(encoding="utf-8"))
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState.FAIL,
            params=tried["params"],
            distributions={name: json_to_distribution(text) for name, text in tried["distributions"].items()},
            user_attrs={"settings": tried["settings"], "reason": reason},
        )
    except (ValueError, KeyError, TypeError):  # killed while it was written: nothing was fitted yet
        pass
    else:
        open_journal(journal).add_trial(trial)
    file.unlink()


def _go_on(journal: optuna.Study, seed: int) -> optuna.Study:
    """A study in memory that knows what the journal holds: every step of a trial in the journal would cost a sync."""
    import optuna

    past = journal.get_trials(deepcopy=False)
    study = optuna.create_study(
        direction="minimize",
        # A study that goes on must not draw what it drew before.
        sampler=optuna.samplers.TPESampler(seed=seed + len(past)),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=4),
    )
    study.add_trials(past)
    return study


@dataclass
class _Search(Generic[Result]):
    regressor: Regressor
    fit: Callable[[Settings, Effort], Result]
    judge: Callable[[Result], float]
    rows: int
    seed: int
    threads: int
    fixed: Settings
    deadline: float
    seconds: float
    most_trials: int
    patience: int | None
    follows: float
    kept: Settings | None
    doubt: float
    journal: Path
    watch: Watch
    on_better: Callable[[Tuned[Result]], None] | None

    def run(self) -> Tuned[Result]:
        journal = open_journal(self.journal)
        _tried_file(self.journal).unlink(missing_ok=True)  # left by a training that was killed: nobody's fault
        study = _go_on(journal, self.seed)
        best: tuple[float, Result, float] | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            free = {name: value for name, value in self.regressor.start(self.rows).items() if name not in self.fixed}
            study.enqueue_trial(free, skip_if_exists=True)
            while self._worth_another(study):
                trial = study.ask()
                found = self._try(study, trial)
                journal.add_trial(study.get_trials(deepcopy=False)[trial.number])
                _tried_file(self.journal).unlink(missing_ok=True)
                if found is not None and self._best(study).number == trial.number:
                    best = found
                    if self.on_better:
                        self.on_better(self._tuned(study, best))
        return self._tuned(study, best)

    def _tuned(self, study: optuna.Study, best: tuple[float, Result, float] | None) -> Tuned[Result]:
        """What the search has found; the best is fitted again where an earlier process found it."""
        from optuna.trial import TrialState

        trials = study.get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state == TrialState.COMPLETE]
        failed = [trial for trial in trials if trial.state == TrialState.FAIL]
        reasons = tuple(dict.fromkeys(str(trial.user_attrs["reason"]) for trial in failed))
        if not ended:
            raise NothingFitted(f"none of {len(trials)} trials came to an end: {'; '.join(reasons) or 'all pruned'}")
        chosen = self._best(study)
        settings: dict[str, Any] = chosen.user_attrs["settings"]
        pruned = len(trials) - len(ended) - len(failed)
        tuned = partial(Tuned[Result], settings, trials=len(trials), pruned=pruned, failed=len(failed), reasons=reasons)
        if best is None:  # found before this process began
            if settings == self.kept:
                return tuned(chosen.value or 0.0, None, 0.0)
            began = time.monotonic()
            result = self.fit(settings, Effort(self._trial_seconds(study), self.seed, self.threads))
            best = (_checked(self.judge(result)), result, time.monotonic() - began)
        return tuned(*best)

    def _best(self, study: optuna.Study) -> optuna.trial.FrozenTrial:
        """Of those that came to an end, the one whose error counts as the smallest, the first of several."""
        from optuna.trial import TrialState

        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return min(ended, key=lambda trial: (trial.value or 0.0) * (1 + self.doubt if trial.number else 1.0))

    def _worth_another(self, study: optuna.Study) -> bool:
        """The first trial is always made; another one only if it can come to an end."""
        from optuna.trial import TrialState

        trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]
        ended = [trial for trial in trials if trial.state == TrialState.COMPLETE and trial.duration]
        left = self._seconds_left(study)
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

    def _seconds_left(self, study: optuna.Study) -> float:
        """For further trials, beside what follows the best so far."""
        from optuna.trial import TrialState

        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        best = min(ended, key=lambda trial: trial.value or 0.0, default=None)
        kept = best.duration.total_seconds() if best and best.duration else 0.0
        return self.deadline - time.monotonic() - self.follows * kept

    def _trial_seconds(self, study: optuna.Study, share: float = LARGEST_SHARE) -> float:
        """What one trial may take, and what would follow it."""
        left = min(self._seconds_left(study), (self.deadline - time.monotonic()) / (1 + self.follows))
        return max(min(left, self.seconds * share), self.seconds * 0.05)

    def _try(self, study: optuna.Study, trial: optuna.Trial) -> tuple[float, Result, float] | None:
        """One trial. Whatever goes wrong in it is kept with its reason, and the search goes on."""
        import optuna
        from optuna.trial import TrialState

        began = time.monotonic()
        try:
            settings = suggested(self.regressor, trial, self.fixed)
            trial.set_user_attr("settings", dict(settings))
            self._note(trial, settings)
            share = LARGEST_SHARE if trial.number else FIRST_SHARE
            effort = Effort(self._trial_seconds(study, share), self.seed, self.threads, _reporter(trial, self.watch))
            result = self.fit(settings, effort)
            error = _checked(self.judge(result))
        except optuna.TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
            return None
        except Exception as failure:  # a family may fail in any way its library does
            trial.set_user_attr("reason", reason_of(failure))
            study.tell(trial, state=TrialState.FAIL)
            return None
        study.tell(trial, error)
        self.watch(trial.number + 1, study.best_value)
        return error, result, time.monotonic() - began

    def _note(self, trial: optuna.Trial, settings: Settings) -> None:
        from optuna.distributions import distribution_to_json

        distributions = {name: distribution_to_json(each) for name, each in trial.distributions.items()}
        tried = {"params": trial.params, "distributions": distributions, "settings": dict(settings)}
        _tried_file(self.journal).write_text(json.dumps(tried), encoding="utf-8")


def _reporter(trial: optuna.Trial, watch: Watch) -> Callable[[int, float], None]:
    """Passes errors on to the pruner, at steps that every trial shares however often its family reports."""
    import optuna

    last = -1

    def report(step: int, error: float) -> None:
        nonlocal last
        watch(trial.number + 1, error)
        place = int(math.log(max(step, 0) + 1, STEP_GROWTH))
        if place > last:
            last = place
            trial.report(error, place)
            if trial.should_prune():
                raise optuna.TrialPruned

    return report


def _lowest(trials: Sequence[optuna.trial.FrozenTrial]) -> float:
    from optuna.trial import TrialState

    return min((each.values[0] for each in trials if each.state == TrialState.COMPLETE), default=math.inf)


def _checked(error: float) -> float:
    if not math.isfinite(error):
        raise NothingFitted("its predictions are not all finite")
    return error
