"""How the search for settings of one regressor went."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from medn.deployed.candidate import Candidate
from medn.training.candidate_store import candidate_folder
from medn.training.job import ALL_KINDS
from medn.training.tuning import STUDY


@dataclass(frozen=True)
class Search:
    best: tuple[float, ...]
    """The lowest validation error so far after each trial, NaN before the first that came to an end."""
    seconds: float = 0.0
    """All trials together."""
    journal: str = ""
    """Where it is kept: a family that learns all kinds at once has one search for all of them."""


def tuning_search(root: Path, candidate: Candidate) -> Search | None:
    """None where nothing was searched."""
    for kind in (candidate.kind, ALL_KINDS):
        folder = candidate_folder(root, candidate.device, kind, candidate.regressor)
        journal = folder / f"study-{candidate.facts.key[:8]}.journal"
        if journal.is_file():
            return _read_search(journal)
    return None


def _read_search(journal: Path) -> Search:
    """Reads only, so that a training that goes on meanwhile is not disturbed."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    study = optuna.load_study(study_name=STUDY, storage=storage)
    best, lowest, seconds = [], math.nan, 0.0
    for trial in study.get_trials(deepcopy=False):
        if trial.state == optuna.trial.TrialState.COMPLETE and trial.value is not None:
            lowest = trial.value if math.isnan(lowest) else min(lowest, trial.value)
        best.append(lowest)
        seconds += trial.duration.total_seconds() if trial.duration else 0.0
    return Search(tuple(best), seconds, str(journal))
