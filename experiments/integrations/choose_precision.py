"""NNCF with int8 for those layers alone that medn predicts to be faster so.

    pip install -c constraints.txt -e ".[quantize,models]"
    medn sweep experiments/configs/precision.yaml    # then `medn train` and `medn select`
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
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import medn
from experiments.integrations.pipeline_split import best_s
from experiments.real_models import image_model
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.errors import MednError, UsageError
from medn.core.packages import need
from medn.core.ranges import Flags
from medn.devices.backend import Unsupported
from medn.devices.backends.openvino import OpenVinoRunner, compiled_model, core
from medn.devices.onnx_export import export_onnx
from medn.devices.quantize import Parts, quantized, to_bytes, to_parts
from medn.devices.workload import output_error
from medn.partition.graph import Link, graph_of
from medn.partition.split import PLACES, SplitCosts, split_between
from medn.predictor.predictor import Predictor

PASSES = 50
EXAMPLES = 4
"""Inputs that the ranges of activations are learned from."""
PRECISIONS = ("fp32", "int8")
BORDER = Link(bytes_per_s=4e9)
"""How fast OpenVINO converted between layouts and precisions where the documented numbers were measured."""
WITHOUT_BIAS = "/WithoutBiases"
"""What OpenVINO adds to the name of a layer of which it splits the bias off."""


class Layers(NamedTuple):
    """The layers of a model in two precisions: fp32 is here, int8 is there."""

    asked: tuple[CapturedLayer | None, ...]
    """None for operators that are not predicted: they take no time, and are in the precision of what is around them."""
    costs: SplitCosts
    outside: int
    """How many were asked for that lie outside what was measured."""

    @property
    def faster(self) -> Flags:
        """Which are in int8 in the fastest model."""
        placement = split_between(self.costs.graph, self.costs.here_s, self.costs.there_s, self.costs.link)
        return np.array([place == "there" for place in placement.places])

    def total_s(self, in_int8: Flags) -> float:
        return self.costs.evaluate([PLACES[is_there] for is_there in in_int8.tolist()]).total_s

    def precisions(self, in_int8: Flags) -> dict[str, bool]:
        """Whether each layer that was asked for is in int8, by its name."""
        return {each.name: bool(is_there) for each, is_there in zip(self.asked, in_int8, strict=True) if each}


def timm_with_weights(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A timm model and an image for it, both of random numbers."""
    torch.manual_seed(0)
    model, inputs = image_model(name, with_data=True)
    return model, torch.rand(inputs["x"].shape)


def kinds_in_both(predictor: Predictor) -> list[str]:
    """The kinds that were measured in both precisions."""

    def precisions(kind: str) -> Collection[str]:
        return predictor.estimator(kind).range.schema.categories.get("dtype", ())

    kinds = [kind for kind in predictor.kinds if set(PRECISIONS) <= set(precisions(kind))]
    if not kinds:
        raise UsageError("the bundle knows no layers in fp32 and int8: see experiments/configs/precision.yaml")
    return kinds


def ask(predictor: Predictor, model: CapturedModel) -> Layers:
    kinds = kinds_in_both(predictor)
    queried = tuple(each if each.layer is not None and each.layer.kind in kinds else None for each in model.layers)
    rows = [
        {"kind": each.layer.kind, **each.layer.values, "batch_size": each.batch_size}
        for each in queried
        if each is not None and each.layer is not None
    ]
    if not rows:
        raise UsageError(f"the model has no layers of the kinds {', '.join(kinds)}")
    predicted = {name: predictor.predict([{**row, "dtype": name} for row in rows]) for name in PRECISIONS}
    seconds = {name: np.zeros(len(queried)) for name in PRECISIONS}
    for name, column in seconds.items():
        column[[each is not None for each in queried]] = predicted[name].latency_s
    outside = int((~(predicted["fp32"].in_range & predicted["int8"].in_range)).sum())
    return Layers(queried, SplitCosts(graph_of(model), seconds["fp32"], seconds["int8"], BORDER), outside)


def operators(model: Any, layers: Sequence[str]) -> list[str]:
    """What layers of the ONNX file are called in the model that OpenVINO read from it."""
    names = {operator.get_friendly_name() for operator in model.get_ops()}
    operators = [next((name for name in (f"{layer}{WITHOUT_BIAS}", layer) if name in names), None) for layer in layers]
    if None in operators:
        raise MednError(f"OpenVINO's model has no operator for the layer {layers[operators.index(None)]!r}")
    return [name for name in operators if name is not None]


def in_fp32(model: Any, chosen: Mapping[str, bool]) -> list[str]:
    """The operators that stay in fp32: those not chosen, and any other that reads something in fp32."""
    quantised: dict[str, bool] = {}
    kept = []
    for operator in model.get_ordered_ops():
        name, is_input = operator.get_friendly_name(), operator.get_type_name() == "Parameter"
        read = [each.get_source_output().get_node().get_friendly_name() for each in operator.inputs()]
        sources = [quantised[each] for each in read if each in quantised]  # constants are of any precision
        if name in chosen or sources or is_input:
            quantised[name] = chosen.get(name, bool(sources) and all(sources))
            if not quantised[name] and not is_input:
                kept.append(name)
    return kept


def in_int8(content: bytes, example: torch.Tensor, precisions: Mapping[str, bool]) -> Parts:
    """The model with some layers quantised; with all of them, as NNCF does it by itself."""
    if not any(precisions.values()):
        return (content,)
    model = core().read_model(content)
    names = operators(model, list(precisions))
    ignored = [] if all(precisions.values()) else in_fp32(model, dict(zip(names, precisions.values(), strict=True)))
    examples = [[torch.rand_like(example).numpy()] for _ in range(EXAMPLES)]
    try:
        return to_parts(to_bytes(quantized(model, examples, ignored)))
    except Unsupported as error:
        raise MednError(f"the model: {error}") from None


def compare(
    predictor: Predictor, model: torch.nn.Module, example: torch.Tensor, passes: int = PASSES
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    content = export_onnx(model, (example,), None, "")
    with tempfile.TemporaryDirectory(prefix="medn-precision-") as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(content)
        layers = ask(predictor, capture(file))
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


def told(layers: Layers, chosen: Flags) -> str:
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
