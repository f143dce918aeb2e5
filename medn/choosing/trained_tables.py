"""The tables that the candidates of a run were trained on: as training wrote them, or made of the measurements again.

Runs that were trained by an earlier version have no written tables, and their candidates do not tell what they learned
from: the scores they were saved with do.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from medn.core.metrics import score
from medn.core.splits import Split
from medn.core.store import StoreState
from medn.deployed.candidate import Candidate, deployed_of, scores_of
from medn.runs.tables import Source, read_source, state_now
from medn.runs.training_table import load_table, table_path
from medn.training.prepared import Prepared, Tables, prepare

SAME_SCORE = 1e-3
"""How far, relative, a score may be from the saved one; more means that the rows are not the ones learned from."""


class TrainedTables:
    """The training tables of one split of a run."""

    def __init__(self, folder: Path, split: Split) -> None:
        self.folder = folder
        self.split = split
        self._made = cache(self._make)

    def of(self, candidates: Sequence[Candidate]) -> Prepared | None:
        """The table of one device and kind; None where its candidates learned from none that there is."""
        device, kind = candidates[0].device, candidates[0].kind
        written = load_table(table_path(self.folder, self.split, device, kind))
        if written:
            return Prepared.of(written)
        self._source.layer_kind(kind)  # says which one is missing, rather than that nothing fits
        seed = Counter(each.facts.seed for each in candidates).most_common(1)[0][0]
        for in_folds, without_unstable in itertools.product((True, False), repeat=2):
            made = self._made(kind, seed, without_unstable, in_folds).get(device, {}).get(kind)
            if made and any(learned_from(each, made) for each in candidates):
                return made
        return None

    def _make(self, kind: str, seed: int, without_unstable: bool, in_folds: bool) -> Tables:
        kinds = [kind] if kind in self._source.rows else []
        return prepare(self._source, kinds, self.split, seed, without_unstable, in_folds)[0]

    @cached_property
    def _source(self) -> Source:
        return read_source(self.folder)

    @cached_property
    def state_now(self) -> StoreState:
        """What the run holds, which may be more than its tables were made from."""
        return state_now(self.folder)


def learned_from(candidate: Candidate, prepared: Prepared) -> bool:
    """Whether these are the rows that a candidate was trained and judged on."""
    if candidate.facts.table:
        return candidate.facts.table == prepared.table.key
    return candidate.is_good and _scores_alike(candidate, prepared)


def _scores_alike(candidate: Candidate, prepared: Prepared) -> bool:
    """Whether a candidate that does not tell its table scores on these rows what it was saved with."""
    facts, test = candidate.facts, prepared.test
    if facts.split_sizes != prepared.rows.sizes or facts.schema != prepared.source.table.schema:
        return False
    now = score(deployed_of(candidate).predict(test.inputs), test.target).mape
    return math.isclose(now, scores_of(candidate).test.mape, rel_tol=SAME_SCORE)
