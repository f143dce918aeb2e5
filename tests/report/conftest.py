"""A run that was measured, trained and chosen from, on a made-up device."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from medn.choosing.select_run import select_run
from medn.report.content import Content, gather
from medn.report.page import report_page
from medn.selection.budget import Budget
from medn.training.train_run import train_run

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


@pytest.fixture(scope="session")
def chosen_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by all tests: read it, copy it, but do not change it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDN_PLUGINS", "plain_regressors")
        patch.setenv("PYTHONPATH", str(PLUGINS))
        patch.syspath_prepend(str(PLUGINS))
        importlib.import_module("plain_regressors")
        run: Path = importlib.import_module("made_up_run").write_run(
            tmp_path_factory.mktemp("runs") / "desk", activations=40
        )
        train_run(run, seconds=2.0, families=("median", "roofline", "test-law"))
        select_run(run, Budget())
    return run


@pytest.fixture(scope="session")
def content(chosen_run: Path) -> Content:
    return gather(chosen_run)


@pytest.fixture(scope="session")
def page(content: Content) -> str:
    """Drawn once, as that takes the time."""
    return report_page(content)
