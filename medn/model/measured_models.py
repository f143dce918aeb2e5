"""Whole models timed on a backend, in turns, as a sweep visits layers: what a composition is fitted to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medn.core.errors import DeviceUnavailable, MednError, UsageError
from medn.core.preempted import tells_wall_time
from medn.core.values import Condition, Layer, Samples
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.take_samples import VisitOptions, process_resources, take_samples
from medn.devices.workload import Workload, output_error

if TYPE_CHECKING:
    import torch

ROUNDS = 5
VISIT_S = 0.6
LARGEST_ERROR = 1e-2
"""How far outputs may be from those of torch, relative to the largest."""

Timeable = tuple["torch.nn.Module", tuple["torch.Tensor", ...]]
"""A module that takes tensors and gives one, and tensors to call it with."""


@dataclass(frozen=True)
class Measured:
    visits: tuple[float, ...]
    """The shortest run of each round, in seconds."""

    @property
    def seconds(self) -> float:
        """The lowest, as for layers of an idle machine: whatever disturbs only ever adds."""
        return min(self.visits)

    @property
    def spread(self) -> float:
        """How much longer the rounds took in the middle, relative to the seconds."""
        return statistics.median(self.visits) / self.seconds - 1


def plain(model: torch.nn.Module, example_inputs: Any) -> Timeable:
    """A model that takes and gives whatever it likes, as one that takes tensors and gives its first one.

    Inputs without data are filled with random numbers, whole numbers with 0.
    """
    import torch

    from medn.capture.example_inputs import arguments

    positional, named = arguments(example_inputs)
    tensors, names = (*positional, *named.values()), list(named)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise UsageError("to be timed a model must be called with tensors alone")
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise UsageError("to be timed a model needs weights with data")

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            split = len(inputs) - len(names)
            output = self.network(*inputs[:split], **dict(zip(names, inputs[split:], strict=True)))
            first: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
            return first

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        fill = torch.randn if tensor.is_floating_point() else torch.zeros
        return fill(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor

    return Plain().eval().requires_grad_(False), tuple(map(filled, tensors))


def batched(model: Timeable, batch_size: int) -> Timeable:
    """The same model with its inputs repeated; what has no axes stays as it is."""
    module, tensors = model
    example_size = next((len(tensor) for tensor in tensors if tensor.ndim), 1)
    if batch_size % example_size:
        raise UsageError(f"batch size {batch_size}: must be a multiple of that of the example inputs, {example_size}")
    times = batch_size // example_size
    return module, tuple(
        tensor.repeat(times, *[1] * (tensor.ndim - 1)) if tensor.ndim else tensor for tensor in tensors
    )


def usable_backend(name: str) -> Backend:
    """The backend of this name, which can be used here; told before anything slow is done for it."""
    backend = backends[name]
    if reason := backend.missing():
        raise DeviceUnavailable(reason)
    return backend


def measure_models(
    backend: Backend,
    models: Mapping[str, Callable[[], Timeable]],
    threads: int = 1,
    tell: Callable[[str], None] = lambda message: None,
    rounds: int | None = None,
    visit_s: float | None = None,
) -> dict[str, Measured]:
    """All models in turns, several rounds of them. Each is made when its turn to be prepared comes.

    On a machine that others keep busy every long run is pre-empted: such rounds count as visits to layers do.
    """
    rounds, visit_s = rounds or ROUNDS, visit_s or VISIT_S
    backend.configure(threads)
    runners: dict[str, Runner] = {}
    for name, make in models.items():
        tell(f"{backend.name}: preparing {name}")
        workload = Workload(Layer(name, ()), Condition(threads=threads), *make(), None)
        runners[name] = _runner(name, workload, backend)
    taken: dict[str, list[Samples]] = {name: [] for name in runners}
    for number in range(rounds):
        tell(f"{backend.name}: round {number + 1} of {rounds}")
        for name, runner in runners.items():
            taken[name].append(_timed(runner, backend, threads, visit_s))
    by_processor_time = _counts_processor_time(backend, threads, list(taken.values()))
    return {name: Measured(tuple(each.shortest_s(by_processor_time) for each in taken[name])) for name in taken}


def _timed(runner: Runner, backend: Backend, threads: int, visit_s: float) -> Samples:
    with runner.context():
        return take_samples(runner.run, backend.timer(), process_resources(threads), VisitOptions(visit_s))


def _counts_processor_time(backend: Backend, threads: int, taken: Sequence[Sequence[Samples]]) -> bool:
    """By the rule for layers; where every run was pre-empted, a model that is too short for it shows how it is here."""
    preempted = [each.all_preempted for rounds in taken for each in rounds]
    if not backend.runs_on_host or not any(preempted):
        return False
    if not all(preempted):
        return tells_wall_time(taken)
    import torch

    short = plain(torch.nn.Linear(256, 256), torch.zeros(16, 256))
    workload = Workload(Layer("short", ()), Condition(threads=threads), *short, None)
    return tells_wall_time([[_timed(verified_runner(workload, backend), backend, threads, VISIT_S)]])


def _runner(name: str, workload: Workload, backend: Backend) -> Runner:
    try:
        return verified_runner(workload, backend)
    except Unsupported as error:
        raise MednError(f"{name}: {error}") from None


def verified_runner(workload: Workload, backend: Backend) -> Runner:
    """Ready to be timed, and computing what torch does."""
    runner = backend.prepare(workload)
    with runner.context():
        runner.run()
    if backend.is_reference:
        return runner
    off = output_error(runner.outputs(), workload.expected())
    if off > LARGEST_ERROR:
        raise Unsupported(f"{backend.name} computes something else than torch (off by {off:.2g})")
    return runner
