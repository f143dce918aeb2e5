"""The steps of a schedule as numbers: what was done, with which parameters and which decisions.

A trace names its loops and blocks by numbers that mean nothing by themselves; what is kept of such a name is how many
there were. Integers stand as logarithms. What post-processing adds is not in a trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = (
    *("GetSBlock", "GetLoops", "GetChildBlocks", "GetConsumers", "GetProducers", "GetOutputBlocks"),
    *("SamplePerfectTile", "SampleCategorical", "SampleComputeLocation", "SamplePartitionedTile", "Split", "Fuse"),
    *("Reorder", "Parallel", "Vectorize", "Unroll", "CacheWrite", "CacheRead", "ComputeAt", "ReverseComputeAt"),
    *("ComputeInline", "ReverseComputeInline", "RFactor", "DecomposeReduction", "Annotate", "Unannotate"),
)
"""The kinds of steps; any other one counts as the last of one more place."""
NUMBERS = 8
"""Numbers that are kept of a step, its decisions first."""
STEP_SIZE = len(STEPS) + 1 + NUMBERS + 2
"""Which kind, the numbers, how many names it takes and how many it gives."""


def step_vectors(trace: Sequence[Any]) -> NDArray[np.float32]:
    """A row for each step of a trace, as TVM writes it in JSON."""
    steps, decided = (*trace, [], [])[:2]
    decisions = {int(place): decision for place, decision in decided}
    return np.array([_vector(step, decisions.get(at)) for at, step in enumerate(steps)], dtype=np.float32).reshape(
        -1, STEP_SIZE
    )


def _vector(step: Sequence[Any], decision: Any) -> list[float]:
    name, inputs, attributes, outputs = step
    which = [0.0] * (len(STEPS) + 1)
    which[STEPS.index(name) if name in STEPS else len(STEPS)] = 1.0
    numbers = [*_numbers(decision), *_numbers(attributes), *_numbers([each for each in inputs if not _is_name(each)])]
    kept = (numbers + [0.0] * NUMBERS)[:NUMBERS]
    return [*which, *kept, math.log2(1 + len(inputs)), math.log2(1 + len(outputs))]


def _numbers(written: Any) -> Iterator[float]:
    """The numbers in what a step was given, as signed logarithms; texts are left out."""
    if isinstance(written, (bool, int, float)):
        yield math.copysign(math.log2(1 + abs(float(written))), float(written))
    elif isinstance(written, (list, tuple)):
        for part in written:
            yield from _numbers(part)


def _is_name(written: Any) -> bool:
    return isinstance(written, str)
