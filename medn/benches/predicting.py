"""How fast a bundle answers: one layer, many layers, and the same beside models called in their own libraries."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from medn.core.errors import UsageError
from medn.core.packages import missing
from medn.core.processor_time import Clock, one_thread, processor_seconds, reference
from medn.core.table import Array
from medn.core.values import Scalar
from medn.estimator.estimator import Estimator
from medn.estimator.prediction import Prediction
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep
from medn.predictor.predictor import Predictor, load
from medn.program.engines import described

SIZES = (1, 100, 1_000, 10_000, 100_000)
LARGE = 1_000_000
NATIVE_SIZES = (1, 10_000)
LAYERS = 1000
"""Different layers of each kind that are asked for."""
BEYOND = 100
DICTS = 1000
"""Rows of a mixed table that comes as a list of dicts."""

PLAN = """
name: bench
seed: 1
devices: [torch]
sampler: sobol
budget: {points: POINTS}
layers: {KIND: {}}
conditions: {batch_size: [1, 4, 16]}
"""

Columns = dict[str, Any]
Layers = Mapping[str, Sequence[dict[str, Scalar]]]
"""Layers of each kind, as one would ask for them."""


@dataclass(frozen=True)
class Line:
    """One thing that was timed."""

    what: str
    kind: str
    rows: int
    us_per_row: float | None
    """None where it could not be timed; the note says why."""
    of_reference: float | None = None
    """The time of a row as a share of the time of the reference computation."""
    against_medn: float | None = None
    """For a model in its own library: how many times as long it takes as medn for as many rows of the kind."""
    note: str = ""

    @property
    def rows_per_second(self) -> float | None:
        return 1e6 / self.us_per_row if self.us_per_row else None


@dataclass(frozen=True)
class PredictBench:
    bundle: str
    device: str
    chosen: Mapping[str, str]
    """The regressor that predicts each kind."""
    engine: str
    """What runs the predictions."""
    reference_us: float
    load_ms: float
    """From the file to a predictor."""
    first_ms: float
    """To its first answer for each kind, from the file."""
    memory_bytes: int
    """Of the whole process, at the end."""
    lines: tuple[Line, ...] = field(repr=False)


@dataclass
class Timed:
    """A call, and what it took in each round."""

    what: str
    kind: str
    rows: int
    call: Callable[[], object]
    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    def line(self) -> Line:
        us, share = (statistics.median(found) / self.rows for found in (self.seconds, self.ratios))
        return Line(self.what, self.kind, self.rows, 1e6 * us, share)


def bench_predict(
    path: Path,
    device: str | None = None,
    *,
    seconds: float = 30.0,
    large: bool = False,
    clock: Clock = time.thread_time,
    wall: Clock = time.monotonic,
) -> PredictBench:
    """Time everything in rounds, all calls after one another in each, for about so many seconds."""
    predictor = load(path, device)
    layers = {kind: _layers(predictor, kind) for kind in predictor.kinds}
    sizes = (*SIZES, LARGE) if large else SIZES
    kind = max(layers, key=lambda each: len(predictor.estimator(each).range.schema.names))
    with one_thread():
        native, absent = _native(predictor, kind, layers[kind])
        calls = [*_layer_calls(predictor, layers), *_predict_calls(predictor, layers, sizes), *native]
        loads = Timed("load", "", 1, lambda: load(path, device))
        first = Timed("first", "", 1, lambda: _first_answers(load(path, device), layers))
        reference_s = _rounds([loads, first, *calls], seconds, clock, wall)
    return PredictBench(
        bundle=str(path),
        device=predictor.device,
        chosen={entry.kind: entry.latency.regressor for entry in predictor.bundle.on(predictor.device)},
        engine=described(),
        reference_us=1e6 * reference_s,
        load_ms=1e3 * statistics.median(loads.seconds),
        first_ms=1e3 * statistics.median(first.seconds),
        memory_bytes=_memory_bytes(),
        lines=(*_against([call.line() for call in calls]), *absent),
    )


def _rounds(calls: Sequence[Timed], seconds: float, clock: Clock, wall: Clock) -> float:
    """Time every call at least once; gives the usual time of the reference."""
    began = wall()
    found: list[float] = []
    while not found or wall() - began < seconds:
        for timed in calls:
            if timed.seconds and wall() - began >= seconds:
                break
            # The reference stands right beside it: the machine may be slower by the time the next call comes.
            found.append(processor_seconds(reference, clock))
            timed.seconds.append(processor_seconds(timed.call, clock))
            timed.ratios.append(timed.seconds[-1] / found[-1])
    return statistics.median(found)


def _layers(predictor: Predictor, kind: str) -> list[dict[str, Scalar]]:
    """Different layers of a kind as one would ask for them; those that lie where was measured, if any do."""
    estimator = predictor.estimator(kind)
    rows = _planned(estimator.kind) if kind in layer_kinds else _drawn(estimator)
    usual = [row for row in rows if estimator.layer(row).in_range]
    return (usual or rows)[:LAYERS]


def _planned(kind: LayerKind) -> list[dict[str, Scalar]]:
    """Layers as a sweep draws them."""
    points = plan_points(parse_sweep(PLAN.replace("KIND", kind.name).replace("POINTS", str(3 * LAYERS)))).points
    return [{**_spoken(kind, point.layer.values), "batch_size": point.condition.batch_size} for point in points]


def _drawn(estimator: Estimator) -> list[dict[str, Scalar]]:
    """Layers of a kind that no sweep knows, drawn from between what was measured."""
    random, known = np.random.default_rng(1), estimator.range
    columns: dict[str, list[Any]] = {}
    for each in estimator.kind.parameters:
        if each.name in known.schema.categories:
            strings = [known.schema.categories[each.name][code] for code in known.seen[each.name]]
            columns[each.name] = random.choice(strings, 3 * LAYERS).tolist()
        elif each.name in known.schema.names:
            place = known.schema.index(each.name)
            numbers = random.uniform(known.low[place], known.high[place], 3 * LAYERS)
            columns[each.name] = (numbers if each.type is float else np.rint(numbers).astype(int)).tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] or [{}]


def _spoken(kind: LayerKind, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A layer without what goes without saying."""
    told = kind.complete(values)
    return {each.name: told[each.name] for each in kind.parameters if told[each.name] != each.default}


