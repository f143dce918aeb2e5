"""Whole networks measured for real, beside predictions of a made-up device whose seconds are FLOPs."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments import whole_models
from medn.bundle.bundle import read_bundle, write_bundle
from medn.core.errors import UsageError
from medn.model import measuring
from medn.model.placement import load_placement

pytestmark = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
NETWORKS = ("mobilenetv3_large_100", "ghostnet_100", "resnet18")


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
    arguments = ["--bundle", str(bundle), "--out", str(tmp_path), "--models", *NETWORKS]
    assert whole_models.main(arguments) == 0
    written = json.loads((tmp_path / "whole_models.json").read_text())["rows"]
    assert [row["network"] for row in written] == list(NETWORKS)
    assert all(row["predicted ms"] > 0 and row["measured ms"] > 0 for row in written)
    ways = [row["layers added up"] for row in json.loads((tmp_path / "whole_models_ways.json").read_text())["rows"]]
    assert ways[0] == "every layer alone"
    assert "fused groups alone" not in ways
    assert load_placement(tmp_path / "whole_models" / "placement-torch.json").stretch > 0
    assert "torch: round 1 of 1" in capsys.readouterr().err
    assert whole_models.main(arguments) == 0
    assert "round" not in capsys.readouterr().err


def test_a_network_that_is_not_known_is_one_sentence(bundle: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'resnet18'"):
        whole_models.main(["--bundle", str(bundle), "--models", "resnet8", "resnet50"])


def test_one_network_teaches_nothing_about_itself(bundle: Path) -> None:
    with pytest.raises(UsageError, match="at least 2"):
        whole_models.main(["--bundle", str(bundle), "--models", "resnet18"])
