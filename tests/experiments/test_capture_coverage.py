"""The table of how much of real models is captured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from experiments import capture_coverage
from experiments.real_models import IMAGE_MODELS, LANGUAGE_MODELS
from medn.capture.capture import capture
from medn.core.errors import UsageError


def test_sixty_families_and_fifteen_configurations_are_asked_for() -> None:
    assert (len(set(IMAGE_MODELS)), len(LANGUAGE_MODELS)) == (60, 15)


def test_a_row_has_the_shares_and_what_is_not_known() -> None:
    net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.CELU())
    row = capture_coverage.row("net", capture(net, torch.zeros(1, 8)), seconds=0.1)
    assert (row["layers"], row["operators"], row["FLOPs"], row["bytes"]) == (2, 0.5, 0.5, 0.5)
    assert row["note"] == "celu"


def test_a_failure_is_a_row_with_the_reason() -> None:
    row = capture_coverage.row("net", note="why")
    assert (row["way"], row["note"]) == (None, "why")
    assert capture_coverage.summary([row])["captured"] == "0 of 1"


def test_an_unknown_model_gets_the_near_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["capture_coverage", "--only", "resnet5"])
    with pytest.raises(UsageError, match="Did you mean 'resnet50'"):
        capture_coverage.main()


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs the extra 'models'")
def test_the_script_writes_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["capture_coverage", "--only", "mobilenetv2_100", "--out", str(tmp_path)])
    assert capture_coverage.main() == 0
    written = json.loads((tmp_path / "capture_coverage.json").read_text())
    assert written["about"]["captured"] == "1 of 1"
    assert written["about"]["left as it was"] == "1 of 1"
    assert written["rows"][0]["FLOPs"] == 1.0
    assert "| mobilenetv2_100 |" in capsys.readouterr().out
