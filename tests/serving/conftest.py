"""One bundle and one server for all tests of this folder."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("prometheus_client")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


@pytest.fixture(scope="session")
def serving() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        return importlib.import_module("served_bundle")


@pytest.fixture(scope="session")
def bundle(serving: ModuleType, write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = serving.write_bundle(write_run, tmp_path_factory.mktemp("served"))
    return path


@pytest.fixture(scope="session")
def server(serving: ModuleType, bundle: Path) -> Iterator[Any]:
    with serving.Server(bundle, "--device", "fast", "--max-bytes", "20000", "--max-rows", "300") as started:
        yield started
