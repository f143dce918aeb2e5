"""How well programs are predicted, and how well the best of them are found."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from medn.core.metrics import relative_errors
from medn.core.table import Array
from medn.programs.programs import MeasuredPrograms

TOPS = (1, 5)


@dataclass(frozen=True)
class ProgramScores:
    """Errors are shares. `top_k` is what the best programs of all tasks take together, over what the best of the k that
    were predicted fastest take: 1 where every task's best was among them."""

    rows: int
    mape: float
    median: float
    top_1: float
    top_5: float
    pairs: float
    """The share of pairs of a task that are in the right order; pairs closer than five per cent do not count."""

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def score_programs(programs: MeasuredPrograms, latency_s: Array, rank_score: Array) -> ProgramScores:
    """A higher rank score means that a program is taken for faster."""
    errors = relative_errors(latency_s, programs.latency_s)
    best, found = 0.0, dict.fromkeys(TOPS, 0.0)
    right = counted = 0
    for group in np.unique(programs.groups):
        rows = np.flatnonzero(programs.groups == group)
        measured, order = programs.latency_s[rows], np.argsort(-rank_score[rows], kind="stable")
        best += measured.min()
        for top in TOPS:
            found[top] += measured[order[:top]].min()
        gaps = np.log(measured)[:, None] - np.log(measured)[None]
        clear = gaps < np.log(0.95)
        right += int((clear & (rank_score[rows][:, None] > rank_score[rows][None])).sum())
        counted += int(clear.sum())
    return ProgramScores(
        len(programs),
        float(errors.mean()),
        float(np.median(errors)),
        float(best / found[1]),
        float(best / found[5]),
        right / max(counted, 1),
    )
