"""NNCF quantises what medn predicts to be faster in int8, on a made-up device where only convolutions are."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from experiments.integrations import choose_precision
from medn.choosing.bundling import bundle_run
from medn.core.errors import UsageError
from medn.core.table import Table
from medn.core.values import Condition, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.regressors.form import Form
from medn.regressors.forms.affine import Affine
from medn.runs.folder import RunFolder

# Not imported to find out: importing openvino first and without its backend would send a report to its maker.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("nncf") is None, reason="nncf is not installed")

SECONDS = {("conv2d", "fp32"): 2e-3, ("conv2d", "int8"): 1e-3, ("linear", "fp32"): 1e-3, ("linear", "int8"): 2e-3}


def tiny(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Two convolutions and a linear layer."""
    convolutions = [torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 8, 1)]
    return torch.nn.Sequential(*convolutions, torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)), torch.rand(1, 8, 8, 8)


def by_precision(table: Table) -> Form:
    """What was measured: a time for each kind and precision, whatever the size."""
    kind = "conv2d" if "in_channels" in table.schema.names else "linear"
    int8 = table.schema.categories["dtype"].index("int8")
    fast, slow = SECONDS[kind, "int8"], SECONDS[kind, "fp32"]
    slope = (fast - slow) if int8 else (slow - fast)
    intercept = slow if int8 else fast
    return Affine(np.array([table.schema.index("dtype")], dtype=np.int32), np.array([slope]), intercept, 1e-7)


@pytest.fixture(scope="module")
def bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, visits = tmp_path_factory.mktemp("precision") / "run", []
    for size in range(8, 40):
        layers = [
            layer_kinds["conv2d"].layer(in_channels=size, out_channels=size, in_size=size, kernel_size=1 + size % 3),
            layer_kinds["linear"].layer(in_features=16 * size, out_features=size),
        ]
        for layer, dtype in ((layer, dtype) for layer in layers for dtype in ("fp32", "int8")):
            point = Point(layer, Condition(dtype=dtype), "made-up")
            times = np.full(3, SECONDS[layer.kind, dtype])
            samples = Samples(times, times, np.zeros(3, dtype=bool))
            visits += [(point, Visit(point.key, number, "here", 0.0, "ok", samples=samples)) for number in range(2)]
    with RunFolder(run).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": "precision", "seed": 0, "drop": [], "unstable_above": 0.1})
        store.record(visits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(made_up_bundle.FORMS, "by precision", by_precision)
        return bundle_run(run, made_up_bundle.made_up_candidates(run, "by precision", ("conv2d", "linear")))


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
    read = choose_precision.core().read_model(choose_precision.export_onnx(model, (example,), None, ""))
    names = choose_precision.operators(read, ["/0/Conv", "/2/Conv", "/4/Gemm"])
    kept = choose_precision.in_fp32(read, dict(zip(names, [True, False, True], strict=True)))
    assert {"/2/Conv/WithoutBiases", "/2/Conv", "/3/Flatten"} <= set(kept)
    assert not {"/0/Conv/WithoutBiases", "/0/Conv", "/1/Relu", "/4/Gemm/WithoutBiases"} & set(kept)


def test_a_bundle_of_one_precision_is_refused(convolution_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the bundle knows no layers in fp32 and int8"):
        run_script(convolution_bundle, tmp_path)
