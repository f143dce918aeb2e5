"""How the search for settings went: the best validation error after each trial."""

from __future__ import annotations

import math
from pathlib import Path

from medn.deployed.candidate import Candidate
from medn.training.candidate_store import candidate_folder
from medn.training.train_regressor import ALL_KINDS
from medn.training.tuning import STUDY


def tuning_history(root: Path, candidate: Candidate) -> tuple[float, ...]:
    """The lowest error so far after each trial, NaN before the first that came to an end; empty without a search."""
    for kind in (candidate.kind, ALL_KINDS):
        folder = candidate_folder(root, candidate.device, kind, candidate.regressor)
        journal = folder / f"study-{candidate.facts.key[:8]}.journal"
        if journal.is_file():
            return _best_so_far(journal)
    return ()


def _best_so_far(journal: Path) -> tuple[float, ...]:
    """Reads only, so that a training that goes on meanwhile is not disturbed."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    study = optuna.load_study(study_name=STUDY, storage=storage)
    best, lowest = [], math.nan
    for trial in study.get_trials(deepcopy=False):
        if trial.state == optuna.trial.TrialState.COMPLETE and trial.value is not None:
            lowest = trial.value if math.isnan(lowest) else min(lowest, trial.value)
        best.append(lowest)
    return tuple(best)
