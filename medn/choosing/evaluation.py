"""What the candidates of a run predict for the rows they did not learn from: worked out again, nothing is retrained."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from medn.core.errors import NothingMeasured, StoreError, UsageError, unknown
from medn.core.metrics import score
from medn.core.splits import Split
from medn.core.table import Array
from medn.deployed.candidate import Candidate, deployed_of
from medn.runs.tables import read_source
from medn.training.candidate_store import load_candidates
from medn.training.scoring import Prepared, scored
from medn.training.train_run import candidates_root, prepare

PARTS = ("validation", "test")

ROOFLINE = "roofline"
"""The regressor whose form told the first version how latency grows with the work beyond what was measured."""

SAME_SCORE = 1e-3
"""How far, relative, a score may be from the saved one; more means that the rows are not the ones learned from."""

Splits = Mapping[str, Mapping[str, Prepared]]
"""By device and kind."""

STALE = "trained on other measurements than the run holds now: medn train RUN"


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The candidates of one kind on one device, and what each predicts."""

    device: str
    kind: str
    prepared: Prepared
    candidates: Mapping[str, Candidate]
    """The good ones by regressor, with what they ship."""
    predicted_s: Mapping[str, Mapping[str, Array]]
    """By regressor and part, as what ships predicts."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """The other ones, with the reason."""
    ensembles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Those among the candidates that are made of others, with the share of each."""

    @property
    def place(self) -> str:
        return f"{self.device}/{self.kind}"


@dataclass(frozen=True)
class Lost:
    """A device and kind that was trained and has no candidate that can be used."""

    device: str
    kind: str
    reasons: Mapping[str, str]
    """By regressor."""

    @property
    def words(self) -> str:
        return f"{self.kind} on {self.device}: {'; '.join(sorted(set(self.reasons.values())))}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    found: list[Evaluated]
    lost: list[Lost]


def evaluate_run(
    folder: Path, *, kinds: Sequence[str] = (), split: Split | None = None, seed: int | None = None
) -> list[Evaluated]:
    """Every device and kind that has a good candidate; the seed of the candidates if none is given."""
    return evaluate_places(folder, kinds=kinds, split=split, seed=seed).found


def evaluate_places(
    folder: Path, *, kinds: Sequence[str] = (), split: Split | None = None, seed: int | None = None
) -> Evaluation:
    """The same, and what was trained in vain."""
    split = split or Split()
    source = read_source(folder)
    root = candidates_root(folder, split)
    candidates = load_candidates(root)
    if not candidates:
        raise NothingMeasured(f"{folder} has no candidates yet. Make them with: medn train {folder}")
    known = sorted({candidate.kind for candidate in candidates})
    for kind in kinds:
        if kind not in known:
            raise UsageError(unknown("trained layer kind", kind, known))
    wanted = [each for each in candidates if each.kind in (kinds or known)]
    for kind in {each.kind for each in wanted}:
        source.layer_kind(kind)  # says which one is missing, rather than that nothing fits
    if seed is None:
        seed = Counter(each.seed for each in wanted).most_common(1)[0][0]

    @cache
    def splits(without_unstable: bool) -> Splits:
        return prepare(source, sorted({each.kind for each in wanted}), split, seed, without_unstable)[0]

    found, lost = [], []
    for device, kind in sorted({(each.device, each.kind) for each in wanted}):
        own = [each for each in wanted if (each.device, each.kind) == (device, kind)]
        evaluated = _evaluated(own, splits)
        if isinstance(evaluated, Evaluated):
            found.append(evaluated)
        else:
            lost.append(evaluated)
    if not found:
        raise StoreError(f"no candidate in {root} can be used: {'; '.join(each.words for each in lost)}")
    return Evaluation(found, lost)


def _evaluated(candidates: Sequence[Candidate], splits: Callable[[bool], Splits]) -> Evaluated | Lost:
    """The candidates of one device and kind."""
    device, kind = candidates[0].device, candidates[0].kind
    prepared = _prepared(candidates, splits)
    good: dict[str, Candidate] = {}
    failed: dict[str, str] = {}
    for candidate in candidates:
        if not candidate.is_good:
            failed[candidate.regressor] = candidate.reason
        elif prepared is None or not learned_from(candidate, prepared):
            failed[candidate.regressor] = STALE
        else:
            good[candidate.regressor] = candidate
    if not good or prepared is None:
        return Lost(device, kind, failed)
    shipped = {name: as_shipped(each, good.get(ROOFLINE), prepared) for name, each in good.items()}
    return Evaluated(device, kind, prepared, shipped, predictions(shipped, prepared), failed)


def predictions(candidates: Mapping[str, Candidate], prepared: Prepared) -> dict[str, dict[str, Array]]:
    """What each candidate predicts, by part."""
    return {
        name: {part: deployed_of(each).predict(getattr(prepared, part).inputs) for part in PARTS}
        for name, each in candidates.items()
    }


def as_shipped(candidate: Candidate, roofline: Candidate | None, prepared: Prepared) -> Candidate:
    """The same candidate; one of the first version gets the roofline it always shipped with, and is scored with it."""
    if not candidate.is_of_the_first_version:
        return candidate
    form = deployed_of(roofline).form if roofline and roofline.schema == candidate.schema else None
    return scored(candidate, replace(deployed_of(candidate), roofline=form), prepared)


def _prepared(candidates: Sequence[Candidate], splits: Callable[[bool], Splits]) -> Prepared | None:
    """The split that the candidates were trained on: with or without the points that repeat badly."""
    device, kind = candidates[0].device, candidates[0].kind
    sizes = [candidate.split_sizes for candidate in candidates]
    for without_unstable in (False, True):
        found = splits(without_unstable).get(device, {}).get(kind)
        if found and found.parts.sizes in sizes:
            return found
    return None


def learned_from(candidate: Candidate, prepared: Prepared) -> bool:
    """Whether the candidate scores on these rows what it scored when it was trained."""
    if candidate.split_sizes != prepared.parts.sizes or candidate.schema != prepared.source.table.schema:
        return False
    test, deployed = prepared.test, deployed_of(candidate)
    predicted_s = (deployed.form if candidate.is_of_the_first_version else deployed).predict(test.inputs)
    now = score(predicted_s, test.target).mape
    return math.isclose(now, candidate.scores["test"]["mape"], rel_tol=SAME_SCORE)
