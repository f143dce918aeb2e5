"""Whole networks measured for real, beside predictions of a made-up device whose seconds are FLOPs."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import measured_models, whole_models
from medn.bundle.bundle import read_bundle, write_bundle
from medn.core.errors import UsageError
from medn.model import measured_models as measuring
from medn.model.composition import load_composition

pytestmark = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
FITTED = ("mobilenetv3_large_100", "ghostnet_100", "resnet18", "convnext_atto")
NAMED = ["--fitted", *FITTED, "--unseen", "lcnet_100", "--batch-sizes", "1", "2"]


@pytest.fixture(scope="module")
def bundle(convolution_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up measurements, taken for those of eager torch."""
    path = tmp_path_factory.mktemp("whole") / "whole.medn"
    made_up = read_bundle(convolution_bundle)
    write_bundle(path, replace(made_up, backends=dict.fromkeys(made_up.devices, "torch")))
    return path


def test_networks_are_measured_predicted_and_kept(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measuring, "ROUNDS", 1)
    monkeypatch.setattr(measuring, "VISIT_S", 0.02)
    arguments = ["--bundle", str(bundle), "--out", str(tmp_path), *NAMED]
    assert whole_models.main(arguments) == 0
    written = json.loads((tmp_path / "whole_models.json").read_text())["rows"]
    found = {(row["set"], row["network"], row["batch size"]) for row in written}
    assert {("unseen", "lcnet_100", size) for size in (1, 2)} < found
    assert {("fitted, left out", name, size) for name in FITTED for size in (1, 2)} < found
    assert ("unseen, fitted at batch size 1 alone", "lcnet_100", 2) in found
    assert all(row["predicted ms"] > 0 and row["measured ms"] > 0 for row in written)
    ways = [row["layers added up"] for row in json.loads((tmp_path / "whole_models_ways.json").read_text())["rows"]]
    assert ways[0] == "every layer alone"
    assert "fused groups alone" not in ways
    assert load_composition(tmp_path / "whole_models" / "composition-torch.json").largest_batch == 2
    assert "torch: round 1 of 1" in capsys.readouterr().err
    assert whole_models.main(arguments) == 0
    assert "round" not in capsys.readouterr().err


def test_more_passes_add_visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "ROUNDS", 1)
    monkeypatch.setattr(measuring, "VISIT_S", 0.02)
    arguments = ["--backend", "torch", "--models", "lcnet_100", "--batch-sizes", "1", "--out", str(tmp_path)]
    for passes, visits in ((1, 1), (3, 3), (3, 3)):
        assert measured_models.main([*arguments, "--passes", str(passes)]) == 0
        written = json.loads((tmp_path / "whole_models" / "measured.json").read_text())
        assert len(written["torch"]["lcnet_100@1"]) == visits


@pytest.mark.parametrize(
    ("named", "mistake"),
    [
        (["--unseen", "lcnet_10"], "Did you mean 'lcnet_100'"),
        (["--fitted", "resnet18", "bert"], "--fitted: name more than 3"),
        (["--unseen", "vgg11", "resnet18"], "--unseen: resnet18 must not be fitted as well"),
    ],
)
def test_networks_that_cannot_be_compared_are_one_sentence(named: list[str], mistake: str, bundle: Path) -> None:
    with pytest.raises(UsageError, match=mistake):
        whole_models.main(["--bundle", str(bundle), *named])
