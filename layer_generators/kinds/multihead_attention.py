"""Self-attention with its projections, as `torch.nn.MultiheadAttention` computes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.kind import Column, Costs, LayerKind, Product, TensorSpec, Values, flag, integer, layer_kinds
from medn.layer_generators.operation import Operation, Recognised

if TYPE_CHECKING:
    import torch


@layer_kinds.register
class MultiheadAttention(LayerKind):
    name = "multihead_attention"
    description = "self-attention with its projections"
    parameters = (
        integer("embed_size", "features of a token", 1, 65_536),
        integer("heads", "heads that attend by themselves", 1, 1024),
        integer("sequence_length", "tokens of each batch entry", 1, 1_048_576),
        flag("bias", "a bias in each projection", default=True),
    )
    sweep = {
        "embed_size": log_range(64, 1024, multiple_of=64),
        "heads": one_of(1, 2, 4, 8, 16),
        "sequence_length": log_range(8, 384),
        "bias": weighted({True: 0.8, False: 0.2}),
    }
    tiled = ("embed_size", "sequence_length")

    def rules(self, values: Values) -> Iterator[str]:
        if values.embed_size % values.heads:
            yield f"heads: must divide embed_size={values.embed_size} (got {values.heads})"

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        class SelfAttention(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.attention = torch.nn.MultiheadAttention(
                    values.embed_size, values.heads, bias=values.bias, batch_first=True
                )

            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                output: torch.Tensor = self.attention(tokens, tokens, tokens, need_weights=False)[0]
                return output

        return SelfAttention()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.sequence_length, values.embed_size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.sequence_length, values.embed_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        tokens = batch_size * values.sequence_length
        projections = 4 * values.embed_size * values.embed_size
        scores = tokens * values.sequence_length
        return Costs(
            flops=2 * tokens * projections + 4 * scores * values.embed_size,
            input_bytes=tokens * values.embed_size * element_bytes,
            output_bytes=tokens * values.embed_size * element_bytes,
            parameter_bytes=(projections + 4 * values.bias * values.embed_size) * element_bytes,
            more={
                "matrix_rows": tokens,
                "head_size": values.embed_size // values.heads,
                "score_bytes": scores * values.heads * element_bytes,
            },
            product=Product(1, tokens, values.embed_size, 3 * values.embed_size),
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        tokens, key = operation.shape("query"), operation.shape("key")
        if operation.name != "aten._native_multi_head_attention" or tokens is None or tokens != key:
            return None
        parameters = {
            "embed_size": tokens[2],
            "heads": operation.attributes["num_head"],
            "sequence_length": tokens[1],
            "bias": operation.shape("qkv_bias") is not None,
        }
        return Recognised(parameters, batch_size=tokens[0])

    def recognise_module(self, module: torch.nn.Module, input_shapes: tuple[tuple[int, ...], ...]) -> Recognised | None:
        import torch

        if not isinstance(module, torch.nn.MultiheadAttention) or len(set(input_shapes)) != 1:
            return None
        if len(input_shapes[0]) != 3 or not module._qkv_same_embed_dim:
            return None
        batch_axis, token_axis = (0, 1) if module.batch_first else (1, 0)
        parameters = {
            "embed_size": module.embed_dim,
            "heads": module.num_heads,
            "sequence_length": input_shapes[0][token_axis],
            "bias": module.in_proj_bias is not None,
        }
        return Recognised(parameters, batch_size=input_shapes[0][batch_axis])
