"""What is easily given to `import medn` in place of another is one sentence that says what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medn
from medn.core.errors import MednError
from medn.predictor.predictor import Predictor

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'medn[train]'")
NET, GIVEN = torch.nn.Linear(64, 32), torch.zeros(1, 64)


@pytest.fixture(scope="module")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda p: p.model(NET), r"Linear: example_inputs: missing, such as torch.zeros\(1, 3, 224, 224\)"),
        (
            lambda p: p.model(NET.state_dict(), GIVEN),
            r"the path of an ONNX file \(got OrderedDict\)",
        ),
        (lambda p: p.model(GIVEN, NET), r"must be a torch module or the path of an ONNX file \(got Tensor\)"),
        (lambda p: p.model("net.pt"), "It is a file of weights or of pickled code"),
        (lambda _: medn.capture("net.pt"), "It is a file of weights or of pickled code"),
        (lambda _: medn.capture("net.json"), "net.json: not an ONNX file"),
        (lambda _: medn.sweep(NET), r"must be a file, .* or a dict \(got Linear\). .* medn.config_for\("),
        (lambda p: medn.PreparedModel(p, NET), r"must be a captured model, as medn.capture\(.* gives \(got Linear\)"),
        (lambda _: medn.graph_of(NET), r"must be a captured model"),
        (lambda _: medn.fuse(NET, None), r"must be a captured model"),
        (lambda p: medn.leaderboard(p.path), "is no run folder. It is a bundle"),
        (lambda p: medn.train(p.path.parent, jobs=0), r"jobs: must be at least 1 \(got 0\)"),
        (lambda _: medn.config_for(NET, GIVEN, points=0), r"points: must be at least 1 \(got 0\)"),
        (lambda _: medn.config_for(NET, GIVEN, threads=0), r"threads: must be at least 1 \(got 0\)"),
        (lambda _: medn.config_for(NET, GIVEN, batch_sizes=[1.5]), "batch_sizes: must be whole numbers from 1 on"),
    ],
)
def test_what_is_given_in_place_of_another_is_said(
    call: Callable[[Predictor], Any],
    sentence: str,
    predictor: Predictor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.pt").write_bytes(b"PK\xff\xfe")
    medn.capture(NET, GIVEN).save("net.json")
    with pytest.raises(MednError, match=sentence):
        call(predictor)


def test_a_predictor_takes_the_models_that_the_command_line_takes(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    captured = medn.capture(NET, GIVEN)
    captured.save("net.json")
    made = "import torch\ndef make(): return torch.nn.Linear(64, 32), torch.zeros(1, 64)\n"
    Path("surface_nets.py").write_text(made)
    expected = predictor.model(captured).latency_s
    assert predictor.model("net.json").latency_s == expected
    assert predictor.model("python:surface_nets:make").latency_s == expected
    assert medn.config_for("net.json")["name"] == "for-net"


def test_one_name_is_a_list_of_one(bundle_path: Path) -> None:
    with pytest.raises(MednError, match="no regressor named 'ridgy'"):
        medn.train(bundle_path.parent, regressors="ridgy", time=1)
    with pytest.raises(MednError, match="no measured layer kind named 'conv2'"):
        medn.train(bundle_path.parent, kinds="conv2", time=1)
    assert medn.config_for(NET, GIVEN, devices="torch", batch_sizes=4)["devices"] == ["torch"]


def test_a_backend_without_rules_runs_every_layer_by_itself() -> None:
    captured = medn.capture(NET, GIVEN)
    assert medn.fuse(captured, medn.rules_for("torch")) is captured
