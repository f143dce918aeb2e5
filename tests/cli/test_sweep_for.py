"""`medn sweep --for MODEL` as a person meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from medn.cli.main import run as medn
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import load_sweep

Capture = pytest.CaptureFixture[str]

MODULE = """
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU()), torch.zeros(1, 16)

def moving():
    class Moving(torch.nn.Module):
        def forward(self, given):
            return torch.fft.fft(given).real
    return Moving(), torch.zeros(1, 16)
"""
NET = "python:swept_nets:make"


@pytest.fixture(autouse=True)
def in_a_folder_with_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "swept_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "swept_nets", raising=False)


def test_a_dry_run_prints_a_config_that_plans_as_it_says(tmp_path: Path, capsys: Capture) -> None:
    assert medn(["sweep", "--for", NET, "--batch-size", "1,4", "--points", "50", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    (tmp_path / "made.yaml").write_text(out)
    config = load_sweep(tmp_path / "made.yaml", ["torch"])
    assert len(plan_points(config).points) == 50
    assert "50 points" in err
    assert "nothing was measured" in err
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_in_json_is_the_plan(capsys: Capture) -> None:
    assert medn(["sweep", "--for", NET, "--points", "20", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == 20


def test_more_time_is_more_points_and_little_time_still_all_own_layers(capsys: Capture) -> None:
    counts = []
    for time in ("5m", "60s", "1s"):
        assert medn(["sweep", "--for", NET, "--time", time, "--dry-run", "--json"]) == 0
        counts.append(json.loads(capsys.readouterr().out)["points"])
    assert counts[0] > counts[1] > counts[2] == 4  # two layers, hot and cold


def test_devices_that_run_different_layers_are_told(capsys: Capture) -> None:
    for devices, told in (("torch,onnxruntime", True), ("onnxruntime,openvino", False)):
        assert medn(["sweep", "--for", NET, "--device", devices, "--dry-run"]) == 0
        assert ("not all of these devices fuse layers" in capsys.readouterr().err) is told


def test_a_run_folder_that_cannot_be_one_is_told_in_a_sentence(capsys: Capture) -> None:
    assert medn(["sweep", "--for", NET, "--points", "4", "--run", "swept_nets.py"]) == 1
    assert "cannot write to the run folder swept_nets.py" in capsys.readouterr().err


@pytest.mark.serial
def test_a_sweep_for_a_model_measures_it_keeps_its_config_and_goes_on(tmp_path: Path, capsys: Capture) -> None:
    command = ["sweep", "--for", NET, "--points", "6", "--run", "here", "--json"]
    assert medn([*command, "--time", "20"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["visits"] >= 6
    assert set(told["summary"]["statuses"]) == {"ok"}
    assert "medn sweep here/sweep.yaml --run here" in err
    kept = (tmp_path / "here" / "sweep.yaml").read_text()
    assert medn(["sweep", "here/sweep.yaml", "--run", "here", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["points"] == told["summary"]["points"] == 6
    (tmp_path / "here" / "sweep.yaml").write_text(kept + "seed: 7\n")
    assert medn([*command, "--time", "20"]) == 0
    assert "sweep.1.yaml" in capsys.readouterr().err
    assert (tmp_path / "here" / "sweep.1.yaml").read_text() == kept + "seed: 7\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say what to measure: one CONFIG, or --for and models"),
        (["a.yaml", "b.yaml"], "say what to measure: one CONFIG, or --for and models (got 2 configs)"),
        (["--for", NET, "laptop.yaml"], "--for makes the config itself; give it or laptop.yaml, not both"),
        (["laptop.yaml", "--for", NET], "--for makes the config itself; give it or laptop.yaml, not both"),
        (["laptop.yaml", "--batch-size", "4"], "--device, --batch-size and --threads go with --for"),
        (["--for", "none.onnx"], "there is no model none.onnx"),
        (["--for", "tim:resnet50"], "Did you mean 'timm'?"),
        (["--for", "conv2d"], "a model must be a file ending in .onnx or .json"),
        (["--for", "python:swept_nets:none"], "swept_nets has no function none"),
        (["--for", "python:swept_nets:moving"], "none of its layers is of a kind that medn knows"),
        (["--for", NET, "--device", "onnxruntme"], "Did you mean 'onnxruntime'?"),
        (["--for", NET, "--batch-size", "0"], "--batch-size: must be whole numbers from 1 on"),
        (["--for", NET, "--batch-size", "1,x"], "--batch-size: must be whole numbers from 1 on, as in 1,4 (got 1,x)"),
        (["--for", NET, "--time", "soon"], "--time"),
        (["--for", NET, "--device", "torch,onnxruntime", "--points", "1"], "must be at least 1 per device, 2 (got 1)"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str, capsys: Capture) -> None:
    assert medn(["sweep", *arguments]) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert out == ""
    assert "Traceback" not in err
