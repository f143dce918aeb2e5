"""`medn bench`: what it counts, and how it answers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medn
from medn.benches import asked_layers
from medn.benches import predicting as bench_predict_file
from medn.benches.measuring import timed_share
from medn.benches.predicting import bench_predict
from medn.cli.main import run
from medn.core.processor_time import processor_seconds
from medn.core.values import Samples, Visit


def visit(wall_s: float, samples: int, calls: int, elapsed_s: float) -> Visit:
    timings = Samples(np.full(samples, wall_s), np.full(samples, wall_s), np.full(samples, False), calls)
    return Visit("point", 0, "here", 0.0, "ok", samples=timings, elapsed_s=elapsed_s)


def test_the_timed_share_counts_every_call_of_a_sample() -> None:
    share = timed_share([visit(0.001, 10, 2, elapsed_s=0.04), visit(0.002, 10, 1, elapsed_s=0.06)])
    assert share is not None
    assert (share.visits, share.visit_s, share.timed_share) == pytest.approx((2, 0.05, 0.4))


def test_no_visits_have_no_share() -> None:
    assert timed_share([]) is None


def test_bench_measures_short_and_long_layers_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "measure", "--time", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["visits"] == told["short"]["visits"] + told["long"]["visits"]
    assert told["points_per_minute"] == pytest.approx(told["visits_per_second"] * 60 / 8)
    assert 0 < told["short"]["timed_share"] < 1
    assert 0 < told["long"]["timed_share"] < 1


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--device", "torhc"], 2, "Did you mean 'torch'?"),
        (["--device", "torch-cuda"], 3, "torch-cuda needs"),
        (["--time", "0"], 2, "--time: must be a duration above 0"),
    ],
)
def test_bench_refuses_in_one_sentence(
    arguments: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "measure", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err


def test_the_help_of_bench_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "measure", "--help"]) == 0
    assert "medn bench measure --device" in capsys.readouterr().out


@pytest.fixture(scope="module")
def told(bundle_path: Path) -> dict[str, Any]:
    """What `medn bench predict` says of a made-up bundle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asked_layers, "LAYERS", 40)
        patch.setattr(bench_predict_file, "SIZES", (1, 100, 1000))
        patch.setattr(bench_predict_file, "NATIVE_SIZES", (1, 100))
        # The other libraries take seconds to import.
        patch.setattr(bench_predict_file, "NATIVE", dict(itertools.islice(bench_predict_file.NATIVE.items(), 1)))
        result = bench_predict(bundle_path, seconds=0.1)
    return {"result": result, "lines": {(line.what, line.kind, line.rows): line for line in result.lines}}


def test_bench_predict_times_each_kind_and_all_together(told: dict[str, Any]) -> None:
    asked = {(what, kind, rows) for what, kind, rows in told["lines"] if what == "predict"}
    assert asked >= set(itertools.product(["predict"], ["linear", "activation"], [1, 100, 1000]))
    assert asked >= {("predict", "mixed", 100), ("predict", "mixed", 1000)}


def test_a_layer_asked_before_is_answered_faster(told: dict[str, Any]) -> None:
    before, anew = (told["lines"][what, "linear", 1] for what in ("layer, asked before", "layer"))
    assert before.us_per_row < anew.us_per_row


def test_bench_predict_asks_in_every_way(told: dict[str, Any]) -> None:
    ways = {what for what, _, _ in told["lines"]}
    assert ways >= {"layer, any order", "layer, outside", "layer, asked before", "predict, dicts"}


def test_a_model_is_predicted_again(bundle_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(asked_layers, "LAYERS", 20)
    monkeypatch.setattr(bench_predict_file, "SIZES", (1,))
    monkeypatch.setattr(bench_predict_file, "NATIVE", {})
    monkeypatch.setattr(bench_predict_file, "by_onnxruntime", lambda estimator: None)
    medn.capture(torch.nn.Linear(200, 100), torch.zeros(1, 200)).save(tmp_path / "net.json")
    lines = bench_predict(bundle_path, seconds=0.01, models=[str(tmp_path / "net.json")]).lines
    assert [line.kind for line in lines if line.what == "model again"] == [str(tmp_path / "net.json")]


def test_every_time_stands_beside_the_reference(told: dict[str, Any]) -> None:
    for line in told["result"].lines:
        if line.us_per_row is not None:
            assert line.of_reference > 0
            assert line.rows_per_second == pytest.approx(1e6 / line.us_per_row)
    assert told["result"].reference_us > 0
    assert 0 < told["result"].load_ms < told["result"].first_ms


def test_other_libraries_are_compared_with_the_same_rows_by_medn(told: dict[str, Any]) -> None:
    pytest.importorskip("lightgbm")
    other = next(line for line in told["result"].lines if line.what.startswith("LightGBM") and line.rows == 100)
    own = told["lines"]["predict", other.kind, 100]
    assert other.against_medn == pytest.approx(other.us_per_row / own.us_per_row)


def test_a_missing_library_is_named_with_its_extra(bundle_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_layers, "LAYERS", 20)
    monkeypatch.setattr(bench_predict_file, "SIZES", (1,))
    monkeypatch.setattr(bench_predict_file, "NATIVE", {"Some trees": ("no_such_package", None)})
    monkeypatch.setattr(bench_predict_file, "by_onnxruntime", lambda estimator: None)
    line = bench_predict(bundle_path, seconds=0.01).lines[-1]
    assert (line.what, line.us_per_row) == ("Some trees", None)
    assert line.note == "Some trees needs no_such_package: pip install 'medn[train]'"


def test_bench_predict_prints_a_table_and_json(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asked_layers, "LAYERS", 20)
    monkeypatch.setattr(bench_predict_file, "SIZES", (1, 10))
    monkeypatch.setattr(bench_predict_file, "NATIVE", {})
    assert run(["bench", "predict", str(bundle_path), "--time", "0.1"]) == 0
    assert "layer, asked before" in capsys.readouterr().out
    assert run(["bench", "predict", str(bundle_path), "--time", "0.1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"bundle", "device", "load_ms", "first_ms", "memory_bytes", "reference_us", "lines"} <= set(told)
    assert {"what", "kind", "rows", "us_per_row", "rows_per_second", "of_reference"} <= set(told["lines"][0])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["no/such.medn"], "no/such.medn"), (["BUNDLE", "--device", "lapotp"], "no device named 'lapotp'")],
)
def test_bench_predict_refuses_in_one_sentence(
    arguments: list[str], sentence: str, bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(bundle_path) if argument == "BUNDLE" else argument for argument in arguments]
    assert run(["bench", "predict", *given]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize("took_s", [1e-5, 0.5])
def test_the_time_of_a_call_is_the_usual_one(took_s: float) -> None:
    now = 0.0

    def call() -> None:
        nonlocal now
        now += took_s

    assert processor_seconds(call, lambda: now) == pytest.approx(took_s)
