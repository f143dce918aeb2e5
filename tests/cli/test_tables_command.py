"""`medn tables`: every format by one verb, and what is wrong in one sentence."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

import numpy as np
import pytest
import yaml

import medn
from medn.cli.main import run
from medn.exporting.conformance import *  # noqa: F403
from medn.exporting.layer_list import listed_model
from medn.layer_generators.kind import layer_kinds


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A captured model of two layers, in a file."""
    convolution = layer_kinds["conv2d"].layer(in_channels=3, out_channels=16, in_size=32, kernel_size=3)
    linear = layer_kinds["linear"].layer(in_features=64, out_features=10)
    path = tmp_path_factory.mktemp("captured") / "net.json"
    listed_model([convolution, linear]).save(path)
    return str(path)


def test_once_for_all(convolution_bundle: Path, tmp_path: Path) -> None:
    to = tmp_path / "new" / "160.yaml"
    assert run(["tables", str(convolution_bundle), "--format", "once_for_all", "image_size=160", "--to", str(to)]) == 0
    assert yaml.safe_load(to.read_text())["Conv-input:160x160x3-output:80x80x16"]["mean"] > 0


def test_halp(convolution_bundle: Path, model: str, tmp_path: Path) -> None:
    options = ["--format", "halp", "--model", model, "step=4", "prefix=net.", "--to", str(tmp_path / "halp")]
    assert run(["tables", str(convolution_bundle), *options]) == 0
    table = pickle.loads((tmp_path / "halp" / "latency.pkl").read_bytes())
    assert set(table) == {f"1_3_{count}_32_3_1_1" for count in (4, 8, 12, 16)}


def test_haq(convolution_bundle: Path, model: str, tmp_path: Path) -> None:
    options = ["--format", "haq", "--model", model, "dtypes=fp32", "widest=4", "--to", str(tmp_path / "x.npy")]
    assert run(["tables", str(convolution_bundle), *options]) == 0
    assert np.load(tmp_path / "x.npy", allow_pickle=False).shape == (2, 4, 4)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_of_a_model(convolution_bundle: Path, model: str, tmp_path: Path) -> None:
    to = tmp_path / "layers.csv"
    assert run(["tables", str(convolution_bundle), "--model", model, "--to", str(to)]) == 0
    found = rows(to)
    assert [row["kind"] for row in found] == ["conv2d", "linear"]
    expected = medn.load(convolution_bundle).layer("linear", in_features=64, out_features=10).latency_s
    assert float(found[1]["latency_s"]) == pytest.approx(expected)


def test_csv_of_all_combinations(convolution_bundle: Path, tmp_path: Path) -> None:
    to = tmp_path / "grid.csv"
    values = ["kind=linear", "in_features=64,128", "out_features=8:33:8", "rows=4", "--to", str(to)]
    assert run(["tables", str(convolution_bundle), "--format", "csv", *values]) == 0
    found = rows(to)
    assert len(found) == 2 * 4
    one = medn.load(convolution_bundle).layer("linear", in_features=128, out_features=24, rows=4).latency_s
    (row,) = [row for row in found if (row["in_features"], row["out_features"]) == ("128", "24")]
    assert float(row["latency_s"]) == pytest.approx(one)
    assert row["rows"] == "4"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "once-for-al"], "no table format named 'once-for-al'. Did you mean 'once-for-all'?"),
        (
            ["--format", "once-for-all", "imagesize=3"],
            "no option of once-for-all named 'imagesize'. Did you mean",
        ),
        (["--format", "once-for-all", "image_size=16"], "image_size: must be at least 32 (got 16)"),
        (["--format", "once-for-all", "multiplier=much"], "multiplier: must be a number (got 'much')"),
        (["--format", "halp"], "is of a model's layers: give a model"),
        (["--format", "csv"], "is of a model, or of kind=KIND"),
        (["--format", "csv", "kind=linaer", "in_features=1,2"], "Did you mean 'linear'?"),
        (["--format", "csv", "kind=linear", "in_feature=1,2"], "Did you mean 'in_features'?"),
        (["--format", "csv", "kind=linear", "in_features=9:3"], "holds no value"),
        (["--format", "halp", "--model", "nowhere.onnx"], "there is no model nowhere.onnx"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    arguments: list[str], said: str, convolution_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tables", str(convolution_bundle), "--to", str(tmp_path / "x"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_said(convolution_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--format", "csv", "kind=linear", "in_features=1,2", "out_features=3", "--to", "/proc/none/table.csv"]
    assert run(["tables", str(convolution_bundle), *options]) == 1
    assert "cannot write /proc/none/table.csv" in capsys.readouterr().err
