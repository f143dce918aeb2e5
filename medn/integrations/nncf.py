"""NNCF with int8 for those layers alone that are predicted to be faster so, on OpenVINO.

Precisions are places between which a model is split: a tensor from one to the other is converted, and the split with
the least predicted seconds is the choice. It needs a bundle of layers in both: `medn sweep precision`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.errors import MednError, UsageError
from medn.core.packages import need
from medn.core.ranges import Flags
from medn.partition.graph import Link, graph_of
from medn.partition.split import PLACES, SplitCosts, split_between
from medn.predictor.predictor import Predictor

if TYPE_CHECKING:
    import torch

PRECISIONS = ("fp32", "int8")
BORDER = Link(bytes_per_s=4e9)
"""How fast OpenVINO converted between layouts and precisions where the documented numbers were measured."""
RANDOM_EXAMPLES = 4
"""Inputs that the ranges of activations are learned from, where none are given."""
WITHOUT_BIAS = "/WithoutBiases"
"""What OpenVINO adds to the name of a layer of which it splits the bias off."""


class PrecisionCosts(NamedTuple):
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


class Quantized(NamedTuple):
    """A model of which the faster half is in int8."""

    model: Any
    """An OpenVINO model; as it was where nothing is faster in int8."""
    in_int8: Mapping[str, bool]
    """By the name of each layer that was asked for, as the ONNX file has it."""
    share: float
    """Predicted seconds, of those in fp32."""


def quantize(
    model: torch.nn.Module,
    example_inputs: Any,
    predictor: Predictor,
    examples: Sequence[Sequence[NDArray[Any]]] | None = None,
) -> Quantized:
    """Quantise the layers of a torch module that get faster by it, calibrated with `examples` of its inputs.

    >>> quantize(net, torch.rand(1, 3, 224, 224), medn.load("precision.medn")).share      # doctest: +SKIP
    """
    need("choosing precisions", "openvino", "nncf", extra="quantize")
    import torch

    from medn.devices.backends.openvino import core
    from medn.devices.onnx_export import export_onnx

    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    content = export_onnx(model, inputs, None, "")
    layers = precision_costs(predictor, content)
    chosen = layers.faster
    precisions = layers.precisions(chosen)
    read = core().read_model(content)
    given = examples or [[torch.rand_like(each).numpy() for each in inputs] for _ in range(RANDOM_EXAMPLES)]
    share = layers.total_s(chosen) / layers.total_s(np.zeros(len(chosen), dtype=np.bool_))
    return Quantized(quantize_layers(read, precisions, given), precisions, share)


def precision_costs(predictor: Predictor, model: CapturedModel | bytes) -> PrecisionCosts:
    """What the layers of a captured model, or of an ONNX file, take in both precisions."""
    captured = model if isinstance(model, CapturedModel) else _captured(model)
    kinds = kinds_in_both(predictor)
    queried = tuple(each if each.layer is not None and each.layer.kind in kinds else None for each in captured.layers)
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
    return PrecisionCosts(queried, SplitCosts(graph_of(captured), seconds["fp32"], seconds["int8"], BORDER), outside)


def kinds_in_both(predictor: Predictor) -> list[str]:
    """The kinds that were measured in both precisions."""

    def precisions(kind: str) -> Collection[str]:
        return predictor.estimator(kind).range.schema.categories.get("dtype", ())

    kinds = [kind for kind in predictor.kinds if set(PRECISIONS) <= set(precisions(kind))]
    if not kinds:
        raise UsageError("the bundle knows no layers in fp32 and int8; measure some: medn sweep precision")
    return kinds


def quantize_layers(model: Any, precisions: Mapping[str, bool], examples: Sequence[Sequence[NDArray[Any]]]) -> Any:
    """An OpenVINO model with some of its layers in int8; with all of them, as NNCF does it by itself."""
    from medn.devices.backend import Unsupported
    from medn.devices.quantize import quantized

    if not any(precisions.values()):
        return model
    names = operators(model, list(precisions))
    ignored = [] if all(precisions.values()) else in_fp32(model, dict(zip(names, precisions.values(), strict=True)))
    try:
        return quantized(model, examples, ignored)
    except Unsupported as error:
        raise MednError(f"the model: {error}") from None


def operators(model: Any, layers: Sequence[str]) -> list[str]:
    """What layers of the ONNX file are called in the model that OpenVINO read from it."""
    names = {operator.get_friendly_name() for operator in model.get_ops()}
    operators = [next((name for name in (f"{layer}{WITHOUT_BIAS}", layer) if name in names), None) for layer in layers]
    if None in operators:
        raise MednError(f"OpenVINO's model has no operator for the layer {layers[operators.index(None)]!r}")
    return [name for name in operators if name is not None]


def in_fp32(model: Any, chosen: Mapping[str, bool]) -> list[str]:
    """The operators that stay in fp32, NNCF's `ignored_scope`: those not chosen, and what reads fp32 beside them."""
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


def _captured(content: bytes) -> CapturedModel:
    with tempfile.TemporaryDirectory(prefix="medn-precision-") as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(content)
        return capture(file)
