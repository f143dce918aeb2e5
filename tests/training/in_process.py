"""Training without processes of its own, so that a busy machine stops no fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medn.core.splits import Split
from medn.deployed.candidate import Candidate
from medn.runs.tables import read_source
from medn.training.candidate_store import candidates_root
from medn.training.extrapolation import made_ready
from medn.training.job import Job
from medn.training.job_under_way import run_job
from medn.training.prepared import prepare, write_tables


def train_here(
    run: Path, families: Sequence[str], split: str = "random", seed: int = 1, seconds: float = 60.0
) -> list[Candidate]:
    """The candidates of every family for linear layers, with default settings."""
    from medn.regressors.regressor import regressors

    source, parts = read_source(run), Split.parse(split)
    tables, _ = prepare(source, ["linear"], parts, seed, without_unstable=False)
    write_tables(run, source, parts, tables)
    found = []
    for device, kinds in tables.items():
        ready = {kind: made_ready(each, seed) for kind, each in kinds.items()}
        for name in families:
            root, settings = candidates_root(run, parts), regressors[name].defaults
            found += run_job(Job(root, device, name, ready, split, seed, seconds, seconds, settings))
    return found