def _columns(rows: Sequence[Mapping[str, Scalar]], kind: LayerKind, count: int) -> Columns:
    """So many rows as columns, those given over and over."""
    defaults = {each.name: each.default for each in kind.parameters}
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.resize(np.array([row.get(name, defaults.get(name)) for row in rows]), count) for name in names}


def _layer_calls(predictor: Predictor, layers: Layers) -> Iterator[Timed]:
    ways: dict[str, Callable[[Estimator, Sequence[dict[str, Scalar]]], Sequence[dict[str, Scalar]]]] = {
        "layer": lambda estimator, rows: rows,
        "layer, shorthands": lambda estimator, rows: _asked(estimator),
        "layer, outside": _beyond,
    }
    for what, choose in ways.items():
        for kind, rows in layers.items():
            estimator = predictor.estimator(kind)
            chosen = choose(estimator, rows)
            if chosen:
                yield Timed(what, kind, 1, partial(_next_layer, estimator, itertools.cycle(chosen)))
    for kind, rows in layers.items():
        yield Timed("layer, asked before", kind, 1, partial(predictor.layer, kind, **rows[0]))


def _asked(estimator: Estimator) -> list[dict[str, Scalar]]:
    """Layers as people and sweeps ask for them, with shorthands and conveniences, those that lie where was measured."""
    kind, random = estimator.kind, Random(1)
    if not any(name in kind.shorthands or name in kind.conveniences for name in kind.sweep):
        return []
    found = []
    for _ in range(LAYERS):
        asked = {name: domain.at(random.random()) for name, domain in kind.sweep.items()}
        try:
            found += [asked] if estimator.layer(asked).in_range else []
        except UsageError:  # what cannot go together
            continue
    return found


def _beyond(estimator: Estimator, rows: Sequence[dict[str, Scalar]]) -> list[dict[str, Scalar]]:
    """The same layers for a batch that nobody measured."""
    found = [{**row, "batch_size": 100_000} for row in rows[:BEYOND]]
    return [row for row in found if not estimator.layer(row).in_range]


def _next_layer(estimator: Estimator, turns: Iterator[dict[str, Scalar]]) -> Prediction:
    """What `layer` does with a layer that it was not asked for before."""
    return estimator.layer(next(turns))


