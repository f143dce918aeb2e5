"""`medn sweep --until-error` and `--adaptive` as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medn.cli.main import run

SMALL = {
    "name": "small",
    "devices": ["torch"],
    "layers": {"linear": {"in_features": {"log_range": [8, 64]}, "out_features": {"log_range": [8, 64]}, "rows": 1}},
    "measure": {"visits": 1, "max_visits": 1, "visit_time": 0.005},
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("medn.adaptive.pool.POOL_POINTS", 200)
    (tmp_path / "small.yaml").write_text(json.dumps(SMALL))
    return str(tmp_path / "small.yaml")


@pytest.mark.parametrize("aim", ["0", "abc", "100%", "-3", "nan", "inf", "0.00001%", "", "5%%"])
def test_an_aim_that_is_no_error_is_refused(aim: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", config, f"--until-error={aim}"]) == 2
    assert "must be a mean error in per cent, from 0.1% to 99%, as in 5%" in capsys.readouterr().err


def test_a_sweep_that_would_never_end_is_refused(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", config, "--adaptive"]) == 2
    assert "--adaptive needs an end: --time, --points" in capsys.readouterr().err


def test_an_adaptive_sweep_ends_with_its_points_and_goes_on_with_more(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for points in ("26", "34", "34"):
        command = ["sweep", config, "--adaptive", "--points", points, "--run", str(tmp_path / "run"), "--no-curve"]
        assert run([*command, "--json"]) == 0
        out, err = capsys.readouterr()
        told.append(json.loads(out))
        assert f"all {points} points of the budget are measured" in err
    assert [(each["visits"], each["ended_by"]) for each in told] == [(26, "points"), (8, "points"), (0, "points")]
    assert told[-1]["summary"]["points"] == 34


def test_the_rounds_are_told(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", config, "--until-error", "1%", "--points", "26", "--run", str(tmp_path / "run"), "--no-curve"]
    assert run(command) == 0
    assert "24 points: too few layers to tell the error, wanted 1.0 %" in capsys.readouterr().err
