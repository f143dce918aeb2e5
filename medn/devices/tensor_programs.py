"""The tensor program of a layer: its loops as TVM's MetaSchedule schedules them, drawn by number.

A task is a layer with a batch size on a target. Its design space is a few sketches: traces of scheduling steps whose
choices are left open. Schedule N takes one of them and draws its choices by a generator that N and the layer seed, so
that a number means the same schedule on every machine. Schedule 0 is the loops as they were written.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from medn.core.values import Layer, content_key
from medn.devices.backend import Unsupported
from medn.devices.program_loops import stored_nests
from medn.layer_generators.kind import layer_kinds

if TYPE_CHECKING:
    import torch

EXTRA = "programs"
"""The extra of medn that installs TVM."""
MOST_ATTEMPTS = 20
"""Choices that are drawn one by one may contradict one another; then all are drawn again."""
KEPT_TASKS = 512
"""Tasks that a process keeps the design space of."""
SEEDS = 2**31 - 1
INTRINSICS = "tvm.s_tir.tensor_intrin"


@dataclass(frozen=True)
class ScheduledProgram:
    """One schedule of a task."""

    schedule: Any
    """TVM's, post-processed and ready to be built."""
    features: Any
    """One vector for each buffer that is stored, as TVM extracts them."""

    def record(self) -> dict[str, Any]:
        """What is kept of it: its trace without what post-processing added, the vectors of its stores with their
        places among loops and stores, and the loops of each store as they are lowered."""
        return {
            "trace": trace_of(self.schedule),
            "positions": store_positions(self.schedule.mod["main"].body),
            "leaves": [[float(f"{number:.7g}") for number in leaf] for leaf in self.features.tolist()],
            "nests": stored_nests(self.schedule.mod),
        }