def _predict_calls(predictor: Predictor, layers: Layers, sizes: Sequence[int]) -> Iterator[Timed]:
    for size in sizes:
        for kind, rows in layers.items():
            columns = _columns(rows, predictor.estimator(kind).kind, size)
            yield Timed("predict", kind, size, partial(predictor.predict, columns, kind))
        if 1 < len(layers) <= size:
            yield Timed("predict", "mixed", size, partial(predictor.predict, _mixed(predictor, layers, size)))
    together = zip(*layers.values(), strict=False)
    rows_of_all = [{"kind": kind, **row} for rows in together for kind, row in zip(layers, rows, strict=True)]
    turns = itertools.cycle(rows_of_all)
    yield Timed("predict, dicts", "mixed", DICTS, partial(predictor.predict, list(itertools.islice(turns, DICTS))))


def _mixed(predictor: Predictor, layers: Layers, count: int) -> Columns:
    """Rows of all kinds in turns; a gap where a kind has no such column."""
    each = -(-count // len(layers))
    parts = {kind: _columns(rows, predictor.estimator(kind).kind, each) for kind, rows in layers.items()}
    order = np.arange(each * len(parts)).reshape(len(parts), each).T.ravel()[:count]
    names = list(dict.fromkeys(name for part in parts.values() for name in part))
    columns: Columns = {"kind": np.repeat(list(parts), each)[order]}
    for name in names:
        is_text = any(part[name].dtype.kind == "U" for part in parts.values() if name in part)
        gap = np.full(each, "") if is_text else np.full(each, np.nan)
        column = np.concatenate([part.get(name, gap) for part in parts.values()])[order]
        columns[name] = column.astype(object) if is_text else column
    return columns


def _first_answers(predictor: Predictor, layers: Layers) -> None:
    for kind, rows in layers.items():
        predictor.layer(kind, **rows[0])


def _native(
    predictor: Predictor, kind: str, rows: Sequence[Mapping[str, Scalar]]
) -> tuple[list[Timed], tuple[Line, ...]]:
    """Models of the usual libraries, trained on what the bundle predicts, and those whose library is missing.

    They get numbers that are ready to be used: no features, no check of the range, no interval.
    """
    columns = _columns(rows, predictor.estimator(kind).kind, max(NATIVE_SIZES))
    learned = predictor.predict(columns, kind).latency_s
    numbers = [np.asarray(values, dtype=np.float64) for values in columns.values() if values.dtype.kind in "iufb"]
    inputs = np.column_stack(numbers)
    timed: list[Timed] = []
    absent: list[Line] = []
    for name, (package, fit) in NATIVE.items():
        if sentence := missing(name, [package]):
            absent.append(Line(name, kind, 1, None, note=sentence))
            continue
        predict = fit(inputs[: len(rows)], np.log(learned[: len(rows)]))
        timed += [Timed(name, kind, size, partial(predict, inputs[:size])) for size in NATIVE_SIZES]
    return timed, tuple(absent)


def _lightgbm(inputs: Array, logs: Array) -> Callable[[Array], Any]:
    import lightgbm

    settings = {"num_leaves": 31, "min_data_in_leaf": 2, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(inputs, logs), 200)
    return lambda given: booster.predict(given, num_threads=1)


def _xgboost(inputs: Array, logs: Array) -> Callable[[Array], Any]:
    import xgboost

    booster = xgboost.train({"max_depth": 5, "nthread": 1}, xgboost.DMatrix(inputs, logs), 200)
    return booster.inplace_predict


def _forest(inputs: Array, logs: Array) -> Callable[[Array], Any]:
    from sklearn.ensemble import RandomForestRegressor

    found: Callable[[Array], Any] = RandomForestRegressor(100, random_state=0, n_jobs=1).fit(inputs, logs).predict
    return found


NATIVE: Mapping[str, tuple[str, Callable[[Array, Array], Callable[[Array], Any]]]] = {
    "LightGBM, 200 trees": ("lightgbm", _lightgbm),
    "XGBoost, 200 trees": ("xgboost", _xgboost),
    "scikit-learn forest, 100 trees": ("sklearn", _forest),
}


def _against(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines, those of other libraries with how they compare to the quickest way to ask medn the same."""
    own: dict[tuple[str, int], float] = {}
    for line in lines:
        if line.what in ("layer", "predict") and line.us_per_row:
            own[line.kind, line.rows] = min(line.us_per_row, own.get((line.kind, line.rows), line.us_per_row))
    for line in lines:
        is_other = line.what in NATIVE and line.us_per_row
        yield replace(line, against_medn=is_other / own[line.kind, line.rows]) if is_other else line


def _memory_bytes() -> int:
    import psutil

    resident: int = psutil.Process().memory_info().rss
    return resident
