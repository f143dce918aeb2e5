"""A candidate: a fitted, exported regressor with everything known about it; the reason where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from numpy.typing import NDArray

from medn.core.errors import StoreError
from medn.core.table import Array, name_of_today
from medn.core.text import shown
from medn.deployed.calibration import width_warning
from medn.deployed.deployed import Deployed
from medn.deployed.facts import FormCosts, ShippedScores, TrainingFacts
from medn.deployed.packing import Arrays, Json, pack_deployed, unpack_deployed

CHECKED_PREFIX = "checked."
HELD_OUT, TESTED = "held_out", "tested"
OUT_OF_FOLD = "out_of_fold"
"""What these were called while only folds were kept."""
OWN_FACTS = ("device", "kind", "regressor", "reason", "size_bytes", "row_us", "costs")
SCORE_FACTS = ("scores", "coverage", "outside", "extrapolation", "never_calm")
DEPLOYED_FACTS = ("form", "range", "interval", "way", "roofline")
LONG_FACTS = ("schema", "inputs", "constants", "target", "sheets", "dtypes")
"""Left out of a list for people."""


@dataclass(frozen=True)
class Candidate:
    """One regressor for one kind on one device. A failed one has a reason, and neither scores nor what predicts."""

    device: str
    kind: str
    regressor: str
    facts: TrainingFacts
    reason: str = ""
    scores: ShippedScores | None = None
    deployed: Deployed | None = None
    size_bytes: int = 0
    row_us: float = 0.0
    """Microseconds for the prediction of one row: rough, to be measured again before anything is chosen by it."""
    costs: FormCosts | None = None
    """What the deployed form takes, as `medn.choosing.costs` measured it; None until then."""
    checked: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What it says of larger rows than it learned from, so that ensembles can be checked too; it does not ship."""
    held_out: Array | None = None
    """Logarithms of what was predicted of rows by what had not learned from them, though what ships may have: of every
    row out-of-fold, or of validation rows and then of calibration rows. They are chosen and calibrated by and do not
    ship; None in candidates of an earlier version, where what ships has not learned from the rows held out."""
    tested: Array | None = None
    """Logarithms of what ships predicts of test rows, so that nobody need ask it again; None where nobody has."""

    @property
    def answers_for(self) -> tuple[str, ...]:
        """The devices that can be asked about."""
        return self.facts.devices or (self.device,)

    @property
    def is_good(self) -> bool:
        return not self.reason

    @property
    def warning(self) -> str | None:
        """What whoever uses it must know, in one sentence."""
        width = self.scores.coverage.inside_width if self.scores else None
        return width_warning(f"{self.regressor} for {self.kind} on {self.device}", width)

    def without_form(self) -> Candidate:
        return replace(self, deployed=None, checked={}, held_out=None, tested=None)

    def as_json(self) -> Json:
        """Every fact; what is deployed is packed beside them."""
        scores = self.scores.as_json() if self.scores else {"scores": {}, "coverage": {}, "extrapolation": {}}
        return {
            **{name: getattr(self, name) for name in ("device", "kind", "regressor", "reason")},
            **self.facts.as_json(),
            "outside": 0.0,
            **scores,
            **{name: getattr(self, name) for name in ("size_bytes", "row_us")},
            "costs": self.costs.as_json() if self.costs else {},
        }

    def summary(self) -> Json:
        """The facts one wants to see in a list, ready for JSON."""
        return {name: value for name, value in self.as_json().items() if name not in LONG_FACTS}


def deployed_of(candidate: Candidate) -> Deployed:
    """What a good candidate predicts with."""
    if candidate.deployed is None:
        raise StoreError(
            f"{candidate.regressor} for {candidate.kind} on {candidate.device} has no form: medn train RUN"
        )
    return candidate.deployed


def scores_of(candidate: Candidate) -> ShippedScores:
    """How well a good candidate does."""
    if candidate.scores is None:
        raise StoreError(
            f"{candidate.regressor} for {candidate.kind} on {candidate.device} was never scored: medn train RUN"
        )
    return candidate.scores


def costs_of(candidate: Candidate) -> FormCosts:
    """What a chosen candidate costs."""
    if candidate.costs is None:
        raise StoreError(
            f"{candidate.regressor} for {candidate.kind} on {candidate.device} was never timed: medn select RUN"
        )
    return candidate.costs


def describe(candidate: Candidate) -> tuple[Json, Arrays]:
    """Everything a candidate is: facts that JSON can hold, and the arrays of what is deployed."""
    packed, arrays = pack_deployed(candidate.deployed) if candidate.deployed else ({}, {})
    return candidate.as_json() | packed, arrays


def from_description(written: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None) -> Candidate:
    """What `describe` took apart, nothing deployed where there are no arrays; fails in many ways if damaged."""
    known = {*OWN_FACTS, *SCORE_FACTS, *DEPLOYED_FACTS, *(each.name for each in fields(TrainingFacts))}
    if surprising := written.keys() - known:
        raise ValueError(f"it holds what no candidate has: {', '.join(map(shown, sorted(surprising)))}")
    written = {**written, "constants": {name_of_today(name): each for name, each in written["constants"].items()}}
    checked = {
        name.removeprefix(CHECKED_PREFIX): array
        for name, array in (arrays or {}).items()
        if name.startswith(CHECKED_PREFIX)
    }
    facts, is_deployed = TrainingFacts.from_json(written), written.get("form") and arrays is not None
    return Candidate(
        device=written["device"],
        kind=written["kind"],
        regressor=written["regressor"],
        facts=facts,
        reason=written.get("reason", ""),
        scores=ShippedScores.from_json(written),
        deployed=unpack_deployed(written, arrays or {}, facts.schema) if is_deployed else None,
        size_bytes=written.get("size_bytes", 0),
        row_us=written.get("row_us", 0.0),
        costs=FormCosts.from_json(written["costs"]) if written.get("costs") else None,
        checked=checked,
        held_out=(arrays or {}).get(HELD_OUT, (arrays or {}).get(OUT_OF_FOLD)),
        tested=(arrays or {}).get(TESTED),
    )
