"""A predictor of linear layers and activations, and small models to ask it about."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import medn
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.predictor.predictor import Predictor


@pytest.fixture(scope="session")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


class Small(torch.nn.Module):
    """Two equal linear layers and a third one, a ReLU, and a sum that the bundle does not predict."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(128, 128)
        self.second = torch.nn.Linear(128, 128)
        self.head = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(128, 64))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(given + self.second(self.first(given)))
        return result


@pytest.fixture(scope="session")
def small() -> torch.nn.Module:
    return Small()


@pytest.fixture(scope="session")
def captured(small: torch.nn.Module) -> CapturedModel:
    return capture(small, torch.zeros(2, 128))
