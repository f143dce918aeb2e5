"""Layers that are sent without their weights: the same on the other side, and few bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from medn.core.values import Condition, Layer
from medn.devices import exported
from medn.devices.backend import Unsupported, backends
from medn.devices.exported import ExportedWorkload, export_layer
from medn.devices.pool import POOL_SEED, POOL_SIZE, Fill, indices, pool
from medn.devices.workload import WrongOutput, make_workload
from medn.layer_generators.kind import layer_kinds

CONDITION = Condition(batch_size=3)


def received(layer: Layer) -> ExportedWorkload:
    return ExportedWorkload(export_layer(layer, CONDITION), layer, CONDITION, None, "key")


def test_the_pool_holds_the_numbers_that_torch_draws() -> None:
    generator = torch.Generator().manual_seed(POOL_SEED)
    size = torch.empty(POOL_SIZE).uniform_(0.1, 1.0, generator=generator)
    sign = torch.randint(2, (POOL_SIZE,), generator=generator) * 2 - 1
    assert np.array_equal(pool(), (size * sign).numpy())


def test_indices_are_those_that_torch_draws() -> None:
    drawn = torch.randint(1000, (7, 5), generator=torch.Generator().manual_seed(77))
    assert np.array_equal(indices(77, 1000, (7, 5)), drawn.numpy())


def test_a_tensor_larger_than_the_pool_goes_around_it() -> None:
    fill = Fill(POOL_SIZE - 2, 0.5, (POOL_SIZE + 5,))
    assert np.array_equal(fill.array(), 0.5 * np.resize(np.roll(pool(), 2), POOL_SIZE + 5))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("linear", {"in_features": 300, "out_features": 200}),
        ("conv2d", {"in_channels": 32, "out_channels": 48, "kernel_size": 3, "in_size": 9}),
        ("embedding", {"vocabulary": 500, "features": 64, "tokens": 6}),
        ("lstm", {"input_size": 32, "hidden_size": 48, "sequence_length": 4}),
    ],
)
def test_file_and_inputs_are_put_together_bit_for_bit(kind: str, parameters: dict[str, int]) -> None:
    layer = layer_kinds[kind].layer(**parameters)
    here, there = make_workload(layer, CONDITION), received(layer)
    assert there.onnx_file() == here.onnx_file()
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(there.arrays, here.arrays, strict=True))
    assert there.output_error(here.expected()) == 0


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_weights_are_not_sent(kind: str) -> None:
    sizes = {"linear": {"in_features": 1024, "out_features": 1024}, "conv2d": {"in_channels": 256, "out_channels": 256}}
    layer = layer_kinds[kind].layer(**sizes[kind], **({"in_size": 3, "kernel_size": 3} if kind == "conv2d" else {}))
    whole = len(make_workload(layer, CONDITION).onnx_file())
    assert len(export_layer(layer, CONDITION)) < whole / 40


def test_an_output_that_differs_is_seen_and_a_large_one_is_compared_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "MOST_COMPARED", 100)
    layer = layer_kinds["linear"].layer(in_features=8, out_features=400)
    workload = received(layer)
    (right,) = make_workload(layer, CONDITION).expected()
    assert len(workload._outputs[0][1]) <= 101
    assert workload.output_error([right]) == 0
    assert workload.output_error([right * 1.5]) == pytest.approx(0.5, rel=0.01)
    with pytest.raises(WrongOutput, match="not finite"):
        workload.output_error([np.where(np.arange(400) == 1, np.nan, right).astype(np.float32)])
    with pytest.raises(WrongOutput, match="shapes"):
        workload.output_error([right[:1]])


def test_content_that_arrived_otherwise_is_refused() -> None:
    layer = layer_kinds["linear"].layer(in_features=8, out_features=8)
    content = export_layer(layer, CONDITION).replace(b"Gemm", b"Gamm")
    with pytest.raises(WrongOutput, match="is not the one that was sent"):
        ExportedWorkload(content, layer, CONDITION, None, "key")


def test_a_backend_that_takes_modules_says_that_it_cannot_run_an_exported_layer() -> None:
    with pytest.raises(Unsupported, match="takes_module"):
        backends["torch"].load(received(layer_kinds["linear"].layer(in_features=8, out_features=8)))
