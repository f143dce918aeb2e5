"""What is known about a candidate beside what it predicts with: how it was trained, how well it does, what it costs.

Each of these is written and read here alone. Scores that are told have the digits of `told`, and one that does not
exist, such as the R2 of one row, is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeVar

from medn.core.data_sheet import Sheets
from medn.core.metrics import Scores
from medn.core.statistic import NoiseFloor
from medn.core.table import Schema
from medn.core.units import percent
from medn.core.values import Scalar, plain, told
from medn.deployed.packing import Json, pack_schema, unpack_schema

Value = TypeVar("Value")


def _of(kind: type[Value], written: Mapping[str, Any]) -> Value:
    """The value whose fields were written; those of later versions have their defaults."""
    return kind(**{each.name: written[each.name] for each in fields(kind) if each.name in written})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Trials:
    """How the search for settings went."""

    made: int = 0
    pruned: int = 0
    failed: int = 0
    reasons: tuple[str, ...] = ()
    """Why trials failed, each reason once."""

    def and_failed(self, reason: str) -> Trials:
        return replace(self, reasons=tuple(dict.fromkeys([*self.reasons, reason])))


TRAIN, NOT_TEST, ALL, ELSEWHERE = "train", "not test", "all", "other devices"
"""Which rows what ships has learned from: those of training alone, every one that is not for test, or test rows too; or
none of its device, which was never measured."""

NOTES = {
    TRAIN: "has not learned from the rows that were held out to choose and to calibrate by",
    ALL: "has learned from every row, test rows too: its errors and intervals are those of before",
    ELSEWHERE: "was never measured there: it follows from a data sheet and from other devices, whose errors these are, "
    "each left out in turn",
}


@dataclass(frozen=True)
class TrainingFacts:
    """What a candidate learned from, and how."""

    key: str
    """Made from the data and from how it was split and learned: the same key means there is nothing new to learn."""
    budget_s: float
    """The time of the whole training that made this candidate; one with more time goes on tuning."""
    seed: int
    split: str
    table: str = ""
    """The key of the training table; an earlier version did not tell."""
    split_sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None
    constants: Mapping[str, Scalar] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unstable: int = 0
    noise: NoiseFloor | None = None
    devices: tuple[str, ...] = ()
    """Those that one regressor learned together; empty for a regressor of its device alone."""
    sheets: Sheets = field(default_factory=dict)
    """The data sheets, by device, that inputs are derived from; empty where none is."""
    dtypes: Mapping[str, float] = field(default_factory=dict)
    """The bytes of one element that inputs are derived from, of the data types that are not medn's own."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: Trials = field(default_factory=Trials)
    fit_seconds: float = 0.0
    steps: int | None = None
    """After how many steps the rows that were held out err least; None for a family that knows no steps."""
    learned_from: str = ""
    """`TRAIN`, `NOT_TEST` or `ALL`; an earlier version did not tell."""
    learned_rows: int = 0
    """How many rows what ships has learned from; an earlier version did not tell."""
    rounds: tuple[float, ...] = ()
    """The validation error after each round of the training; the last one again for rounds that it was not in."""

    @property
    def has_all_rows(self) -> bool:
        """Whether it has learned from all rows that there are to learn from, as far as is told."""
        return self.learned_rows >= self.split_sizes.get("train", 0) > 0

    @property
    def is_measured(self) -> bool:
        """Whether anything was measured on the device that it answers for."""
        return self.learned_from != ELSEWHERE

    @property
    def learned_note(self) -> str:
        """What is unusual about the rows that it has learned from, for whoever uses it; nothing if nothing is."""
        return NOTES.get(self.parts_learned_from, "")

    @property
    def parts_learned_from(self) -> str:
        """The same, also where it was not told: rows in folds were always all learned from."""
        return self.learned_from or (TRAIN if self.split_sizes.get("validation") else NOT_TEST)

    def as_json(self) -> Json:
        schema = pack_schema(self.schema) if self.schema else None
        return {**{each.name: plain(_as_json(getattr(self, each.name))) for each in fields(self)}, "schema": schema}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> TrainingFacts:
        noise, schema, trials = written.get("noise"), written.get("schema"), written.get("trials", {})
        return replace(
            _of(cls, written),
            noise=_of(NoiseFloor, noise) if noise else None,
            schema=unpack_schema(schema) if schema else None,
            devices=tuple(written.get("devices", ())),
            rounds=tuple(written.get("rounds", ())),
            trials=replace(_of(Trials, trials), reasons=tuple(trials.get("reasons", ()))),
        )


