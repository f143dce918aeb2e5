"""Where the documents are read: a folder with the runs and bundles that their examples ask for."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import medn


@pytest.fixture(scope="session")
def examples_folder(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder: runs of a laptop whose layers take as long as their FLOPs say. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("reader")
    write_run: Callable[[Path], Path] = importlib.import_module("convolution_bundle").write_convolution_bundle
    bundle = write_run(folder / "runs" / "quickstart")
    importlib.import_module("precision_bundle").write_precision_bundle(folder / "runs" / "precision")
    laptop = shutil.copytree(bundle.parent, folder / "runs" / "laptop", ignore=shutil.ignore_patterns("*.medn"))
    medn.train(laptop, time=2, regressors=["linear"])
    medn.select(laptop)
    for name in ("phone.medn", "server.medn"):
        shutil.copy(bundle, folder / name)
    return folder


@pytest.fixture
def reader_folder(examples_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which this test works."""
    folder = tmp_path / "reader"
    shutil.copytree(examples_folder, folder)
    monkeypatch.chdir(folder)
    return folder
