"""What MNN runs as one, from the names and the marks of the operators in the graph that its converter writes."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medn.devices.onnx_nodes import DataNodes

NAME = re.compile(r"(.+?)(__matmul_converted|__group__\d+)?")
"""An operator is called as the tensor that its node makes, with more behind it where a product became a convolution
or a convolution in groups became one for each of them."""
ACTIVATIONS = ("Relu", "Clip")
"""All that an operator of MNN can do besides its own work."""
VIEWS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""MNN moves an activation to before them."""


def read_fused(content: bytes) -> tuple[tuple[str, ...], ...]:
    """The names of the nodes of an ONNX model in groups that run as one.

    Of a function or a bias that is spelled out the last tensor keeps its name; an activation that another operator
    absorbs loses its own.
    """
    original = DataNodes(content)
    absorbed: dict[str, list[Any]] = {}
    """The activation, if there is one, by the tensor that names the operator which does it."""
    for operator in _optimized(content)["oplists"]:
        named = NAME.fullmatch(operator["name"])
        if named is not None and named[1] in original.producers:
            nodes = absorbed.setdefault(named[1], [])
            if not nodes and _has_activation(operator):
                nodes += _activation_behind(named[1], original)
    ends = [node for tensor, nodes in absorbed.items() for node in (original.producers[tensor], *nodes)]
    alive = {tensor for node in ends for tensor in node.output}
    return tuple(
        (*original.between((tensor,), alive), *(node.name for node in nodes)) for tensor, nodes in absorbed.items()
    )


def _activation_behind(tensor: str, original: DataNodes) -> Iterator[Any]:
    node = original.only_reader(tensor)
    while node is not None and node.op_type in VIEWS:
        node = original.only_reader(node.output[0])
    if node is not None and node.op_type in ACTIVATIONS:
        yield node


def _optimized(content: bytes) -> Any:
    from contextlib import chdir  # of Python 3.11: this runs on the host alone

    from medn.devices.backends.mnn import call_converter, convert
    from medn.devices.native_output import captured_prints

    # Weights in the graph would be spelled out as numbers; those that go to a file leave a part where the process is.
    with tempfile.TemporaryDirectory(prefix="medn-mnn-") as folder, chdir(folder), captured_prints() as printed:
        converted = convert(content, Path(folder), printed, "--saveExternalData", "1")
        file = Path(folder) / "optimized.json"
        call_converter("--framework", "MNN", "--modelFile", str(converted), "--JsonFile", str(file))
        return json.loads(file.read_text(encoding="utf-8"))


def _has_activation(operator: Mapping[str, Any]) -> bool:
    """Convolutions are marked by one of two words, arithmetic by a number."""
    facts = operator.get("main") or {}
    common = facts.get("common") or {}
    return bool(common.get("relu") or common.get("relu6") or facts.get("activationType"))
