"""NNCF quantises what medn predicts to be faster in int8, on a made-up device where only convolutions are."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from experiments.integrations import choose_precision
from medn.core.errors import UsageError
from medn.devices.backends.openvino import core
from medn.devices.onnx_export import export_onnx
from medn.integrations.nncf import in_fp32, operators

# Not imported to find out: importing openvino first and without its backend would send a report to its maker.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("nncf") is None, reason="nncf is not installed")


def tiny(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Two convolutions and a linear layer."""
    convolutions = [torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 1)]
    return torch.nn.Sequential(*convolutions, torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)), torch.rand(1, 8, 8, 8)


@pytest.fixture(scope="module")
def bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("precision") / "run"
    found: Path = importlib.import_module("precision_bundle").write_precision_bundle(folder)
    return found


def run_script(bundle: Path, out: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choose_precision, "timm_with_weights", tiny)
        given = ["--bundle", str(bundle), "--model", "tiny", "--passes", "1", "--out", str(out)]
        assert choose_precision.main(given) == 0


@pytest.fixture(scope="module")
def found(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    out = tmp_path_factory.mktemp("chosen")
    run_script(bundle, out)
    written = json.loads((out / "choose_precision_tiny.json").read_text())
    return {row["layers in int8"]: row for row in written["rows"]} | {"about": written["about"]}


def test_layers_that_are_faster_in_int8_are_chosen(found: dict[str, dict[str, float]]) -> None:
    assert found["about"]["in int8 in the fastest model"] == "conv2d 2 of 2, linear 0 of 1"


def test_each_variant_is_predicted_from_its_precisions(found: dict[str, dict[str, float]]) -> None:
    predicted = {name: row["predicted ms"] for name, row in found.items() if name != "about"}
    assert sorted(predicted, key=lambda name: predicted[name]) == ["chosen", "all", "none", "the others"]


def test_each_variant_is_measured_and_computes_nearly_the_same(found: dict[str, dict[str, float]]) -> None:
    rows = [row for name, row in found.items() if name != "about"]
    assert all(row["measured ms"] > 0 for row in rows)
    assert [row["output differs by"] > 0 for row in rows] == [False, True, True, True]
    assert max(row["output differs by"] for row in rows) < 0.1


def test_what_reads_fp32_stays_in_fp32() -> None:
    model, example = tiny("")
    read = core().read_model(export_onnx(model, (example,), None, ""))
    names = operators(read, ["/0/Conv", "/2/Conv", "/4/Gemm"])
    kept = in_fp32(read, dict(zip(names, [True, False, True], strict=True)))
    assert {"/2/Conv/WithoutBiases", "/2/Conv", "/3/Flatten"} <= set(kept)
    assert not {"/0/Conv/WithoutBiases", "/0/Conv", "/1/Relu", "/4/Gemm/WithoutBiases"} & set(kept)


def test_a_bundle_of_one_precision_is_refused(convolution_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the bundle knows no layers in fp32 and int8"):
        run_script(convolution_bundle, tmp_path)
