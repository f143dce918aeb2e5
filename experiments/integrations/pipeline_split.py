"""torch.distributed.pipelining with stages of equal time instead of an equal number of layers.

    python -m experiments.integrations.pipeline_split --bundle runs/laptop/laptop.medn --stages 3
    python -m experiments.integrations.pipeline_split --model transformer

The model is captured, its layers get their seconds from a bundle (without one, from a quick measurement), and the best
stages become a `split_spec`. Both ways to split are run, stage after stage in this process; their outputs must be
those of the whole model, and every stage is timed.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.pipelining import Pipe

import medn
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.errors import MednError, UsageError
from medn.core.table import Array
from medn.core.values import Condition
from medn.devices.backend import HostTimer
from medn.devices.take_samples import IDLE_QUANTILE, VisitOptions, process_resources, take_samples
from medn.devices.workload import make_workload
from medn.integrations.pipelining import Stages, split, stages_by
from medn.layer_generators.kind import layer_kinds
from medn.model.prepared_model import predict_model
from medn.partition.graph import LayerGraph, graph_of

VISIT_S = 0.03
PASSES = 5
TOLERANCE = 1e-4


def convnet() -> tuple[torch.nn.Module, torch.Tensor]:
    """Twelve convolutions, of which the first few do most of the work."""
    channels = [3, 32, 32, 64, 64, 64, 128, 128, 128, 128, 128, 128, 128]
    blocks = []
    for index, (before, after) in enumerate(itertools.pairwise(channels)):
        block = [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.BatchNorm2d(after), torch.nn.ReLU()]
        blocks.append(torch.nn.Sequential(*block, *([torch.nn.MaxPool2d(2)] if index in (1, 3, 5) else [])))
    head = [torch.nn.Flatten(), torch.nn.Linear(128 * 12 * 12, 256), torch.nn.ReLU(), torch.nn.Linear(256, 100)]
    return torch.nn.Sequential(*blocks, *head), torch.rand(1, 3, 96, 96)


class Block(torch.nn.Module):
    """One block of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = torch.nn.LayerNorm(width)
        self.mix = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.between = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(self.before(tokens)).chunk(3, -1)
        tokens = tokens + self.out(torch.nn.functional.scaled_dot_product_attention(query, key, value))
        fed: torch.Tensor = self.down(torch.nn.functional.gelu(self.up(self.between(tokens))))
        return tokens + fed


def transformer() -> tuple[torch.nn.Module, torch.Tensor]:
    """Eight blocks and the large last layer of a language model, which weighs as much as several of them."""
    blocks = [Block(192) for _ in range(8)]
    return torch.nn.Sequential(*blocks, torch.nn.LayerNorm(192), torch.nn.Linear(192, 16_000)), torch.rand(1, 64, 192)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, torch.Tensor]]] = {
    "convnet": convnet,
    "transformer": transformer,
}


def best_s(runs: Mapping[Any, Callable[[], object]], passes: int) -> dict[Any, float]:
    """Undisturbed seconds of each run: the lowest of several short visits, one after the other in every pass.

    Seconds of the processor, which other programs disturb least; on one thread nothing else is waited for.
    """
    best = dict.fromkeys(runs, np.inf)
    options = VisitOptions(seconds=VISIT_S)
    for _ in range(passes):
        for name, run in runs.items():
            samples = take_samples(_without_result(run), HostTimer(), process_resources(1), options)
            best[name] = min(best[name], float(np.quantile(samples.cpu_s, IDLE_QUANTILE)))
    return best


