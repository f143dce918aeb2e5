"""A candidate: a fitted, exported regressor with everything known about it; the reason where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from numpy.typing import NDArray

from medn.core.data_sheet import Sheets
from medn.core.errors import StoreError
from medn.core.table import Schema
from medn.core.values import plain
from medn.deployed.calibration import width_warning
from medn.deployed.deployed import Deployed
from medn.deployed.packing import Arrays, Json, pack_deployed, pack_schema, unpack_deployed, unpack_schema

CHECKED_PREFIX = "checked."
DEPLOYED_FACTS = ("form", "range", "interval", "way", "roofline")
"""Facts of what is deployed that stand beside those of its candidate."""


@dataclass(frozen=True)
class Candidate:
    """One regressor for one kind on one device. A failed one has a reason and little else."""

    device: str
    kind: str
    regressor: str
    key: str
    """Made from the data and from how it was split and learned: the same key means there is nothing new to learn."""
    budget_s: float
    """The time of the whole training that made this candidate; one with more time goes on tuning."""
    seed: int
    split: str
    reason: str = ""
    table: str = ""
    """The key of the training table; an earlier version did not tell."""
    split_sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unstable: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By part, all of what ships: validation, test, and of the test rows those inside and those outside the range.

    A score that does not exist, such as the R2 of one row, is None.
    """
    noise: Mapping[str, float] | None = None
    fit_seconds: float = 0.0
    size_bytes: int = 0
    row_us: float = 0.0
    """Microseconds for the prediction of one row: rough, to be measured again before anything is chosen by it."""
    coverage: Mapping[str, float] = field(default_factory=dict)
    """Of the intervals that ship, on test rows, and on those of them inside the range."""
    outside: float = 0.0
    """Share of test rows outside the range."""
    extrapolation: Mapping[str, Any] = field(default_factory=dict)
    """Scores on test rows above the least work, learned from that alone; empty where there was no time to find out."""
    devices: Sequence[str] = ()
    """Those that one regressor learned together; empty for a regressor of its device alone."""
    sheets: Sheets = field(default_factory=dict)
    """The data sheets, by device, that inputs are derived from; empty where none is."""
    dtypes: Mapping[str, float] = field(default_factory=dict)
    """The bytes of one element that inputs are derived from, of the data types that are not medn's own."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """What the deployed form takes, as `medn.choosing.costs` measured it; empty until then."""
    checked: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What it says of larger rows than it learned from, so that ensembles can be checked too; it does not ship."""
    deployed: Deployed | None = None
    """What predicts; None for a failed one."""

    @property
    def answers_for(self) -> tuple[str, ...]:
        """The devices that can be asked about."""
        return tuple(self.devices) or (self.device,)

    @property
    def is_good(self) -> bool:
        return not self.reason

    @property
    def is_of_the_first_version(self) -> bool:
        """Whether it was trained when scores were not those of what ships."""
        return "test_held" in self.scores

    @property
    def warning(self) -> str | None:
        """What whoever uses it must know, in one sentence."""
        return width_warning(f"{self.regressor} for {self.kind} on {self.device}", self.coverage)

    def without_form(self) -> Candidate:
        return replace(self, deployed=None, checked={})

    def summary(self) -> Json:
        """The facts one wants to see in a list, ready for JSON."""
        long = ("schema", "deployed", "checked", "inputs", "constants", "target", "sheets", "dtypes")
        return {each.name: plain(getattr(self, each.name)) for each in fields(self) if each.name not in long}


def deployed_of(candidate: Candidate) -> Deployed:
    """What a good candidate predicts with."""
    if candidate.deployed is None:
        raise StoreError(
            f"{candidate.regressor} for {candidate.kind} on {candidate.device} has no form: medn train RUN"
        )
    return candidate.deployed


def describe(candidate: Candidate) -> tuple[Json, Arrays]:
    """Everything a candidate is: facts that JSON can hold, and the arrays of what is deployed."""
    facts = candidate.summary()
    facts |= {name: plain(getattr(candidate, name)) for name in ("inputs", "constants", "target", "sheets", "dtypes")}
    facts["schema"] = pack_schema(candidate.schema) if candidate.schema else None
    packed, arrays = pack_deployed(candidate.deployed) if candidate.deployed else ({}, {})
    return facts | packed, arrays


def from_description(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None) -> Candidate:
    """What `describe` took apart, nothing deployed where there are no arrays; fails in many ways if damaged."""
    facts = dict(description)
    deployed = unpack_deployed(facts, arrays) if facts.get("form") and arrays is not None else None
    checked = {
        name.removeprefix(CHECKED_PREFIX): array
        for name, array in (arrays or {}).items()
        if name.startswith(CHECKED_PREFIX)
    }
    for name in DEPLOYED_FACTS:
        facts.pop(name, None)
    facts["schema"] = facts["schema"] and unpack_schema(facts["schema"])
    return Candidate(**facts, deployed=deployed, checked=checked)
