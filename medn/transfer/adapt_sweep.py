"""Measuring a new device: the points that are chosen, all at once or in rounds until the error is small enough.

What was measured before counts, however it came about: so a sweep that was stopped goes on by being started again, and
one that is asked for more points adds to those it has.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medn.adaptive.pool import PointPool
from medn.core.data_sheet import Sheet
from medn.core.errors import MednError, UsageError
from medn.core.splits import Split
from medn.core.store import Store
from medn.core.table import Array
from medn.core.values import Point
from medn.layer_generators.sweep import INPUT_GROUPS, DeviceChoice, SweepConfig
from medn.regressors.regressor import Effort, regressors
from medn.runs.tables import read_source
from medn.sources.run_sources import KnownDevices, source_files
from medn.training.learning import learn
from medn.training.prepared import FEWEST_LAYERS, prepare
from medn.transfer.candidate_points import drawn, features, measured_elsewhere, restricted
from medn.transfer.points import WAYS

FEWEST_POINTS = FEWEST_LAYERS + 2
"""Of a kind: with fewer nothing can be learned, as some layers are kept to report on."""

GROWTH = 1.5
"""Of the points with every round."""

JUDGED_BY = "gaussian_process_on_stack"
"""What tells the error between rounds: quick, and strong on few layers."""

JUDGING_S = 10.0

OnRound = Callable[[int, float | None], None]
"""Called after each round: the points so far, and the error, where it is aimed at and known."""


MEASURE = {"visits": 3, "visit_time": 0.03, "max_visits": 4}
"""How points are measured where no config says it."""


@dataclass(frozen=True)
class Wanted:
    """What is to be measured on a new device."""

    device: str
    kinds: tuple[str, ...] = ()
    """All that the sources know where none is named."""
    sheet: Sheet = field(default_factory=dict)
    over: str = ""
    """The command that leads to its machine; this one where there is none."""
    drawn: SweepConfig | None = None
    """Whose layers are chosen from; None for the points that the sources were measured at."""


@dataclass(frozen=True)
class Aim:
    """When measuring ends by itself; it goes on as long as there is time and are points where nothing is said."""

    points: int | None = None
    error: float | None = None

    def check(self, kinds: int) -> None:
        if self.points is not None and self.points < FEWEST_POINTS * kinds:
            raise UsageError(
                f"--points: {self.points} are too few for {kinds} layer kinds, which need {FEWEST_POINTS} each: "
                f"{FEWEST_POINTS * kinds}; or say fewer with --kinds"
            )


def prepared_sweep(
    run: Path, sources: Sequence[Path], wanted: Wanted, aim: Aim, *, way: str, seed: int, on_round: OnRound
) -> tuple[SweepConfig, AdaptSweep]:
    """The config that a new device is measured by, and what chooses its points."""
    known, pool = known_and_pool(sources, wanted)
    choosing = AdaptSweep(run, pool, known, aim, way=way, seed=seed, on_round=on_round)
    return _config(wanted, known, list(pool.pairs)), choosing


def known_and_pool(sources: Sequence[Path], wanted: Wanted) -> tuple[KnownDevices, PointPool]:
    """The known devices, and the points that are chosen from."""
    files = source_files(sources)
    known = KnownDevices.read(files)
    if wanted.drawn:
        pool = drawn(wanted.drawn, wanted.device)
    else:
        pool = measured_elsewhere([file.parent for file in files], wanted.device)
    return known, restricted(pool, known, wanted.kinds)


def _config(wanted: Wanted, known: KnownDevices, kinds: Sequence[str]) -> SweepConfig:
    """One device, and the inputs that the sources have learned from too."""
    over = [wanted.over] if wanted.over else []
    device = {"name": wanted.device, "backend": wanted.device, "sheet": dict(wanted.sheet), "over": over}
    name = f"{wanted.device}-adapted"
    if wanted.drawn is None:
        written: dict[str, Any] = {"name": name, "devices": [device], "layers": {kind: {} for kind in kinds}}
        config = SweepConfig.model_validate({**written, "measure": MEASURE})
    else:
        layers = {kind: wanted.drawn.layers[kind] for kind in kinds}
        update = {"name": name, "devices": [DeviceChoice.model_validate(device)], "layers": layers}
        config = wanted.drawn.model_copy(update=update)
    has_sheets = any(entry.latency.facts.sheets for bundle in known.bundles for entry in bundle.entries)
    groups = [group for group in INPUT_GROUPS if group != "hardware" or has_sheets or wanted.sheet]
    return config.model_copy(update={"inputs": groups})


class AdaptSweep:
    """The points of a sweep of a new device, asked for whenever all that were given have been measured."""

    def __init__(
        self,
        run: Path,
        pool: PointPool,
        known: KnownDevices,
        aim: Aim,
        *,
        way: str = "medoids",
        seed: int = 0,
        on_round: OnRound = lambda points, error: None,
    ) -> None:
        aim.check(len(pool.pairs))
        self.run = run
        self.pool = pool
        self.known = known
        self.aim = aim
        self.choose = WAYS[way]
        self.seed = seed
        self.on_round = on_round
        self.features: Mapping[str, Array] = {kind: features(kind, own, known) for kind, own in pool.pairs.items()}
        self._begun = False

    def next_points(self, store: Store) -> list[Point]:
        """First what is there already and what is chosen beside it; then more, until the aim is reached."""
        measured = set(self.pool.known(store.visited()))
        taken = {
            kind: [place for place, pair in enumerate(own) if pair in measured] for kind, own in self.pool.pairs.items()
        }
        before = sum(map(len, taken.values()))
        if self._begun and self._is_done(before):
            return []
        counts = self._counts(before)
        chosen = {
            kind: self.choose(self.features[kind], counts[kind], taken[kind], self.seed) for kind in self.pool.pairs
        }
        again = {} if self._begun else taken
        self._begun = True
        return [
            point
            for kind, own in self.pool.pairs.items()
            for point in self.pool.points(own[place] for place in [*again.get(kind, ()), *chosen[kind]])
        ]

    def _is_done(self, points: int) -> bool:
        everything = sum(map(len, self.pool.pairs.values()))
        error = None if self.aim.error is None else error_so_far(self.run, self.known, list(self.pool.pairs), self.seed)
        self.on_round(points, error)
        if error is not None and self.aim.error is not None and error <= self.aim.error:
            return True
        return points >= min(self.aim.points or everything, everything)

    def _counts(self, before: int) -> dict[str, int]:
        """So many points of each kind in all; where only an error is aimed at, or the time ends it, in rounds."""
        kinds = len(self.pool.pairs)
        wanted = self.aim.points
        if wanted is None or self.aim.error is not None:
            step = math.ceil(GROWTH * before) if before >= FEWEST_POINTS * kinds else FEWEST_POINTS * kinds
            wanted = step if wanted is None else min(step, wanted)
        shares = [wanted // kinds + (place < wanted % kinds) for place in range(kinds)]
        return dict(zip(self.pool.pairs, shares, strict=True))


def error_so_far(run: Path, known: KnownDevices, kinds: Sequence[str], seed: int) -> float | None:
    """The mean error over kinds on layers left out, of one family that leans on known devices; None while it is not
    known of all of them."""
    source = read_source(run)
    try:
        found = [kind for kind in kinds if kind in source.rows]
        prepared, refused = prepare(source, found, Split(), seed, without_unstable=False, known=known)
        family = regressors[JUDGED_BY]
        errors = [
            learn(family, {kind: each}, family.defaults, Effort(JUDGING_S, seed))[kind].error(each)
            for tables in prepared.values()
            for kind, each in tables.items()
        ]
    except MednError:  # too little is measured
        return None
    return statistics.fmean(errors) if errors and not refused else None
