"""What a report says, as numbers: everything the words and pictures are made from, and no drawing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from medn.adaptive.run_curve import kept_curve
from medn.choosing.evaluation import ROOFLINE, Evaluated, Lost, as_shipped, evaluate_places
from medn.choosing.leaderboard import Leaderboard, load_leaderboard
from medn.choosing.select_run import CHOSEN_FOLDER
from medn.choosing.trained_tables import learned_from
from medn.core.bootstrap import Estimate, mean_of_few_layers
from medn.core.errors import StoreError, UsageError, unknown
from medn.core.intervals import Interval
from medn.core.metrics import relative_errors
from medn.core.ranges import Flags
from medn.core.splits import Split
from medn.core.store import JOURNAL_NAME
from medn.core.table import Array, Table
from medn.deployed.calibration import interval_coverage
from medn.deployed.candidate import Candidate, deployed_of
from medn.deployed.facts import TrainingFacts
from medn.report.effects import HeatMap, Importance, heat_map, heat_map_names, importances
from medn.report.history import Search, tuning_search
from medn.report.leaderboard_rows import Row, noise_of, rows_of
from medn.report.staircase import TypicalStaircase, staircases
from medn.runs.folder import RunFolder
from medn.runs.tables import KindTable
from medn.training.candidate_store import candidates_root, load_candidates
from medn.training.prepared import POOLED, Prepared
from medn.training.scoring import at_level, tested_values, unseen

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""At which intervals are tried."""

BEYOND_LUCK = 0.99
"""How sure it must be that another candidate errs less: of many, one looks better by luck."""


@dataclass(frozen=True, eq=False)
class KindContent:
    """One kind on one device: what was measured, what was chosen, how well it predicts layers it has not seen."""

    device: str
    kind: str
    source: KindTable
    candidate: Candidate
    rows: tuple[Row, ...]
    """Of the leaderboard, the smallest error first."""
    test: Table
    predicted_s: Array
    never_calm: Flags
    """The test rows known to have had no calm visit."""
    importances: tuple[Importance, ...]
    heat: HeatMap | None
    staircases: tuple[TypicalStaircase, ...]
    reliability: tuple[tuple[float, float], ...]
    """Promised level of an interval, and the share of test rows it covered."""
    searches: Mapping[str, Search]
    """For settings, by regressor."""
    trained: Mapping[str, TrainingFacts]
    """What is known of the training of each regressor."""
    failed: Mapping[str, str]
    """Why there is no candidate of the others."""
    excess: Mapping[str, Estimate]
    """By how much the mean error of the chosen exceeds that of each other regressor, on the same test layers."""

    @property
    def row(self) -> Row:
        """Of the chosen candidate."""
        return next(row for row in self.rows if row["chosen"])

    @property
    def noise(self) -> float | None:
        """How well the measurements repeat; None where they were not made twice."""
        return noise_of(self.row)

    @property
    def points(self) -> int:
        return len(self.source.table)

    @property
    def tested_layers(self) -> int:
        return len(np.unique(self.test.groups))

    @property
    def layers(self) -> int:
        return len(np.unique(self.source.table.groups))

    @property
    def interval(self) -> Interval:
        return deployed_of(self.candidate).interval

    @property
    def level(self) -> float:
        """What the intervals that ship promise, as the bundle and every prediction tell it."""
        return self.interval.guaranteed_level

    def doubt(self, level: float) -> float:
        """How far the share of covered rows may be from its promise by the luck of both draws of layers."""
        tested, calibrated = self.tested_layers, self.interval.calibration_layers
        known = self.interval.calibration_rows if calibrated is None else calibrated
        return 2 * math.sqrt(level * (1 - level) * (1 / tested + 1 / (known + 2)))

    @cached_property
    def errors(self) -> Array:
        """Of test rows, with their sign: predicted / measured - 1."""
        return self.predicted_s / self.test.target - 1


@dataclass(frozen=True, eq=False)
class Content:
    run: str
    folder: Path
    board: Leaderboard
    kinds: tuple[KindContent, ...]
    environments: Mapping[str, Mapping[str, Any]]
    grown: str | None = None
    """A sentence where the run holds other measurements by now than were trained on."""
    curve: Mapping[str, Any] | None = None
    """The learning curve that was kept after measuring."""
    lost: tuple[Lost, ...] = ()
    """What was trained and has no candidate that can be used."""
    untrained: tuple[tuple[str, str], ...] = ()
    """Devices and kinds that were measured and that nothing was trained for."""
    config: str | None = None
    """The name of the config that the run was measured by; None for one that was imported."""

    @property
    def devices(self) -> list[str]:
        return sorted({kind.device for kind in self.kinds})


