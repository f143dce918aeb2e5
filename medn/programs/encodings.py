"""Programs as rows of numbers, in the ways that families read them.

Every row begins with the same head: the number of the device among those that a predictor knows (-1 for any other), and
the logarithms of the layer's time at a fixed speed, of its operations and of its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.core.table import Array
from medn.programs.loops import NEST_SIZE
from medn.programs.programs import LEAF_SIZE, TensorProgram
from medn.programs.steps import STEP_SIZE, step_vectors

HEAD = 4
DEVICE, WORK = 0, 1
"""Where the device and the work stand in the head."""
OPERATIONS = slice(0, 7)
"""Of a leaf: its floating-point operations, by kind."""

Devices = Sequence[str]


def head_rows(programs: Sequence[TensorProgram], devices: Devices) -> Array:
    known = {name: number for number, name in enumerate(devices)}
    return np.array([[known.get(program.device, -1), *_sizes(program)] for program in programs]).reshape(-1, HEAD)


def _sizes(program: TensorProgram) -> tuple[float, float, float]:
    return math.log(program.work_s), math.log1p(program.flops), math.log1p(program.moved_bytes)


def leaf_rows(programs: Sequence[TensorProgram], devices: Devices) -> Array:
    """One token for each stored buffer, with its pre-order place in the tree of loops and stores."""
    return _sequences(
        programs, devices, [program.leaves for program in programs], [each.positions for each in programs]
    )


def nest_rows(programs: Sequence[TensorProgram], devices: Devices) -> Array:
    """One token for each store with the loops around it, in the order in which they stand."""
    return _sequences(
        programs,
        devices,
        [program.nests for program in programs],
        [np.arange(len(program.nests)) for program in programs],
    )


def step_rows(programs: Sequence[TensorProgram], devices: Devices) -> Array:
    """One token for each step of the schedule, in their order."""
    steps = [step_vectors(program.trace) for program in programs]
    return _sequences(programs, devices, steps, [np.arange(len(each)) for each in steps])


def pooled_rows(programs: Sequence[TensorProgram], devices: Devices) -> Array:
    """For trees: the work itself, what the head tells, which device it is, the sum and the maximum over leaves, the one
    that computes most, and how they are placed."""
    rows = [
        np.concatenate(
            [
                _sum_of_logs(program.leaves),
                program.leaves.max(axis=0),
                program.leaves[program.leaves[:, OPERATIONS].sum(axis=1).argmax()],
                [len(program.leaves), program.positions.max(), program.positions.mean()],
            ]
        )
        for program in programs
    ]
    head = head_rows(programs, devices)
    is_device = head[:, [DEVICE]] == np.arange(len(devices))
    return np.hstack([np.exp(head[:, [WORK]]), head[:, 1:], is_device, np.array(rows)])


def _sum_of_logs(leaves: NDArray[np.float32]) -> Array:
    """TVM tells most numbers as log2(1 + x); added up is x."""
    numbers = np.exp2(np.clip(leaves.astype(np.float64), -60, 60)) - 1
    added: Array = np.log2(1 + numbers.sum(axis=0).clip(min=-0.999))
    return added


def _sequences(
    programs: Sequence[TensorProgram],
    devices: Devices,
    tokens: Sequence[NDArray[np.float32]],
    positions: Sequence[NDArray[np.int64]],
) -> Array:
    """The head, then for each token 1, its position and its vector; zeros behind the last."""
    size = tokens[0].shape[1]
    longest = max(1, max(map(len, tokens)))
    padded = np.zeros((len(programs), longest, 2 + size), dtype=np.float32)
    for row, (own, places) in enumerate(zip(tokens, positions, strict=True)):
        padded[row, : len(own), 0] = 1.0
        padded[row, : len(own), 1] = places
        padded[row, : len(own), 2:] = own
    return np.hstack([head_rows(programs, devices), padded.reshape(len(programs), -1)]).astype(np.float32)


@dataclass(frozen=True)
class ProgramEncoding:
    """A way to write programs as rows. `token_size` is 0 where a row is no sequence."""

    name: str
    rows: Callable[[Sequence[TensorProgram], Devices], Array]
    token_size: int = 0
    adds_up: bool = False
    """Whether tokens are parts of the program that run one after the other, each with a time of its own."""

    def width(self, devices: int) -> int:
        """How many numbers a row has at least: those of a sequence of one token, where it is one."""
        return HEAD + 2 + self.token_size if self.token_size else HEAD + devices + 3 * LEAF_SIZE + 3


ENCODINGS = {
    each.name: each
    for each in (
        ProgramEncoding("leaves", leaf_rows, LEAF_SIZE, adds_up=True),
        ProgramEncoding("nests", nest_rows, NEST_SIZE, adds_up=True),
        ProgramEncoding("steps", step_rows, STEP_SIZE),
        ProgramEncoding("pooled", pooled_rows),
    )
}


def as_tokens(rows: Array, token_size: int) -> tuple[Array, Array, Array, Array]:
    """Head, mask, positions and vectors of rows that hold sequences."""
    tokens = rows[:, HEAD:].reshape(len(rows), -1, 2 + token_size)
    return rows[:, :HEAD], tokens[:, :, 0], tokens[:, :, 1], tokens[:, :, 2:]
