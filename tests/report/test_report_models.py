"""Whole models in the report of a run: totals, the picture by module, and every layer folded away."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

import medn
from medn.capture.capture import capture
from medn.capture.captured_model import load_captured
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import CHOSEN_FOLDER
from medn.cli.main import run as command
from medn.report.models import predicted_models
from medn.training.candidate_store import load_candidates

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two layers that were measured, and one that was not."""
    path = tmp_path_factory.mktemp("nets") / "net<b>.json"
    layers = {"first": torch.nn.Linear(128, 100), "act": torch.nn.ReLU(), "last": torch.nn.Softmax(-1)}
    net = torch.nn.Sequential()
    for name, layer in layers.items():
        net.add_module(name, layer)
    capture(net, torch.zeros(1, 128)).save(path)
    return str(path)


@dataclass(frozen=True)
class Written:
    page: str
    told: dict[str, Any]


@pytest.fixture(scope="module")
def written(chosen_run: Path, net: str, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Drawing takes the time, so the command runs once for all tests."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    options = ["--model", net, "--batch-size", "4", "--out", str(out), "--json"]
    with redirect_stdout(StringIO()) as said:
        assert command(["report", str(chosen_run), *options]) == 0
    return Written(out.read_text(), json.loads(said.getvalue()))


def models_of(page: str) -> str:
    return page[page.index('<section id="models">') : page.index('<section id="leaderboard">')]


def test_the_total_has_its_interval_and_what_is_not_predicted(written: Written) -> None:
    (model,) = written.told["models"]
    assert model["low_s"] < model["latency_s"] < model["high_s"]
    assert (model["batch_size"], model["device"]) == (4, "made-up")
    assert 0 < model["unknown_share"] < 1
    assert "layers" not in model
    text = models_of(written.page)
    assert re.search(r"\S+ [mu]s in all, \S+ [mu]s to \S+ [mu]s", text)
    assert "of the time in layers that are not predicted, estimated" in text


def test_the_picture_is_by_module(written: Written) -> None:
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', models_of(written.page), re.DOTALL)
    *bars, labels = json.loads(text)["marks"]
    assert labels["text"][:3] == ["model", "first", "(aten.addmm)"]
    assert [title.partition("\n")[0] for title in bars[0]["title"]] == ["model", "first", "act", "last"]
    assert labels["x2"][0] == pytest.approx(
        sum(x2 - x1 for x1, x2 in zip(bars[0]["x1"][1:], bars[0]["x2"][1:], strict=True)), rel=1e-3
    )


def test_a_model_opens_with_its_most_expensive_layers(written: Written) -> None:
    text = models_of(written.page)
    first = text[text.index('<section id="model-0">') : text.index("<figure>")]
    assert "The 3 most expensive of 3 layers" in first
    times = [float(each) for each in re.findall(r'data-value="([\d.e-]+)">[\d.]+ [mun]s<', first)]
    assert times == sorted(times, reverse=True)
    assert "in_features 128, out_features 100" in first


def test_the_table_by_layer_is_folded_away(written: Written) -> None:
    folded = re.search(r"<details>(.*?)</details>", models_of(written.page), flags=re.DOTALL)
    assert folded
    assert "The layers in the order in which they run" in folded[1]
    assert folded[1].count("<tr>") == 4


def test_the_name_of_a_model_is_escaped_and_leads_to_its_part(written: Written) -> None:
    text = models_of(written.page)
    assert "net<b>" not in text
    assert re.search(r'<a href="#model-0">[^<]*net&lt;b&gt;.json</a>', text)
    assert '<section id="model-0">' in text
    assert '<a href="#models">Models</a>' in written.page


def test_a_model_is_predicted_as_by_the_bundle_of_the_run(chosen_run: Path, net: str, tmp_path: Path) -> None:
    bundle = bundle_run(chosen_run, load_candidates(chosen_run / CHOSEN_FOLDER), tmp_path / "desk.medn")
    captured = load_captured(net)
    (part,) = predicted_models(chosen_run, {"net": captured}, batch_size=4)
    assert part.prediction.latency_s == pytest.approx(medn.load(bundle).model(captured, batch_size=4).latency_s)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--batch-size", "4"], "--composition go with --model"),
        (["--utilization", "0.5"], "--composition go with --model"),
        (["--model", "none.onnx"], "there is no model none.onnx"),
        (["--model", "conv2d"], "a model must be a file ending in .onnx or .json"),
        (["--model", "NET", "--utilization", "2"], "utilization: must be at most 0.95"),
        (["--model", "NET", "--by", "a"], "--by: must be two different names"),
    ],
)
def test_a_mistake_is_one_sentence(
    options: list[str], sentence: str, chosen_run: Path, net: str, tmp_path: Path, capsys: Capture
) -> None:
    given = [net if option == "NET" else option for option in options]
    assert command(["report", str(chosen_run), *given, "--out", str(tmp_path / "report.html")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_a_run_without_a_choice_has_no_models(net: str, tmp_path: Path, capsys: Capture) -> None:
    assert command(["report", str(tmp_path), "--model", net]) == 2
    assert "nothing was chosen" in capsys.readouterr().err
