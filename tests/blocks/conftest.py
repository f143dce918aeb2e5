"""A model of blocks that a child process can make, too."""

from __future__ import annotations

from pathlib import Path

import pytest

MADE = """
import torch

class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(64, width), torch.nn.Linear(width, 64)

    def forward(self, given):
        return given + self.narrow(torch.relu(self.wide(given)))

def make():
    return torch.nn.Sequential(*(Residual(width) for width in (96, 128, 160, 192))), torch.zeros(2, 64)

def plain():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()), torch.zeros(2, 64)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The source of a model with four blocks, in the working directory."""
    (tmp_path / "nets_of_blocks.py").write_text(MADE)
    monkeypatch.chdir(tmp_path)
    return "python:nets_of_blocks:make"
