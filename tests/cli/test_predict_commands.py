"""`medn predict`, `medn table` and `medn inspect` as a person meets them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import medn as package
from medn.bundle.bundle import read_bundle, write_bundle
from medn.cli.main import run as medn
from medn.deployed.candidate import scores_of

Capture = pytest.CaptureFixture[str]
LAYER = ["linear", "in_features=64", "out_features=100"]


@pytest.fixture(scope="module")
def bundle(bundle_path: Path) -> str:
    return str(bundle_path)


def test_one_layer_is_shown_in_words(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, *LAYER]) == 0
    out, _ = capsys.readouterr()
    assert "latency" in out
    assert " us" in out
    assert "90.0 %" in out or "level" in out


def test_json_is_the_prediction(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, *LAYER, "--json"]) == 0
    expected = package.load(bundle).layer("linear", in_features=64, out_features=100)
    assert json.loads(capsys.readouterr().out)["latency_s"] == pytest.approx(expected.latency_s)


def test_a_layer_outside_is_said_to_be(bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, "linear", "in_features=100000", "out_features=1"]) == 0
    said = capsys.readouterr().err
    assert "lies outside what was measured" in said
    assert "in_features=" in said
    assert "(edge: " in said


def test_a_table_comes_back_with_predictions(bundle: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "layers.csv").write_text(
        "kind,in_features,out_features,function,elements\nlinear,64,100,,\nactivation,,,relu,5000\n"
    )
    assert medn(["predict", bundle, "--table", str(tmp_path / "layers.csv")]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["kind"] for row in rows] == ["linear", "activation"]
    assert float(rows[0]["latency_s"]) > 0
    assert rows[1]["in_features"] == ""


def test_a_table_is_read_from_standard_input(bundle: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.BytesIO(b'{"in_features": 64}\n{"in_features": 128}\n')
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(piped))
    assert medn(["predict", bundle, "linear", "out_features=100", "--table", "-", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["out_features"] for row in found] == [100, 100]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_a_table_is_written_to_a_file(name: str, bundle: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "layers.csv").write_text("in_features,out_features\n64,100\n")
    out = tmp_path / name
    assert medn(["predict", bundle, "linear", "--table", str(tmp_path / "layers.csv"), "--out", str(out)]) == 0
    assert out.stat().st_size > 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say a layer kind, as in conv2d in_channels=64, or give --table FILE"),
        (["liner"], "no predicted layer kind named 'liner'. Did you mean 'linear'?"),
        (["linear", "in_features"], "'in_features': must be written as NAME=VALUE"),
        (["linear", "in_features="], "'in_features=': must be written as NAME=VALUE"),
        (["linear", "a=1", "a=2"], "a: given twice"),
        (["linear", "in_features=x"], "linear: in_features: must be a whole number (got 'x')"),
        (["linear", "in_features=64"], "linear: out_features: missing"),
        (["linear", "--table", "none.csv"], "there is no table at none.csv"),
        ([*LAYER, "--out", "x.csv"], "--out goes with --table"),
        ([*LAYER, "--device", "phone"], "no device named 'phone'"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], words: str, bundle: str, capsys: Capture) -> None:
    assert medn(["predict", bundle, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("verb", [["predict"], ["inspect"], ["table"]])
def test_a_file_that_is_no_bundle_is_one_sentence(verb: list[str], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.medn").write_bytes(b"nothing")
    rest = {"predict": LAYER, "table": [*LAYER, "rows=1:5"], "inspect": []}[verb[0]]
    assert medn([*verb, str(tmp_path / "x.medn"), *rest]) == 2
    assert "x.medn is no bundle or a damaged one" in capsys.readouterr().err


def test_a_staircase_says_what_to_round_to(bundle: str, capsys: Capture) -> None:
    assert medn(["table", bundle, "linear", "in_features=64", "out_features=8:257:8"]) == 0
    out, err = capsys.readouterr()
    assert "worthwhile" in out
    assert "round out_features to multiples of " in err


def test_a_staircase_is_data_too(bundle: str, capsys: Capture) -> None:
    assert medn(["table", bundle, "linear", "in_features=64,128", "out_features=100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["in_features"] for row in found["rows"]] == [64, 128]
    assert found["fixed"] == {"out_features": 100}
    assert medn(["table", bundle, "linear", "in_features=64,128", "out_features=100", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("in_features,latency_s,low_s,high_s,level,in_range")


@pytest.mark.parametrize("written", ["out_features=8:", "out_features=a:b", "out_features=9:3"])
def test_a_range_that_is_none_is_one_sentence(written: str, bundle: str, capsys: Capture) -> None:
    assert medn(["table", bundle, "linear", "in_features=64", written]) == 2
    assert written in capsys.readouterr().err


def test_inspect_shows_what_is_in_a_bundle(bundle: str, capsys: Capture) -> None:
    assert medn(["inspect", bundle]) == 0
    out, err = capsys.readouterr()
    assert "activation" in out
    assert "made by medn" in err


def test_inspect_shows_the_inputs_of_a_kind(bundle: str, capsys: Capture) -> None:
    assert medn(["inspect", bundle, "activation"]) == 0
    out, _ = capsys.readouterr()
    assert "relu, tanh" in out
    assert "linear" not in out


def test_inspect_is_data_too(bundle: str, capsys: Capture) -> None:
    assert medn(["inspect", bundle, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"] == ["made-up"]
    assert found["entries"][1]["scores"]["test"]["mape"] > 0
    assert found["entries"][1]["usual"]["threads"] == 1


def test_inspect_warns_of_intervals_that_say_nothing(bundle: str, tmp_path: Path, capsys: Capture) -> None:
    found = read_bundle(Path(bundle))
    wide = []
    for each in found.entries:
        scores = scores_of(each.latency)
        wider = replace(scores, coverage=replace(scores.coverage, inside_width=22.5))
        wide.append(replace(each, latency=replace(each.latency, scores=wider)))
    write_bundle(tmp_path / "wide.medn", replace(found, entries=tuple(wide)))
    assert medn(["inspect", str(tmp_path / "wide.medn"), "linear"]) == 0
    assert "for linear on made-up are 22.5 times as wide as the predictions" in capsys.readouterr().err
    assert medn(["inspect", str(tmp_path / "wide.medn"), "linear", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert "22.5 times as wide" in entry["warning"]
