"""`medn programs` learns from a run, shows the families side by side, and writes the predictor."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medn.cli.main import run as run_command
from medn.programs import ProgramPredictor


@pytest.fixture
def run(program_run: Path, tmp_path: Path) -> Path:
    shutil.copy(program_run / "measurements.sqlite", tmp_path)
    return tmp_path


def test_the_chosen_family_is_written_with_how_it_scored(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["programs", str(run), "--families", "ast-encoder,xgboost_pooled", "--time", "2s", "--json"]
    assert run_command(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["programs"] == 144
    (chosen,) = [row for row in told["candidates"] if row["chosen"]]
    loaded = ProgramPredictor.load(Path(told["bundle"]))
    assert loaded.family == chosen["family"]
    assert loaded.about["test"]["mape"] == chosen["mape"]


def test_layers_are_not_learned_from_programs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["train", str(run), "--time", "1s"]) == 2
    assert f"Learn from them with: medn programs {run}" in capsys.readouterr().err


def test_an_impossible_budget_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["programs", str(run), "--families", "xgboost_pooled", "--max-kb", "0.01", "--time", "2s"]) == 2
    assert "nearest possible" in capsys.readouterr().err
