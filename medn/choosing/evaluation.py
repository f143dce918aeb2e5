"""What the candidates of a run predict for the rows they did not learn from; nothing is retrained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medn.choosing.trained_tables import TrainedTables, learned_from
from medn.core.errors import NothingMeasured, StoreError
from medn.core.registry import known_name
from medn.core.splits import Split
from medn.core.store import StoreState
from medn.core.table import Array
from medn.deployed.candidate import Candidate, deployed_of
from medn.runs.tables import read_source
from medn.training.candidate_store import candidates_root, load_candidates
from medn.training.prepared import Prepared
from medn.training.scoring import held_out_of, scored_again, tested_values, validation_values, with_test_certainty

ROOFLINE = "roofline"
"""The regressor whose form told the first version how latency grows with the work beyond what was measured."""

STALE = "trained on another table than the run has now: medn train RUN"


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The candidates of one kind on one device, and what each predicts."""

    device: str
    kind: str
    prepared: Prepared
    candidates: Mapping[str, Candidate]
    """The good ones by regressor, with what they ship."""
    predicted_s: Mapping[str, Mapping[str, Array]]
    """By regressor and part: of validation rows by what has not learned from them, of test rows by what ships."""
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
    def sentence(self) -> str:
        return f"{self.kind} on {self.device}: {'; '.join(sorted(set(self.reasons.values())))}"


@dataclass(frozen=True, eq=False)
class Evaluation:
    found: list[Evaluated]
    lost: list[Lost]
    grown: str | None = None
    """A sentence where the run holds other measurements by now than were trained on."""


def evaluate_run(folder: Path, *, kinds: Sequence[str] = (), split: Split | None = None) -> list[Evaluated]:
    """Every device and kind that has a good candidate."""
    return evaluate_places(folder, kinds=kinds, split=split).found


def evaluate_places(folder: Path, *, kinds: Sequence[str] = (), split: Split | None = None) -> Evaluation:
    """The same, and what was trained in vain."""
    split = split or Split()
    root = candidates_root(folder, split)
    candidates = load_candidates(root)
    if not candidates:
        read_source(folder)  # says what is wrong with the run before what is missing in it
        raise NothingMeasured(f"{folder} has no candidates yet. Make them with: medn train {folder}")
    known = sorted({candidate.kind for candidate in candidates})
    kinds = [known_name("trained layer kind", kind, known) for kind in kinds]
    wanted = [each for each in candidates if each.kind in (kinds or known)]
    tables = TrainedTables(folder, split)
    found, lost = [], []
    for device, kind in sorted({(each.device, each.kind) for each in wanted}):
        evaluated = _evaluated([each for each in wanted if (each.device, each.kind) == (device, kind)], tables)
        if isinstance(evaluated, Evaluated):
            found.append(evaluated)
        else:
            lost.append(evaluated)
    if not found:
        raise StoreError(f"no candidate in {root} can be used: {'; '.join(each.sentence for each in lost)}")
    return Evaluation(found, lost, _grown(folder, found, tables.state_now))


def _grown(folder: Path, found: Sequence[Evaluated], now: StoreState) -> str | None:
    """A sentence where the run holds other measurements than were trained on; what was trained is gone on with."""
    before = {each.kind: each.prepared.table.target.chosen_from for each in found}
    kinds = sorted(kind for kind, state in before.items() if state != now)
    if not kinds or not now.visits:
        return None
    more = now.visits - max(before[kind].visits for kind in kinds)
    what = f"more measurements (visits: {more})" if more > 0 else "other measurements"
    return f"{folder} holds {what} than {', '.join(kinds)} learned from. To learn from them: medn train {folder}"


def _evaluated(candidates: Sequence[Candidate], tables: TrainedTables) -> Evaluated | Lost:
    """The candidates of one device and kind."""
    device, kind = candidates[0].device, candidates[0].kind
    failed = {each.regressor: each.reason for each in candidates if not each.is_good}
    prepared = tables.of(candidates) if len(failed) < len(candidates) else None
    good: dict[str, Candidate] = {}
    for candidate in (each for each in candidates if each.is_good):
        if prepared is None or not learned_from(candidate, prepared):
            failed[candidate.regressor] = STALE
        else:
            good[candidate.regressor] = candidate
    if not good or prepared is None:
        return Lost(device, kind, failed)
    shipped = {
        name: with_test_certainty(as_shipped(each, good.get(ROOFLINE), prepared), prepared)
        for name, each in good.items()
    }
    return Evaluated(device, kind, prepared, shipped, predictions(shipped, prepared), failed)


def predictions(candidates: Mapping[str, Candidate], prepared: Prepared) -> dict[str, dict[str, Array]]:
    """What each candidate predicts, by part."""
    return {
        name: {
            "validation": validation_values(held_out_of(each, prepared), prepared),
            "test": tested_values(each, prepared),
        }
        for name, each in candidates.items()
    }


def as_shipped(candidate: Candidate, roofline: Candidate | None, prepared: Prepared) -> Candidate:
    """The same candidate; one that an earlier version trained without a roofline of its own ships with that of its run.

    What it does beyond the range is scored with it.
    """
    deployed = deployed_of(candidate)
    if candidate.facts.table or deployed.roofline or not roofline or roofline.facts.schema != candidate.facts.schema:
        return candidate
    shipped = replace(deployed, roofline=deployed_of(roofline).form)
    return scored_again(replace(candidate, deployed=shipped), prepared)
