"""Programs as ONNX, for everybody who does not run Python: steps become operators that every onnxruntime has.

A value is a tensor with a row for each row. Numbers are in double precision as far as the program has them so; trees
and networks compute in single.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.program.onnx_bytes import TYPES, Graph
from medn.program.program import CONSTANT, INPUT, Program, ProgramStep
from medn.program.symbols import Untraceable

PLAIN = {
    **{"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "minimum": "Min", "maximum": "Max"},
    **{"log": "Log", "exp": "Exp", "sqrt": "Sqrt", "sin": "Sin", "floor": "Floor", "rint": "Round", "absolute": "Abs"},
}
COMPARISONS = {"less": "Less", "less_equal": "LessOrEqual", "equal": "Equal"}
REDUCTIONS = {"least": "ReduceMin", "most": "ReduceMax"}


class Writer:
    """Writes programs into one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def program(self, program: Program, row: str) -> list[str]:
        """The results of a program, of a tensor with all its inputs."""
        names: list[str] = []
        for step in program.steps:
            if step.operation == INPUT:
                names.append(row)
            elif step.operation == CONSTANT:
                names.append(self.number(step.data[None]))
            else:
                names.append(self._written(step, [names[place] for place in step.arguments]))
        return [names[place] for place in program.outputs]

    def number(self, values: Any) -> str:
        return self.graph.constant(np.asarray(values, dtype=np.float64))

    def cast(self, value: str, type_: str) -> str:
        return self.graph.step("Cast", value, attributes={"to": TYPES[type_]})

    def _written(self, step: ProgramStep, given: list[str]) -> str:
        name = step.operation
        if name in PLAIN:
            return self.graph.step(PLAIN[name], *given)
        if name in COMPARISONS:
            return self.cast(self.graph.step(COMPARISONS[name], *given), "float64")
        if name in REDUCTIONS:
            return self.graph.step(REDUCTIONS[name], *given, attributes={"axes": np.array([1]), "keepdims": 1})
        if name not in OPERATORS:
            raise Untraceable(f"{name} cannot be written as ONNX")
        return OPERATORS[name](self, step.data, *given)

    # What ONNX has no operator of its own for, or another one.

    def floor_divide(self, data: Any, first: str, second: str) -> str:
        return self.graph.step("Floor", self.graph.step("Div", first, second))

    def remainder(self, data: Any, first: str, second: str) -> str:
        return self.graph.step("Sub", first, self.graph.step("Mul", second, self.floor_divide(data, first, second)))

    def log1p(self, data: Any, value: str) -> str:
        """What is lost in adding one comes back by the slope of the logarithm."""
        one = self.number(1.0)
        more = self.graph.step("Add", value, one)
        lost = self.graph.step("Sub", value, self.graph.step("Sub", more, one))
        return self.graph.step("Add", self.graph.step("Log", more), self.graph.step("Div", lost, more))

    def cosine(self, data: Any, value: str) -> str:
        """By the sine, which runtimes have in double precision."""
        return self.graph.step("Sin", self.graph.step("Add", value, self.number(np.pi / 2)))

    def rounded(self, data: Any, value: str) -> str:
        return self.cast(self.cast(value, "float32"), "float64")

    def where(self, data: Any, flag: str, first: str, second: str) -> str:
        return self.graph.step("Where", self.cast(flag, "bool"), first, second)

    def take(self, places: NDArray[Any], value: str) -> str:
        return self.graph.step("Gather", value, self._whole(places), attributes={"axis": 1})

    def join(self, data: Any, *parts: str) -> str:
        """Constants are one row: all parts get as many rows as there are."""
        rows = self.graph.step("Gather", self.graph.step("Shape", self.longest), self._whole([0]))
        size = self.graph.step("Concat", rows, self._whole([1]), attributes={"axis": 0})
        return self.graph.step(
            "Concat", *(self.graph.step("Expand", part, size) for part in parts), attributes={"axis": 1}
        )

    longest = ""
    """A tensor that has all rows."""

    def look_up(self, data: Any, places: str) -> str:
        (table,) = data.arrays
        last = self.number(len(table) - 1)
        flags = [self.graph.step("GreaterOrEqual", places, self.number(0.0))]
        flags.append(self.graph.step("LessOrEqual", places, last))
        known = self.graph.step("Where", self.graph.step("And", *flags), places, last)
        found = self.graph.step("Gather", self.number(table), self.cast(known, "int64"), attributes={"axis": 0})
        return self.graph.step("Reshape", found, self._whole([-1, table.shape[1]]))

    def dense(self, data: Any, values: str) -> str:
        weight, bias = (self.graph.constant(array) for array in data.arrays)
        return self.graph.step("Gemm", values, weight, bias)

    def silu(self, data: Any, values: str) -> str:
        return self.graph.step("Mul", values, self.graph.step("Sigmoid", values))

    def sum(self, data: Any, values: str) -> str:
        return self.graph.step("ReduceSum", values, self._whole([1]), attributes={"keepdims": 1})

    def trees(self, data: Any, inputs: str) -> str:
        """Inputs fit single precision, so they are compared exactly."""
        (form,) = data.arrays
        nodes = form.nodes
        is_leaf, trees = nodes.is_leaf, nodes.tree
        start = form.roots[trees]
        places = np.arange(len(is_leaf)) - start
        attributes: dict[str, Any] = {
            "n_targets": 1,
            "nodes_treeids": trees,
            "nodes_nodeids": places,
            "nodes_featureids": np.maximum(form.feature, 0),
            "nodes_modes": [b"LEAF" if leaf else b"BRANCH_LEQ" for leaf in is_leaf.tolist()],
            "nodes_values": np.where(is_leaf, np.float32(0), form.number),
            "nodes_truenodeids": np.where(is_leaf, 0, places + 1),
            "nodes_falsenodeids": np.where(is_leaf, 0, nodes.right_place - start),
            "target_treeids": trees[is_leaf],
            "target_nodeids": places[is_leaf],
            "target_ids": np.zeros(int(is_leaf.sum()), dtype=np.int64),
            "target_weights": form.number[is_leaf],
        }
        single = self.cast(inputs, "float32")
        found = self.graph.step("TreeEnsembleRegressor", single, domain="ai.onnx.ml", attributes=attributes)
        return self.cast(found, "float64")

    def oblivious_trees(self, data: Any, inputs: str) -> str:
        """The answers of all levels are the bits of a leaf's number."""
        (form,) = data.arrays
        trees, levels = form.feature.shape
        asked = self.take(form.feature.ravel(), inputs)
        above = self.cast(self.graph.step("Greater", asked, self.number(form.border.ravel())), "float64")
        bits = self.graph.step("Reshape", above, self._whole([-1, trees, levels]))
        numbers = self.graph.step("Mul", bits, self.number(2.0 ** np.arange(levels)))
        number = self.graph.step("ReduceSum", numbers, self._whole([2]), attributes={"keepdims": 0})
        places = self.graph.step("Add", number, self.number(np.arange(trees) * 2.0**levels))
        return self.sum(data, self.graph.step("Gather", self.number(form.leaves.ravel()), self.cast(places, "int64")))

    def _squares(self, points: Any, values: str) -> str:
        """Squared distances to points."""
        own = self.sum(None, self.graph.step("Mul", values, values))
        squares = self.number((points.transposed**2).sum(axis=0))
        both = self.graph.step("Gemm", values, self.number(-2.0 * points.transposed), squares)
        return self.graph.step("Max", self.graph.step("Add", both, own), self.number(0.0))

    def kernel(self, data: Any, values: str) -> str:
        points, _, weights, gamma, shape = data.arrays
        scaled = self.graph.step("Mul", self._squares(points, values), self.number(gamma))
        if shape == "gaussian":
            bells = self.graph.step("Exp", self.graph.step("Neg", scaled))
        else:  # Matern 5/2
            distance = self.graph.step("Sqrt", self.graph.step("Mul", scaled, self.number(5.0)))
            third = self.graph.step("Add", self.graph.step("Div", distance, self.number(3.0)), self.number(1.0))
            factor = self.graph.step("Add", self.graph.step("Mul", distance, third), self.number(1.0))
            bells = self.graph.step("Mul", factor, self.graph.step("Exp", self.graph.step("Neg", distance)))
        return self.graph.step("MatMul", bells, self.number(np.asarray(weights)[:, None]))

    def nearest(self, data: Any, values: str) -> str:
        points, _, known, neighbours, power = data.arrays
        count = min(int(neighbours), len(known))
        attributes = {"axis": 1, "largest": 0, "sorted": 1}
        squares = self._squares(points, values)
        near, places = self.graph.steps("TopK", squares, self._whole([count]), attributes=attributes, results=2)
        distance = self.graph.step("Add", self.graph.step("Sqrt", near), self.number(1e-6))
        weights = self.graph.step("Pow", distance, self.number(-float(power)))
        own = self.graph.step("Gather", self.number(known), places)
        weighted = self.sum(None, self.graph.step("Mul", weights, own))
        return self.graph.step("Div", weighted, self.sum(None, weights))

    def _whole(self, numbers: Any) -> str:
        return self.graph.constant(np.asarray(numbers, dtype=np.int64))


