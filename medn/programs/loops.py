"""The nests of a program as numbers that stand for time: what is computed, loaded and fetched from where.

Every store runs in a nest of loops. Three things are told of it: how much its parts would cost at a rate each, the
components, which add up over nests; what the code inside its innermost loops is like; and those loops themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array

SERIAL, PARALLEL, VECTORIZED, UNROLLED = range(4)
LINE = 16
"""Numbers in a line of a cache."""
WIDTHS = (4, 8)
"""Numbers in a vector register: of every x86-64 processor, and with AVX."""
CACHES = (2**12, 2**15, 2**18, 2**20, 2**22, 2**25)
"""Bytes of caches that there are, and some between: what is fetched into each of them is told."""
DEAR = {"exp": 10.0, "divide": 4.0, "sqrt": 6.0, "rsqrt": 8.0, "tanh": 15.0, "erf": 15.0, "pow": 20.0, "log": 10.0}
"""What operations take that take longer than an addition, about."""
REGISTERS = 14
"""Vectors that a processor holds at once, about."""
CHOICES = ("if_then_else", "inner_choice", "select")
MOST_STRAIGHT = 8
"""Loops deep that a compiler writes out."""
TOLD_LOOPS = 6
TOLD_LOADS = 2

Record = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Access:
    """What a store or a load touches."""

    buffer: int
    size: int
    steps: Sequence[int]
    reached: Sequence[int]
    jumps: Sequence[int]

    def touched(self, inner: int) -> tuple[float, float]:
        """Different numbers, and lines of a cache, that the innermost so many loops touch.

        Places that loops reach are runs of equal steps in runs of longer ones; a loop that steps by what another one
        does makes its run longer, as the rows of a window overlap.
        """
        runs: list[list[float]] = []
        moving = sorted(
            (float(abs(step)), float(reached))
            for step, reached in zip(
                self.steps[len(self.steps) - inner :], self.reached[len(self.reached) - inner :], strict=True
            )
            if reached > 1
        )
        for step, reached in moving:
            if runs and step and step < runs[-1][0] * runs[-1][1] and step % runs[-1][0] == 0:
                runs[-1][1] += step / runs[-1][0] * (reached - 1)
            else:
                runs.append([max(step, 1.0), reached])
        numbers = math.prod(count for _, count in runs)
        lines = 1.0
        for step, count in runs:
            lines *= max(1.0, math.ceil(step * (count - 1) / LINE + 0.5)) if step < LINE else count
        most = self.size / 4
        return min(numbers, most), min(lines, max(1.0, most / LINE))


@dataclass(frozen=True, eq=False)
class Nest:
    """A store with the loops around it, outermost first."""

    extents: tuple[int, ...]
    kinds: tuple[int, ...]
    unroll: int
    branches: int
    accesses: tuple[Access, ...]
    operations: Mapping[str, int]

    @classmethod
    def from_record(cls, record: Record) -> Nest:
        """Without loops that a compiler runs once: those that move nothing around code that is straight already."""
        accesses = [(*access, [], [], [])[:5] for access in record["accesses"]]
        moving = _run_again(record, accesses)
        return cls(
            tuple(int(record["loops"][at][1]) for at in moving),
            tuple(int(record["loops"][at][2]) for at in moving),
            int(record["unroll"]),
            int(record["branches"]),
            tuple(
                Access(number, size, *([each[at] for at in moving] for each in told))
                for number, size, *told in accesses
            ),
            record["operations"],
        )

    @property
    def store(self) -> Access:
        return self.accesses[0]

    @cached_property
    def loads(self) -> tuple[Access, ...]:
        """Without that of what is stored: it is there already."""
        own = self.store
        return tuple(each for each in self.accesses[1:] if (each.buffer, each.steps) != (own.buffer, own.steps))

    @cached_property
    def runs(self) -> float:
        return float(math.prod(self.extents))

    def inside(self, inner: int) -> float:
        """How often the innermost so many loops run their body."""
        return float(math.prod(self.extents[len(self.extents) - inner :]))

    @cached_property
    def lanes(self) -> int:
        """Of the vectors that the schedule asks for; 1 where it asks for none, or where a choice breaks them up."""
        asked = bool(self.kinds) and self.kinds[-1] == VECTORIZED and "inner_choice" not in self.operations
        return self.extents[-1] if asked else 1

    @cached_property
    def straight(self) -> int:
        """How many of the innermost loops are written out, vectors among them."""
        depth, steps = (1, 1) if self.kinds and self.kinds[-1] == VECTORIZED else (0, 1)
        while depth < min(len(self.extents), MOST_STRAIGHT):
            extent, kind = self.extents[-1 - depth], self.kinds[-1 - depth]
            if kind not in (SERIAL, UNROLLED) or (kind == SERIAL and steps * extent > self.unroll):
                break
            steps *= extent
            depth += 1
        return depth

    @cached_property
    def work(self) -> float:
        """Of one run of the body, as additions."""
        return sum(count * DEAR.get(name, 1.0) for name, count in self.operations.items() if name not in CHOICES)

    def is_smooth(self, loop: int) -> bool:
        """Whether a loop, counted from the innermost, stores number after number from neighbours or from one place."""
        return self.store.steps[-1 - loop] == 1 and all(each.steps[-1 - loop] in (0, 1) for each in self.loads)


def _run_again(record: Record, accesses: Sequence[Sequence[Any]]) -> list[int]:
    """The loops that count, outermost first. What moves nothing is taken out of straight code, but no loop is taken out
    of a loop."""
    kept, steps, is_straight = list[int](), 1, True
    for at in reversed(range(len(record["loops"]))):
        _, extent, kind = record["loops"][at]
        if is_straight and all(access[3][at] <= 1 for access in accesses):
            continue
        kept.append(at)
        steps *= 1 if kind == VECTORIZED else extent
        is_straight = is_straight and kind != PARALLEL and (kind in (VECTORIZED, UNROLLED) or steps <= record["unroll"])
    return kept[::-1]


COMPONENTS = (
    *(f"arithmetic_{width}" for width in WIDTHS),
    *(f"loaded_{width}" for width in WIDTHS),
    *(f"stored_{width}" for width in WIDTHS),
    *(f"spilled_{width}" for width in WIDTHS),
    *("scalar_arithmetic", "scattered", "ragged", "choices", "loops", "waits", "lines"),
    *(f"fetched_{cache}" for cache in CACHES),
    "nests",
)


def components(nest: Nest) -> list[float]:
    """What adds up over nests, in the order of `COMPONENTS`: counts of instructions and of lines."""
    inside, outer = nest.inside(nest.straight), nest.runs / nest.inside(nest.straight)
    share = {width: pieces(nest.lanes, width) / nest.lanes for width in WIDTHS}
    smooth = [nest.lanes > 1 and each.steps[-1] == 1 for each in nest.loads]
    still = [nest.lanes > 1 and each.steps[-1] == 0 for each in nest.loads]
    loaded = [each.touched(nest.straight)[0] * outer for each in nest.loads]
    sums = nest.store.touched(nest.straight)[0]
    is_flat = nest.lanes > 1 and nest.store.steps[-1] == 1
    stored = {width: sums * (share[width] if is_flat else 1.0) for width in WIDTHS}
    flushes = _flushes(nest)
    found = [max(nest.work, 0.25) * nest.runs * share[width] for width in WIDTHS]
    found += [
        sum(number * (share[width] if flat else 1.0) for number, flat in zip(loaded, smooth, strict=True))
        for width in WIDTHS
    ]
    found += [stored[width] * flushes for width in WIDTHS]
    found += [stored[width] * outer if stored[width] > REGISTERS else 0.0 for width in WIDTHS]
    scattered = sum(
        number for number, flat, one in zip(loaded, smooth, still, strict=True) if nest.lanes > 1 and not (flat or one)
    ) + (sums * flushes if nest.lanes > 1 and not is_flat else 0.0)
    ragged = stored[WIDTHS[0]] * flushes if nest.lanes % WIDTHS[0] and nest.lanes > 1 and inside else 0.0
    choices = nest.runs * sum(nest.operations.get(name, 0) for name in CHOICES) + nest.runs / nest.lanes * nest.branches
    found += [nest.runs * nest.work if nest.lanes == 1 else 0.0, scattered, ragged, choices, outer, _waits(nest)]
    return [*found, nest.store.touched(len(nest.extents))[1], *_fetched(nest), 1.0]


def pieces(lanes: int, width: int) -> int:
    """Instructions for a vector of so many numbers: whole registers, then halves of what is left."""
    return lanes // width + (lanes % width).bit_count()


def _flushes(nest: Nest) -> float:
    """How often what the straight code stores goes to memory: it stays in registers over a loop that reduces."""
    outer = nest.runs / nest.inside(nest.straight)
    around = len(nest.extents) - nest.straight - 1
    return (
        outer / nest.extents[around]
        if around >= 0 and nest.store.steps[around] == 0 and nest.kinds[around] == SERIAL
        else outer
    )


def _waits(nest: Nest) -> float:
    """Operations one after the other, each waiting for the one before, where few sums are under way at once."""
    sums = nest.store.touched(nest.straight)[0] / nest.lanes
    reduced = nest.inside(nest.straight) / max(1.0, nest.store.touched(nest.straight)[0])
    return (
        nest.runs / nest.inside(nest.straight) * reduced * max(1.0, 8.0 / max(sums, 1.0))
        if len(nest.accesses) > 1
        else 0.0
    )


def _fetched(nest: Nest) -> Iterator[float]:
    """Lines that come into caches of each size: what the most loops touch that fit, as often as they run."""
    different = {(each.buffer, tuple(each.steps)): each for each in nest.accesses}.values()
    depth = len(nest.extents)
    lines = [sum(each.touched(inner)[1] for each in different) for inner in range(depth + 1)]
    for cache in CACHES:
        inner = max((inner for inner in range(depth + 1) if lines[inner] * LINE * 4 <= cache), default=0)
        if inner == depth:
            yield lines[depth]
            continue
        times = nest.runs / nest.inside(inner + 1)
        around = depth - inner - 1
        yield times * sum(
            each.touched(inner)[1] * (nest.extents[around] if each.reached[around] > 1 else 1) for each in different
        )


def described(nest: Nest) -> list[float]:
    """What the innermost loops are like: their body, and each of them."""
    return [*_body(nest), *(number for loop in range(TOLD_LOOPS) for number in _loop(nest, loop))]


def _body(nest: Nest) -> Iterator[float]:
    around = min(nest.straight + 1, len(nest.extents))
    for inner in (nest.straight, around):
        inside = nest.inside(inner)
        stored = nest.store.touched(inner)[0]
        yield from (_log(inside), _log(stored / nest.lanes), _log(inside / max(stored, 1.0)))
        loads = [each.touched(inner)[0] for each in nest.loads[:TOLD_LOADS]]
        yield from (_log(number) - _log(inside) for number in (loads + [0.0] * TOLD_LOADS)[:TOLD_LOADS])
    smooth = [loop for loop in range(nest.straight) if nest.is_smooth(loop)]
    yield _log(math.prod(nest.extents[-1 - loop] for loop in smooth))
    yield float(around > nest.straight and nest.is_smooth(nest.straight))
    yield from (float(nest.lanes % width == 0) for width in WIDTHS)
    yield float(nest.lanes & (nest.lanes - 1) == 0)
    yield from (
        float(nest.straight),
        float(nest.lanes),
        _log(nest.work),
        float(len(nest.loads)),
        float(nest.unroll > 0),
    )


def _loop(nest: Nest, loop: int) -> list[float]:
    if loop >= len(nest.extents):
        return [0.0] * (4 + 3 * (1 + TOLD_LOADS))
    own = nest.accesses[0], *nest.loads[:TOLD_LOADS]
    told = [_log(nest.extents[-1 - loop]), float(nest.kinds[-1 - loop] == VECTORIZED), float(loop < nest.straight)]
    told.append(float(nest.kinds[-1 - loop] == PARALLEL))
    for at in range(1 + TOLD_LOADS):
        step = abs(own[at].steps[-1 - loop]) if at < len(own) else 0
        told += [float(step == 0), float(step == 1), _log(step)]
    return told


def _log(number: float) -> float:
    return math.log2(1.0 + number)


DESCRIBED = 20 + TOLD_LOOPS * (4 + 3 * (1 + TOLD_LOADS))
NEST_SIZE = len(COMPONENTS) + DESCRIBED
"""Numbers of a nest: the logarithms of its components, then what its innermost loops are like."""


def nest_vectors(nests: Sequence[Nest]) -> NDArray[np.float32]:
    """A row for each nest."""
    rows = [[*map(_log, components(nest)), *described(nest)] for nest in nests]
    return np.array(rows, dtype=np.float32).reshape(-1, NEST_SIZE)


def amounts(vectors: NDArray[Any]) -> Array:
    """The components themselves of rows of nests."""
    return np.exp2(vectors[..., : len(COMPONENTS)].astype(np.float64)) - 1.0
