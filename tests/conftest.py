"""What several test folders share."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

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


def load_plugins(monkeypatch: pytest.MonkeyPatch, module: str) -> ModuleType:
    monkeypatch.setenv("MEDN_PLUGINS", module)
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    monkeypatch.syspath_prepend(str(PLUGINS))
    return importlib.import_module(module)


@pytest.fixture
def plain_regressors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The small regressors of tests, known in this process and in those it starts."""
    return load_plugins(monkeypatch, "plain_regressors")


@pytest.fixture(scope="session")
def write_run() -> Callable[..., Path]:
    """Writes a run folder measured on a made-up device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        found: Callable[..., Path] = importlib.import_module("made_up_run").write_run
    return found
