"""Parts of tensor expressions that several kinds share."""

from __future__ import annotations

from collections.abc import Sequence

from medn.layer_generators.kind import Expression


def plus_bias(result: Expression, weights: Sequence[Expression], axis: int) -> Expression:
    """The result with the second of the weights added along an axis, if there is a second one."""
    from tvm import te

    if len(weights) < 2:
        return result
    return te.compute(result.shape, lambda *at: result(*at) + weights[1][at[axis]], name="with_bias")


def row_products(left: Expression, right: Expression, name: str) -> Expression:
    """Every row of the left tensor times every row of the right matrix."""
    from tvm import te

    inner = te.reduce_axis((0, left.shape[-1]), name="inner")
    shape = (*left.shape[:-1], right.shape[0])
    return te.compute(shape, lambda *at: te.sum(left(*at[:-1], inner) * right[at[-1], inner], axis=inner), name=name)
