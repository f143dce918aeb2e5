"""`medn predict BUNDLE MODEL` as a person meets it."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from medn.capture.capture import capture
from medn.cli.main import run as medn

Capture = pytest.CaptureFixture[str]

MODULE = """
import torch

def make():
    net = torch.nn.Sequential(torch.nn.Linear(128, 100), torch.nn.ReLU(), torch.nn.Softmax(-1))
    return net, torch.zeros(1, 128)

def large():
    return torch.nn.Linear(4096, 4096), torch.zeros(1, 4096)

def measured():
    return torch.nn.Linear(128, 100), torch.zeros(1, 128)

def with_attribute():
    net, net_inputs = make()
    net.example_inputs = (net_inputs,)
    return net

class Asking(torch.nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else x.softmax(-1)

def asking():
    return Asking(), torch.zeros(1, 128, device="meta")

def wrong():
    return 7

def broken():
    raise ValueError("no such net")
"""


@pytest.fixture(scope="module")
def bundle(bundle_path: Path) -> str:
    return str(bundle_path)


@pytest.fixture(autouse=True)
def in_a_folder_with_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_nets", raising=False)


def test_a_model_is_a_table_by_layer(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "python:own_nets:make"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"0\s+linear\s+\S+ [mun]s", out)
    assert re.search(r"2\s+softmax.*estimated", out)
    assert "in all" in err
    assert "of weights" in err
    assert re.search(r"1 x aten._softmax: \S+ % of the time, \S+ % of the FLOPs, \S+ % of the bytes", err)


def test_what_is_mostly_extrapolated_ends_with_the_command_that_measures_it(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "python:own_nets:large", "--batch-size", "2"]) == 0
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "100.0 % of the time can be measured" in last
    assert last.endswith("instead of extrapolated: medn sweep --for python:own_nets:large --batch-size 2")


def test_what_was_measured_ends_without_a_command(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "python:own_nets:measured"]) == 0
    assert "medn sweep" not in capsys.readouterr().err


def test_json_has_totals_and_layers(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "python:own_nets:with_attribute", "--batch-size", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["batch_size"] == 4
    assert found["low_s"] < found["latency_s"] < found["high_s"]
    assert [layer["kind"] for layer in found["layers"]] == ["linear", "activation", "softmax"]


def test_a_captured_file_and_a_condition_are_read(bundle: str, tmp_path: Path, capsys: Capture) -> None:
    capture(torch.nn.Linear(128, 100), torch.zeros(1, 128)).save(tmp_path / "net.json")
    Path("fit.json").write_text('{"small_share":0,"large_share":0,"cache_bytes":1,"overhead_s":1.0}')
    assert medn(["predict", bundle, "net.json", "--composition", "fit.json", "--utilization", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["latency_s"] > 1
    assert found["utilization"] == 0.2


def test_guessed_values_are_told(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "python:own_nets:asking"]) == 0
    said = capsys.readouterr().err
    assert "1 value was guessed for what the model's code reads" in said
    assert "own_nets.py:21: taken as False" in said


def test_guessed_values_are_in_the_json(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "python:own_nets:asking", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["guesses"] == 1
    assert found["guessed"] == [{"name": "", "place": "own_nets.py:21", "answer": "False", "count": 1}]


def test_an_onnx_file_is_read(bundle: str, tmp_path: Path, capsys: Capture) -> None:
    onnx = pytest.importorskip("onnx")
    helper, floating = onnx.helper, onnx.TensorProto.FLOAT
    tensors = [helper.make_tensor_value_info(name, floating, [1, 64]) for name in "ab"]
    graph = helper.make_graph([helper.make_node("Relu", ["a"], ["b"], name="act")], "net", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    assert medn(["predict", bundle, "net.onnx", "--json"]) == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    assert (layer["name"], layer["kind"]) == ("act", "activation")


def test_a_page_has_the_picture_and_the_table_and_needs_nothing(bundle: str, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("jinja2")
    assert medn(["predict", bundle, "python:own_nets:make", "--html", "net.html"]) == 0
    page = (tmp_path / "net.html").read_text()
    assert '"0.(aten.addmm)\\n' in page
    assert re.search(r'"2\.\(aten\._softmax\)\\n[^"]*, estimated"', page)
    assert "The layers in the order in which they run" in page
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.onnx"], "there is no model none.onnx"),
        (["tim:resnet50"], "Did you mean 'timm'?"),
        (["python:own_nets"], "must be written as python:MODULE:FUNCTION"),
        (["python:no_such_module:make"], "No module named 'no_such_module'"),
        (["python:own_nets:none"], "own_nets has no function none"),
        (["python:own_nets:wrong"], "must give a torch module and its example inputs"),
        (["python:own_nets:broken"], "ValueError: no such net"),
        (["python:own_nets:make", "batch_size=8"], "NAME=VALUE, --table and --out go with layers"),
        (["python:own_nets:make", "--batch-size", "0"], "batch_size: must be at least 1"),
        (["python:own_nets:make", "--utilization", "2"], "utilization: must be at most 0.95"),
        (["python:own_nets:make", "--cold-share", "2"], "cold_share: must be from 0 to 1"),
        (["python:own_nets:make", "--cold-share", "1", "--composition", "p.json"], "give one of the two"),
        (["python:own_nets:make", "--composition", "p.json"], "p.json: cannot be read"),
        (["linear", "in_features=8", "out_features=8", "--batch-size", "8"], "go with a model"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str, bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, *arguments]) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_a_timm_model_that_does_not_exist_has_a_near_miss(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "timm:resnet5"]) == 2
    assert "Did you mean 'resnet" in capsys.readouterr().err
