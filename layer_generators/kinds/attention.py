"""Scaled dot-product attention, without the projections around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from medn.core.domains import log_range, one_of, weighted
from medn.core.values import Scalar
from medn.layer_generators.kind import (
    Column,
    Costs,
    LayerKind,
    Parameter,
    Product,
    TensorSpec,
    Values,
    flag,
    integer,
    layer_kinds,
)
from medn.layer_generators.onnx_node import OnnxNode
from medn.layer_generators.operation import Operation, Recognised, Shape

if TYPE_CHECKING:
    import torch


OPERATOR = "aten.scaled_dot_product_attention"


def _attention(node: OnnxNode) -> Operation:
    heads = {0: node.attributes.get("q_num_heads"), 1: node.attributes.get("kv_num_heads")}

    def by_head(position: int) -> Shape:
        shape = node.shape(position) or ()
        count = heads[min(position, 1)]
        return shape if count is None else (shape[0], count, shape[1], shape[2] // count)

    query, key, value = map(by_head, range(3))
    causal = bool(node.attributes.get("is_causal", 0))
    return node.operation(OPERATOR, {"query": query, "key": key, "value": value}, is_causal=causal)


def _grouped_attention(node: OnnxNode) -> Operation:
    """What ONNX Runtime has for grouped heads: always causal, with a cache of keys, and perhaps with a window."""
    query, key, past = node.shape(0) or (), node.shape(1), node.shape(3)
    heads, kv_heads = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    batch_size, tokens, features = query
    size = features // (heads if key else heads + 2 * kv_heads)
    # A cache of a fixed length is read as far as it is full, which no shape says.
    keys = (batch_size, kv_heads, tokens + (past[2] if past else 0), size)
    return node.operation(
        OPERATOR,
        {"query": (batch_size, heads, tokens, size), "key": keys, "value": keys},
        is_causal=True,
        window=max(node.attributes.get("local_window_size", -1), 0),
    )


@layer_kinds.register
class Attention(LayerKind):
    name = "attention"
    description = "scaled dot-product attention, without projections"
    revision = 2
    parameters: tuple[Parameter, ...] = (
        integer("heads", "heads that attend by themselves", 1, 1024),
        integer("head_size", "features of one head", 1, 4096),
        integer("query_length", "tokens that look", 1, 1_048_576),
        integer("key_length", "tokens that are looked at", 1, 1_048_576),
        flag("causal", "a token sees itself and those before it"),
        integer("kv_heads", "heads of keys and values, each for several heads; 0 for as many", 0, 1024, 0, late=True),
        integer(
            "window", "tokens that a causal token sees at most, itself included; 0 for all", 0, 1_048_576, 0, late=True
        ),
    )
    shorthands = {"sequence_length": ("query_length", "key_length")}
    sweep = {
        "heads": one_of(1, 3, 4, 6, 8, 12, 16),
        "head_size": weighted({32: 0.25, 64: 0.5, 80: 0.05, 128: 0.2}),
        "sequence_length": log_range(16, 512),
        "causal": weighted({False: 0.5, True: 0.5}),
        "kv_heads": weighted({0: 0.7, 1: 0.1, 2: 0.1, 4: 0.1}),
        "window": weighted({0: 0.85, 32: 0.05, 64: 0.05, 128: 0.05}),
    }
    tiled = ("head_size", "query_length", "key_length")
    onnx_operators = {"Attention": _attention, "com.microsoft.GroupQueryAttention": _grouped_attention}

    def open(self, given: dict[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        """As many heads of keys as heads, and a window over all tokens, are written in one way."""
        heads, length = given.get("heads"), given.get("key_length", 0)
        if heads is not None and given.get("kv_heads") == heads:
            given = {**given, "kv_heads": 0}
        if given.get("window", 0) >= length > 0:  # type: ignore[operator]
            given = {**given, "window": 0}
        return given, []

    def rules(self, values: Values) -> Iterator[str]:
        if values.causal and values.query_length != values.key_length:
            lengths = f"query_length={values.query_length} and key_length={values.key_length}"
            yield f"causal: needs equal lengths (got {lengths}); a single new token sees all keys without it"
        if values.heads % (values.kv_heads + (values.kv_heads < 1)):
            yield f"kv_heads: must divide heads={values.heads} (got {values.kv_heads})"
        if values.kv_heads == values.heads:
            yield f"kv_heads: as many as heads is 0 (got {values.kv_heads})"
        if values.window and not values.causal:
            yield f"window: needs causal (got window={values.window})"
        if values.window >= values.key_length:
            yield f"window: all key_length={values.key_length} tokens is 0 (got {values.window})"

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        causal, window, groups = values.causal, values.window, values.heads // (values.kv_heads or values.heads)

        class DotProductAttention(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                # A plain attribute: a mask is no parameter, and no bytes of a layer without one.
                self.mask = _window_mask(values.query_length, window) if window else None

            def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
                mask = None if self.mask is None else self.mask.to(query.dtype)
                if groups > 1 and torch.onnx.is_in_onnx_export():  # ONNX has no other word for it
                    key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
                return torch.nn.functional.scaled_dot_product_attention(
                    query,
                    key,
                    value,
                    mask,
                    is_causal=causal and mask is None,
                    enable_gqa=key.shape[1] != query.shape[1],
                )

        return DotProductAttention()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        keys = TensorSpec((batch_size, values.kv_heads or values.heads, values.key_length, values.head_size))
        return (TensorSpec(self.output_shape(values, batch_size)), keys, keys)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.heads, values.query_length, values.head_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        pairs = batch_size * values.heads
        kv_heads = values.kv_heads + (values.kv_heads < 1) * values.heads
        scores = values.query_length * values.key_length
        # Each causal token sees one more than the one before it, until it sees as many as the window holds.
        window = values.window + (values.window < 1) * values.key_length
        hidden = scores - (window * values.query_length - window * (window - 1) // 2)
        seen = pairs * (scores - values.causal * hidden)
        token_bytes = batch_size * values.head_size * element_bytes
        return Costs(
            flops=4 * seen * values.head_size,  # two products
            input_bytes=(values.query_length * values.heads + 2 * values.key_length * kv_heads) * token_bytes,
            output_bytes=values.query_length * values.heads * token_bytes,
            more={"pairs": pairs, "score_bytes": seen * element_bytes, "heads_of_a_key": values.heads // kv_heads},
            product=Product(pairs, values.query_length, values.head_size, values.key_length),
        )

    def recognise(self, operation: Operation) -> Recognised | None:
        # Every device has a fused operator of its own; all have this in their names and arguments.
        query, key, value = (operation.shape(name) for name in ("query", "key", "value"))
        if "scaled_dot_product" not in operation.name or query is None or key is None or value is None:
            return None
        if len(query) not in (3, 4) or len(key) != len(query) or value[-1] != query[-1]:
            return None
        heads, kv_heads = (shape[1] if len(shape) == 4 else 1 for shape in (query, key))
        # What is only told by a mask is computed for all: a mask over unequal lengths too, whatever it is called.
        causal = bool(operation.attributes.get("is_causal")) and query[-2] == key[-2]
        window = int(operation.attributes.get("window") or 0) if causal else 0
        parameters = {
            "heads": heads,
            "head_size": query[-1],
            "query_length": query[-2],
            "key_length": key[-2],
            "causal": causal,
            "kv_heads": 0 if kv_heads == heads else kv_heads,
            "window": window if 0 < window < key[-2] else 0,
        }
        return Recognised(parameters, batch_size=query[0])

    def as_of(self, revision: int) -> LayerKind:
        return _FirstAttention() if revision == 1 else super().as_of(revision)


class _FirstAttention(Attention):
    """As the kind was at first: all scores are counted, also those that a causal mask hides."""

    revision = 1
    parameters = tuple(each for each in Attention.parameters if not each.late)

    def rules(self, values: Values) -> Iterator[str]:
        return super().rules(_ungrouped(values, values.causal))

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        counted = super().costs(_ungrouped(values, False), batch_size, element_bytes)
        return replace(counted, more={name: counted.more[name] for name in ("pairs", "score_bytes")})


def _ungrouped(values: Values, causal: Column) -> Values:
    """Layers without groups and windows, causal or not."""
    return Values(**{**vars(values), "causal": causal, "kv_heads": 0, "window": 0})


def _window_mask(length: int, window: int) -> torch.Tensor:
    """What is added to the score of each token for each key: nothing where it sees it."""
    import torch

    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    return torch.zeros(length, length).masked_fill((distance < 0) | (distance >= window), -torch.inf)
