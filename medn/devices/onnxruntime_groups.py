"""What ONNX Runtime runs as one, from the graph that it writes when it has optimised a model."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medn.devices.onnx_nodes import DataNodes

LAYOUT_OPERATORS = ("ReorderInput", "ReorderOutput", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
"""They change how a tensor lies or is called; no work is fused into them."""
BLOCKED_NAME = re.compile(r"(.+)_nchwc(_token_\d+)?")
"""The name of an operator in the blocked layout: it tells the tensor that the operator made in the plain layout."""


def read_fused(content: bytes) -> tuple[tuple[str, ...], ...]:
    """The names of the nodes of an ONNX model in groups that run as one.

    A tensor that the optimised graph still has was not fused away, so a group is what lies between such tensors.
    """
    original = DataNodes(content)
    optimized = DataNodes(_optimized(content))
    # By what they make: nodes that stand for one operator of a file may have no names.
    made = {node.output[0]: _made(node, original, optimized) for node in optimized.nodes}
    alive = {tensor for tensors in made.values() for tensor in tensors}
    groups = (
        original.between(made[node.output[0]], alive)
        for node in optimized.nodes
        if node.op_type not in LAYOUT_OPERATORS and not _follows_unknown(node, optimized, made)
    )
    return tuple(group for group in groups if group)


def _optimized(content: bytes) -> bytes:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory(prefix="medn-onnxruntime-") as folder:
        file = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(file)
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return file.read_bytes()


def _made(node: Any, original: DataNodes, optimized: DataNodes) -> tuple[str, ...]:
    """The tensors of the original graph that a node of the optimised one makes; none where that cannot be told."""
    if named := tuple(tensor for tensor in node.output if tensor in original.producers):
        return named
    blocked = BLOCKED_NAME.fullmatch(node.name)
    if blocked is not None and blocked[1] in original.producers:
        return (_end_of_blocked(node, blocked[1], original),)
    if node.name in original.by_name:
        return tuple(original.by_name[node.name].output)
    return tuple(_behind_layout(node, original, optimized)) or _of_name(node.name, original)


def _end_of_blocked(node: Any, tensor: str, original: DataNodes) -> str:
    """A convolution in the blocked layout absorbs a sum (its fourth input), then an activation (an attribute)."""
    activation = next((each.s.decode() for each in node.attribute if each.name == "activation"), None)
    if node.op_type == "Conv" and len(node.input) > 3 and node.input[3]:
        tensor = _step(tensor, "Add", original)
    if activation is not None and original.producers[tensor].op_type != activation:
        tensor = _step(tensor, activation, original)
    return tensor


def _step(tensor: str, operator: str, original: DataNodes) -> str:
    """The output of the only reader, if that is the expected operator."""
    reader = original.only_reader(tensor)
    return str(reader.output[0]) if reader is not None and reader.op_type == operator else tensor


def _behind_layout(node: Any, original: DataNodes, optimized: DataNodes) -> Iterator[str]:
    """What a new operator makes is often only reshaped to a tensor of the original graph, such as rows to images."""
    for reader in optimized.after(node):
        if reader.op_type in LAYOUT_OPERATORS:
            yield from _made(reader, original, optimized)


def _of_name(name: str, original: DataNodes) -> tuple[str, ...]:
    """A new operator for several nodes is called as the last of them, with the name of the fusion behind it."""
    before, slash, _ = name.rstrip("/").rpartition("/")
    return tuple(original.by_name[before].output) if slash and before in original.by_name else ()


def _follows_unknown(node: Any, optimized: DataNodes, made: dict[str, tuple[str, ...]]) -> bool:
    """Whether it reads what an operator made of which nothing is known, and so would seem to have absorbed that."""
    return any(
        not made[each.output[0]] and (each.op_type not in LAYOUT_OPERATORS or _follows_unknown(each, optimized, made))
        for each in optimized.before(node)
    )
