"""NNCF with int8 for those layers alone that medn predicts to be faster so.

    pip install -c constraints.txt -e ".[quantize,models]"
    medn sweep precision    # then `medn train` and `medn select`
    python -m experiments.integrations.choose_precision --bundle runs/precision/precision.medn --model mobilenetv2_100

A timm model with random weights is captured, and every layer of a kind that the bundle knows in both precisions is
asked for in both. Layers that are faster in fp32 go to NNCF as its ignored scope, and with them all operators between
layers that read anything in fp32. The whole model is measured in fp32, with all in int8 that NNCF quantises,
with the choice, and, to see whether the choice knows anything, with the opposite of it.

Precisions are places between which the model is split: a tensor from one to the other is converted, and the split with
the least predicted seconds is the choice.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import medn
from experiments.integrations.pipeline_split import best_s
from experiments.real_models import image_model
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.packages import need
from medn.core.ranges import Flags
from medn.devices.backends.openvino import OpenVinoRunner, compiled_model, core
from medn.devices.onnx_export import export_onnx
from medn.devices.quantize import Parts, to_bytes, to_parts
from medn.devices.workload import output_error
from medn.integrations.nncf import PrecisionCosts, precision_costs, quantize_layers
from medn.predictor.predictor import Predictor

PASSES = 50
EXAMPLES = 4
"""Inputs that the ranges of activations are learned from."""


def timm_with_weights(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A timm model and an image for it, both of random numbers."""
    torch.manual_seed(0)
    model, inputs = image_model(name, with_data=True)
    return model, torch.rand(inputs["x"].shape)


def in_int8(content: bytes, example: torch.Tensor, precisions: Mapping[str, bool]) -> Parts:
    """The model with some layers quantised."""
    if not any(precisions.values()):
        return (content,)
    examples = [[torch.rand_like(example).numpy()] for _ in range(EXAMPLES)]
    return to_parts(to_bytes(quantize_layers(core().read_model(content), precisions, examples)))


def compare(
    predictor: Predictor, model: torch.nn.Module, example: torch.Tensor, passes: int = PASSES
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    content = export_onnx(model, (example,), None, "")
    layers = precision_costs(predictor, content)
    nothing, chosen = np.zeros(len(layers.asked), dtype=np.bool_), layers.faster
    variants = {"none": nothing, "all": ~nothing, "chosen": chosen, "the others": ~chosen}
    precisions = {name: layers.precisions(which) for name, which in variants.items()}
    parts = {name: in_int8(content, example, each) for name, each in precisions.items()}
    runners = {
        name: OpenVinoRunner(partial(compiled_model, each, 1), [example.numpy()]) for name, each in parts.items()
    }
    runs: dict[str, Callable[[], object]] = {name: runner.run for name, runner in runners.items()}
    measured = best_s(runs, passes)
    rows = [
        {
            "layers in int8": name,
            "of these layers": sum(precisions[name].values()),
            "predicted ms": 1e3 * layers.total_s(which),
            "predicted, share": layers.total_s(which) / layers.total_s(nothing),
            "measured ms": 1e3 * measured[name],
            "measured, share": measured[name] / measured["none"],
            "output differs by": output_error(runners[name].outputs(), runners["none"].outputs()),
        }
        for name, which in variants.items()
    ]
    about = {
        "device": predictor.device,
        "in int8 in the fastest model": told(layers, chosen),
        "layers outside what was measured": layers.outside,
        "predicted": "layers of these kinds and borders between precisions; the device fuses most other operators",
        "measured": f"whole model, lowest of {passes} short visits in turns, one thread",
    }
    return rows, about


def told(layers: PrecisionCosts, chosen: Flags) -> str:
    """How many layers of each sort are chosen, such as `conv2d 34 of 36, depthwise 0 of 17`."""
    every, taken = Counter[str](), Counter[str]()
    for each, in_int8 in zip(layers.asked, chosen.tolist(), strict=True):
        if each is not None and each.layer is not None:
            kind = "depthwise" if each.layer.values.get("groups", 1) != 1 else each.layer.kind
            every[kind] += 1
            taken[kind] += in_int8
    return ", ".join(f"{kind} {taken[kind]} of {count}" for kind, count in every.items())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--model", default="mobilenetv2_100", help="of timm")
    parser.add_argument("--passes", type=int, default=PASSES, help="short visits to each variant")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    need("this comparison", "openvino", "nncf", extra="quantize")
    torch.set_num_threads(1)
    model, example = timm_with_weights(options.model)
    rows, about = compare(medn.load(options.bundle, options.device), model, example, options.passes)
    write_tables(options.out, f"choose_precision_{options.model}", rows, {"model": options.model, **about})
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
