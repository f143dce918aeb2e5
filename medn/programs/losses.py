"""What an encoder of programs is taught by."""

from __future__ import annotations

import torch
from torch import Tensor

from medn.programs.network import Decoded

LATENCY_BEND = 0.1
"""Errors of the logarithm below this count as squares: about ten per cent, as much as programs differ by noise."""
LARGEST_LOG_ERROR = 1.5
"""Beyond this a relative error pulls no harder, so that a single program does not decide."""


def latency_loss(decoded: Decoded, log_latency: Tensor) -> Tensor:
    """Of the logarithm, which is the same for twice and for half, and of the relative error, which is what is told."""
    difference = decoded.log_latency - log_latency
    relative = torch.expm1(difference.clamp(max=LARGEST_LOG_ERROR)).abs().mean()
    return relative + torch.nn.functional.smooth_l1_loss(difference, torch.zeros_like(difference), beta=LATENCY_BEND)


def efficiency_loss(decoded: Decoded, log_efficiency: Tensor) -> Tensor:
    return torch.nn.functional.smooth_l1_loss(decoded.log_efficiency, log_efficiency, beta=LATENCY_BEND)


def ranking_loss(score: Tensor, log_latency: Tensor, groups: Tensor) -> Tensor:
    """Pairs of programs of one task and device: the faster one is to have the higher score, the more so the faster it
    is, and the more so the nearer it is to the best of them."""
    same = (groups[:, None] == groups[None]) & (log_latency[:, None] < log_latency[None])
    faster, slower = torch.nonzero(same, as_tuple=True)
    if not len(faster):
        return score.sum() * 0.0
    best = torch.full((int(groups.max()) + 1,), torch.inf).scatter_reduce(0, groups, log_latency, "amin")
    near_best = torch.exp(best[groups[faster]] - log_latency[faster])
    weights = near_best * (1 - torch.exp(log_latency[faster] - log_latency[slower]))
    losses = torch.nn.functional.softplus(score[slower] - score[faster])
    return (weights * losses).sum() / weights.sum().clamp(min=1e-6)
