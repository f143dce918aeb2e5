"""What several test folders share."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture
def faulty_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the layer kind `faulty`, and so does this process."""
    load_plugins(monkeypatch, "faulty_layers")


@pytest.fixture
def own_load_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the backend `own-load`, and so does this process."""
    load_plugins(monkeypatch, "own_load_backend")


def load_plugins(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setenv("MEDN_PLUGINS", module)
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    monkeypatch.syspath_prepend(str(PLUGINS))
    importlib.import_module(module)
