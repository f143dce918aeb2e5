"""Shapes of every tensor of an ONNX graph, one node after the other, and the values of those that shapes depend on.

Exporters compute the target of a reshape with a chain of small operators; those are computed here too, so that a
graph whose inputs have sizes has sizes everywhere. Weights are never looked at, only their shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from medn.capture.calls import Tensor
from medn.core.errors import UsageError

LARGEST_KNOWN = 4096
"""Elements of a tensor whose values are followed."""
BY_SHAPE = ("Shape", "Size")
"""Their results follow from the shape of what they are given."""
SHAPE_KEEPING = ("GroupNormalization", "MeanVarianceNormalization")
"""The two operators for which onnx infers no shape."""
BY_CHANCE = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


class Shapes:
    """What is known of each tensor so far: its type with its shape, and the values of small constants."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._opsets = list(model.opset_import)
        self._versions = {opset.domain: opset.version for opset in self._opsets}
        self._ir_version = model.ir_version
        self._declared = {each.name: each.type for each in (*model.graph.value_info, *model.graph.output)}
        self._types: dict[str, onnx.TypeProto] = {}
        self.values: dict[str, np.ndarray[Any, Any]] = {}

    def set_type(self, name: str, element_type: int, shape: Iterable[int]) -> None:
        self._types[name] = onnx.helper.make_tensor_type_proto(element_type, list(shape))

    def set_weight(self, weight: onnx.TensorProto) -> None:
        self.set_type(weight.name, weight.data_type, weight.dims)
        external = weight.data_location == onnx.TensorProto.EXTERNAL
        if not external and int(np.prod(weight.dims)) <= LARGEST_KNOWN:
            self.values[weight.name] = onnx.numpy_helper.to_array(weight)

    def rename(self, source: str, target: str) -> None:
        self._types[target] = self._types[source]
        if source in self.values:
            self.values[target] = self.values[source]

    def tensor(self, name: str) -> Tensor:
        kind = self._types[name].tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = tuple(dimension.dim_value for dimension in kind.shape.dim)
        return Tensor(name, name, shape, dtype.name, dtype.itemsize, int(np.prod(shape)) * dtype.itemsize)

    def follow(self, node: onnx.NodeProto) -> None:
        """Find out the shapes of a node's outputs, and their values where they are small and known."""
        found = self._inferred(node)
        names = [name for name in node.output if name]
        for name, value in zip(names, self._computed(node, names, found), strict=False):
            self.values[name] = np.asarray(value)
            self.set_type(name, onnx.helper.np_dtype_to_tensor_dtype(self.values[name].dtype), np.shape(value))
        for name in names:
            if name not in self.values:
                self._types[name] = self._complete(node, name, found)

    def _computed(self, node: onnx.NodeProto, names: list[str], found: Mapping[str, onnx.TypeProto]) -> Sequence[Any]:
        """The values of the outputs; none where they are large or not all inputs are known."""
        known = self._known_inputs(node)
        large = any(LARGEST_KNOWN < _elements(found.get(name)) < np.inf for name in names)
        if known is None or large or node.op_type in BY_CHANCE or _has_subgraph(node):
            return ()
        try:
            return list(ReferenceEvaluator(node, opsets=self._versions).run(None, known))
        except Exception:  # onnx's own evaluator has gaps, each with an error of its own: then a value is not known
            return ()

    def _known_inputs(self, node: onnx.NodeProto) -> dict[str, np.ndarray[Any, Any]] | None:
        """The values of all inputs, or None where one is not known."""
        given = [name for name in node.input if name]
        if node.op_type in BY_SHAPE:
            tensors = map(self.tensor, given)
            return {str(each.storage): np.broadcast_to(np.float32(0), each.shape) for each in tensors}
        return {name: self.values[name] for name in given} if all(name in self.values for name in given) else None

    def _inferred(self, node: onnx.NodeProto) -> Mapping[str, onnx.TypeProto]:
        version = self._versions.get(node.domain)
        try:
            schema = onnx.defs.get_schema(node.op_type, version or 1, node.domain)
        except onnx.defs.SchemaError:
            return {}
        given = [name for name in node.input if name]
        data = {name: onnx.numpy_helper.from_array(self.values[name]) for name in given if name in self.values}
        types = {name: self._types[name] for name in given}
        if node.op_type in SHAPE_KEEPING:
            return {node.output[0]: types[given[0]]}
        try:
            found: Mapping[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._opsets, ir_version=self._ir_version
            )
        except (onnx.shape_inference.InferenceError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise UsageError(f"{_place(node)} does not fit the sizes of its inputs: {reason}") from None
        return found

    def _complete(self, node: onnx.NodeProto, name: str, found: Mapping[str, onnx.TypeProto]) -> onnx.TypeProto:
        """The inferred type, or the one the file declares, if either has every size."""
        for candidate in (found.get(name), self._declared.get(name)):
            if candidate is not None and _elements(candidate) < np.inf:
                return candidate
        raise UsageError(
            f"{_place(node)}: the shape of its output {name!r} cannot be told, and the file does not say it"
        )


def _elements(kind: onnx.TypeProto | None) -> float:
    """How many elements a tensor has; infinitely many where a size is missing or it is no tensor."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return np.inf
    sizes = [each.dim_value if each.HasField("dim_value") else np.inf for each in kind.tensor_type.shape.dim]
    return np.inf if np.inf in sizes else float(np.prod(sizes))


def _has_subgraph(node: onnx.NodeProto) -> bool:
    return any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)


def _place(node: onnx.NodeProto) -> str:
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"node {node.name!r} ({operator})"
