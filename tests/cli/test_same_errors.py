"""One candidate has one error and one coverage, whichever verb tells them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medn
from medn.choosing.evaluation import evaluate_run
from medn.cli.main import run as run_command
from medn.core.metrics import relative_errors

WriteRun = Callable[..., Path]
ERRORS = ("mape", "median", "p90", "within_5", "within_10", "r2", "spearman")


def told(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run_command([*command, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def of_candidate(candidate: dict[str, Any]) -> dict[str, Any]:
    """What a verb tells that lists candidates."""
    errors = {name: candidate["scores"]["test"][name] for name in ERRORS}
    return errors | {"coverage": candidate["coverage"]["covered"], "width": candidate["coverage"]["mean_width"]}


def of_row(row: dict[str, Any]) -> dict[str, Any]:
    """What a verb tells that has the columns of the leaderboard."""
    return {name: row[name] for name in (*ERRORS, "coverage", "width")}


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path, plain_regressors: object) -> Path:
    return write_run(tmp_path / "run", layers=60, activations=0, seed=12)


def test_every_verb_and_the_bundle_tell_the_same_errors_and_coverage(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "median,ridge,roofline,test-law"
    trained = told(capsys, "train", str(run), "--time", "30", "--regressors", names)
    assert min(each["outside"] for each in trained["candidates"]) > 0, "the point of this test are rows outside"
    (chosen,) = told(capsys, "select", str(run))["chosen"]
    by_name = {row["candidate"]: of_row(row) for row in told(capsys, "leaderboard", str(run))["rows"]}
    for candidate in (*trained["candidates"], chosen):
        assert of_candidate(candidate) == by_name[candidate["regressor"]]
    (entry,) = told(capsys, "inspect", str(run / "run.medn"))["entries"]
    assert of_candidate(entry) == of_candidate(chosen)
    (kind,) = told(capsys, "report", str(run))["kinds"]
    assert of_row(kind) == of_candidate(chosen)
    (place,) = evaluate_run(run)
    test = place.prepared.test
    latency_s, low_s, high_s, _ = medn.load(run / "run.medn").estimator("linear").deployed.answer(test.inputs)
    covered = (test.target >= low_s) & (test.target <= high_s)
    expected = chosen["scores"]["test"]["mape"], chosen["coverage"]["covered"]
    assert (relative_errors(latency_s, test.target).mean(), covered.mean()) == pytest.approx(expected, rel=1e-5)