def _without_result(run: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        run()

    return call


def measured_layers_s(model: CapturedModel) -> Array:
    """Each different layer measured alone; for an operator without a kind, a ReLU that moves as many bytes."""

    def question(captured: CapturedLayer) -> tuple[Any, int, str]:
        if captured.layer is None:
            elements = max(1, captured.moved_bytes // (2 * ELEMENT_BYTES["fp32"] * captured.batch_size))
            return layer_kinds["activation"].layer(function="relu", elements=elements), captured.batch_size, "fp32"
        return captured.layer, captured.batch_size, captured.dtype

    workloads = {
        (layer, batch_size, dtype): make_workload(layer, Condition(batch_size=batch_size, dtype=dtype))
        for layer, batch_size, dtype in map(question, model.layers)
    }
    runs = {key: partial(workload.module, *workload.inputs) for key, workload in workloads.items()}
    for run in runs.values():
        run()
    measured = best_s(runs, passes=2)
    return np.array([measured[question(captured)] for captured in model.layers])


def layers_s(model: CapturedModel, bundle: Path | None) -> tuple[Array, dict[str, Any]]:
    """Seconds of the layers, and where they come from."""
    if bundle is None:
        return measured_layers_s(model), {"seconds of layers": "each measured alone"}
    predictor = medn.load(bundle)
    predicted = predict_model(predictor, model)
    asking_s = best_s({"ask": lambda: predict_model(predictor, model)}, passes=2)["ask"]
    about = {
        "seconds of layers": f"predicted for {predictor.device!r}",
        "layers without a predicted kind": int((~predicted.known).sum()),
        "ms to predict all layers": 1e3 * asking_s,
    }
    return predicted.layers.latency_s, about


def stage_runs(pipe: Pipe, example: torch.Tensor) -> tuple[list[Callable[[], Any]], torch.Tensor]:
    """Each stage of a split model with the inputs that it gets, ready to run alone; and the output of the whole."""
    runs: list[Callable[[], Any]] = []

    def keep(stage: torch.nn.Module, given: tuple[Any, ...]) -> None:
        # As it stands, a stage is interpreted operator by operator; traced, it runs as fast as the model did.
        traced = torch.fx.symbolic_trace(stage)
        runs.append(lambda: traced(*given))

    handles = [pipe.get_stage_module(place).register_forward_pre_hook(keep) for place in range(pipe.num_stages)]
    (output,) = pipe(example)
    for handle in handles:
        handle.remove()
    return runs, output


def row(way: str, stages: Stages, seconds: Array, stage_s: Sequence[float]) -> dict[str, Any]:
    """`seconds` of the layers, also where the stages were made by something else."""
    layers = [slice(stage.start, stage.stop) for stage in stages.pipeline.stages]
    predicted = [float(seconds[each].sum()) for each in layers]
    return {
        "stages": way,
        "begin with": " ".join(stages.begin),
        "layers": " ".join(str(each.stop - each.start) for each in layers),
        "expected ms": " ".join(f"{1e3 * each:.2f}" for each in predicted),
        "measured ms": " ".join(f"{1e3 * each:.2f}" for each in stage_s),
        "slowest, expected ms": 1e3 * max(predicted),
        "slowest, measured ms": 1e3 * max(stage_s),
    }


def both_ways(graph: LayerGraph, seconds: Array, count: int) -> tuple[dict[str, Stages], float]:
    """Stages of as many layers each, stages of as many seconds each, and the seconds it takes to find these."""
    finding_s = best_s({"find": lambda: stages_by(graph, seconds, count)}, passes=2)["find"]
    ways = {"by number of layers": np.ones(len(graph)), "by seconds": seconds}
    return {way: stages_by(graph, weights, count) for way, weights in ways.items()}, finding_s


def compare(name: str, count: int, bundle: Path | None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of the table, and what must be known to read them."""
    torch.manual_seed(0)
    model, example = MODELS[name]()
    model.eval()
    captured = capture(model, example)
    graph = graph_of(captured)
    seconds, about = layers_s(captured, bundle)
    ways, finding_s = both_ways(graph, seconds, count)
    expected = model(example)
    runs: dict[tuple[str, int], Callable[[], object]] = {}
    for way, stages in ways.items():
        parts, output = stage_runs(split(model, example, stages.begin), example)
        for got in (output, parts[-1]()):
            error = float((got - expected).abs().max() / expected.abs().max())
            if error > TOLERANCE:
                raise MednError(f"the model split {way} computes something else (relative difference {error:.2g})")
        runs |= {(way, place): run for place, run in enumerate(parts)}
    timed = best_s(runs, PASSES)
    rows = [row(way, stages, seconds, [timed[way, place] for place in range(count)]) for way, stages in ways.items()]
    about = {"model": name, "layers": len(graph), **about, "ms to find the stages": 1e3 * finding_s}
    return rows, about | {"outputs": f"equal to those of the whole model within {TOLERANCE} of the largest"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(MODELS), default="convnet")
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    if options.stages < 2:
        raise UsageError(f"--stages: must be at least 2 (got {options.stages})")
    torch.set_num_threads(1)
    with torch.no_grad():
        rows, about = compare(options.model, options.stages, options.bundle)
    write_tables(options.out, f"pipeline_split_{options.model}", rows, about)
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