@dataclass(frozen=True)
class ProgramTask:
    """A layer whose loops are to be scheduled for an instruction set, as LLVM names a processor that has it."""

    layer: Layer
    batch_size: int
    processor: str
    threads: int = 1

    @cached_property
    def target(self) -> Any:
        from tvm.target import Target

        return Target({"kind": "llvm", "mcpu": self.processor, "num-cores": self.threads})

    @cached_property
    def module(self) -> Any:
        """The loops as they are written; `Unsupported` where the layer's kind has no tensor expression."""
        import tvm
        from tvm import te

        kind = layer_kinds[self.layer.kind]
        values = kind.values_of(self.layer)
        specs = kind.inputs(values, self.batch_size)
        inputs = [te.placeholder(spec.shape, name=f"input_{at}") for at, spec in enumerate(specs)]
        shapes = [tuple(weight.shape) for weight in weights_of(_described(self.layer))]
        weights = [te.placeholder(shape, name=f"weight_{at}") for at, shape in enumerate(shapes)]
        result = kind.expression(values, inputs, weights)
        if result is None:
            raise Unsupported(f"{self.layer} has no tensor expression")
        if tuple(map(int, result.shape)) != kind.output_shape(values, self.batch_size):
            raise Unsupported(f"the tensor expression of {self.layer} gives the shape {list(result.shape)}")
        function = te.create_prim_func([*inputs, *weights, result])
        return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})

    @cached_property
    def context(self) -> Any:
        """What TVM draws schedules with."""
        from tvm.s_tir.meta_schedule import TuneContext

        space = design_space(mutators={})
        with without_intrinsics():
            return TuneContext(mod=self.module, target=self.target, space_generator=space, rand_state=1, num_threads=1)

    @cached_property
    def sketches(self) -> list[Any]:
        return [schedule.trace for schedule in self.context.generate_design_space()]

    def program(self, number: int) -> ScheduledProgram:
        """The schedule with a number; the same on every machine with this version of TVM."""
        schedule = self._drawn(number) if number else _schedule(self.module, 1)
        return ScheduledProgram(schedule, features_of(self.context, [schedule])[0])

    def _drawn(self, number: int) -> Any:
        for attempt in range(MOST_ATTEMPTS):
            seed = int(content_key([self.layer.key, self.batch_size, number, attempt]), 16)
            sketch = self.sketches[seed % len(self.sketches)]
            if (schedule := self._applied(sketch, seed // len(self.sketches) % SEEDS + 1)) is not None:
                return schedule
        raise Unsupported(f"{MOST_ATTEMPTS} draws of schedule {number} contradict themselves")

    def _applied(self, sketch: Any, seed: int) -> Any | None:
        """A sketch with its choices drawn anew; None where they contradict one another."""
        from tvm.s_tir.schedule import Trace

        schedule = _schedule(self.module, seed)
        try:
            Trace(sketch.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            fits = all(step.apply(schedule) for step in self.context.space_generator.postprocs)
        except Exception:  # TVM raises errors of many classes here, none of them its own
            return None
        return schedule if fits else None


def design_space(mutators: Any = "from-target") -> Any:
    """What proposes schedules. Layouts stay as they are declared, so that a program takes the layer's own data."""
    from tvm.s_tir.meta_schedule import postproc
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    steps = [
        postproc.DisallowDynamicLoop(),
        postproc.RewriteParallelVectorizeUnroll(),
        postproc.RewriteReductionBlock(),
    ]
    return PostOrderApply(sch_rules="from-target", postprocs=steps, mutator_probs=mutators)


@lru_cache(maxsize=KEPT_TASKS)
def task_of(layer: Layer, batch_size: int, processor: str, threads: int) -> ProgramTask:
    """The one of a process, so that its design space is made once."""
    return ProgramTask(layer, batch_size, processor, threads)


def features_of(context: Any, schedules: list[Any]) -> list[Any]:
    """For each schedule an array with a row for each buffer that it stores, in the order of their first stores."""
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature

    found = PerStoreFeature().extract_from(context, [MeasureCandidate(schedule, []) for schedule in schedules])
    return [each.numpy() for each in found]


def trace_of(schedule: Any) -> list[Any]:
    """The steps and the decisions of a schedule, as plain lists."""
    return _plain(schedule.trace.as_json(remove_postproc=True)) if schedule.trace else [[], []]


def store_positions(body: Any) -> list[int]:
    """Where the first store to each buffer stands among loops and stores, counted in pre-order."""
    stored: list[Any] = []
    positions: list[int] = []
    counted = (node for node in _statements(body) if type(node).__name__ in ("For", "BufferStore"))
    for position, node in enumerate(counted):
        if type(node).__name__ == "BufferStore" and not any(node.buffer.same_as(each) for each in stored):
            stored.append(node.buffer)
            positions.append(position)
    return positions


def _statements(node: Any) -> Iterator[Any]:
    """A statement and those inside it, in pre-order."""
    yield node
    if type(node).__name__ == "SeqStmt":
        inner = list(node.seq)
    else:
        inner = [getattr(node, part, None) for part in ("block", "init", "body", "then_case", "else_case")]
    for each in inner:
        if each is not None:
            yield from _statements(each)


def weights_of(module: torch.nn.Module) -> list[torch.Tensor]:
    """What a module holds, in the order in which tensor expressions take it."""
    return [*module.parameters(), *(buffer for buffer in module.buffers() if buffer.is_floating_point())]


def _described(layer: Layer) -> torch.nn.Module:
    """The layer's module with shapes alone."""
    import torch

    kind = layer_kinds[layer.kind]
    with torch.device("meta"):
        return kind.build(kind.values_of(layer))


def _schedule(module: Any, seed: int) -> Any:
    from tvm.s_tir import Schedule

    return Schedule(module, seed=seed, error_render_level="none")


def _plain(written: Any) -> Any:
    """TVM's lists, numbers and strings as Python's."""
    if written is None or isinstance(written, (bool, int, float, str)):
        return str(written) if isinstance(written, str) else written
    return _plain(written.value) if hasattr(written, "value") else [_plain(part) for part in written]


@contextmanager
def without_intrinsics() -> Iterator[None]:
    """TVM imports the tensor intrinsics of all processors before it draws anything, for 24 s; these levels use none."""
    absent = INTRINSICS not in sys.modules
    if absent:
        sys.modules[INTRINSICS] = types.ModuleType(INTRINSICS)
    try:
        yield
    finally:
        if absent:
            del sys.modules[INTRINSICS]
