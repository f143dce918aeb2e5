"""Layers timed as inside a model: without the conversions of layout that they do only while they are alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medn.core.values import Condition, Layer, Samples
from medn.devices.backend import Runner, Unsupported, backends
from medn.devices.take_samples import MOST_PROFILED, run_for_profile
from medn.devices.worker import Worker
from medn.devices.workload import make_workload
from medn.layer_generators.kind import layer_kinds


def convolution() -> Layer:
    return layer_kinds["conv2d"].layer(in_channels=32, out_channels=32, in_size=28, kernel_size=1)


def linear() -> Layer:
    return layer_kinds["linear"].layer(in_features=64, out_features=64)


def runner(name: str, layer: Layer) -> Runner:
    if reason := backends[name].missing():
        pytest.skip(reason)
    return backends[name].prepare(make_workload(layer, Condition()))


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_convolution_alone_converts_its_layout(name: str) -> None:
    assert 0.02 < runner(name, convolution()).conversion_share() < 0.95


@pytest.mark.parametrize("name", ["torch", "onnxruntime", "openvino"])
def test_a_matrix_product_converts_nothing(name: str) -> None:
    assert runner(name, linear()).conversion_share() == 0


def test_mnn_does_not_tell() -> None:
    with pytest.raises(Unsupported, match="mnn does not tell"):
        runner("mnn", linear()).conversion_share()


def test_a_profile_is_of_a_bounded_number_of_runs() -> None:
    runs: list[int] = []
    assert run_for_profile(lambda: runs.append(1)) == len(runs) == MOST_PROFILED


class HalfConverts(Runner):
    """Spends half of its time in conversions."""

    def run(self) -> None: ...

    def outputs(self) -> list[Any]:
        return []

    def conversion_share(self) -> float:
        return 0.5


@pytest.mark.parametrize(("state", "seconds"), [("hot", 2.0), ("inside", 1.0)])
def test_inside_a_model_conversions_do_not_count(
    state: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = Samples(np.full(3, 2.0), np.full(3, 2.0), np.zeros(3, dtype=np.bool_), calls_per_sample=1)
    monkeypatch.setattr("medn.devices.worker.take_samples", lambda *_, **__: timed)
    worker = Worker(backends["torch"], 1, tmp_path)
    worker._runner, worker._cache_state = HalfConverts(), state
    answer = worker.measure({"seconds": 0.05, "precision": 0.02, "quantile": 0.1})
    assert answer["wall_s"] == answer["cpu_s"] == [seconds] * 3
