"""Rows picked from a table, one for each token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.domains import log_range
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised, split_batch

if TYPE_CHECKING:
    import torch

INDEX_BYTES = 8


def _gather(node: OnnxNode) -> Operation | None:
    table = node.shape(0) or ()
    if len(table) != 2 or not node.constant[0] or node.attributes.get("axis", 0) != 0:
        return None
    return node.operation("aten.embedding", {"weight": table, "indices": node.shape(1)})


@layer_kinds.register
class Embedding(LayerKind):
    name = "embedding"
    description = "rows picked from a table"
    parameters = (
        integer("vocabulary", "rows of the table", 1, 10_000_000),
        integer("features", "size of a row", 1, 65_536),
        integer("tokens", "rows picked for each batch entry", 1, 1_048_576, default=1),
    )
    sweep = {
        "vocabulary": log_range(100, 50_000),
        "features": log_range(16, 1024),
        "tokens": log_range(1, 1024),
    }
    tiled = ("features",)
    onnx_operators = {"Gather": _gather}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.Embedding(values.vocabulary, values.features)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.tokens), indices_below=values.vocabulary),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.tokens, values.features)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        tokens = batch_size * values.tokens
        picked = tokens * values.features
        return Costs(
            flops=picked,  # each move counts as one operation, so that no layer is without work
            input_bytes=tokens * INDEX_BYTES,
            output_bytes=picked * element_bytes,
            parameter_bytes=values.vocabulary * values.features * element_bytes,
            parameter_bytes_read=picked * element_bytes,
            more={"all_tokens": tokens},
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        table, indices = operation.shape("weight"), operation.shape("indices")
        if operation.name != "aten.embedding" or table is None or indices is None:
            return None
        batch_size, tokens = split_batch(indices)
        return Recognised({"vocabulary": table[0], "features": table[1], "tokens": tokens}, batch_size)
