"""The load on the server, for a moment."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("uvicorn")

from experiments import serve_load
from medn.serving.answers import Answers

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


@pytest.fixture(scope="module")
def bundle(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        serving = importlib.import_module("served_bundle")
    path: Path = serving.write_bundle(write_run, tmp_path_factory.mktemp("load"))
    return path


def test_every_request_is_answered_and_counted(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_load, "WARM_UP_S", 0.2)
    arguments = [str(bundle), "--device", "fast", "--seconds", "1", "--connections", "2", "--layers", "40"]
    assert serve_load.main([*arguments, "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "serve_load.json").read_text())
    assert [row["errors"] for row in found["rows"]] == [0, 0]
    assert found["rows"][0]["requests"] > 0
    assert found["about"]["server's exit code, c"] == 0


def test_the_drawn_layers_are_of_all_kinds_and_possible(bundle: Path) -> None:
    answers = Answers(bundle, "fast")
    layers = serve_load.draw_layers(answers, 30, np.random.default_rng(0))
    assert {layer["kind"] for layer in layers} == {"activation", "linear"}
    assert all(answers.layer(json.dumps(layer).encode())["latency_s"] > 0 for layer in layers)


def test_an_unanswered_request_is_an_error() -> None:
    row = serve_load.endpoint_row("/v1/layer", [("/v1/layer", 0.1, True), ("/v1/layer", 30.0, False)], 10.0)
    assert (row["requests"], row["errors"], row["p99 ms"]) == (2, 1, pytest.approx(100.0))
