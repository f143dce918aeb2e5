"""Three known devices and a new one, all made up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.selection.budget import Budget
from medn.training.train_run import train_run
from medn.transfer.adapt_run import AdaptOutcome, adapt_run

FAMILIES = ("roofline", "median", "best_source", "source_stack", "gaussian_process_on_stack")


@pytest.fixture(scope="session")
def known(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three devices with its bundle. Nobody changes it."""
    run = write_run(tmp_path_factory.mktemp("known") / "desk", devices=("slow", "slower", "slowest"), layers=60)
    train_run(run, seconds=60.0, families=("roofline",))
    bundle_run(run, select_run(run, Budget()).chosen)
    return run


@pytest.fixture(scope="session")
def new_run(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few layers on a new device, adapted. Copy it before changing anything."""
    return write_run(tmp_path_factory.mktemp("new") / "phone", devices=("new",), layers=16, activations=14, seed=5)


@pytest.fixture(scope="session")
def adapted(known: Path, new_run: Path) -> AdaptOutcome:
    return adapt_run(new_run, [known], seconds=60.0, families=FAMILIES)
