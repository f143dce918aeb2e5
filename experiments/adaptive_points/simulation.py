"""Points chosen among those whose latencies are known, by chance and adaptively."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.few_points.tables import Drawn, draw
from medn.adaptive.adaptive_sweep import CANDIDATES, FIRST_POINTS, GROWTH, POPULATION, RANDOM_SHARE
from medn.adaptive.informative import Knowledge, most_informative
from medn.adaptive.quick_fit import QuickFit
from medn.core.atomic import atomic_write
from medn.core.metrics import relative_errors
from medn.core.table import Array, Table
from medn.core.values import content_key
from medn.measuring.sweep_time import visit_seconds
from medn.regressors.regressor import Effort, regressors
from medn.runs.folder import RunFolder
from medn.runs.tables import KindTable, kind_table, read_source

GAUSSIAN_PROCESS = "quick Gaussian process"
RANDOM, ADAPTIVE = "random", "adaptive"

MOST_POOL, MOST_TEST = 1500, 1000
MOST_POINTS = {RANDOM: 400, ADAPTIVE: 210}
"""Random drawing goes on for longer, so that there is something to compare the last errors of the other with."""

VISIT_S = 0.03
"""As in the sweep that layers are drawn from; public tables do not tell."""

FEWEST_ROWS = 300
"""Of a table: with fewer there is little to choose from."""

TOLD_FROM = 50
"""Points: before that most are the same first ones."""

TOLD = (55, 94, 160)
"""Numbers of points at which errors are shown; sizes of rounds."""


@dataclass(frozen=True)
class Curve:
    """One way to choose, on one table with one seed."""

    table: str
    way: str
    seed: int
    points: tuple[int, ...]
    errors: tuple[float, ...]
    seconds: tuple[float, ...]
    """Measuring so far; zeros where a table does not tell."""


def sizes(way: str, pool: int) -> list[int]:
    found = [FIRST_POINTS]
    while (larger := int(np.ceil(GROWTH * found[-1]))) <= min(MOST_POINTS[way], 0.8 * pool):
        found.append(larger)
    return found


def curves(tables: Sequence[Drawn], seeds: Iterable[int], family: str, kept: Path) -> list[Curve]:
    """All of them, each computed once."""
    found = []
    for drawn in tables:
        table = kind_table(read_source(drawn.run), drawn.kind, device=drawn.device)
        if len(table.table) < FEWEST_ROWS:
            continue
        seconds = _seconds(drawn, table)
        for seed in seeds:
            for way in (RANDOM, ADAPTIVE):
                settings = [MOST_POOL, FIRST_POINTS, GROWTH, MOST_POINTS[way]]
                settings += [RANDOM_SHARE, CANDIDATES, POPULATION, VISIT_S] if way == ADAPTIVE else []
                key = content_key([drawn.name, table.key, seed, way, family, *settings])
                file = kept / "curves" / f"{key}.json"
                if not file.is_file():
                    curve = one_curve(drawn, table.table, seconds, way, seed, family)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    atomic_write(file, json.dumps(asdict(curve)).encode())
                    print(drawn.name, way, seed, [round(100 * error, 1) for error in curve.errors], flush=True)
                written = json.loads(file.read_text())
                found.append(Curve(**{name: tuple(v) if isinstance(v, list) else v for name, v in written.items()}))
    return found


def _seconds(drawn: Drawn, table: KindTable) -> Array:
    """How long each row was measured."""
    with RunFolder(drawn.run).store(must_exist=True) as store:
        spent = {each.point.key: sum(v.elapsed_s for v in each.visits) for each in store.measurements(drawn.kind)}
    return np.array([spent[key] for key in table.points])


def one_curve(drawn: Drawn, table: Table, seconds: Array, way: str, seed: int, family: str) -> Curve:
    layers, random = draw(drawn, seed), np.random.default_rng(seed)
    is_test = np.isin(table.groups, layers.test)
    test = table.take(random.permutation(np.flatnonzero(is_test))[:MOST_TEST])
    rows = random.permutation(np.flatnonzero(~is_test))[:MOST_POOL]
    pool, predict = table.take(rows), predicts(family)
    taken: list[int] = []
    errors, spent = [], []
    points = sizes(way, len(pool))
    for size in points:
        taken += further(pool, taken, size - len(taken), way, random, seed)
        learned = pool.take(np.array(taken))
        errors.append(float(relative_errors(predict(learned, test.inputs, seed), test.target).mean()))
        spent.append(float(seconds[rows[taken]].sum()))
    return Curve(drawn.name, way, seed, tuple(points), tuple(errors), tuple(spent))


def further(pool: Table, taken: list[int], count: int, way: str, random: np.random.Generator, seed: int) -> list[int]:
    """The next rows, as `AdaptiveSweep` would choose them; the pool is in random order already."""
    left = np.setdiff1d(np.arange(len(pool)), taken)
    chosen: list[int] = []
    if way == ADAPTIVE and taken:
        candidates = random.permutation(left)[:CANDIDATES]
        population = random.permutation(len(pool))[:POPULATION]
        fitted = QuickFit.of(pool.take(np.array(taken)), seed)
        known = Knowledge(fitted.process, pool.inputs[candidates], pool.inputs[population])
        seconds = visit_seconds(fitted.predict(pool.inputs[candidates]), VISIT_S)
        informative = most_informative([known], seconds, round((1 - RANDOM_SHARE) * count))
        chosen = [int(candidates[place]) for place in informative]
    return [*chosen, *(int(row) for row in left if row not in chosen)][:count]


def predicts(family: str) -> Callable[[Table, Array, int], Array]:
    """What learns from rows and predicts inputs."""
    if family == GAUSSIAN_PROCESS:
        return lambda learned, inputs, seed: QuickFit.of(learned, seed).predict(inputs)
    regressor = regressors[family]

    def predict(learned: Table, inputs: Array, seed: int) -> Array:
        fifth = np.arange(len(learned)) % 5 == 0
        parts = learned.take(~fifth), learned.take(fifth)
        return regressor.fit(*parts, regressor.start(len(learned)), Effort(20.0, seed)).predict(inputs)

    return predict


def table_rows(found: Sequence[Curve]) -> list[dict[str, Any]]:
    """By table: errors with some points, and the share of random drawing's points and time for the same errors."""
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(curve.table for curve in found):
        ways = {way: mean_curve([c for c in found if (c.table, c.way) == (name, way)]) for way in (RANDOM, ADAPTIVE)}
        chance, chosen = ways[RANDOM], ways[ADAPTIVE]
        told = chosen["points"] >= TOLD_FROM
        errors = {}
        for size in TOLD:
            for way, curve in ways.items():
                at = np.flatnonzero(curve["points"] == size)
                errors[f"{way} {size}"] = round(100 * float(curve["errors"][at[0]]), 2) if len(at) else None
        row = {"table": name, **errors, "share of points": round(share(chance, chosen, "points", told), 2)}
        timed = bool(chance["seconds"].any())
        row["share of time"] = round(share(chance, chosen, "seconds", told), 2) if timed else None
        rows.append(row)
    means = [{"table": "geometric mean", **_means(rows)}]
    swept = [row for row in rows if row["share of time"] is not None]
    if 0 < len(swept) < len(rows):
        means.append({"table": "of the sweep", **_means(swept)})
    return [*rows, *means]


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in [name for name in rows[0] if name != "table"]:
        known = [row[name] for row in rows if row[name] is not None]
        found[name] = round(float(np.exp(np.mean(np.log(known)))), 2) if len(known) == len(rows) else None
    return found


def mean_curve(same: Sequence[Curve]) -> dict[str, Array]:
    """Over seeds: the geometric mean of errors, the mean of seconds."""
    errors = np.exp(np.mean([np.log(curve.errors) for curve in same], axis=0))
    seconds = np.mean([curve.seconds for curve in same], axis=0)
    return {"points": np.array(same[0].points), "errors": errors, "seconds": seconds}


def share(chance: Mapping[str, Array], chosen: Mapping[str, Array], cost: str, told: Array) -> float:
    """The geometric mean over the sizes of the cost of chosen points, divided by that of drawn ones that err as much.

    An error that random drawing does not reach counts as if it took all its points, so the share is not told too low.
    """
    falling = np.minimum.accumulate(chance["errors"])
    needed = np.exp(np.interp(-np.log(chosen["errors"]), -np.log(falling), np.log(chance[cost])))
    return float(np.exp(np.mean(np.log(chosen[cost] / needed)[told.astype(bool)])))
