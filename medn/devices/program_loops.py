"""The loops of a tensor program as they are lowered: what every store runs in, touches and computes.

TVM's own vectors sum a store up. What decides its time is how far each access steps with each loop, and which loops
become vectors or straight code; that is kept here as it is, and `medn.programs.loops` makes numbers of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

KINDS = ("serial", "parallel", "vectorized", "unrolled")
UNROLL = "pragma_auto_unroll_max_step"
OPERATIONS = {
    **{"Add": "add", "Sub": "add", "Mul": "multiply", "Div": "divide", "Max": "compare", "Min": "compare"},
    **{"Select": "select", "LT": "compare", "LE": "compare", "GT": "compare", "GE": "compare", "Call": "call"},
}
SYMBOLS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Div": "//", "Mod": "%"}
JOINED = ("And", "Or", "LT", "LE", "GT", "GE", "EQ", "NE")
CHOICE = "if_then_else"
MOST_STEPS = 4096
"""Of a longer loop, so many of its first steps tell what it touches."""


def stored_nests(module: Any) -> list[dict[str, Any]]:
    """One for each store of the lowered program, in the order in which they stand:

    `loops`     the number, extent and kind of each loop around it, outermost first; nests share loops by number
    `unroll`    how many steps the compiler may write out as straight code
    `branches`  conditions around it
    `accesses`  the store first, then what it loads: the number and the bytes of the buffer, and for each loop how many
                elements its first step moves on, how many different elements all of its steps reach, and how many
                steps are unlike the first
    `operations`  how many of each kind work on floating-point numbers
    """
    function = _lowered(module)["main"]
    walk = _Walk()
    walk.visit(function.body, _Place())
    return walk.nests


def _lowered(module: Any) -> Any:
    """Flat buffers of the size that is used, loops still loops."""
    import tvm
    from tvm import s_tir, tirx

    passes = [
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.StmtSimplify(),
    ]
    return tvm.ir.transform.Sequential(passes)(module)


@dataclass(frozen=True)
class _Place:
    """What is around a statement: its loops with their variables, and what was said about them."""

    loops: tuple[tuple[int, int, int], ...] = ()
    variables: tuple[Any, ...] = ()
    unroll: int = 0
    branches: int = 0


@dataclass
class _Walk:
    nests: list[dict[str, Any]] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    loops: int = 0

    def visit(self, node: Any, place: _Place) -> None:
        name = type(node).__name__
        if name == "BufferStore":
            self.nests.append(self._nest(node, place))
        elif name == "SeqStmt":
            for each in node.seq:
                self.visit(each, place)
        elif name == "For":
            self.loops += 1
            loop = (self.loops, int(node.extent), min(int(node.kind), len(KINDS) - 1))
            inside = replace(place, loops=(*place.loops, loop), variables=(*place.variables, node.loop_var))
            self.visit(node.body, inside)
        elif name == "AttrStmt":
            said = int(node.value) if str(node.attr_key) == UNROLL else place.unroll
            self.visit(node.body, replace(place, unroll=said))
        elif name == "IfThenElse":
            for branch in (node.then_case, node.else_case):
                if branch is not None:
                    self.visit(branch, replace(place, branches=place.branches + 1))
        elif (body := getattr(node, "body", None)) is not None:
            self.visit(body, place)

    def _nest(self, store: Any, place: _Place) -> dict[str, Any]:
        loads: list[Any] = []
        operations: dict[str, int] = {}
        _read(store.value, loads, operations, place.variables[-1:])
        return {
            "loops": [list(loop) for loop in place.loops],
            "unroll": place.unroll,
            "branches": place.branches,
            "accesses": [self._access(each, place) for each in (store, *loads)],
            "operations": operations,
        }

    def _access(self, node: Any, place: _Place) -> list[Any]:
        buffer = node.buffer if type(node).__name__ == "BufferStore" else node.source
        number = next((at for at, known in enumerate(self.buffers) if known.same_as(buffer)), None)
        if number is None:
            number = len(self.buffers)
            self.buffers.append(buffer)
        size = math.prod(int(extent) for extent in buffer.shape) * 4
        index = node.indices[-1]
        code = compile(_python(index, place.variables), "index", "eval")
        steps = [_steps(code, at, place) for at in range(len(place.loops))]
        return [number, size, *(list(each) for each in zip(*steps, strict=True))]


def _steps(code: Any, at: int, place: _Place) -> tuple[int, int, int]:
    """How far the first step of a loop moves an index, how many places all of its steps reach, and how many of them
    are unlike the first."""
    extent = place.loops[at][1]
    values: dict[str, Any] = {f"v{other}": 0 for other in range(len(place.loops))}
    values[f"v{at}"] = np.arange(min(extent, MOST_STEPS))
    found = eval(code, {"__builtins__": {}, "minimum": np.minimum, "maximum": np.maximum}, values)
    if not isinstance(found, np.ndarray) or len(found) < 2:
        return 0, 1, 0
    reached, moved = len(np.unique(found)), np.diff(found)
    more = max(1, extent // MOST_STEPS)
    return int(moved[0]), reached * more, int((moved != moved[0]).sum()) * more


def _read(node: Any, loads: list[Any], operations: dict[str, int], innermost: tuple[Any, ...]) -> None:
    """The loads of a value and its operations, without those that compute where to load from. A choice that changes
    from step to step of the innermost loop counts apart: it breaks a vector up."""
    name = type(node).__name__
    if name == "TensorLoad":
        loads.append(node)
        return
    if "float" in str(getattr(node, "ty", "")) and name in OPERATIONS:
        kind = str(node.op.name).rsplit(".", 1)[-1] if name == "Call" else OPERATIONS[name]
        if kind == CHOICE and "v0" in _python(node.args[0], innermost):
            kind = "inner_choice"
        operations[kind] = operations.get(kind, 0) + 1
    for part in _parts(node):
        _read(part, loads, operations, innermost)


def _parts(node: Any) -> list[Any]:
    if type(node).__name__ == "Call":
        return list(node.args)
    found = (getattr(node, name, None) for name in ("a", "b", "value", "condition", "true_value", "false_value"))
    return [part for part in found if hasattr(part, "ty")]


def _python(node: Any, variables: tuple[Any, ...]) -> str:
    """An index as an expression of Python, its variables by their loops; 0 for what cannot be told before it runs."""
    name = type(node).__name__
    if name == "Var":
        return next((f"v{at}" for at, known in enumerate(variables) if known.same_as(node)), "0")
    if name == "IntImm":
        return str(int(node.value))
    if name in JOINED:
        return f"({_python(node.a, variables)},{_python(node.b, variables)})"
    if name in SYMBOLS:
        return f"({_python(node.a, variables)}{SYMBOLS[name]}{_python(node.b, variables)})"
    if name in ("Min", "Max"):
        return f"{name.lower()}imum({_python(node.a, variables)},{_python(node.b, variables)})"
    return _python(node.value, variables) if name == "Cast" else "0"
