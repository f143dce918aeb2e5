"""How fast trained models answer in the library that trained them, and in each form they could be deployed in.

    python -m experiments.deployed_forms --out results

A LightGBM of 200 trees with 31 leaves, a large one as tuning finds them, a CatBoost, whose trees are also timed in the
form of other trees, a forest, and a network of the size of MEDN, on made-up convolutions. One thread, processor time,
all engines after one another in each round. Writes deployed_forms.{md,json}. treelite is timed where it is installed.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.tables import markdown_table, write_tables
from medn.core.packages import is_installed
from medn.core.processor_time import one_thread, processor_seconds, reference
from medn.core.table import Array, Schema, Table
from medn.program.engines import described
from medn.program.onnx_bytes import Graph
from medn.program.onnx_engine import Writer
from medn.program.symbols import traced
from medn.regressors.bit_trees import BitTrees
from medn.regressors.form import Form, restore
from medn.regressors.forms.network import NetworkForm
from medn.regressors.forms.oblivious_trees import ObliviousTrees
from medn.regressors.forms.trees import Trees, tree
from medn.regressors.regressor import Effort, Fitted, regressors

ROWS = 10_000

Ways = tuple[Callable[[Array], float], Callable[[Array], Array]]
"""How to ask for one row, and for many."""

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "LightGBM 200 x 31": ("lightgbm", {"num_leaves": 31, "most_trees": 200, "patience": 10_000}),
    "LightGBM large": ("lightgbm", {"num_leaves": 63, "most_trees": 1000, "learning_rate": 0.03, "patience": 10_000}),
    "CatBoost 1000 x 64": ("catboost", {"depth": 6, "most_trees": 1000, "patience": 10_000}),
    "forest": ("random_forest", {}),
    "network": ("medn", {}),
}


@dataclass
class Engine:
    """One way to ask a model."""

    model: str
    engine: str
    size_bytes: int
    load: Callable[[], Ways]
    """Makes it ready to answer."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"one": [], "many": [], "load": []})


