"""From measured programs to the predictor that ships: every family fitted, judged, timed and weighed alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.choosing.costs import TimedForm, measure
from medn.core.errors import UsageError, unknown
from medn.core.metrics import relative_errors
from medn.deployed.facts import FormCosts
from medn.programs.family import Lesson, program_families
from medn.programs.predictor import ProgramPredictor
from medn.programs.programs import MeasuredPrograms
from medn.programs.scores import ProgramScores, score_programs
from medn.regressors.regressor import Effort, Settings
from medn.selection.budget import Budget
from medn.selection.choice import choose, shares
from medn.selection.option import Cost, Option

PLACE = "programs"
PARTS = ("train", "validation", "test")
SHARES = (0.7, 0.15, 0.15)
TIMED_PROGRAMS = 200
"""Programs that forms are timed with."""

Told = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class ProgramSplit:
    """Tasks to learn from, to choose by, and to tell the error of; all programs of a task are in one part."""

    train: MeasuredPrograms
    validation: MeasuredPrograms
    test: MeasuredPrograms


def split_programs(programs: MeasuredPrograms, seed: int = 0) -> ProgramSplit:
    tasks = np.random.default_rng(seed).permutation(np.unique(programs.tasks))
    if len(tasks) < len(PARTS):
        raise UsageError(f"programs of {len(tasks)} tasks cannot be split in {len(PARTS)} parts: measure more layers")
    held = [max(1, round(share * len(tasks))) for share in SHARES[1:]]
    parts = np.split(tasks, np.cumsum([len(tasks) - sum(held), *held])[:-1])
    return ProgramSplit(*(programs.take(np.isin(programs.tasks, part)) for part in parts))


@dataclass(frozen=True, eq=False)
class ProgramCandidate:
    """A family that has learned."""

    predictor: ProgramPredictor
    fit_s: float
    validation_errors: NDArray[np.float64]
    validation_tasks: NDArray[np.str_]
    validation: ProgramScores
    test: ProgramScores
    costs: FormCosts

    def option(self, rows: int) -> Option:
        cost = Cost(self.costs.us(rows), self.costs.bytes, self.costs.load_ms)
        return Option(PLACE, self.predictor.family, self.validation_errors, self.validation_tasks, cost)

    def row(self) -> dict[str, Any]:
        """What a leaderboard shows of it; errors on test tasks."""
        test = {name: value for name, value in self.test.as_json().items() if name != "rows"}
        costs = {"us_1": self.costs.us_1, "us_100": self.costs.us_100, "kB": self.costs.bytes / 1e3}
        return {"family": self.predictor.family, **test, **costs, "fit_s": self.fit_s}


def train_programs(
    programs: MeasuredPrograms,
    *,
    families: Sequence[str] = (),
    seconds: float = 120.0,
    seed: int = 0,
    settings: Mapping[str, Settings] | None = None,
    tell: Told = lambda sentence: None,
) -> list[ProgramCandidate]:
    """Every family, or those named, with an equal share of the seconds of computing."""
    names = [program_families.spelled(name) for name in families] or [*program_families]
    for name in names:
        if name not in program_families:
            raise UsageError(unknown("program family", name, program_families))
    split = split_programs(programs, seed)
    devices = tuple(map(str, np.unique(programs.devices)))
    fitted: dict[str, tuple[ProgramPredictor, float]] = {}
    for name in names:
        family = program_families[name]
        if reason := family.missing() or _unread(family.encoding, programs):
            tell(reason)
            continue
        began = time.process_time()
        effort = Effort(seconds / len(names), seed, clock=time.process_time)
        lesson = Lesson(split.train, split.validation, devices, settings=(settings or {}).get(name, {}))
        form = family.fit(lesson, effort)
        fitted[name] = ProgramPredictor(name, family.encoding, devices, form), time.process_time() - began
        tell(f"{name} has learned from {len(split.train)} programs in {fitted[name][1]:.0f} s")
    return _judged(fitted, split, seed)


def _unread(encoding: str, programs: MeasuredPrograms) -> str | None:
    """Why an encoding cannot read all programs."""
    without = sum(not len(program.nests) for program in programs.programs) if encoding == "nests" else 0
    return f"{without} programs were kept without their loops, by an earlier version of medn" if without else None


def _judged(
    fitted: Mapping[str, tuple[ProgramPredictor, float]], split: ProgramSplit, seed: int
) -> list[ProgramCandidate]:
    timed = split.validation.programs[:TIMED_PROGRAMS]
    costs = measure({name: TimedForm(own.form, own.rows(timed)) for name, (own, _) in fitted.items()}, seed=seed)
    found = []
    for name, (predictor, fit_s) in fitted.items():
        validation, test = _scored(predictor, split.validation), _scored(predictor, split.test)
        errors = relative_errors(predictor.latency_s(split.validation.programs), split.validation.latency_s)
        found.append(ProgramCandidate(predictor, fit_s, errors, split.validation.tasks, validation, test, costs[name]))
    return found


def _scored(predictor: ProgramPredictor, part: MeasuredPrograms) -> ProgramScores:
    return score_programs(part, predictor.latency_s(part.programs), predictor.rank_score(part.programs))


def chosen_candidate(candidates: Sequence[ProgramCandidate], budget: Budget) -> ProgramCandidate:
    """The one that a budget asks for, by its error on validation tasks and what its form takes."""
    if not candidates:
        raise UsageError("no family has learned, so there is nothing to choose from")
    options = [candidate.option(budget.rows) for candidate in candidates]
    picked = choose(options, budget, shares({PLACE: 1.0}))[PLACE]
    return next(candidate for candidate in candidates if candidate.predictor.family == picked.name)
