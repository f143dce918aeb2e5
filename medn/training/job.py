"""What is to be fitted: one regressor on the tables of one device."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from medn.core.errors import StoreError
from medn.core.values import content_key
from medn.deployed.candidate import Candidate
from medn.deployed.facts import TrainingFacts
from medn.regressors.regressor import Settings, regressors
from medn.training.candidate_store import candidate_folder, load_candidate
from medn.training.prepared import Prepared

ALL_KINDS = "all-kinds"
"""Where the journal of a family lies that learns all kinds of a device at once."""

FITTED_ONCE = 0.1
"""The share of a family without settings, of what it would get to search them."""

Place = tuple[str, str]
"""A device and a kind."""


class Round(IntEnum):
    """How far a family may go: one fit, of some rows where there are many; one fit of all; a search for settings."""

    LOOK = 0
    WHOLE = 1
    SEARCH = 2


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
    round: Round = Round.SEARCH
    some_rows: bool = False
    """Whether its tables hold only some of the layers to learn from."""
    can_wait: bool = False
    """Whether it is left for later when the time of its round is over."""
    weight: float | None = None
    """What its time is weighed with, where more is known than the share of its family."""

    @property
    def share(self) -> float:
        """What its time is weighed with."""
        if self.weight is not None:
            return self.weight
        regressor = regressors[self.regressor]
        return regressor.share * len(self.tables) * (1.0 if regressor.is_tunable else FITTED_ONCE)

    @property
    def rows(self) -> int:
        """That the largest of its tables has to learn from."""
        return max(len(prepared.rows.train) for prepared in self.tables.values())

    @property
    def places(self) -> list[Place]:
        return [(self.device, kind) for kind in self.tables]

    @property
    def journal(self) -> Path:
        """Another table, split or seed is another study: its trials say nothing about this one."""
        folder = ALL_KINDS if regressors[self.regressor].shares_kinds else next(iter(self.tables))
        return candidate_folder(self.root, self.device, folder, self.regressor) / f"study-{self.key[:8]}.journal"

    @property
    def key(self) -> str:
        tables = {kind: prepared.source.key for kind, prepared in self.tables.items()}
        fixed = [dict(self.settings)] if self.settings else []
        sources = [self._sources_key] if regressors[self.regressor].needs_sources else []
        return content_key([self.device, self.regressor, tables, self.split, self.seed, *fixed, *sources])

    @property
    def _sources_key(self) -> dict[str, str]:
        """By kind, what it leans on."""
        found = {kind: prepared.train.sources for kind, prepared in self.tables.items()}
        return {kind: sources.key if sources else "" for kind, sources in found.items()}

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


def last_candidates(job: Job) -> dict[str, Candidate]:
    """By kind, the good candidates that earlier rounds, trainings or trials have made of the same data."""
    found = {}
    for kind in job.tables:
        with suppress(StoreError):
            found[kind] = load_candidate(candidate_folder(job.root, job.device, kind, job.regressor))
    return {kind: each for kind, each in found.items() if each.is_good and each.facts.key == job.key}
