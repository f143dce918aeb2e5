"""How fast a bundle answers: one layer, many layers, and the same beside models called in their own libraries."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from medn.benches.asked_layers import (
    Layers,
    as_columns,
    mixed_columns,
    out_of_range,
    shuffled,
    usual_layers,
    with_shorthands,
)
from medn.benches.native import NATIVE, ONNXRUNTIME, by_onnxruntime
from medn.core.packages import missing
from medn.core.processor_time import Clock, one_thread, processor_seconds, reference
from medn.core.values import Scalar
from medn.estimator.estimator import Estimator
from medn.estimator.prediction import Prediction
from medn.predictor.predictor import Predictor, load
from medn.program.engines import described

GOLDEN = 0.6180339887498949
"""Its multiples are all different, and spread evenly."""

SIZES = (1, 100, 1_000, 10_000, 100_000)
LARGE = 1_000_000
NATIVE_SIZES = (1, 10_000)
AGAIN = 10
"""Times that a whole model is predicted again."""
DICTS = 1000
"""Rows of a mixed table that comes as a list of dicts."""


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
    models: Sequence[str] = (),
    clock: Clock = time.thread_time,
    wall: Clock = time.monotonic,
) -> PredictBench:
    """Time everything in rounds, all calls after one another in each, for about so many seconds.

    `models` are predicted as wholes; what `Predictor.model` takes by name.
    """
    predictor = load(path, device)
    layers = {kind: usual_layers(predictor, kind) for kind in predictor.kinds}
    sizes = (*SIZES, LARGE) if large else SIZES
    kind = max(layers, key=lambda each: len(predictor.estimator(each).range.schema.names))
    with one_thread():
        native, absent = _native(predictor, kind, layers[kind])
        calls = [*_layer_calls(predictor, layers), *_predict_calls(predictor, layers, sizes)]
        calls += [*_model_calls(predictor, models), *native]
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


def _layer_calls(predictor: Predictor, layers: Layers) -> Iterator[Timed]:
    ways: dict[str, Callable[[Estimator, Sequence[dict[str, Scalar]]], Sequence[dict[str, Scalar]]]] = {
        "layer": lambda estimator, rows: rows,
        "layer, shorthands": lambda estimator, rows: with_shorthands(estimator),
        "layer, any order": lambda estimator, rows: shuffled(rows),
        "layer, outside": out_of_range,
    }
    for what, choose in ways.items():
        for kind, rows in layers.items():
            estimator = predictor.estimator(kind)
            chosen = choose(estimator, rows)
            if chosen:
                yield Timed(what, kind, 1, partial(_next_layer, estimator, itertools.cycle(chosen)))
    for kind, rows in layers.items():
        yield Timed("layer, asked before", kind, 1, partial(predictor.layer, kind, **rows[0]))
        known = predictor.layer(kind, **rows[0])
        for name in known.further:
            yield Timed(f"reading {name}", kind, 1, partial(getattr, known, name))


def _next_layer(estimator: Estimator, turns: Iterator[dict[str, Scalar]]) -> Prediction:
    """What `layer` does with a layer that it was not asked for before."""
    return estimator.layer(next(turns))


def _predict_calls(predictor: Predictor, layers: Layers, sizes: Sequence[int]) -> Iterator[Timed]:
    for size in sizes:
        for kind, rows in layers.items():
            columns = as_columns(rows, predictor.estimator(kind).kind, size)
            yield Timed("predict", kind, size, partial(predictor.predict, columns, kind))
        if 1 < len(layers) <= size:
            yield Timed("predict", "mixed", size, partial(predictor.predict, mixed_columns(predictor, layers, size)))
    for kind in layers:
        asked = with_shorthands(predictor.estimator(kind))
        if asked:
            columns = as_columns(asked, predictor.estimator(kind).kind, max(NATIVE_SIZES))
            yield Timed("predict, shorthands", kind, max(NATIVE_SIZES), partial(predictor.predict, columns, kind))
    together = zip(*layers.values(), strict=False)
    rows_of_all = [{"kind": kind, **row} for rows in together for kind, row in zip(layers, rows, strict=True)]
    turns = itertools.cycle(rows_of_all)
    yield Timed("predict, dicts", "mixed", DICTS, partial(predictor.predict, list(itertools.islice(turns, DICTS))))


def _first_answers(predictor: Predictor, layers: Layers) -> None:
    for kind, rows in layers.items():
        predictor.layer(kind, **rows[0])


def _native(
    predictor: Predictor, kind: str, rows: Sequence[Mapping[str, Scalar]]
) -> tuple[list[Timed], tuple[Line, ...]]:
    """Models of the usual libraries, trained on what the bundle predicts, and those whose library is missing.

    They get numbers that are ready to be used: no features, no check of the range, no interval. onnxruntime gets the
    inputs of the bundle's own forms and does the rest of what medn does.
    """
    estimator = predictor.estimator(kind)
    columns = as_columns(rows, estimator.kind, max(NATIVE_SIZES))
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
    if sentence := missing(ONNXRUNTIME, ["onnxruntime"]):
        absent.append(Line(ONNXRUNTIME, kind, 1, None, note=sentence))
    elif run := by_onnxruntime(estimator):
        ready = estimator.inputs_of_all(estimator.prepare(columns, max(NATIVE_SIZES)))
        timed += [Timed(ONNXRUNTIME, kind, size, partial(run, ready[:size])) for size in NATIVE_SIZES]
    return timed, tuple(absent)


def _model_calls(predictor: Predictor, sources: Sequence[str]) -> Iterator[Timed]:
    """Whole models, captured once and predicted again at a utilisation that nobody asked for before."""
    for source in sources:
        captured = predictor.model(source).captured
        busy = (0.5 * (turn * GOLDEN % 1.0) for turn in itertools.count(1))
        yield Timed("model again", source, AGAIN, partial(_again, predictor, captured, busy))


def _again(predictor: Predictor, captured: Any, busy: Iterator[float]) -> list[object]:
    return [predictor.model(captured, utilization=next(busy)) for _ in range(AGAIN)]


def _against(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines, those of other libraries with how they compare to the quickest way to ask medn the same."""
    own: dict[tuple[str, int], float] = {}
    for line in lines:
        if line.what in ("layer", "predict") and line.us_per_row:
            own[line.kind, line.rows] = min(line.us_per_row, own.get((line.kind, line.rows), line.us_per_row))
    for line in lines:
        mine = own.get((line.kind, line.rows)) if line.what in (*NATIVE, ONNXRUNTIME) else None
        yield replace(line, against_medn=line.us_per_row / mine) if mine and line.us_per_row else line


def _memory_bytes() -> int:
    import psutil

    resident: int = psutil.Process().memory_info().rss
    return resident
