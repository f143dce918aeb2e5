"""`medn plan` and `medn import --plan` as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medn.cli.main import run

CONFIG = """
name: desk
devices: [onnxruntime]
sampler: grid
layers:
  linear: {in_features: [16, 32], out_features: 8, rows: 1, bias: true}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "desk.yaml").write_text(CONFIG)
    assert run(["plan", str(tmp_path / "desk.yaml"), "--as", "pixel", "--out", str(tmp_path / "phone")]) == 0
    return tmp_path / "phone"


def test_a_plan_says_what_to_do_next(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(tmp_path / "desk.yaml"), "--as", "pixel", "--out", str(plan)]) == 0
    err = capsys.readouterr().err
    assert "2 points of pixel in 2 files, 0 of them new" in err
    assert f"medn import {plan}/results --plan {plan}" in err


def test_results_become_a_run_and_what_is_missing_is_told(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    first, second = [each["label"] for each in json.loads((plan / "plan.json").read_text())["points"]]
    results = tmp_path / "times.csv"
    results.write_text(f"label,mean_ms\n{first},1.5\nstranger,2\n")
    capsys.readouterr()
    assert run(["import", str(results), "--plan", str(plan), "--run", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "of no point of the plan" in out
    assert "1 results are only the mean" not in err  # both are
    assert "2 results are only the mean of all runs" in err
    assert f"no result yet of 1 points: {second}" in err
    assert "1 of 2 points of the plan are measured" in err
    assert run(["summary", str(tmp_path / "run"), "--json"]) == 0
    (environment,) = json.loads(capsys.readouterr().out)["environments"].values()
    assert (environment["tool"], environment["statistic"]) == ("csv", "mean")


def test_json_has_all_of_it(plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["plan", str(tmp_path / "desk.yaml"), "--as", "pixel", "--out", str(plan), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["points"], told["files"], told["written"], told["left_out"]) == (2, 2, 0, [])


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["plan", "--out", "x"], 2, "say what to measure"),
        (["import", "a.csv", "b.csv", "--kind", "x", "--latency", "y", "--run", "r"], 2, "go with --plan"),
        (["import", "a.csv", "--plan", "x", "--kind", "y", "--run", "r"], 2, "only --device and --tool"),
        (["import", "a.csv", "--plan", "x", "--run", "r"], 1, "is no layer plan"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_the_tools_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "tools", "--json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)]
    assert {"benchmark-model", "onnxruntime-perf-test", "benchncnn", "trtexec", "csv"} <= set(names)
