"""The whole flow as a newcomer runs it, for real and as short as it may be."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import medn
from medn.cli.main import run as run_command
from medn.quickstart.growing_plan import quick_config
from medn.quickstart.schedule import ENOUGH_TRAINING_S, families
from medn.regressors.regressor import regressors
from medn.runs.folder import RunFolder

Told = tuple[Path, Mapping[str, Any]]

TIME = "50s"
"""Enough for every kind to have the layers it needs, where nothing else runs."""


def test_too_short_a_time_is_refused_with_the_shortest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["quickstart", "--time", "5"]) == 2
    assert capsys.readouterr().err == "medn: --time: must be at least 40 seconds (got 5)\n"


def test_more_time_is_for_more_families() -> None:
    assert set(families(10)) < set(families(ENOUGH_TRAINING_S)) <= set(regressors)


def visited(folder: Path) -> dict[str, int]:
    """How often each point was visited."""
    with RunFolder(folder).store(must_exist=True) as store:
        return {key: len(visits) for key, visits in store.visited().items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose quickstart was killed while it measured."""
    path = tmp_path_factory.mktemp("quickstart") / "run"
    command = [sys.executable, "-m", "medn", "quickstart", "--time", TIME, "--run", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        next(line for line in process.stderr if " visits" in line)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
    return path


@pytest.fixture(scope="module")
def told(folder: Path) -> Told:
    before = visited(folder)
    out = folder.with_suffix(".json")
    with pytest.MonkeyPatch.context() as patch, out.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert run_command(["quickstart", "--time", TIME, "--run", str(folder), "--json"]) == 0
    after = visited(folder)
    assert sum(after.values()) > sum(before.values()) > 0
    assert all(after[key] >= before[key] for key in before)
    return folder, json.loads(out.read_text())


@pytest.mark.serial
def test_it_goes_on_after_being_killed_and_ends_with_a_bundle_that_answers(told: Told) -> None:
    predictor = medn.load(told[0] / "run.medn")
    answer = predictor.layer("linear", in_features=256, out_features=256, rows=128)
    assert answer.latency_s > 0
    assert answer.in_range
    assert set(predictor.kinds) == set(quick_config().layers)


@pytest.mark.serial
def test_it_writes_a_report_a_leaderboard_and_a_composition(told: Told) -> None:
    folder, _ = told
    assert (folder / "report.html").stat().st_size > 10_000
    assert json.loads((folder / "leaderboard.json").read_text())["rows"]
    assert json.loads((folder / "composition.json").read_text())["stretch"] > 0


@pytest.mark.serial
def test_it_compares_a_prediction_with_a_fresh_measurement(told: Told) -> None:
    fresh = told[1]["fresh"]
    assert fresh["measured_s"] > 0
    assert fresh["predicted"]["low_s"] <= fresh["predicted"]["latency_s"] <= fresh["predicted"]["high_s"]
    assert fresh["predicted"]["in_range"]


@pytest.mark.serial
def test_it_predicts_two_whole_networks_whose_layers_are_in_range(told: Told) -> None:
    networks = {each["network"]: each for each in told[1]["networks"]}
    assert set(networks) == {"resnet18", "transformer"}
    for each in networks.values():
        assert each["in_range"] >= 0.95
        assert each["difference"] == pytest.approx(each["predicted_s"] / each["measured_s"] - 1)
        assert 0 < each["low_s"] <= each["predicted_s"] <= each["high_s"]
    assert networks["resnet18"]["measured_s"] > networks["transformer"]["measured_s"]


def told_noise(each: Mapping[str, Any]) -> float | None:
    """None where the time was too short for a second visit."""
    return each["noise"] and each["noise"]["mean"]


@pytest.mark.serial
def test_it_tells_the_errors_and_the_noise_that_every_other_verb_tells(
    told: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, said = told
    own = {each["kind"]: (each["scores"]["test"]["mape"], each["coverage"]["covered"]) for each in said["chosen"]}
    noise = {each["kind"]: told_noise(each) for each in said["chosen"]}
    for command in (["leaderboard", str(folder), "--chosen"], ["report", str(folder)]):
        assert run_command([*command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        rows = found.get("rows") or found["kinds"]
        assert {row["kind"]: (row["mape"], row["coverage"]) for row in rows} == own
        assert {row["kind"]: row["noise_mean"] for row in rows} == noise
    assert run_command(["inspect", str(folder / "run.medn"), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert {each["kind"]: (each["scores"]["test"]["mape"], each["coverage"]["covered"]) for each in entries} == own
    assert run_command(["summary", str(folder), "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)["kinds"]
    assert {each["kind"]: told_noise(each) for each in kinds} == pytest.approx(noise)


@pytest.mark.serial
def test_the_same_command_again_measures_more(
    told: Told, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = told
    monkeypatch.setenv("COLUMNS", "80")
    before = visited(folder)
    assert run_command(["quickstart", "--time", TIME, "--run", str(folder)]) == 0
    out, err = capsys.readouterr()
    after = visited(folder)
    assert sum(after.values()) > sum(before.values())
    assert all(after[key] >= before[key] for key in before)
    assert max(map(len, out.splitlines())) <= 80
    assert all(name in out for name in ("resnet18", "transformer", "noise"))
    assert "medn sweep --for" in err
