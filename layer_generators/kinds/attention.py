"""Scaled dot-product attention, without the projections around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of, weighted
from medn.layer_generators.kind import Column, Costs, LayerKind, Product, TensorSpec, Values, flag, integer, layer_kinds
from medn.layer_generators.operation import Operation, Recognised

if TYPE_CHECKING:
    import torch


@layer_kinds.register
class Attention(LayerKind):
    name = "attention"
    description = "scaled dot-product attention, without projections"
    parameters = (
        integer("heads", "heads that attend by themselves", 1, 1024),
        integer("head_size", "features of one head", 1, 4096),
        integer("query_length", "tokens that look", 1, 1_048_576),
        integer("key_length", "tokens that are looked at", 1, 1_048_576),
        flag("causal", "a token sees itself and those before it"),
    )
    shorthands = {"sequence_length": ("query_length", "key_length")}
    sweep = {
        "heads": one_of(1, 3, 4, 6, 8, 12, 16),
        "head_size": weighted({32: 0.25, 64: 0.5, 80: 0.05, 128: 0.2}),
        "sequence_length": log_range(16, 512),
        "causal": weighted({False: 0.6, True: 0.4}),
    }
    tiled = ("head_size", "query_length", "key_length")

    def rules(self, values: Values) -> Iterator[str]:
        if values.causal and values.query_length != values.key_length:
            lengths = f"query_length={values.query_length} and key_length={values.key_length}"
            yield f"causal: needs equal lengths (got {lengths}); a single new token sees all keys without it"

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        causal: bool = values.causal

        class DotProductAttention(torch.nn.Module):
            def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
                return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)

        return DotProductAttention()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        keys = TensorSpec((batch_size, values.heads, values.key_length, values.head_size))
        return (TensorSpec(self.output_shape(values, batch_size)), keys, keys)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.heads, values.query_length, values.head_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        pairs = batch_size * values.heads
        scores = pairs * values.query_length * values.key_length
        token_bytes = pairs * values.head_size * element_bytes
        return Costs(
            # Two products over all scores; what a causal mask hides is counted too.
            flops=4 * scores * values.head_size,
            input_bytes=(values.query_length + 2 * values.key_length) * token_bytes,
            output_bytes=values.query_length * token_bytes,
            more={"pairs": pairs, "score_bytes": scores * element_bytes},
            product=Product(pairs, values.query_length, values.head_size, values.key_length),
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        # Every device has a fused operator of its own; all have this in their names and arguments.
        query, key, value = (operation.shape(name) for name in ("query", "key", "value"))
        if "scaled_dot_product" not in operation.name or query is None or key is None or value is None:
            return None
        if len(query) not in (3, 4) or value[-1] != query[-1]:
            return None
        parameters = {
            "heads": query[1] if len(query) == 4 else 1,
            "head_size": query[-1],
            "query_length": query[-2],
            "key_length": key[-2],
            # A mask over unequal lengths is an ordinary one, whatever the operator calls it.
            "causal": bool(operation.attributes.get("is_causal")) and query[-2] == key[-2],
        }
        return Recognised(parameters, batch_size=query[0])