OPERATORS: dict[str, Callable[..., str]] = {
    "floor_divide": Writer.floor_divide,
    "remainder": Writer.remainder,
    "log1p": Writer.log1p,
    "cos": Writer.cosine,
    "rounded": Writer.rounded,
    "where": Writer.where,
    "take": Writer.take,
    "join": Writer.join,
    "look_up": Writer.look_up,
    "dense": Writer.dense,
    "silu": Writer.silu,
    "sum": Writer.sum,
    "trees": Writer.trees,
    "oblivious_trees": Writer.oblivious_trees,
    "kernel": Writer.kernel,
    "nearest": Writer.nearest,
    "single": lambda writer, data, value: writer.cast(value, "float32"),
    "double": lambda writer, data, value: writer.cast(value, "float64"),
}


class Model:
    """A graph of programs, from columns that have names to columns that have names."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.writer = Writer(self.graph)

    def numbers(self, name: str) -> str:
        """A column of numbers."""
        return self._column(self.graph.input(name, "float64", ["rows"]))

    def strings(self, name: str, codes: dict[str, int]) -> str:
        """A column of strings, each as its number; -1 for one that is not known."""
        attributes: dict[str, Any] = {
            "keys_strings": [text.encode() for text in codes],
            "values_int64s": np.array(list(codes.values()), dtype=np.int64),
            "default_int64": -1,
        }
        given = self.graph.input(name, "string", ["rows"])
        found = self.graph.step("LabelEncoder", given, domain="ai.onnx.ml", attributes=attributes)
        return self._column(self.writer.cast(found, "float64"))

    def _column(self, given: str) -> str:
        column = self.graph.step("Unsqueeze", given, self.graph.constant(np.array([1])))
        self.writer.longest = self.writer.longest or column
        return column

    def row(self, columns: Sequence[str]) -> str:
        return self.graph.step("Concat", *columns, attributes={"axis": 1})

    def result(self, name: str, value: str, type_: str = "float64") -> None:
        """A column that comes out."""
        rows = self.graph.step("Shape", self.writer.longest)
        whole = self.graph.step("Squeeze", self.graph.step("Expand", value, rows), self.graph.constant(np.array([1])))
        self.graph.output(name, self.writer.cast(whole, type_), type_, ["rows"])