def gather(folder: Path, by: tuple[str, str] | None = None) -> Content:
    """Everything about a run that a report shows; `by` are the two parameters of the heat maps."""
    board = load_leaderboard(folder)
    split = Split.parse(board.split)
    chosen = {(each.device, each.kind): each for each in load_candidates(folder / CHOSEN_FOLDER)}
    evaluation = evaluate_places(folder, split=split)
    kinds = [
        _kind_content(each, chosen[each.device, each.kind], board, candidates_root(folder, split), by)
        for each in evaluation.found
        if (each.device, each.kind) in chosen
    ]
    if not kinds:
        raise StoreError(f"{folder} has nothing chosen. Choose with: medn select {folder}")
    if by and not any(kind.heat for kind in kinds):
        known = {name for kind in kinds for name in kind.test.schema.numeric}
        wrong = [unknown("numeric input", name, known) for name in by if name not in known]
        raise UsageError(f"--by: {wrong[0] if wrong else f'no kind has both {by[0]} and {by[1]}'}")
    trained = {(each.device, each.kind) for each in evaluation.found}
    trained |= {(each.device, each.kind) for each in evaluation.lost}
    return Content(
        run=folder.resolve().name,
        folder=folder,
        board=board,
        kinds=tuple(kinds),
        grown=evaluation.grown,
        curve=kept_curve(folder),
        lost=tuple(evaluation.lost),
        **_measured(folder, trained),
    )


def _kind_content(
    evaluated: Evaluated, candidate: Candidate, board: Leaderboard, root: Path, by: tuple[str, str] | None
) -> KindContent:
    prepared = evaluated.prepared
    rows = rows_of(board, evaluated.device, evaluated.kind)
    if candidate.regressor not in [row["candidate"] for row in rows if row["chosen"]]:
        raise StoreError(f"the leaderboard does not belong to what was chosen for {candidate.kind}: medn select RUN")
    if not learned_from(candidate, prepared):
        raise StoreError(f"{candidate.kind} was trained on another table since it was chosen: medn select RUN")
    candidate = as_shipped(candidate, evaluated.candidates.get(ROOFLINE), prepared)
    deployed = deployed_of(candidate)
    predicted_s = tested_values(candidate, prepared)
    found = importances(deployed.predict, prepared.test)
    names = by if by and set(by) <= set(prepared.test.schema.numeric) else None
    if by is None:
        names = heat_map_names(prepared.source.layer_kind, prepared.test, found)
    not_learned_from, predicted = unseen(candidate, prepared)
    searches = {name: tuning_search(root, each) for name, each in evaluated.candidates.items()}
    return KindContent(
        device=evaluated.device,
        kind=evaluated.kind,
        source=prepared.source,
        candidate=candidate,
        rows=rows,
        test=prepared.test,
        predicted_s=predicted_s,
        never_calm=_never_calm(prepared),
        importances=found,
        heat=heat_map(not_learned_from, predicted, names) if names else None,
        staircases=staircases(candidate, prepared.source),
        reliability=_reliability(candidate, prepared),
        searches={name: search for name, search in searches.items() if search},
        trained={name: each.facts for name, each in evaluated.candidates.items()},
        failed=evaluated.failed,
        excess=_excess(evaluated, predicted_s),
    )


def _never_calm(prepared: Prepared) -> Flags:
    known = prepared.source.never_calm
    return np.zeros(len(prepared.test), dtype=np.bool_) if known is None else known[prepared.rows.test]


def _excess(evaluated: Evaluated, predicted_s: Array) -> dict[str, Estimate]:
    test = evaluated.prepared.test
    own = relative_errors(predicted_s, test.target)
    found = {
        name: mean_of_few_layers(own - relative_errors(each["test"], test.target), test.groups, BEYOND_LUCK)
        for name, each in evaluated.predicted_s.items()
    }
    return {name: each for name, each in found.items() if each}


def _reliability(candidate: Candidate, prepared: Prepared) -> tuple[tuple[float, float], ...]:
    """Intervals of several levels, each calibrated as the deployed one is, tried on the test rows."""
    found = []
    for level in LEVELS:
        tried, test = at_level(candidate, prepared, level), prepared.test
        found.append((level, interval_coverage(tried, tried.answer(test.inputs), test.target).covered))
    return tuple(found)


def _measured(folder: Path, known: Collection[tuple[str, str]]) -> dict[str, Any]:
    """Of the journal: the machines, the config, and which kinds are not known to training; nothing where only tables
    were kept."""
    if not (folder / JOURNAL_NAME).is_file():
        return {"environments": {}}
    with RunFolder(folder).store(must_exist=True) as store:
        config, environments, places = store.read_note("config") or {}, store.environments(), store.devices_and_kinds()
    return {
        "environments": environments,
        "config": config.get("name"),
        "untrained": tuple(sorted(place for place in places if not _is_known(place, known))),
    }


def _is_known(place: tuple[str, str], known: Collection[tuple[str, str]]) -> bool:
    """Candidates that learn from several devices stand for all of them."""
    return place in known or (POOLED, place[1]) in known
