"""The script that writes the rules of fusion."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from experiments import fusion_rules
from medn.core.errors import UsageError
from medn.fusion.rules import ChainCount, FusionRules, read_rules, usual, write_rules

CONV_RELU = ChainCount(("conv2d", "activation relu"), 3, 1)


def test_a_rule_is_fused_more_often_than_not_and_so_are_its_beginnings() -> None:
    seldom = ChainCount(("linear", "activation relu"), 2, 2)
    after_seldom = ChainCount((*seldom.chain, "softmax"), 5, 0)
    longer = ChainCount((*CONV_RELU.chain, "softmax"), 1, 0)
    assert usual([longer, after_seldom, seldom, CONV_RELU]) == (CONV_RELU, longer)


def test_rules_are_read_as_they_were_written(tmp_path: Path) -> None:
    rules = FusionRules("only-here", "1.2", ("resnet18",), (), (CONV_RELU,))
    write_rules(rules, tmp_path / "rules.json")
    assert read_rules("only-here", tmp_path / "rules.json") == rules


def test_the_script_names_the_models_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fusion_rules", "--only", "resnet81"])
    with pytest.raises(UsageError, match="Did you mean 'resnet18'"):
        fusion_rules.main()


def test_the_script_writes_rules_and_prints_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def small_model(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
        net = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()).eval()
        return net, {"x": torch.zeros(1, 16, 8, 8)}

    monkeypatch.setattr(sys, "argv", ["fusion_rules", "--only", "resnet18", "--rules", str(tmp_path)])
    monkeypatch.setattr(fusion_rules, "random_model", small_model)
    monkeypatch.setattr(fusion_rules, "fusing_backends", lambda: ("onnxruntime",))
    assert fusion_rules.main() == 0
    printed = capsys.readouterr().out
    assert "| onnxruntime | conv2d + activation relu | 1 | 0 | yes |" in printed
    assert "conv2d + batch_norm2d: 1 of 1" in printed
    assert [each["chain"] for each in json.loads((tmp_path / "onnxruntime.json").read_text())["rules"]] == [
        ["conv2d", "activation relu"]
    ]
