"""The work of ONNX operators that no layer kind knows."""

from __future__ import annotations

import math

from medn.layer_generators.onnx_node import OnnxNode


def node_flops(node: OnnxNode) -> int | None:
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
