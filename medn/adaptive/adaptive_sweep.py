"""A sweep that chooses its points while it measures: in rounds, each where what is known so far leaves most open.

The first points are drawn at random. After each round a quick fit of every kind says which of many drawn points would
tell most about all others. A share of the next round is drawn at random all the same: for what the fit does not see,
and to judge the error by. What was chosen is noted in the journal before it is measured, so that a sweep that was
stopped, however it was stopped, goes on by being started again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medn.adaptive.informative import Knowledge, most_informative
from medn.adaptive.pool import Pair, PointPool, pair_inputs, some
from medn.adaptive.progress import EXHAUSTED, POINTS, AdaptiveProgress, judge
from medn.adaptive.quick_fit import QuickFit
from medn.adaptive.run_curve import ADAPTIVE_NOTE, source_curve
from medn.core.errors import MednError
from medn.core.store import Store
from medn.core.values import Point
from medn.layer_generators.sampler import seeded
from medn.layer_generators.sweep import SweepConfig
from medn.measuring.sweep_time import visit_seconds
from medn.runs.folder import RunFolder
from medn.runs.tables import Source, kind_table, read_source

FIRST_POINTS = 24
"""Of each kind, on every device, drawn at random before anything is chosen."""

GROWTH = 1.3
"""Of the points with every round: a fit for each few of them would take longer than it saves."""

RANDOM_SHARE = 0.1
"""Of the points of a round."""

CANDIDATES, POPULATION = 1500, 300
"""Of a kind in a round: points to choose from, and points to predict, by which the choice is made. More to choose from
brings more: with 400 it took a tenth more points."""


@dataclass
class Chosen:
    """The pairs that were chosen so far, as the journal keeps them."""

    random: list[Pair]
    informative: list[Pair]

    @classmethod
    def read(cls, store: Store, pool: PointPool) -> Chosen:
        note = store.read_note(ADAPTIVE_NOTE) or {}
        return cls(pool.known(note.get("random", ())), pool.known(note.get("informative", ())))

    def keep(self, store: Store, pool: PointPool, config: SweepConfig) -> None:
        shares = {kind: choice.share for kind, choice in config.layers.items()}
        keys = {name: pool.keys(getattr(self, name)) for name in ("random", "informative")}
        store.note(ADAPTIVE_NOTE, {**keys, "shares": shares})


class AdaptiveSweep:
    """The points of a sweep, asked for whenever all that were given have been measured."""

    def __init__(
        self,
        config: SweepConfig,
        folder: RunFolder,
        aim: float | None = None,
        on_round: Callable[[AdaptiveProgress], None] = lambda done: None,
    ) -> None:
        self.config = config
        self.folder = folder
        self.aim = aim
        self.on_round = on_round
        self.pool = PointPool.of(config)
        self.last: AdaptiveProgress | None = None
        """How far it is, once the first points are measured."""
        self._begun = False

    def next_points(self, store: Store) -> list[Point]:
        """First those that were chosen before, measured or not; then some more, again and again, until it ends."""
        chosen = Chosen.read(store, self.pool)
        planned = dict.fromkeys([*self._first(), *chosen.random, *chosen.informative])
        if not self._begun:
            self._begun = True
            chosen.keep(store, self.pool, self.config)
            return self.pool.points(planned)
        taken = {*planned, *self.pool.known(store.visited())}
        left = {kind: [pair for pair in own if pair not in taken] for kind, own in self.pool.pairs.items()}
        source = self._source()
        self.last = self._judged(source, left, len(taken))
        self.on_round(self.last)
        if self.last.end:
            return []
        further = self._choose(source, left, self.last, len(taken))
        chosen.random += further.random
        chosen.informative += further.informative
        chosen.keep(store, self.pool, self.config)
        return self.pool.points([*further.informative, *further.random])

    @property
    def _most(self) -> int | None:
        """Pairs that the budget of points allows."""
        points = self.config.budget.points
        return None if points is None else points // len(self.pool.devices)

    def _first(self) -> list[Pair]:
        """What the config lists, and a few drawn ones of each kind."""
        each = FIRST_POINTS if self._most is None else min(FIRST_POINTS, math.ceil(self._most / len(self.pool.pairs)))
        first: list[Pair] = []
        for pairs in self.pool.pairs.values():
            listed = sum(layer in self.pool.listed for layer, _ in pairs)
            first += pairs[: max(each, listed)]
        return first

    def _source(self) -> Source:
        """What was measured, without probes: nobody knows them of points that were not measured."""
        source = read_source(self.folder.path)
        groups = tuple(group for group in source.choice.groups if group != "probes")
        return replace(source, choice=replace(source.choice, groups=groups))

    def _judged(self, source: Source, left: dict[str, list[Pair]], taken: int) -> AdaptiveProgress:
        open_kinds = {kind for kind, pairs in left.items() if pairs}
        done = judge(source_curve(self.folder.path, source), taken * len(self.pool.devices), open_kinds, self.aim)
        if not done.end and self._most is not None and taken >= self._most:
            return replace(done, end=POINTS)
        return done if done.end or open_kinds else replace(done, end=EXHAUSTED)

    def _choose(self, source: Source, left: dict[str, list[Pair]], done: AdaptiveProgress, taken: int) -> Chosen:
        """The next pairs of every kind that wants more, by its share."""
        shares = {kind: self.config.layers[kind].share for kind in left if kind in done.wanting}
        count = max(math.ceil((GROWTH - 1) * taken), len(shares))
        count = count if self._most is None else min(count, self._most - taken)
        further = Chosen([], [])
        for kind, share in sorted(shares.items(), key=lambda each: -each[1]):
            wanted = min(
                max(1, round(count * share / sum(shares.values()))), count - len(further.random + further.informative)
            )
            informative = self._most_informative(source, kind, left[kind], round((1 - RANDOM_SHARE) * wanted), taken)
            further.informative += informative
            # They are in random order, so the first will do.
            further.random += [pair for pair in left[kind] if pair not in informative][: wanted - len(informative)]
        return further

    def _most_informative(self, source: Source, kind: str, left: Sequence[Pair], count: int, taken: int) -> list[Pair]:
        random = seeded(self.config.seed, "adaptive", kind, taken)
        candidates, population = some(left, CANDIDATES, random), some(self.pool.pairs[kind], POPULATION, random)
        known, seconds = [], np.zeros(len(candidates))
        for device in self.pool.devices:
            try:
                table = kind_table(source, kind, device=device)
            except MednError:  # nothing of it could be measured so far
                continue
            fitted, inputs = QuickFit.of(table.table, self.config.seed), pair_inputs(table, candidates)
            known.append(Knowledge(fitted.process, inputs, pair_inputs(table, population)))
            seconds += visit_seconds(fitted.predict(inputs), self.config.measure.visit_time_s)
        return [candidates[place] for place in most_informative(known, seconds, count)] if known and count else []
