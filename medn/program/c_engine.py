"""Programs run by the C engine, where it was built: one row in a few microseconds, and many without Python's lock.

The engine is an extension that a machine without a compiler does without. A program is handed to it as numbers, which
it copies and checks; nothing is compiled for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.program.program import CONSTANT, Program, ProgramStep
from medn.program.symbols import Untraceable

_engine: Any = None
with suppress(ImportError):  # not built, or for another Python
    _engine = import_module("medn.program._engine")

VERSION = 4
"""What the extension is asked for; one that was left by another version of medn is not used."""

Array = NDArray[np.float64]

OPERATIONS = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "minimum", "maximum"),
    *("less", "less_equal", "equal"),
    *("log", "log1p", "exp", "sqrt", "sin", "cos", "floor", "rint", "absolute", "rounded", "sum", "least", "most"),
    *("where", "copy", "take", "look_up", "single", "double", "add_single", "silu", "dense_single", "dense_double"),
    *("trees", "bit_trees", "oblivious_trees", "kernel", "nearest"),
)
"""In the order of engine.c."""

CODES = {name: code for code, name in enumerate(OPERATIONS)}
TAKES_CONSTANTS = {*OPERATIONS[:11], "where", "copy"}

NODE = np.dtype([("threshold", "f4"), ("feature", "i4"), ("right", "i4"), ("value", "f4")])

MOST_NEIGHBOURS = 256
MOST_FEATURES = 512
TILE = 6
POINTS = 32
FIELDS_OF_A_STEP = 12
"""As engine.c has them."""


def is_built() -> bool:
    return not why_missing()


def why_missing() -> str:
    """Why there is no C engine here; nothing where there is."""
    if _engine is None:
        return "the C engine was not built"
    if getattr(_engine, "VERSION", None) != VERSION:
        return "the C engine was built for another version of medn; install medn again to build it"
    return ""


def slots_of(width: int, single: bool) -> int:
    """How many places for double precision a value takes."""
    return (width + 1) // 2 if single else width


class Slots:
    """Which places are free while a program runs; the first ones hold its inputs."""

    def __init__(self, inputs: int) -> None:
        self.size = max(1, inputs)
        self._free: list[tuple[int, int]] = []

    def take(self, slots: int) -> int:
        for index, (start, length) in enumerate(self._free):
            if length >= slots:
                self._free[index : index + 1] = [(start + slots, length - slots)] if length > slots else []
                return start
        self.size += slots
        return self.size - slots

    def give_back(self, start: int, slots: int) -> None:
        merged: list[tuple[int, int]] = []
        for begin, length in sorted([*self._free, (start, slots)]):
            if merged and merged[-1][0] + merged[-1][1] == begin:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((begin, length))
        self._free = merged


class Packing:
    """A program as the numbers that the engine takes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.memory = Slots(program.inputs)
        self.code: list[tuple[int, ...]] = []
        self.constants: list[float] = []
        self.tables: list[NDArray[Any]] = []
        self._places: dict[int, int] = {0: 0}
        self._known_tables: dict[tuple[Any, ...], int] = {}
        last = dict.fromkeys(range(len(program.steps)), -1)
        for place, step in enumerate(program.steps):
            for argument in (*step.arguments, *([step.condition.flag] if step.condition else [])):
                last[argument] = place
        kept = {0, *program.outputs}
        for place, step in enumerate(program.steps[1:], 1):
            self._pack(place, step)
            for argument in {*step.arguments, *([step.condition.flag] if step.condition else [])}:
                used = program.steps[argument]
                if last[argument] == place and argument not in kept and used.operation != CONSTANT:
                    self.memory.give_back(self._places[argument], slots_of(used.width, used.single))

    @property
    def outputs(self) -> NDArray[np.int64]:
        """The place of every number that comes out."""
        found: list[int] = []
        for place in self.program.outputs:
            start = self._register(place)
            found += range(start, start + self.program.steps[place].width)
        return np.array(found, dtype=np.int64)

    def _register(self, place: int) -> int:
        """Where a value is in memory; a constant is copied there."""
        start = self._places[place]
        if start >= 0:
            return start
        step = self.program.steps[place]
        copy = self.memory.take(step.width)
        self._emit("copy", copy, step.width, [(start, step.width)])
        return copy

    def _emit(
        self,
        name: str,
        out: int,
        width: int,
        values: list[tuple[int, int]],
        table: int = -1,
        step: ProgramStep | None = None,
    ) -> None:
        flag, truth = -1, 0
        if step is not None and step.condition:
            flag, truth = self._places[step.condition.flag], int(step.condition.truth)
        fields = [number for value in (*values, *[(0, 1)] * (3 - len(values))) for number in value]
        self.code.append((CODES[name], flag, truth, out, width, *fields, table))

    def _pack(self, place: int, step: ProgramStep) -> None:
        if step.operation == CONSTANT:
            if step.single:
                raise Untraceable("constants are in double precision")
            self._places[place] = -1 - len(self.constants)
            self.constants += step.data.tolist()
            return
        out = self._places[place] = self.memory.take(slots_of(step.width, step.single))
        steps = self.program.steps
        if step.operation == "join":
            for argument in step.arguments:
                width = steps[argument].width
                self._emit("copy", out, width, [(self._places[argument], width)], step=step)
                out += width
            return
        name = step.operation
        if name == "dense":
            name = "dense_single" if step.single else "dense_double"
        elif name == "add" and step.single:
            name = "add_single"
        elif name == "trees" and is_quick(step.data.arrays[0].bits):
            name = "bit_trees"
        find = self._places.__getitem__ if name in TAKES_CONSTANTS else self._register
        values = [(find(argument), steps[argument].width) for argument in step.arguments]
        table = -1
        if name in TABLES:
            table = self._table(name, step.data)
        elif name not in CODES:
            raise Untraceable(f"the C engine does not know {name}")
        self._emit(name, out, step.width, values, table, step)

    def _table(self, name: str, data: Any) -> int:
        """Where the arrays of a step are; those of a form that stands in several places are there once."""
        key = (name, *map(id, getattr(data, "arrays", [data])))
        if key not in self._known_tables:
            self._known_tables[key] = len(self.tables)
            self.tables += [np.ascontiguousarray(each) for each in TABLES[name](data)]
        return self._known_tables[key]