def make_table(rows: int, seed: int) -> Table:
    """Convolutions by the roofline of a small device, with steps at multiples of 16 and 5 % of noise."""
    random = np.random.default_rng(seed)
    channels, filters = random.integers(3, 256, rows), random.integers(8, 512, rows)
    size, kernel, batch = random.integers(4, 64, rows), random.choice([1, 3, 5], rows), 2 ** random.integers(0, 5, rows)
    flops = 2.0 * batch * channels * filters * (size * kernel) ** 2
    read = 4.0 * (batch * channels * size**2 + channels * filters * kernel**2)
    written = 4.0 * batch * filters * size**2
    seconds = 1e-5 + np.maximum(flops * (-(-filters // 16) * 16 / filters) / 5e10, (read + written) / 8e9)
    seconds *= np.exp(random.normal(0, 0.05, rows))
    names = ("in_channels", "out_channels", "in_h", "kernel_size", "batch_size", "flops", "bytes_read", "moved_bytes")
    columns = (channels, filters, size, kernel, batch, flops, read, read + written)
    remainders = {
        f"{name}_mod_{unit}": column % unit
        for name, column in (("in", channels), ("out", filters))
        for unit in (8, 16, 32)
    }
    inputs = np.column_stack([*columns, *remainders.values()]).astype(np.float32).astype(np.float64)
    return Table(Schema((*names, *remainders)), inputs, seconds, np.arange(rows).astype(str))


def engines(model: str, fitted: Fitted, width: int) -> Iterator[Engine]:
    form = fitted.export()
    parts = form.parts()

    def native() -> Ways:
        return lambda row: float(np.log(fitted.predict(row[None])[0])), lambda inputs: np.log(fitted.predict(inputs))

    yield Engine(model, "its own library", _pickled_bytes(fitted), native)

    def deployed() -> Ways:
        made = restore(parts, width)
        made.one(np.ones(width))
        return made.one, made.run

    yield Engine(model, f"medn ({described()})", parts.size_bytes, deployed)
    if isinstance(form, Trees):
        yield from _tree_engines(model, form)
    elif isinstance(form, ObliviousTrees):
        yield from _tree_engines(model, _unfolded(form))
    elif isinstance(form, NetworkForm):
        yield from _network_engines(model, form, width)


def _pickled_bytes(fitted: Fitted) -> int:
    """What the library itself would have to keep; 0 where it cannot be told."""
    try:
        return len(pickle.dumps(fitted))
    except (pickle.PicklingError, AttributeError, TypeError):
        return 0


def _unfolded(form: ObliviousTrees) -> Trees:
    """The same trees with every node written out: those of a level one after the other, the leaves last."""
    levels = form.feature.shape[1]
    inner, nodes = 2**levels - 1, np.arange(2 ** (levels + 1) - 1)
    level = np.repeat(np.arange(levels), 2 ** np.arange(levels))
    left = np.where(nodes < inner, 2 * nodes + 1, -1)
    right = np.where(nodes < inner, 2 * nodes + 2, -1)
    # On the way to a leaf the first level decides the highest bit of its place, but the lowest of its number.
    places = np.arange(inner + 1)
    numbers = sum((places >> (levels - 1 - each) & 1) << each for each in range(levels))
    at_leaves = np.zeros(inner + 1)
    grown = [
        tree(
            np.append(feature[level], at_leaves).astype(int).tolist(),
            np.append(border[level], at_leaves),
            left.tolist(),
            right.tolist(),
            np.append(np.zeros(inner), leaves[numbers]),
        )
        for feature, border, leaves in zip(form.feature, form.border, form.leaves, strict=True)
    ]
    return Trees.from_trees(grown, form.base, form.width)


def _tree_engines(model: str, form: Trees) -> Iterator[Engine]:
    parts = form.parts()

    def bits() -> Ways:
        made = BitTrees(Trees.from_parts(parts, ()).nodes)
        return (
            lambda row: form.base + float(made.sums(row[None])[0]),
            lambda inputs: np.asarray(form.base + made.sums(inputs)),
        )

    yield Engine(model, "tables of bits in NumPy", parts.size_bytes, bits)
    yield from _onnxruntime(model, form, form.width)
    if is_installed("treelite"):
        yield Engine(model, "treelite GTIL", parts.size_bytes, lambda: _treelite(form))


def _onnxruntime(model: str, form: Form, width: int) -> Iterator[Engine]:
    """The program of the form as ONNX."""
    if not is_installed("onnxruntime"):
        return
    graph = Graph()
    writer = Writer(graph)
    writer.longest = graph.input("inputs", "float64", ["rows", width])
    program = traced(width, lambda inputs: [form.log_value(inputs)])  # type: ignore[arg-type]
    graph.output("outputs", *writer.program(program, writer.longest), "float64", ["rows", 1])
    written = graph.model("form")

    def runtime() -> Ways:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(written, options, providers=["CPUExecutionProvider"])

        def many(inputs: Array) -> Array:
            return np.asarray(session.run(None, {"inputs": inputs})[0][:, 0])

        return lambda row: float(many(row[None])[0]), many

    yield Engine(model, "onnxruntime", len(written), runtime)


def _treelite(form: Trees) -> Ways:
    import treelite

    builder = treelite.model_builder.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=treelite.model_builder.Metadata(
            num_feature=form.width, task_type="kRegressor", average_tree_output=False,
            num_target=1, num_class=[1], leaf_vector_shape=(1, 1),
        ),
        tree_annotation=treelite.model_builder.TreeAnnotation(
            num_tree=len(form.roots), target_id=[0] * len(form.roots), class_id=[0] * len(form.roots)
        ),
        postprocessor=treelite.model_builder.PostProcessorFunc(name="identity"),
        base_scores=[form.base],
    )  # fmt: skip
    ends = [*form.roots[1:].tolist(), len(form.feature)]
    for start, end in zip(form.roots.tolist(), ends, strict=True):
        builder.start_tree()
        for place in range(end - start):
            feature, number, right = (array[start + place].item() for array in (form.feature, form.number, form.right))
            builder.start_node(place)
            if feature < 0:
                builder.leaf(number)
            else:
                children = {"left_child_key": place + 1, "right_child_key": right}
                builder.numerical_test(feature, number, default_left=True, opname="<=", **children)
            builder.end_node()
        builder.end_tree()
    model = builder.commit()

    def many(inputs: Array) -> Array:
        return np.asarray(treelite.gtil.predict(model, inputs.astype(np.float32), nthread=1)).reshape(len(inputs))

    return lambda row: float(many(row[None])[0]), many


def _network_engines(model: str, form: NetworkForm, width: int) -> Iterator[Engine]:
    yield Engine(model, "NumPy", form.parts().size_bytes, lambda: _formula(form))
    yield from _onnxruntime(model, form, width)


def _formula(form: Form) -> Ways:
    return lambda row: float(form.log_value(row[None])[0]), form.log_value


def measure(engines: Sequence[Engine], inputs: Array, rounds: int) -> None:
    clock = time.thread_time
    turns = 0

    def next_row() -> Array:
        nonlocal turns
        turns += 1
        return inputs[turns % len(inputs)]

    for _ in range(rounds):
        for engine in engines:
            began = clock()
            one, many = engine.load()
            one(inputs[0])
            engine.seconds["load"].append(clock() - began)
            engine.seconds["one"].append(processor_seconds(lambda one=one: one(next_row()), clock))  # type: ignore[misc]
            engine.seconds["many"].append(processor_seconds(partial(many, inputs), clock))


def rows_of(engines: Sequence[Engine], inputs: Array) -> Iterator[dict[str, Any]]:
    native: dict[str, Engine] = {}
    answers: dict[str, Array] = {}
    for engine in engines:
        own = native.setdefault(engine.model, engine)
        usual, first = (
            {name: statistics.median(taken) for name, taken in each.seconds.items()} for each in (engine, own)
        )
        _, many = engine.load()
        answer = many(inputs)
        yield {
            "model": engine.model,
            "engine": engine.engine,
            "one row us": usual["one"] * 1e6,
            f"{ROWS:,} rows ms": usual["many"] * 1e3,
            "one row, x faster": first["one"] / usual["one"],
            "many rows, x faster": first["many"] / usual["many"],
            "load and first row ms": usual["load"] * 1e3 if engine is not own else None,
            "bytes": engine.size_bytes or None,
            "largest difference": float(np.abs(answer - answers.setdefault(engine.model, answer)).max()),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--train-rows", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of training for each model at most")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    train, validation = make_table(options.train_rows, 0), make_table(options.train_rows // 5, 1)
    inputs = make_table(ROWS, 2).inputs
    all_engines: list[Engine] = []
    for name in options.models:
        family, settings = MODELS[name]
        own = regressors[family]
        if reason := own.missing():
            print(reason, file=sys.stderr)
            continue
        fitted = own.fit(train, validation, {**own.defaults, **settings}, Effort(options.seconds))
        all_engines += engines(name, fitted, inputs.shape[1])
    with one_thread():
        measure(all_engines, inputs, options.rounds)
        reference_us = 1e6 * processor_seconds(reference, time.thread_time)
    rows = list(rows_of(all_engines, inputs))
    about = {
        "training rows": options.train_rows,
        "inputs": inputs.shape[1],
        "rounds": options.rounds,
        "reference us": round(reference_us, 1),
        "treelite": "yes" if is_installed("treelite") else "not installed: pip install treelite",
    }
    write_tables(options.out, "deployed_forms", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
