"""ONNX operators in the words of the layer kinds, which are those of torch's operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.operation import Operation, Recognised, Shape, contiguous_strides
from medn.layer_generators.recognition import first_possible, recognise


@dataclass(frozen=True)
class Node:
    """A node with what is known of its inputs; an input that is left out has no shape."""

    operator: str
    shapes: tuple[Shape | None, ...]
    values: tuple[Any, ...]
    """Of inputs that are small constants: numpy arrays; otherwise None."""
    constant: tuple[bool, ...]
    attributes: Mapping[str, Any]
    output: Shape
    model_batch: int

    def shape(self, position: int) -> Shape | None:
        return self.shapes[position] if position < len(self.shapes) else None

    def value(self, position: int) -> Any:
        return self.values[position] if position < len(self.values) else None

    def operation(self, name: str, tensors: Mapping[str, Any], **attributes: Any) -> Operation:
        given = {key: shape for key, shape in tensors.items() if shape is not None}
        return Operation(name, given, attributes, self.output, self.model_batch)


Translation = Operation | tuple[LayerKind, Recognised] | None
Translator = Callable[[Node], Translation]


def recognise_node(node: Node) -> tuple[LayerKind, Recognised] | None:
    """The layer kind of a node; None where no kind knows it."""
    translator = TRANSLATORS.get(node.operator)
    found = translator(node) if translator else None
    if found is None:
        return None
    return recognise(found) if isinstance(found, Operation) else first_possible([found])


def node_flops(node: Node) -> int | None:
    """FLOPs of an operator that is a product although no kind knows it."""
    if node.operator != "Einsum":
        return None
    terms = node.attributes["equation"].replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, filter(None, node.shapes), strict=True):
        # The axes that "..." stands for are those in front of the last ones, so they are numbered from the right.
        axes = "9876543210"[10 - (len(shape) - len(term.replace("...", ""))) :]
        sizes |= dict(zip(term.replace("...", axes), shape, strict=True))
    return 2 * math.prod(sizes.values())


def _window(node: Node, source: Shape, kernel: Shape) -> dict[str, tuple[int, ...]]:
    """Stride, dilation and padding along each axis. A padding that differs between the two sides is made even."""
    count = len(kernel)
    attributes = node.attributes
    strides = tuple(attributes.get("strides", (1,) * count))
    dilations = tuple(attributes.get("dilations", (1,) * count))
    pads = attributes.get("pads", (0,) * 2 * count)
    automatic = attributes.get("auto_pad", "NOTSET")
    paddings = []
    for axis in range(count):
        span = dilations[axis] * (kernel[axis] - 1) + 1
        size, out = source[2 + axis], node.output[2 + axis]
        total = pads[axis] + pads[count + axis]
        if automatic.startswith("SAME"):
            total = max((out - 1) * strides[axis] + span - size, 0)
        halves = (-(-total // 2), total // 2)
        fitting = [half for half in halves if (size + 2 * half - span) // strides[axis] + 1 == out]
        paddings.append((*fitting, halves[0])[0])
    return {"stride": strides, "dilation": dilations, "padding": tuple(paddings)}


def _convolution(weight: int = 1, bias: int = 2, transposed: bool = False) -> Translator:
    def translate(node: Node) -> Translation:
        source, filters = node.shape(0), node.shape(weight)
        if source is None or filters is None:
            return None
        extra = tuple(node.attributes.get("output_padding", (0,) * len(filters[2:])))
        return node.operation(
            "aten.convolution",
            {"input": source, "weight": filters, "bias": node.shape(bias)},
            **_window(node, source, filters[2:]),
            transposed=transposed,
            output_padding=extra,
            groups=node.attributes.get("group", 1),
        )

    return translate


def _pool(name: str) -> Translator:
    def translate(node: Node) -> Translation:
        source, kernel = node.shape(0), tuple(node.attributes["kernel_shape"])
        if source is None:
            return None
        window = _window(node, source, kernel)
        ceil_mode = bool(node.attributes.get("ceil_mode", 0))
        return node.operation(name, {"self": source}, kernel_size=kernel, ceil_mode=ceil_mode, **window)

    return translate


def _gemm(node: Node) -> Translation:
    left, right = node.shape(0), node.shape(1)
    if left is None or right is None:
        return None
    rows = left[::-1] if node.attributes.get("transA") else left
    weight = right[::-1] if node.attributes.get("transB") else right
    if node.shape(2) is None:
        return node.operation("aten.mm", {"self": rows, "mat2": weight})
    return node.operation("aten.addmm", {"mat1": rows, "mat2": weight})


def _matmul(right_position: int = 1) -> Translator:
    def translate(node: Node) -> Translation:
        left, right = node.shape(0), node.shape(right_position)
        if left is None or right is None:
            return None
        left = left if len(left) > 1 else (1, *left)
        right = right if len(right) > 1 else (*right, 1)
        if len(right) == 2:
            return node.operation("aten.mm", {"self": (math.prod(left[:-1]), left[-1]), "mat2": right})
        pairs = math.prod(node.output) // (left[-2] * right[-1])
        return node.operation("aten.bmm", {"self": (pairs, *left[-2:]), "mat2": (pairs, *right[-2:])})

    return translate


def _same(name: str, *options: str) -> Translator:
    """An operator on one tensor, with those of its attributes that tell kinds apart."""

    def translate(node: Node) -> Translation:
        given = {option: node.attributes.get(option, "none") for option in options}
        return node.operation(name, {"self": node.shape(0)}, **given)

    return translate


def _arithmetic(name: str) -> Translator:
    return lambda node: node.operation(name, {"self": node.shape(0), "other": node.shape(1)})


def _power(node: Node) -> Translation:
    exponent = node.value(1)
    if exponent is None or exponent.size != 1:
        return None
    return node.operation("aten.pow", {"self": node.shape(0)}, exponent=exponent.item())


def _transpose(node: Node) -> Translation:
    """A view in torch; runtimes of ONNX copy it, as torch does to make the view contiguous."""
    source = node.shape(0) or ()
    order = node.attributes.get("perm", range(len(source))[::-1])
    strides = contiguous_strides(source)
    return replace(
        node.operation("aten.clone", {"self": node.output}),
        strides={"self": tuple(strides[axis] for axis in order)},
        output_strides=contiguous_strides(node.output),
    )


def _clip(node: Node) -> Translation:
    low, high = node.attributes.get("min", node.value(1)), node.attributes.get("max", node.value(2))
    bounded = low is not None and high is not None and (float(low), float(high)) == (0.0, 6.0)
    return node.operation("aten.hardtanh", {"self": node.shape(0)}) if bounded else None


def _mean(node: Node) -> Translation:
    axes = node.attributes.get("axes", node.value(1))
    axes = (2, 3) if node.operator == "GlobalAveragePool" else axes
    return None if axes is None else node.operation("aten.mean", {"self": node.shape(0)}, dim=tuple(map(int, axes)))


def _batch_norm(node: Node) -> Translation:
    return node.operation("aten._native_batch_norm_legit_no_training", {"input": node.shape(0)})


def _row_norm(name: str) -> Translator:
    def translate(node: Node) -> Translation:
        source = node.shape(0) or ()
        normalised = source[node.attributes.get("axis", -1) :]
        return node.operation(name, {"input": source}, normalized_shape=normalised)

    return translate


def _group_norm(node: Node) -> Translation:
    source = node.shape(0) or ()
    return node.operation(
        "aten.native_group_norm", {"input": source}, group=node.attributes.get("num_groups", source[1])
    )


def _softmax(node: Node) -> Translation:
    return node.operation("aten._softmax", {"self": node.shape(0)}, dim=node.attributes.get("axis", -1))


def _concat(node: Node) -> Translation:
    shapes = tuple(shape for shape in node.shapes if shape is not None)
    return replace(
        node.operation("aten.cat", {"tensors": shapes}, dim=node.attributes["axis"]),
        strides={"tensors": tuple(map(contiguous_strides, shapes))},
        output_strides=contiguous_strides(node.output),
    )


def _gather(node: Node) -> Translation:
    table = node.shape(0) or ()
    if len(table) != 2 or not node.constant[0] or node.attributes.get("axis", 0) != 0:
        return None
    return node.operation("aten.embedding", {"weight": table, "indices": node.shape(1)})


def _resize(node: Node) -> Translation:
    modes = {"nearest": "nearest", "linear": "bilinear"}
    mode = modes.get(node.attributes.get("mode", "nearest"))
    return node.operation(f"aten.upsample_{mode}2d", {"self": node.shape(0)})


def _recurrent(kind: str) -> Translator:
    def translate(node: Node) -> Translation:
        source = node.shape(0) or ()
        first, second, features = source
        batch_first = bool(node.attributes.get("layout", 0))
        batch_size, steps = (first, second) if batch_first else (second, first)
        parameters = {
            "input_size": features,
            "hidden_size": node.attributes["hidden_size"],
            "sequence_length": steps,
            "bidirectional": node.attributes.get("direction") == "bidirectional",
            "bias": node.shape(3) is not None,
        }
        return layer_kinds[kind], Recognised(parameters, batch_size)

    return translate


def _attention(node: Node) -> Translation:
    heads = {0: node.attributes.get("q_num_heads"), 1: node.attributes.get("kv_num_heads")}

    def by_head(position: int) -> Shape:
        shape = node.shape(position) or ()
        count = heads[min(position, 1)]
        return shape if count is None else (shape[0], count, shape[1], shape[2] // count)

    query, key, value = map(by_head, range(3))
    causal = bool(node.attributes.get("is_causal", 0))
    return node.operation(
        "aten.scaled_dot_product_attention", {"query": query, "key": key, "value": value}, is_causal=causal
    )


def _grouped_attention(node: Node) -> Translation:
    """What ONNX Runtime has for grouped heads: always causal, with a cache of keys, and perhaps with a window."""
    query, key, past = node.shape(0) or (), node.shape(1), node.shape(3)
    heads, kv_heads = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    batch_size, tokens, features = query
    size = features // (heads if key else heads + 2 * kv_heads)
    # A cache of a fixed length is read as far as it is full, which no shape says.
    keys = (batch_size, kv_heads, tokens + (past[2] if past else 0), size)
    return node.operation(
        "aten.scaled_dot_product_attention",
        {"query": (batch_size, heads, tokens, size), "key": keys, "value": keys},
        is_causal=True,
        window=max(node.attributes.get("local_window_size", -1), 0),
    )


TRANSLATORS: Mapping[str, Translator] = {
    "com.microsoft.GroupQueryAttention": _grouped_attention,
    "Conv": _convolution(),
    "ConvInteger": _convolution(bias=9),
    "QLinearConv": _convolution(weight=3, bias=8),
    "ConvTranspose": _convolution(transposed=True),
    "Gemm": _gemm,
    "MatMul": _matmul(),
    "MatMulInteger": _matmul(),
    "QLinearMatMul": _matmul(right_position=3),
    "MaxPool": _pool("aten.max_pool2d"),
    "AveragePool": _pool("aten.avg_pool2d"),
    "GlobalAveragePool": _mean,
    "ReduceMean": _mean,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _row_norm("aten.native_layer_norm"),
    "RMSNormalization": _row_norm("aten.rms_norm"),
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _group_norm,
    "Softmax": _softmax,
    "Relu": _same("aten.relu"),
    "LeakyRelu": _same("aten.leaky_relu"),
    "Sigmoid": _same("aten.sigmoid"),
    "HardSigmoid": _same("aten.hardsigmoid"),
    "HardSwish": _same("aten.hardswish"),
    "Swish": _same("aten.silu"),
    "Tanh": _same("aten.tanh"),
    "Gelu": _same("aten.gelu", "approximate"),
    "Clip": _clip,
    "Add": _arithmetic("aten.add"),
    "Sub": _arithmetic("aten.sub"),
    "Mul": _arithmetic("aten.mul"),
    "Div": _arithmetic("aten.div"),
    "Neg": _same("aten.neg"),
    "Pow": _power,
    "Transpose": _transpose,
    "Concat": _concat,
    "Gather": _gather,
    "Resize": _resize,
    "Upsample": _resize,
    "LSTM": _recurrent("lstm"),
    "GRU": _recurrent("gru"),
    "Attention": _attention,
}
