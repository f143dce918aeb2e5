"""A backend in one file of one's own brings its fused groups."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.fusion_rules import read_module
from medn.capture.capture import capture
from medn.core.errors import MednError
from medn.devices.backend import Unsupported, backends
from medn.fusion.fuse import fuse
from medn.fusion.rules import read_rules, rules_for
from tests.conftest import load_plugins

IMAGE = torch.zeros(1, 4, 6, 6)


@pytest.fixture(autouse=True)
def own_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    load_plugins(monkeypatch, "fusing_backend")


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.Sigmoid(), torch.nn.MaxPool2d(2)).eval()


def test_a_model_is_fused_by_the_rules_that_a_backend_brings() -> None:
    rules = rules_for("test-fusing")
    assert rules is not None
    first, *_ = fuse(capture(network(), IMAGE), rules).layers
    assert first.operator == "conv2d+sigmoid"


def test_the_groups_of_a_file_are_read_as_a_backend_says() -> None:
    read = read_module("own", network(), (IMAGE,), ("test-fusing",))
    assert {frozenset(group) for group in read.groups["test-fusing"]} == {
        frozenset({"/0/Conv", "/1/Sigmoid"}),
        frozenset({"/2/MaxPool"}),
    }


def test_what_to_install_for_a_backend_is_what_it_says() -> None:
    said = backends["test-fusing"].missing()
    assert said == "test-fusing needs no_such_compiler: pip install 'my-backends[compiler]'"


def test_a_backend_that_runs_every_layer_by_itself_says_so() -> None:
    with pytest.raises(Unsupported, match="torch does not tell which nodes it runs as one"):
        backends["torch"].fused_groups(b"")


def test_a_device_whose_backend_nobody_knows_has_no_rules() -> None:
    assert rules_for("a phone") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": "1", "models": 3, "folded": [], "rules": []}'])
def test_rules_that_cannot_be_read_are_said_in_one_sentence(content: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(content)
    with pytest.raises(MednError, match=r"the fusion rules of mine cannot be read from .*rules\.json"):
        read_rules("mine", file)
    with pytest.raises(MednError, match="cannot be read"):
        read_rules("mine", tmp_path / "absent.json")