def _trees(data: Any) -> tuple[NDArray[Any], ...]:
    (trees,) = data.arrays
    return trees.node_table, trees.roots.astype(np.int32, copy=False)


def node_table(feature: Any, number: Any, right_place: Any) -> NDArray[Any]:
    """Nodes as the engine walks them; a leaf asks for NaN, which no number is below, and leads to itself."""
    is_leaf = feature < 0
    found = np.empty(len(feature), dtype=NODE)
    found["threshold"] = np.where(is_leaf, np.nan, number)
    found["feature"] = np.maximum(feature, 0)
    found["right"] = right_place
    found["value"] = np.where(is_leaf, number, 0.0)
    return found


def is_quick(bits: Any) -> bool:
    """Whether trees come as tables of bits that the engine takes."""
    return bits is not None and 0 < len(bits.thresholds.of_feature) <= MOST_FEATURES


def _bit_trees(data: Any) -> tuple[NDArray[Any], ...]:
    """Features with where their thresholds begin and how many there are, thresholds, words, leaves and sizes.

    Rows of words are filled up to 32 bytes, which the engine reads at a time; what is filled up has no leaf.
    """
    bits = data.arrays[0].bits
    counts = [len(values) for values in bits.thresholds.of_feature.values()]
    starts = np.cumsum(counts) - counts
    features = np.column_stack([list(bits.thresholds.of_feature), starts, counts]).astype(np.int32)
    thresholds = np.concatenate(list(bits.thresholds.of_feature.values())).astype(np.float32)
    words = bits.table.view(np.uint8).reshape(len(bits.table), -1)
    stride = -(-words.shape[1] // 32) * 32
    filled = np.zeros((len(words), stride), dtype=np.uint8)
    filled[:, : words.shape[1]] = words
    values = np.zeros(stride * 8, dtype=np.float32)
    values[: bits.leaves.size] = bits.leaves
    return features, thresholds, filled, values, np.array([bits.table.itemsize, stride], dtype=np.int64)


def _dense_single(data: Any) -> tuple[NDArray[Any], ...]:
    """Weights, bias, and the weights once more for blocks of rows: tiles of a few columns, filled up with zeros."""
    weight, bias = data.arrays
    inner, columns = weight.shape
    tiles = np.zeros((inner, -(-columns // TILE) * TILE), dtype=np.float32)
    tiles[:, :columns] = weight
    return weight, bias, np.ascontiguousarray(tiles.reshape(inner, -1, TILE).transpose(1, 0, 2))


def _oblivious_trees(data: Any) -> tuple[NDArray[Any], ...]:
    (trees,) = data.arrays
    levels = np.array([trees.feature.shape[1]], dtype=np.int64)
    return trees.feature.astype(np.int32), trees.border.astype(np.float32), trees.leaves.astype(np.float32), levels


def _kernel(data: Any) -> tuple[NDArray[Any], ...]:
    """Points in tiles, number by number, their squares, weights and facts.

    A squared distance is |x|^2 + |p|^2 - 2 x p: the -2, and what the kernel multiplies squares by, are multiplied in.
    """
    points, _, weights, gamma, shape = data.arrays
    factor = float(gamma) if shape == "gaussian" else 5.0 * float(gamma)
    inner, count = points.transposed.shape
    filled = np.zeros((inner, max(1, -(-count // POINTS)) * POINTS))
    filled[:, :count] = points.transposed
    tiles = (-2.0 * factor * filled).reshape(inner, -1, POINTS).transpose(1, 0, 2)
    own = np.zeros(filled.shape[1])
    own[:count] = weights
    return tiles, factor * (filled**2).sum(axis=0), own, np.array([factor, 0.0 if shape == "gaussian" else 1.0])


def _nearest(data: Any) -> tuple[NDArray[Any], ...]:
    points, _, values, neighbours, power = data.arrays
    if min(neighbours, len(values)) > MOST_NEIGHBOURS:
        raise Untraceable(f"the C engine holds {MOST_NEIGHBOURS} neighbours")
    return points.transposed, np.asarray(values, dtype=np.float64), np.array([float(neighbours), float(power)])


TABLES: dict[str, Callable[[Any], tuple[NDArray[Any], ...]]] = {
    "take": lambda places: (places,),
    "look_up": lambda data: data.arrays,
    "dense_single": _dense_single,
    "dense_double": lambda data: data.arrays,
    "trees": _trees,
    "bit_trees": _bit_trees,
    "oblivious_trees": _oblivious_trees,
    "kernel": _kernel,
    "nearest": _nearest,
}
"""The arrays of each operation that has some, as the engine reads them."""


class CMachine:
    """A program, ready to be run."""

    engine = "C"

    def __init__(self, program: Program) -> None:
        packed = Packing(program)
        outputs = packed.outputs
        code = np.array(packed.code, dtype=np.int64).reshape(len(packed.code), FIELDS_OF_A_STEP)
        constants = np.array(packed.constants, dtype=np.float64)
        tables = tuple(packed.tables)
        self.machine = _engine.Machine(program.inputs, packed.memory.size, code, constants, tables, outputs)
        self._width = len(outputs)

    def run(self, columns: Array) -> Array:
        """One row of numbers for each output, of columns that are one row for each input."""
        found = np.empty((self._width, columns.shape[1]))
        self.machine.run(np.ascontiguousarray(columns, dtype=np.float64), found)
        return found


def tree_levels(feature: NDArray[Any], right: NDArray[Any], roots: NDArray[Any]) -> int | None:
    """How deep trees are whose nodes were saved in preorder, 0 where they were not; None where nobody knows it in C."""
    if not is_built():
        return None
    arrays = zip((feature, right, roots), (np.int16, np.int32, np.int32), strict=True)
    levels: int = _engine.tree_levels(*(np.ascontiguousarray(each, dtype) for each, dtype in arrays))
    return levels


def c_query(*parts: Any) -> Any:
    """What reads a query and answers it without Python; the parts are those that engine.c names."""
    return _engine.Query(*parts)


def predict_rows(*parts: Any) -> int | str | None:
    """Answers for rows that are dicts, written into arrays; parts and result are those that engine.c names."""
    found: int | str | None = _engine.predict_rows(*parts)
    return found
