"""Shapes of every tensor of an ONNX graph, one node after the other, and the values of those that shapes depend on.

Exporters compute the target of a reshape with a chain of small operators; those are computed here too, so that a
graph whose inputs have sizes has sizes everywhere. Weights are never looked at, only their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from medn.capture.operator_call import TensorView
from medn.core.errors import UsageError
from medn.core.text import first_line, last_line, one_line

MAX_TRACKED_ELEMENTS = 4096
"""Values of larger tensors are not computed."""
MAX_ELEMENTS = 2**48
"""Of one tensor: beyond all memories there are."""
BY_SHAPE = ("Shape", "Size")
"""Their results follow from the shape of what they are given."""
SHAPE_KEEPING = ("GroupNormalization", "MeanVarianceNormalization")
"""The two operators for which onnx infers no shape."""
COMPUTED = frozenset(
    """
    Abs Add And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr Cast CastLike Ceil Clip Compress Concat Constant
    ConstantOfShape Cos CumSum Div Equal Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Greater
    GreaterOrEqual Identity IsNaN Less LessOrEqual Log Max Mean Min Mod Mul Neg NonZero Not Or Pad Pow Range Reciprocal
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Shape Sign Sin Size
    Slice Split Sqrt Squeeze Sub Sum Tile TopK Transpose Trilu Unsqueeze Where Xor
    """.split()  # noqa: SIM905
)
"""The operators whose values are computed: those that exporters write sizes with. Each takes no longer than its tensors
are large, whatever it is given, which cannot be said of all operators there are."""
BOUNDED = ("Compress", "Concat", "Constant", "NonZero", "Reshape", "Slice", "Squeeze", "Unsqueeze")
"""Their output is no larger than their inputs, so it is small even where its size is not known before."""


class UnknownSize(UsageError):
    """A size depends on values that only a real run has."""


class Shapes:
    """The type and shape of each tensor so far, and the values of small constants."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._opsets = list(model.opset_import)
        self._versions = {opset.domain: opset.version for opset in self._opsets}
        for domain, version in self._versions.items():
            if not isinstance(domain, str) or not 0 < version < 2**31:
                raise UsageError(f"opset_import: {domain!r} must be a name with a version above 0 (got {version})")
        self._ir_version = model.ir_version
        self._context = type(onnx.checker.DEFAULT_CONTEXT)()
        self._context.ir_version = min(max(self._ir_version, 3), onnx.IR_VERSION)
        self._context.opset_imports = self._versions
        self._declared: dict[str, onnx.TypeProto] = {}
        self._types: dict[str, onnx.TypeProto] = {}
        self.values: dict[str, np.ndarray[Any, Any]] = {}

    def declare(self, name: str, declared: onnx.TypeProto) -> None:
        """The type that the file declares for a tensor."""
        self._declared[name] = declared

    def set_type(self, name: str, element_type: int, shape: Iterable[int]) -> None:
        sizes = list(shape)
        if element_type not in onnx.TensorProto.DataType.values() or element_type == onnx.TensorProto.UNDEFINED:
            raise UsageError(f"tensor {name!r}: no such element type: {element_type}")
        if min(sizes, default=0) < 0:
            raise UsageError(f"tensor {name!r}: sizes must be from 0 on (got {sizes})")
        if math.prod(sizes) > MAX_ELEMENTS:
            raise UsageError(f"tensor {name!r}: too large for any memory (got {sizes})")
        self._types[name] = onnx.helper.make_tensor_type_proto(element_type, sizes)

    def set_weight(self, name: str, weight: onnx.TensorProto) -> None:
        self.set_type(name, weight.data_type, weight.dims)
        external = weight.data_location == onnx.TensorProto.EXTERNAL
        if not external and math.prod(weight.dims) <= MAX_TRACKED_ELEMENTS:
            try:
                self.values[name] = onnx.numpy_helper.to_array(weight)
            except (ValueError, TypeError, OverflowError) as error:
                raise UsageError(f"weight {name!r}: {first_line(error)}") from None

    def set_value(self, name: str, value: Any) -> None:
        self.values[name] = np.asarray(value)

    def element_type(self, name: str) -> int:
        element_type: int = self._types[name].tensor_type.elem_type
        return element_type

    def tensor(self, name: str) -> TensorView:
        kind = self._types[name].tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = tuple(dimension.dim_value for dimension in kind.shape.dim)
        return TensorView(name, name, shape, dtype.name, dtype.itemsize, math.prod(shape) * dtype.itemsize)

    def infer(self, node: onnx.NodeProto) -> None:
        """Infer the shapes of a node's outputs, and their values where they are small constants."""
        types = self._inferred(node)
        names = [name for name in node.output if name]
        for name, value in zip(names, self._computed(node, names, types), strict=False):
            value = np.asarray(value)
            self.set_type(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            self.values[name] = value
        for name in names:
            if name not in self.values:
                self._complete(node, name, types.get(name))

    def take_declared(self, node: onnx.NodeProto) -> None:
        """Take the shapes of a node's outputs from what the file declares."""
        for name in filter(None, node.output):
            self._complete(node, name, None)

    def _complete(self, node: onnx.NodeProto, name: str, inferred: onnx.TypeProto | None) -> None:
        """The inferred type, or the one the file declares, if either has every size."""
        for candidate in (inferred, self._declared.get(name)):
            if candidate is not None and _elements(candidate) < np.inf:
                kind = candidate.tensor_type
                return self.set_type(name, kind.elem_type, [size.dim_value for size in kind.shape.dim])
        raise UnknownSize(
            f"{describe_node(node)}: the shape of its output {name!r} is unknown, and the file does not declare it"
        )

    def _computed(self, node: onnx.NodeProto, names: list[str], types: Mapping[str, onnx.TypeProto]) -> Sequence[Any]:
        """The values of the outputs; none where they are large or not all inputs are known."""
        inputs = self._known_inputs(node) if node.op_type in COMPUTED and not node.domain else None
        most = max((_elements(types.get(name)) for name in names), default=0.0)
        if inputs is None or (most > MAX_TRACKED_ELEMENTS and not (np.isinf(most) and node.op_type in BOUNDED)):
            return ()
        try:
            with np.errstate(all="ignore"):
                return list(ReferenceEvaluator(node, opsets=self._versions).run(None, inputs))
        except Exception:  # onnx's own evaluator has gaps, each with an error of its own: then a value is not known
            return ()

    def _known_inputs(self, node: onnx.NodeProto) -> dict[str, np.ndarray[Any, Any]] | None:
        """The values of all inputs, or None where one is not known."""
        names = [name for name in node.input if name]
        if node.op_type in BY_SHAPE:
            tensors = map(self.tensor, names)
            return {str(tensor.storage): np.broadcast_to(np.float32(0), tensor.shape) for tensor in tensors}
        return {name: self.values[name] for name in names} if all(name in self.values for name in names) else None

    def _inferred(self, node: onnx.NodeProto) -> Mapping[str, onnx.TypeProto]:
        try:
            schema = onnx.defs.get_schema(node.op_type, self._versions.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            return {}
        if not schema.deprecated:
            self._check(node)
        names = [name for name in node.input if name]
        data = {name: onnx.numpy_helper.from_array(self.values[name]) for name in names if name in self.values}
        types = {name: self._types[name] for name in names}
        if node.op_type in SHAPE_KEEPING:
            return {node.output[0]: types[names[0]]}
        try:
            inferred: Mapping[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._opsets, ir_version=self._ir_version
            )
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError) as error:
            raise UsageError(f"{describe_node(node)} does not fit its inputs: {last_line(error)}") from None
        return inferred

    def _check(self, node: onnx.NodeProto) -> None:
        """Check inputs, outputs and attributes against the operator's schema."""
        try:
            onnx.checker.check_node(node, self._context)
        except (onnx.checker.ValidationError, RuntimeError) as error:
            raise UsageError(f"{describe_node(node)} is malformed: {first_line(error)}") from None


def _elements(kind: onnx.TypeProto | None) -> float:
    """How many elements a tensor has; infinitely many where a size is missing or it is no tensor."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return np.inf
    sizes = kind.tensor_type.shape.dim
    return math.prod(size.dim_value for size in sizes) if all(size.HasField("dim_value") for size in sizes) else np.inf


def describe_node(node: onnx.NodeProto) -> str:
    return f"node {one_line(node.name)!r} ({operator(node)})"


def operator(node: onnx.NodeProto) -> str:
    """What a node does, for people."""
    name = one_line(node.op_type)
    return f"{one_line(node.domain)}.{name}" if node.domain else name
