"""`medn curve`, and the curve after a sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medn.adaptive import run_curve as curves
from medn.adaptive.run_curve import CURVE_FILE
from medn.cli.main import run

SMALL = {
    "name": "small",
    "devices": ["torch"],
    "budget": {"points": 3},
    "layers": {"linear": {"in_features": [16, 32, 64], "out_features": 16, "rows": 1}},
    "measure": {"visits": 1, "max_visits": 1, "visit_time": 0.01},
}


@pytest.fixture(scope="module")
def measured(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("curve") / "desk", layers=48, activations=10)


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "small.yaml").write_text(json.dumps(SMALL))
    return str(tmp_path / "small.yaml")


def test_a_curve_is_a_line_for_each_kind_within_80_columns(
    measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["curve", str(measured)]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "linear" in out
    assert "too few layers: 10" in out
    assert "twice the layers: " in err
    assert " -> " in err
    assert (measured / CURVE_FILE).is_file()


def test_a_curve_as_json_is_what_is_kept(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["curve", str(measured), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((measured / CURVE_FILE).read_text())


def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["curve", str(tmp_path / "nowhere")]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_sweep_ends_with_the_curve_unless_told_otherwise(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(["sweep", config, "--run", str(folder), "--no-curve", "--json"]) == 0
    assert "curve" not in json.loads(capsys.readouterr().out)
    assert not (folder / CURVE_FILE).exists()
    assert run(["sweep", config, "--run", str(folder), "--json"]) == 0
    (kind,) = json.loads(capsys.readouterr().out)["curve"]["kinds"]
    assert kind["reason"] == "too few layers: 3"
    assert (folder / CURVE_FILE).is_file()


def test_a_curve_that_fails_does_not_fail_the_sweep(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise ZeroDivisionError("of nothing")

    monkeypatch.setattr(curves, "run_curve", fail)
    assert run(["sweep", config, "--run", str(tmp_path / "run")]) == 0
    assert "no learning curve: ZeroDivisionError: of nothing" in capsys.readouterr().err
