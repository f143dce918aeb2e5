"""How far apart two sets of representations are: a network that holds this small speaks of both alike."""

from __future__ import annotations

import torch
from torch import Tensor

MOMENTS = 5
"""Central moments of a higher order tell little more."""


def moment_discrepancy(first: Tensor, second: Tensor) -> Tensor:
    """The central moment discrepancy of two sets of representations, squeezed into (-1, 1).

    >>> same = torch.tensor([[0.0], [1.0]])
    >>> float(moment_discrepancy(same, same)), float(moment_discrepancy(same, same + 1.0)) > 0
    (0.0, True)
    """
    first, second = first.tanh(), second.tanh()
    middles = first.mean(dim=0), second.mean(dim=0)
    apart = _length(middles[0] - middles[1]) / 2
    first, second = first - middles[0], second - middles[1]
    for moment in range(2, MOMENTS + 1):
        apart = apart + _length((first**moment).mean(dim=0) - (second**moment).mean(dim=0)) / 2**moment
    return apart


def _length(values: Tensor) -> Tensor:
    """Nothing has a gradient of nothing, where a square root alone has none."""
    square = values.square().sum()
    return torch.where(square > 0, square.clamp(min=1e-12).sqrt(), square)
