"""`medn train` as a person meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medn.cli.main import run as medn

WriteRun = Callable[..., Path]

pytestmark = pytest.mark.usefixtures("plain_regressors")


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path) -> str:
    return str(write_run(tmp_path / "run", layers=20, activations=5))


def test_the_best_of_each_kind_is_shown_beside_the_noise(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", run, "--time", "2", "--regressors", "median,test-law,test-broken"]) == 0
    out, err = capsys.readouterr()
    (line,) = (line for line in out.splitlines() if "linear" in line and "test-law" in line)
    assert "%" in line
    assert "noise" in out
    assert "too few different layers to learn from: 5, needed 8" in out
    assert "RuntimeError: this family always fails" in out
    assert "1 of 3: linear on made-up, " in err
    assert "3 candidates, 3 of them trained now" in err


def test_json_is_all_of_stdout(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", run, "--time", "2", "--regressors", "median,test-law", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == ["made-up/linear/test-law"]
    assert [each["regressor"] for each in found["candidates"]] == ["median", "test-law"]
    assert found["refused"][0]["kind"] == "activation"
    assert found["candidates"][0]["scores"]["test"]["mape"] > 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--kinds", "linea"], 2, "no measured layer kind named 'linea'. Did you mean 'linear'?"),
        (["--regressors", "medain"], 2, "no regressor named 'medain'. Did you mean 'median'?"),
        (["--kinds", "linear,"], 2, "--kinds: must be names with commas between them"),
        (["--pool", "--split", "range:flops:5"], 2, "--pool: is split at random"),
        (["--split", "randm"], 2, "no split named 'randm'. Did you mean 'random'?"),
        (["--time", "soon"], 2, "--time: must be a duration above 0"),
        (["--jobs", "0"], 2, "--jobs"),
        (["--kinds", "activation"], 3, "too few different layers to learn from"),
        (["--split", "range:flop:5"], 2, "no input named 'flop'. Did you mean 'flops'?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    run: str, options: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medn(["train", run, *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_settings_come_from_a_config_and_the_command_line_goes_before_it(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "training.yaml"
    config.write_text("time: 1\nregressors: [test-law, median]\nsettings:\n  test-law: {slope: 0.7}\n")
    assert medn(["train", run, "--config", str(config), "--set", "test-law.slope=0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert {each["regressor"]: each["settings"] for each in found} == {"median": {}, "test-law": {"slope": 0.9}}


def test_wrong_settings_are_told_before_anything_is_trained(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", run, "--set", "medn.memroy=off", "--set", "mend.memory=off"]) == 2
    err = capsys.readouterr().err
    assert "2 mistakes" in err
    assert "Did you mean 'memory'?" in err
    assert "Did you mean 'medn'?" in err


def test_too_little_time_is_said_beforehand(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", run, "--time", "1", "--regressors", "median,nearest,test-broken"]) == 0
    assert "regressors: 3, layer kinds: 1; with a second for each fit" in capsys.readouterr().err


def test_a_run_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", str(tmp_path / "nothing")]) == 1
    assert "no run named 'nothing'" in capsys.readouterr().err


def test_a_run_without_measurements_is_told_from_one_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medn(["train", str(tmp_path)]) == 3
    assert "medn sweep CONFIG" in capsys.readouterr().err


def test_only_failures_end_with_one(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", run, "--time", "2", "--regressors", "test-broken"]) == 1
    assert "no regressor could be trained" in capsys.readouterr().err
