"""A tiny model is really split by torch.distributed.pipelining, and computes the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from experiments.integrations import pipeline_split
from medn.core.errors import MednError, UsageError


def tiny() -> tuple[torch.nn.Module, torch.Tensor]:
    """Three small layers and a large one."""
    small = [torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)]
    return torch.nn.Sequential(*small, torch.nn.Linear(8, 50_000)), torch.rand(2, 8)


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    monkeypatch.setitem(pipeline_split.MODELS, "tiny", tiny)
    monkeypatch.setattr(pipeline_split, "VISIT_S", 0.002)
    return ["--model", "tiny", "--stages", "2", "--out", str(tmp_path)]


@pytest.mark.parametrize("with_bundle", [False, True])
def test_stages_of_equal_seconds_give_the_large_layer_a_stage_of_its_own(
    arguments: list[str], with_bundle: bool, bundle_path: Path, tmp_path: Path
) -> None:
    assert pipeline_split.main([*arguments, *(["--bundle", str(bundle_path)] if with_bundle else [])]) == 0
    even, ours = json.loads((tmp_path / "pipeline_split_tiny.json").read_text())["rows"]
    assert even["layers"] == "2 2"
    assert (ours["begin with"], ours["layers"]) == ("3", "3 1")


def test_a_model_that_computes_something_else_is_noticed(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def split_other(model: torch.nn.Module, example: torch.Tensor, begin: list[str]) -> object:
        return real(torch.nn.Sequential(*tiny()[0]), example, begin)

    real = pipeline_split.split
    monkeypatch.setattr(pipeline_split, "split", split_other)
    with pytest.raises(MednError, match="computes something else"):
        pipeline_split.main(arguments)


def test_one_stage_is_no_pipeline(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="--stages: must be at least 2"):
        pipeline_split.main([*arguments, "--stages", "1"])
