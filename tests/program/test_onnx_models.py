"""Exported models say what medn says, from Python and from JavaScript, and what is not allowed is not a number."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import medn
from medn.cli.main import run
from medn.predictor.predictor import Predictor

EXAMPLES = Path(__file__).parents[2] / "experiments" / "engines" / "examples"
LINEAR = {"in_features": 100, "out_features": 200, "batch_size": 8}
NPM_PATIENCE_S = 120


@pytest.fixture(scope="module")
def bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(made_up_bundle.write_made_up_bundle(tmp_path_factory.mktemp("onnx") / "run", "both"))


@pytest.fixture(scope="module")
def predictor(bundle: Path) -> Predictor:
    return medn.load(bundle)


@pytest.fixture(scope="module")
def model(bundle: Path) -> Path:
    pytest.importorskip("onnxruntime")
    path = bundle.parent / "linear.onnx"
    assert run(["export", "onnx", str(bundle), "--kind", "linear", "--out", str(path)]) == 0
    return path


def asked(model: Path, predictor: Predictor, **values: Any) -> dict[str, Any]:
    """Columns of one row, with what is usual where nothing is said."""
    given = {**predictor.estimator("linear").query.defaults, **values}
    return {name: given[name] for name in predictor.estimator("linear").query.parameters}


def columns(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.array([value], dtype=object if isinstance(value, str) else np.float64)
        for name, value in values.items()
    }


def found(model: Path, values: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return {name: column[0] for name, column in zip(names, session.run(None, columns(values)), strict=True)}


@pytest.mark.parametrize("values", [LINEAR, {**LINEAR, "in_features": 30_000}, {**LINEAR, "dtype": "bf16"}])
def test_a_model_says_what_the_predictor_says(model: Path, predictor: Predictor, values: dict[str, Any]) -> None:
    expected = predictor.layer("linear", **values)
    told = found(model, asked(model, predictor, **values))
    assert (told["latency_s"], told["low_s"], told["high_s"]) == pytest.approx(expected[:3], rel=1e-5)
    assert bool(told["in_range"]) == expected.in_range


@pytest.mark.parametrize("wrong", [{"in_features": 0}, {"in_features": 1.5}, {"dtype": "nonsense"}, {"bias": 2}])
def test_what_is_not_allowed_is_not_a_number(model: Path, predictor: Predictor, wrong: dict[str, Any]) -> None:
    told = found(model, asked(model, predictor, **{**LINEAR, **wrong}))
    assert np.isnan(told["latency_s"])
    assert not told["in_range"]


def test_the_library_reads_the_model(model: Path) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.checker.check_model(onnx.load(model), full_check=True)


def test_the_example_in_python_asks_it(model: Path, predictor: Predictor) -> None:
    said = [f"{name}={value}" for name, value in LINEAR.items()]
    command = [sys.executable, str(EXAMPLES / "ask.py"), str(model), *said]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told["latency_s"] == pytest.approx(predictor.layer("linear", **LINEAR).latency_s, rel=1e-5)


def test_the_example_in_javascript_asks_it(model: Path, predictor: Predictor, tmp_path: Path) -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tmp_path), "onnxruntime-web"]
    try:
        subprocess.run(install, check=True, capture_output=True, timeout=NPM_PATIENCE_S)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"npm cannot install onnxruntime-web here: {type(error).__name__}")
    script = shutil.copy(EXAMPLES / "ask.mjs", tmp_path)
    command = ["node", script, str(model), json.dumps(asked(model, predictor, **LINEAR))]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    expected = predictor.layer("linear", **LINEAR)
    assert told["latency_s"] == pytest.approx(expected.latency_s, rel=1e-5)
    assert told["in_range"] is expected.in_range


def test_all_kinds_go_into_a_folder(bundle: Path, tmp_path: Path) -> None:
    assert run(["export", "onnx", str(bundle), "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"linear.onnx", "activation.onnx"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["onnx", "{bundle}", "--out", "all.onnx"], "predicts 2 kinds"),
        (["onnx", "{bundle}", "--kind", "conv9d"], "no predicted layer kind named 'conv9d'"),
        (["somewhere", "{bundle}"], "the word onnx and a bundle"),
        (["onnx", "nowhere.medn"], "nowhere.medn"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(
    arguments: list[str], words: str, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", *(each.format(bundle=bundle) for each in arguments)]) in (1, 2)
    assert words in capsys.readouterr().err
