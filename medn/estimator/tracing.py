"""Formulas written down while they run once: what a kind computes for one layer, as straight lines of arithmetic.

A formula is called with symbols in the place of numbers. Each symbol carries the number of an example layer and a name;
arithmetic on symbols gives the next symbol and leaves a line behind. Where the formula decides something, the symbol
answers for the example and leaves a guard: the lines hold for every layer that passes the same guards.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Compute = Callable[..., Any]

SIGNS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", operator.add),
    "sub": ("-", operator.sub),
    "mul": ("*", operator.mul),
    "truediv": ("/", operator.truediv),
    "floordiv": ("//", operator.floordiv),
    "mod": ("%", operator.mod),
    "pow": ("**", operator.pow),
    "lt": ("<", operator.lt),
    "le": ("<=", operator.le),
    "gt": (">", operator.gt),
    "ge": (">=", operator.ge),
    "eq": ("==", operator.eq),
    "ne": ("!=", operator.ne),
}
NOTHING_DONE = {"+": 0, "-": 0, "*": 1, "//": 1}
"""What each sign leaves a number as it is with; none of them changes the type of a whole number."""

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class Tape:
    """The lines of one run, each expression once."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        """The name of each expression, in the order of the run."""
        self.guards: list[tuple[str, bool]] = []
        """The names that were asked whether they are true, and the answer."""

    def argument(self, value: float) -> Symbol:
        name = f"a{len(self.lines)}"
        self.lines[name] = name
        return Symbol(self, name, value)

    def note(self, expression: str, value: Any) -> Symbol:
        name = self.lines.setdefault(expression, f"v{len(self.lines)}")
        return Symbol(self, name, value)

    def body(self, wanted: Iterable[str]) -> list[str]:
        """The lines that the wanted names need, ready to stand in a function."""
        needed = set(wanted)
        kept = []
        for expression, name in reversed(self.lines.items()):
            if name in needed and expression != name:
                needed |= set(expression.split())
                kept.append(f"{name} = {expression}")
        return kept[::-1]


class Symbol:
    """A number of the example that remembers where it comes from. It has no hash and is no index: only arithmetic."""

    __slots__ = ("name", "tape", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tape: Tape, name: str, value: Any) -> None:
        self.tape = tape
        self.name = name
        self.value = value

    def __bool__(self) -> bool:
        truth = bool(self.value)
        self.tape.guards.append((self.name, truth))
        return truth

    def __neg__(self) -> Symbol:
        return self.tape.note(f"- {self.name}", -self.value)


def written(operand: Any) -> str:
    """A symbol's name, or a plain number as a program writes it."""
    if isinstance(operand, Symbol):
        return operand.name
    if not isinstance(operand, (bool, int, float)):
        raise TypeError(f"{type(operand).__name__} cannot be traced")
    return f"( {operand!r} )"


def _forward(sign: str, function: Callable[[Any, Any], Any]) -> Callable[[Symbol, Any], Any]:
    def method(self: Symbol, other: Any) -> Any:
        if sign in NOTHING_DONE and not isinstance(other, Symbol) and other == NOTHING_DONE[sign]:
            return self
        if sign == "*" and not isinstance(other, Symbol) and other == 0:
            return 0
        value = other.value if isinstance(other, Symbol) else other
        return self.tape.note(f"{self.name} {sign} {written(other)}", function(self.value, value))

    return method


def _backward(sign: str, function: Callable[[Any, Any], Any]) -> Callable[[Symbol, Any], Any]:
    forward = _forward(sign, function)

    def method(self: Symbol, other: Any) -> Any:
        if sign in "+*":
            return forward(self, other)
        return self.tape.note(f"{written(other)} {sign} {self.name}", function(other, self.value))

    return method


for _name, (_sign, _function) in SIGNS.items():
    setattr(Symbol, f"__{_name}__", _forward(_sign, _function))
    if _name not in COMPARISONS:
        setattr(Symbol, f"__r{_name}__", _backward(_sign, _function))


def compiled(arguments: Iterable[str], body: Iterable[str], constants: Mapping[str, Any] | None = None) -> Compute:
    """The function of these lines. They are made of names and numbers of our own formulas alone: what a file holds
    comes in through `constants`, as values."""
    lines = [f"def compute({', '.join(arguments)}):", *(f"    {line}" for line in body)]
    namespace: dict[str, Any] = dict(constants or {})
    exec("\n".join(lines), namespace)  # the source is made above, of nothing from outside
    compute: Compute = namespace["compute"]
    return compute
