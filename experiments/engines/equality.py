"""How far the engines agree: the same random rows of every kind in a bundle, in and out of range, through each of them.

    python -m experiments.engines.equality BUNDLE... [--rows 10000] [--seed 0]

NumPy runs the formulas as they stand and, once more, their program; C and onnxruntime run the program. The largest
relative difference to the formulas is told for each, over the latency, its interval and all further quantities, that of
an interval wider than a factor of e as a share of the logarithm of its width: networks compute in single precision, and
what is off by a factor of a hundred need not be told to seven digits. The exit code is 1 where one is above 1e-6, or
1e-5 for onnxruntime, which adds up trees in single precision.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.script import end_with
from experiments.tables import markdown_table
from medn.core.errors import UsageError
from medn.core.quantities import from_learned
from medn.core.table import Array
from medn.estimator.estimator import Estimator
from medn.exporting.onnx_models import OUTPUTS, onnx_model
from medn.predictor.predictor import load
from medn.program.c_engine import CMachine, is_built
from medn.program.numpy_engine import NumpyMachine

EXACT, SINGLE = 1e-6, 1e-5
LOW, HIGH, INSIDE = 1, 2, 3
"""Which of the answers are the bounds of the interval, and which is a flag."""


def drawn(estimator: Estimator, rows: int, seed: int) -> dict[str, Any]:
    """Columns of allowed values: half of them between what was measured, the others anywhere that is not absurd."""
    random, found = np.random.default_rng(seed), {}
    known = estimator.range
    near = random.random(rows) < 0.5
    for name, parameter in estimator.query.parameters.items():
        default = estimator.query.defaults.get(name)
        if parameter.type is str:
            column = random.choice(list(parameter.choices) or [default, "something else"], rows)
            found[name] = np.where(near & (default is not None), default, column) if default else column
        elif parameter.type is bool:
            found[name] = random.random(rows) < 0.5
        else:
            low, high = parameter.low or 0, min(parameter.high or 1e6, 4096)
            wide = np.exp(random.uniform(np.log(max(low, 0.5)), np.log(max(high, 1.0)), rows))
            inside = wide
            if name in known.schema.names:
                place = known.schema.index(name)
                inside = random.uniform(known.low[place], known.high[place], rows)
            elif default is not None:
                inside = np.full(rows, float(default))
            column = np.where(near, inside, wide)
            column = np.clip(column if parameter.type is float else np.rint(column), low, parameter.high)
            found[name] = column if parameter.type is float else column.astype(np.int64)
    return found


def allowed(estimator: Estimator, rows: int, seed: int) -> dict[str, Any]:
    """Rows that break no rule of the kind; the same over and over where hardly any that was drawn is allowed."""
    found: list[dict[str, Any]] = []
    for turn in range(100):
        columns = drawn(estimator, rows, seed + 1000 * turn)
        if estimator.query._rules is None:
            return columns
        opened = {name: column * 1.0 if column.dtype.kind in "iufb" else column for name, column in columns.items()}
        good = np.flatnonzero(estimator.query._passing(opened, rows))
        found.append({name: column[good] for name, column in columns.items()})
        if sum(len(part["batch_size"]) for part in found) >= rows:
            break
    together = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    if not len(together["batch_size"]):
        raise UsageError(f"no row of {estimator.kind.name} was drawn that is allowed")
    return {name: np.resize(column, rows) for name, column in together.items()}


def answers(estimator: Estimator, columns: dict[str, Any]) -> Iterator[tuple[str, Array]]:
    """What each engine says, the formulas of NumPy first: latency, low and high, whether it is inside, and the rest."""
    rows = len(next(iter(columns.values())))
    yield "formulas", _by_formulas(estimator, columns, rows)
    programs, quantities = estimator.answering.programs, estimator.answering.quantities
    matrix = np.zeros((len(programs.query.names), rows))
    for name, column in columns.items():
        codes = programs.strings.codes.get(name)
        numbers = column if codes is None else [codes.get(text, -1) for text in column.tolist()]
        matrix[programs.query.names.index(name)] = numbers
    both = programs.program(columns.keys()), quantities.program(tuple(estimator.further))
    for name, engine in (("NumPy", NumpyMachine), ("C", CMachine)):
        if name == "C" and not is_built():
            continue
        first, second = (engine(program) for program in both)
        inputs = first.run(matrix)
        assert (inputs[0] == 1).all(), "a row that is allowed was refused"
        yield name, second.run(inputs[2:])
    yield "onnxruntime", _by_onnxruntime(estimator, columns)


def _by_formulas(estimator: Estimator, columns: dict[str, Any], rows: int) -> Array:
    prepared = estimator.prepare(columns, rows)
    found = estimator.deployed.answer(prepared.inputs)
    learned = {}
    for name, each in estimator.further.items():
        own = prepared.inputs if each.same_range else estimator._inputs(prepared.columns, each.deployed.range, rows)
        learned[name] = each.deployed.predict(own)
    return np.array([found.value, found.low, found.high, found.inside, *from_learned(found.value, learned).values()])


def _by_onnxruntime(estimator: Estimator, columns: dict[str, Any]) -> Array:
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_model(estimator), providers=["CPUExecutionProvider"])
    given = {
        name: column.astype(np.float64) if column.dtype.kind in "iufb" else column.astype(object)
        for name, column in columns.items()
    }
    latency_s, low_s, high_s, *further = session.run([*OUTPUTS, *estimator.further], given)
    return np.array([latency_s, low_s, high_s, np.full(len(latency_s), np.nan), *further])


def compared(path: Path, rows: int, seed: int) -> Iterator[dict[str, Any]]:
    predictor = load(path)
    for kind in predictor.kinds:
        estimator = predictor.estimator(kind)
        columns = allowed(estimator, rows, seed)
        (_, expected), *others = answers(estimator, columns)
        numbers = [place for place in range(len(expected)) if place != INSIDE]
        told: dict[str, Any] = {"bundle": path.stem, "kind": kind, "in range": float(expected[INSIDE].mean())}
        reach = np.ones_like(expected)
        reach[LOW:INSIDE] = np.maximum(np.log(expected[HIGH] / expected[LOW]), 1.0)
        for name, found in others:
            told[name] = float((np.abs(found[numbers] / expected[numbers] - 1) / reach[numbers]).max())
            assert name == "onnxruntime" or (found[INSIDE] == expected[INSIDE]).all(), f"{name} sees another range"
        limits = {name: SINGLE if name == "onnxruntime" else EXACT for name, _ in others}
        yield {**told, "agree": all(told[name] <= limit for name, limit in limits.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = [row for path in given.bundles for row in compared(path, given.rows, given.seed)]
    print(markdown_table(rows))
    return 0 if all(row["agree"] for row in rows) else 1


if __name__ == "__main__":
    end_with(main)
