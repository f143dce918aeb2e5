"""The whole flow as a newcomer runs it, for real and as short as it may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import medn
from medn.cli.main import run as run_command
from medn.layer_generators.plan import plan_points
from medn.quickstart.quickstart import FAMILIES, quick_config
from medn.regressors.regressor import regressors


def test_too_short_a_time_is_refused_with_the_shortest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["quickstart", "--time", "5"]) == 2
    assert capsys.readouterr().err == "medn: --time: must be at least 40 seconds (got 5)\n"


def test_its_families_exist() -> None:
    assert set(FAMILIES) <= set(regressors)


def test_it_measures_the_usual_kinds_at_several_batch_sizes_and_two_utilizations() -> None:
    config = quick_config()
    assert {"conv2d", "linear", "max_pool2d", "batch_norm2d", "activation", "matmul"} <= set(config.layers)
    assert len({point.condition.batch_size for point in plan_points(config).points}) > 3
    assert {point.condition.utilization for point in plan_points(config).points} == {0.0, 0.5}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("quickstart") / "run"
    out = folder.with_suffix(".json")
    with pytest.MonkeyPatch.context() as patch, out.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert run_command(["quickstart", "--time", "40", "--run", str(folder), "--json"]) == 0
    return folder, json.loads(out.read_text())


@pytest.mark.serial
def test_it_ends_with_a_bundle_that_answers(told: tuple[Path, dict[str, object]]) -> None:
    folder, _ = told
    predictor = medn.load(folder / "run.medn")
    assert predictor.layer("linear", in_features=256, out_features=256).latency_s > 0


@pytest.mark.serial
def test_it_writes_a_report_and_a_leaderboard(told: tuple[Path, dict[str, object]]) -> None:
    folder, _ = told
    assert (folder / "report.html").stat().st_size > 10_000
    assert json.loads((folder / "leaderboard.json").read_text())["rows"]


@pytest.mark.serial
def test_it_compares_a_prediction_with_a_fresh_measurement(told: tuple[Path, dict[str, object]]) -> None:
    fresh = told[1]["fresh"]
    assert isinstance(fresh, dict)
    assert fresh["measured_s"] > 0
    assert fresh["predicted"]["low_s"] <= fresh["predicted"]["latency_s"] <= fresh["predicted"]["high_s"]


@pytest.mark.serial
def test_it_tells_the_errors_that_every_other_verb_tells(
    told: tuple[Path, dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, said = told
    assert isinstance(said["chosen"], list)
    own = {each["kind"]: (each["scores"]["test"]["mape"], each["coverage"]["covered"]) for each in said["chosen"]}
    for command in (["leaderboard", str(folder), "--chosen"], ["report", str(folder)]):
        assert run_command([*command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {row["kind"]: (row["mape"], row["coverage"]) for row in found.get("rows") or found["kinds"]} == own
    assert run_command(["inspect", str(folder / "run.medn"), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert {each["kind"]: (each["scores"]["test"]["mape"], each["coverage"]["covered"]) for each in entries} == own
