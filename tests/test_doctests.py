"""Every example in a docstring is true. They may read and train the run `runs/laptop` and its bundle."""

from __future__ import annotations

import doctest
import importlib
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = [
    ".".join(["medn", *path.relative_to(ROOT).with_suffix("").parts]).replace("medn.medn.", "medn.")
    for folder in ("medn", "layer_generators", "regressors", "selection")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.fixture(scope="module")
def folder_with_run(selected_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from medn.choosing.bundling import bundle_run
    from medn.choosing.select_run import CHOSEN_FOLDER
    from medn.training.candidate_store import load_candidates

    folder = tmp_path_factory.mktemp("examples")
    run = shutil.copytree(selected_run, folder / "runs" / "laptop")
    bundle_run(run, load_candidates(run / CHOSEN_FOLDER))
    return folder


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_hold_in(name: str, folder_with_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder_with_run)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