@dataclass(frozen=True)
class IntervalCoverage:
    """How the intervals that ship did on test rows, and on those of them inside the range."""

    level: float
    rows: int
    covered: float
    mean_width: float
    inside_covered: float | None = None
    inside_width: float | None = None


@dataclass(frozen=True)
class Extrapolation:
    """On test rows above the least work, learned from that alone: how wrong each way to predict them is."""

    scores: Scores
    """As it ships."""
    way: str = "held"
    outside: float | None = None
    held_mape: float | None = None
    own_mape: float | None = None
    bounded_mape: float | None = None
    """None where it was not tried, or is beyond all numbers."""
    covered: float | None = None
    width: float | None = None

    def as_json(self) -> Json:
        own = {name: value for name, value in asdict(self).items() if name != "scores" and value is not None}
        return {**self.scores.as_json(), **own}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Extrapolation:
        return _of(cls, {**written, "scores": Scores.from_json(written)})


_SCORED = ("validation", "test", "test_inside", "test_outside", "test_calm", "test_never_calm")


@dataclass(frozen=True)
class ShippedScores:
    """Errors and coverage of what ships, told alike by whoever tells them."""

    validation: Scores
    test: Scores
    coverage: IntervalCoverage
    test_inside: Scores | None = None
    test_outside: Scores | None = None
    """Of the test rows those inside and those outside the range."""
    outside: float = 0.0
    """Share of test rows outside the range."""
    extrapolation: Extrapolation | None = None
    """None where there was no time to find out, or where rows were too few."""
    test_calm: Scores | None = None
    test_never_calm: Scores | None = None
    """Of the test rows those known to have had no calm visit, and the others; None where there are none of either."""
    never_calm: float | None = None
    """Share of test rows that had no calm visit; None where that is known of no row."""

    def told_apart(self, kind: str) -> str:
        """The error on test rows that were never calm beside that on the others; empty where all were, or may be."""
        if self.test_never_calm is None or self.never_calm is None:
            return ""
        others = f", {percent(self.test_calm.mape)} on the others" if self.test_calm else ""
        return (
            f"{kind}: {percent(self.never_calm)} of the test rows were never calm; the mean error is "
            f"{percent(self.test_never_calm.mape)} on them{others}"
        )

    def as_json(self) -> Json:
        parts = {name: getattr(self, name) for name in _SCORED}
        coverage = {name: value for name, value in asdict(self.coverage).items() if value is not None}
        written: Json = told(
            {
                "scores": {name: scores.as_json() for name, scores in parts.items() if scores},
                "coverage": coverage,
                "outside": self.outside,
                **({} if self.never_calm is None else {"never_calm": self.never_calm}),
                "extrapolation": self.extrapolation.as_json() if self.extrapolation else {},
            }
        )
        return written

    @property
    def told(self) -> ShippedScores:
        """The same with the digits that are written."""
        found = self.from_json(self.as_json())
        assert found is not None, "what was written has scores"
        return found

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> ShippedScores | None:
        """None where nothing was scored.

        The first version scored the bare form, and beside it, as `test_held`, what shipped.
        """
        scores = dict(written.get("scores") or {})
        if not scores:
            return None
        scores["test"] = scores.pop("test_held", scores["test"])
        parts = {name: Scores.from_json(part) for name, part in scores.items()}
        extrapolation = written.get("extrapolation")
        return cls(
            parts["validation"],
            parts["test"],
            _of(IntervalCoverage, written["coverage"]),
            parts.get("test_inside"),
            parts.get("test_outside"),
            written.get("outside", 0.0),
            Extrapolation.from_json(extrapolation) if extrapolation else None,
            parts.get("test_calm"),
            parts.get("test_never_calm"),
            written.get("never_calm"),
        )


@dataclass(frozen=True)
class FormCosts:
    """Microseconds a row when asked with so many rows; the same as shares of the time of the reference computation."""

    us_1: float
    us_100: float
    us_10000: float
    ratio_1: float
    ratio_100: float
    ratio_10000: float
    bytes: int
    """On disk, uncompressed: arrays and facts."""
    load_ms: float
    """From bytes in memory to the first prediction."""
    resident_bytes: int
    """What stays in memory: the larger of what Python and NumPy account for and the growth of the process, which also
    sees what a runtime behind the form takes."""

    def us(self, rows: int) -> float:
        found: float = getattr(self, f"us_{rows}")
        return found

    def as_json(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> FormCosts:
        return cls(**{each.name: written[each.name] for each in fields(cls)})


def _as_json(value: Any) -> Any:
    return asdict(value) if isinstance(value, (NoiseFloor, Trials)) else value
