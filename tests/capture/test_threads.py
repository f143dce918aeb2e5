"""Captures in several threads: they take turns, because each puts back what the model's code changes elsewhere."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from medn.capture.capture import capture


class Careless(nn.Module):
    """Counts its calls in its class and draws random numbers: all of that belongs to the whole process."""

    calls = 0

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Careless.calls += 1
        x = x + random.random()
        result: torch.Tensor = self.attention(x, x, x)[0]
        return result


def test_captures_at_the_same_time_leave_the_process_as_it_was() -> None:
    net, fast_path, drawn = Careless(), torch.backends.mha.get_fastpath_enabled(), random.getstate()
    with ThreadPoolExecutor(8) as threads:
        found = [each.result() for each in [threads.submit(capture, net, torch.zeros(1, 4, 16)) for _ in range(24)]]
    assert Careless.calls == 0
    assert random.getstate() == drawn
    assert torch.backends.mha.get_fastpath_enabled() is fast_path
    assert len({tuple(layer.operator for layer in model.layers) for model in found}) == 1
