"""The program that times the blocks of a model: `python -m medn.blocks.worker BACKEND THREADS ONNX_CACHE`.

Blocks run in turns, in the order in which they run in the model, so that each finds the caches and the memory of its
process as the others leave them. What the model reads besides is read between two turns. Before it is timed, a block
has its inputs written, as the layer before it would.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from medn.blocks.calls import ModuleCall, callable_names, recorded_calls, timeable
from medn.blocks.chosen import ModelBlock, chosen_blocks
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.environment import last_level_cache_bytes
from medn.core.values import Condition, Layer, content_key
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.cache import reader
from medn.devices.requests import Json, answer_requests
from medn.devices.take_samples import process_resources
from medn.devices.workload import Workload
from medn.model.measured_models import batched, plain, verified_runner
from medn.model.model_sources import make_model
from medn.model.schedule import peak_graph_bytes

if TYPE_CHECKING:
    import torch

FEWEST_TURNS = 5
MOST_TURNS = 400


@dataclass
class TimedBlock:
    """A block that is ready, and what its runs took."""

    block: ModelBlock
    captured: CapturedModel
    runner: Runner
    inputs: Sequence[torch.Tensor]
    given: Sequence[torch.Tensor]
    """What the inputs hold before a run; a block may change them."""
    samples: list[tuple[float, float, bool]] = field(default_factory=list)

    def write_inputs(self) -> None:
        for tensor, given in zip(self.inputs, self.given, strict=True):
            tensor.copy_(given)


class BlockWorker:
    """Prepares the blocks of one model at a time."""

    def __init__(self, backend: Backend, threads: int, onnx_cache: Path | None) -> None:
        self.backend = backend
        self.threads = threads
        self.onnx_cache = onnx_cache
        self._blocks: list[TimedBlock] = []
        self._read_besides: Callable[[], None] = lambda: None

    def start(self, request: Json) -> Json:
        self.backend.configure(self.threads)
        return {}

    def prepare(self, request: Json) -> Json:
        """Make a model and its blocks; the answer says which they are, and why others cannot be timed here."""
        model = plain(*make_model(request["source"]))
        if request["batch_size"] is not None:
            model = batched(model, request["batch_size"])
        captured = capture(*model)
        chosen = chosen_blocks(captured, callable_names(model))
        calls = recorded_calls(model, [block.name for block in chosen])
        del model
        self._blocks, reasons = [], {}
        for block in chosen:
            try:
                self._blocks.append(self._ready(block, calls.pop(block.name)))
            except Unsupported as error:
                reasons[block.name] = str(error)
        besides = captured.parameter_bytes - sum(each.captured.parameter_bytes for each in self._blocks)
        self._read_besides = reader(max(besides, 0), last_level_cache_bytes())
        working_bytes = captured.parameter_bytes + peak_graph_bytes(captured, captured.batch_size)
        described = [{**_described(each), "working_bytes": working_bytes} for each in self._blocks]
        return {"blocks": described, "reasons": reasons}

    def _ready(self, block: ModelBlock, call: ModuleCall) -> TimedBlock:
        module, inputs = timeable(call)
        captured = capture(module, inputs)
        layer = Layer("block", (("content", content_key(captured.to_json().decode())), ("name", block.name)))
        workload = Workload(layer, Condition(threads=self.threads), module, inputs, self.onnx_cache)
        given = [tensor.clone() for tensor in inputs]
        return TimedBlock(block, captured, verified_runner(workload, self.backend), inputs, given)

    def measure(self, request: Json) -> Json:
        """Let the blocks take turns for so many seconds."""
        resources, timer = process_resources(self.threads), self.backend.timer()
        for each in self._blocks:
            each.samples.clear()
        began, turn = time.perf_counter(), 0
        with ExitStack() as stack:
            for each in self._blocks:
                stack.enter_context(each.runner.context())
            while turn <= FEWEST_TURNS or (time.perf_counter() - began < request["seconds"] and turn < MOST_TURNS):
                for place, each in enumerate(self._blocks):
                    if place == turn % len(self._blocks):
                        self._read_besides()
                    each.write_inputs()
                    cpu_before, switches_before = resources()
                    timer.start()
                    each.runner.run()
                    wall_s = timer.stop()
                    cpu_after, switches_after = resources()
                    each.runner.forget()
                    if turn:  # the first one warms up
                        each.samples.append((wall_s, cpu_after - cpu_before, switches_after > switches_before))
                turn += 1
        return {"samples": [list(zip(*each.samples, strict=True)) for each in self._blocks]}


def _described(timed: TimedBlock) -> Json:
    return {**asdict(timed.block), "captured": timed.captured.to_json().decode()}


def main(backend_name: str, threads: int, onnx_cache: str) -> None:
    worker = BlockWorker(backends[backend_name], threads, Path(onnx_cache) if onnx_cache else None)
    answer_requests({"start": worker.start, "prepare": worker.prepare, "measure": worker.measure})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
