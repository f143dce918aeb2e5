"""Test rows that were never calm are told apart by everyone who tells an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.choosing.leaderboard import load_leaderboard
from medn.cli.main import run as medn
from medn.core.splits import Split
from medn.deployed.candidate import deployed_of, scores_of
from medn.runs.folder import RunFolder
from medn.runs.tables import read_source
from medn.training.candidate_store import load_candidates
from medn.training.prepared import prepare
from tests.training.in_process import train_here

WriteRun = Callable[..., Path]
SLOW = '{"compute": [3e-5]}'
CALM = '{"compute": [2e-5]}'


@pytest.fixture(scope="module")
def run(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About half of the layers were never calm."""
    path = write_run(tmp_path_factory.mktemp("never-calm") / "run", activations=0)
    with RunFolder(path).store() as store:
        for reference_runs, compared in ((SLOW, "<"), (CALM, ">=")):
            store._connection.execute(
                f"UPDATE visits SET reference_runs = '{reference_runs}' WHERE point_key {compared} '8'"
            )
    train_here(path, ["linear"])
    return path


def test_errors_on_rows_that_were_never_calm_stand_beside_those_on_the_others(run: Path) -> None:
    (candidate,) = load_candidates(run / "candidates")
    scores = scores_of(candidate)
    prepared = prepare(read_source(run), ["linear"], Split(), candidate.facts.seed, without_unstable=False)[0]
    table = prepared["made-up"]["linear"]
    never_calm = table.source.never_calm
    assert never_calm is not None
    rows = never_calm[table.rows.test]
    errors = np.abs(deployed_of(candidate).predict(table.test.inputs) / table.test.target - 1)
    assert scores.never_calm == pytest.approx(rows.mean(), abs=1e-5)
    assert scores.test_never_calm is not None
    assert scores.test_calm is not None
    assert scores.test_never_calm.mape == pytest.approx(errors[rows].mean(), rel=1e-4)
    assert scores.test_calm.mape == pytest.approx(errors[~rows].mean(), rel=1e-4)


def test_where_nothing_is_known_nothing_is_told_apart(write_run: WriteRun, tmp_path: Path) -> None:
    (candidate,) = train_here(write_run(tmp_path / "run", activations=0), ["linear"])
    scores = scores_of(candidate)
    assert (scores.never_calm, scores.test_calm, scores.test_never_calm) == (None, None, None)


def test_the_leaderboard_has_both_errors(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["select", str(run)]) == 0
    assert "of the test rows were never calm" in capsys.readouterr().err
    (row,) = load_leaderboard(run).rows
    assert min(row["never_calm"], row["never_calm_mape"], row["calm_mape"]) > 0
    assert medn(["leaderboard", str(run)]) == 0
    assert "never calm" in capsys.readouterr().out
