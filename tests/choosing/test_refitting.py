"""What was chosen, shipped as a fit on every row: the same choice and errors, other forms, and every teller says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.bundle.bundle import read_bundle
from medn.choosing.evaluation import evaluate_run
from medn.choosing.leaderboard import REFIT_ALL, load_leaderboard
from medn.choosing.select_run import CHOSEN_FOLDER, SelectOutcome, select_run
from medn.cli.main import run as run_medn
from medn.core.errors import MednError, UsageError
from medn.core.splits import Split
from medn.deployed.candidate import Candidate, deployed_of
from medn.deployed.facts import ALL, NOT_TEST
from medn.regressors.regressor import Effort, Regressor, regressors
from medn.report.content import gather
from medn.report.page import report_page
from medn.report.summary_text import summary
from medn.selection.budget import Budget
from medn.training.candidate_store import load_candidates
from tests.training.in_process import train_here

WriteRun = Callable[..., Path]


@pytest.fixture(scope="module")
def trained(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_run(tmp_path_factory.mktemp("refit-all") / "desk", layers=40, activations=0)
    train_here(run, ("ridge", "gaussian_process", "nearest"))
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "desk")


def only(outcome: SelectOutcome) -> Candidate:
    (chosen,) = outcome.chosen
    return chosen


def test_errors_and_intervals_are_those_of_before_and_the_form_is_another(run: Path) -> None:
    before, after = only(select_run(run, Budget())), only(select_run(run, Budget(), refit_all=True))
    assert (after.regressor, after.scores) == (before.regressor, before.scores)
    assert deployed_of(after).interval == deployed_of(before).interval
    assert (before.facts.learned_from, after.facts.learned_from) == (NOT_TEST, ALL)
    inputs = evaluate_run(run)[0].prepared.test.inputs
    assert not np.allclose(deployed_of(after).predict(inputs), deployed_of(before).predict(inputs), rtol=1e-6)


def test_what_ships_has_learned_from_test_rows_too(run: Path) -> None:
    for path in (run / "candidates").glob("*/*/*"):
        if path.name != "ridge":
            shutil.rmtree(path)
    after = only(select_run(run, Budget(), refit_all=True))
    table = evaluate_run(run)[0].prepared.source.table
    again = regressors["ridge"].fit(table, table.take(np.arange(0)), after.facts.settings, Effort(seed=1))
    assert deployed_of(after).form.predict(table.inputs) == pytest.approx(again.predict(table.inputs), rel=1e-4)
    numbers = [place for place, name in enumerate(table.schema.names) if name in table.schema.numeric]
    assert deployed_of(after).range.high[numbers] == pytest.approx(table.inputs[:, numbers].max(axis=0))


def test_the_run_keeps_what_the_errors_are_of(run: Path) -> None:
    select_run(run, Budget(), refit_all=True)
    (kept,) = load_candidates(run / CHOSEN_FOLDER)
    assert kept.facts.learned_from == NOT_TEST


def test_nothing_is_fitted_twice(run: Path) -> None:
    fits: list[str] = []
    first = only(select_run(run, Budget(), refit_all=True, on_fit=fits.append))
    assert fits
    again = only(select_run(run, Budget(), refit_all=True, on_fit=lambda about: pytest.fail(about)))
    inputs = evaluate_run(run)[0].prepared.test.inputs
    np.testing.assert_array_equal(deployed_of(first).predict(inputs), deployed_of(again).predict(inputs))


def test_other_settings_are_fitted_anew(run: Path) -> None:
    select_run(run, Budget(), refit_all=True)
    for path in (run / "refitted").glob("*/*/*/candidate.json"):
        written = json.loads(path.read_text())
        path.write_text(json.dumps({**written, "settings": {"other": 1}}))
    fits: list[str] = []
    select_run(run, Budget(), refit_all=True, on_fit=fits.append)
    assert fits


def test_a_missing_library_changes_nothing_and_is_one_sentence(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    select_run(run, Budget())
    before = (run / "leaderboard.json").read_bytes()
    monkeypatch.setattr(Regressor, "missing", lambda self: "it needs a library: pip install it")
    with pytest.raises(MednError, match="cannot be fitted on every row: it needs a library"):
        select_run(run, Budget(), refit_all=True)
    assert (run / "leaderboard.json").read_bytes() == before


def test_a_fit_that_fails_is_one_sentence(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the library gave up")

    monkeypatch.setattr(Regressor, "fit_together", fail)
    with pytest.raises(MednError, match=r"could not be fitted on every row: .*the library gave up"):
        select_run(run, Budget(), refit_all=True)


def test_more_bytes_than_allowed_are_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the nearest points themselves grows for sure with the rows."""
    for path in (run / "candidates").glob("*/*/*"):
        if path.name != "nearest":
            shutil.rmtree(path)
    outcome = select_run(run, Budget())
    row = next(row for row in outcome.leaderboard.rows if row["chosen"])
    whole_kb = (row["bytes"] + outcome.leaderboard.fixed_bytes) / 1e3
    with pytest.raises(UsageError, match="--refit-all: fitted on every row"):
        select_run(run, Budget(max_kb=whole_kb + 0.01), refit_all=True)


def test_rows_that_were_held_out_and_candidates_of_before_are_refitted_too(write_run: WriteRun, tmp_path: Path) -> None:
    """An earlier version did not tell after how many steps a family had stopped."""
    run = write_run(tmp_path / "held", layers=120, activations=0)
    split = "range:flops:1e6"
    train_here(run, ("ridge", "hist_boosting"), split)
    for path in run.glob("candidates-range*/*/*/*/candidate.json"):
        written = json.loads(path.read_text())
        path.write_text(json.dumps({**written, "steps": None, "learned_from": ""}))
    outcome = select_run(run, Budget(), split=Split.parse(split), refit_all=True)
    assert only(outcome).facts.learned_from == ALL


def test_the_command_line_says_what_ships(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_medn(["select", str(run), "--refit-all"]) == 0
    assert REFIT_ALL in " ".join(capsys.readouterr().err.split())
    (entry,) = read_bundle(run / "desk.medn").entries
    assert entry.latency.facts.learned_from == ALL
    assert load_leaderboard(run).refit_all
    assert REFIT_ALL in " ".join(summary(gather(run)))
    for verb in (["leaderboard", str(run)], ["inspect", str(run / "desk.medn")]):
        assert run_medn(verb) == 0
        assert "has learned from every row, test rows too" in " ".join(capsys.readouterr().err.split())
    assert run_medn(["select", str(run)]) == 0
    assert REFIT_ALL not in " ".join(capsys.readouterr().err.split())
    assert not load_leaderboard(run).refit_all


def test_errors_are_told_with_their_interval(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_medn(["select", str(run)]) == 0
    (row,) = [row for row in load_leaderboard(run).rows if row["chosen"]]
    assert row["mape_low"] < row["mape"] < row["mape_high"]
    (entry,) = read_bundle(run / "desk.medn").entries
    assert entry.latency.scores is not None
    told = entry.latency.scores.test
    assert (told.mape_low, told.mape_high) == (row["mape_low"], row["mape_high"])
    expected = f"({100 * row['mape_low']:.1f} to {100 * row['mape_high']:.1f})"
    assert expected in capsys.readouterr().out
    for verb in (["leaderboard", str(run), "--chosen"], ["inspect", str(run / "desk.medn")]):
        assert run_medn(verb) == 0
        assert expected in capsys.readouterr().out
    page = report_page(gather(run))
    assert expected in page
