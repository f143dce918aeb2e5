"""What is given in place of a bundle, a run, a config or a model is named, with what to type instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medn.cli.main import run as medn

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(bundle_path: Path, convolution_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its bundle, one without, and files of all sorts."""
    folder: Path = tmp_path_factory.mktemp("mistaken")
    shutil.copytree(bundle_path.parent, folder / "runs" / "desk")
    shutil.copytree(convolution_bundle.parent, folder / "runs" / "bare", ignore=shutil.ignore_patterns("*.medn"))
    (folder / "desk.medn").write_bytes(bundle_path.read_bytes())
    (folder / "sweep.yaml").write_text("name: x")
    (folder / "empty").mkdir()
    for name in ("model.pt", "model.tflite", "net.onnx"):
        (folder / name).write_bytes(b"PK\xff\xfe")
    return folder


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("predict runs/desk linear", "runs/desk is no bundle. It is a run folder; its bundle is runs/desk/"),
        ("predict runs/bare linear", "it has no bundle yet: medn train and medn select runs/bare"),
        ("inspect runs", "runs is no bundle. It is a folder of runs: runs/bare, runs/desk"),
        ("inspect empty", "empty is no bundle. It is a folder\n"),
        ("predict net.onnx linear", "It is a model: medn predict BUNDLE net.onnx says what it costs"),
        ("predict sweep.yaml linear", "It is a config: medn sweep sweep.yaml measures what it describes"),
        ("predict desk.medn model.pt", "export it with torch.onnx.export"),
        ("predict desk.medn nets/model.ckpt", "python:MODULE:FUNCTION"),
        ("predict desk.medn model.tflite", "It is a model of another format: export it to ONNX"),
        ("predict desk.medn nets.py", "It is code: python:nets:FUNCTION names a function in it that makes a model"),
        ("predict desk.medn runs/desk", "It is a run folder; its bundle is"),
        ("predict desk.medn resnet50", "A whole model is written as FILE.onnx, timm:NAME or python:MODULE:FUNCTION"),
        ("summary desk.medn", "desk.medn is no run folder. It is a bundle: medn inspect desk.medn shows what is in it"),
        ("train sweep.yaml", "sweep.yaml is no run folder. It is a config: medn sweep sweep.yaml"),
        ("summary runs", "It is a folder of runs: runs/bare, runs/desk"),
        ("sweep runs/desk", "this is a folder, not a file. It is a run folder; its bundle is"),
        ("sweep desk.medn", "It is a bundle: medn inspect desk.medn"),
        ("sweep net.onnx", "medn sweep --for net.onnx measures its layers"),
        ("sweep timm:resnet18", "to measure what a model needs: medn sweep --for timm:resnet18"),
        ("sweep --for timm:resnet18 sweep.yaml", "give it or sweep.yaml, not both"),
    ],
)
def test_the_sentence_says_what_it_is_and_what_to_type(
    arguments: str, sentence: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(folder)
    assert medn(arguments.split()) in (1, 2)
    out, err = capsys.readouterr()
    assert sentence in err
    assert out == ""
    assert "Traceback" not in err
