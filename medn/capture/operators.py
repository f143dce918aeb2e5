"""Facts about torch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

Listener = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
"""Called for each operator: the overload, its arguments and keywords, and what it returned."""

aten = torch.ops.aten


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def mutated_by(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[torch.Tensor]:
    """The arguments that an operator changes in place."""
    schema = function._schema
    if not schema.is_mutable:
        return []
    values = {argument.name: value for argument, value in zip(schema.arguments, arguments, strict=False)} | keywords
    mutated = [
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return tensors_in([values[name] for name in mutated if name in values])


def is_grouped_matmul(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether an operator is the grouped product of a mixture of experts: each matrix by its own share of the rows."""
    return function is aten._grouped_mm.default and [tensor.dim() for tensor in tensors_in(arguments)[:3]] == [2, 3, 1]


def grouped_matmul(
    ends: list[int], rows: torch.Tensor, weights: torch.Tensor, offsets: Any, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """The products of all experts, each with the rows from the last one's end to its own."""
    output = rows.new_empty((len(rows), weights.shape[-1]), dtype=out_dtype)
    experts = zip(*(matrix[: ends[-1]].tensor_split(ends[:-1]) for matrix in (rows, output)), weights, strict=True)
    for expert_rows, expert_output, weight in experts:
        if len(expert_rows):
            torch.mm(expert_rows, weight, out=expert_output)
    return output
