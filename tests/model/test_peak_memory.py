"""Peak memory from shapes alone, against what a real run allocates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.peak_memory import allocated_peak
from medn.capture.capture import capture
from medn.capture.captured_model import load_captured, parse_captured
from medn.core.values import Layer
from medn.devices.convolution_scratch import convolution_scratch
from medn.layer_generators.kind import layer_kinds
from medn.model.schedule import peak_activation_bytes, peak_graph_bytes

SIZE = 4 * 1000 * 64  # bytes of one tensor of `Residual`


class Residual(torch.nn.Module):
    """Its caller's variable holds the input of both layers until the sum is there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        y = self.second(torch.relu(self.first(x)))
        return x + y


class Keeping(torch.nn.Module):
    """A variable that nothing reads any more is still held."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x * 2
        y = torch.relu(kept)
        y = torch.tanh(y)
        return torch.sigmoid(y)


def small_network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.SiLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.Conv2d(32, 64, 1, bias=False),
        torch.nn.Conv2d(64, 64, 3, padding=1, stride=2),
        torch.nn.ReLU(inplace=True),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    ).eval()


def measured_peak(model: torch.nn.Module, inputs: torch.Tensor) -> float:
    with torch.inference_mode():
        model(inputs)
        return inputs.nbytes + allocated_peak(lambda: model(inputs))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Residual(), (1000, 64)),
        (Keeping(), (1000, 64)),
        (small_network(), (4, 3, 64, 64)),
        (small_network(), (1, 3, 96, 96)),
    ],
)
def test_a_real_run_allocates_what_is_predicted(model: torch.nn.Module, shape: tuple[int, ...]) -> None:
    captured = capture(model, torch.empty(shape, device="meta"))
    found = peak_activation_bytes(captured, shape[0], "torch", torch.get_num_threads())
    assert found == pytest.approx(measured_peak(model, torch.randn(shape)), rel=0.05)


def test_what_the_code_keeps_counts_though_nothing_reads_it() -> None:
    captured = capture(Keeping(), torch.empty(1000, 64, device="meta"))
    assert peak_activation_bytes(captured, 1000) == 4 * SIZE  # the input, what is kept, and two of the chain
    assert peak_graph_bytes(captured, 1000) == 2 * SIZE


def test_torchs_own_tracker_says_the_same() -> None:
    from experiments.peak_memory import tracked_peak

    model = small_network()
    found = tracked_peak(model, torch.empty(1, 3, 64, 64, device="meta"), 4)
    captured = capture(small_network(), torch.empty(4, 3, 64, 64, device="meta"))
    assert peak_activation_bytes(captured, 4) == pytest.approx(found, rel=0.02)


def test_the_batch_is_an_input() -> None:
    small, large = (capture(small_network(), torch.empty(size, 3, 64, 64, device="meta")) for size in (2, 6))
    assert peak_activation_bytes(small, 6, "torch") == peak_activation_bytes(large, 6, "torch")


def test_what_was_held_is_saved_with_the_model(tmp_path: Path) -> None:
    captured = capture(small_network(), torch.empty(2, 3, 64, 64, device="meta"))
    captured.save(tmp_path / "model.json")
    assert load_captured(tmp_path / "model.json") == captured


def test_a_model_that_was_saved_before_is_judged_by_its_graph() -> None:
    captured = capture(Keeping(), torch.empty(1000, 64, device="meta"))
    layers = tuple(replace(layer, held_bytes=None) for layer in captured.layers)
    before = parse_captured(replace(captured, layers=layers).to_json(), "before")
    assert peak_activation_bytes(before, 1000) == peak_graph_bytes(captured, 1000)


def test_a_view_takes_no_memory_of_its_own() -> None:
    class Views(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made = x + 1
            parts = made.reshape(10, -1).split(5)
            return torch.relu(parts[0].transpose(0, 1))

    captured = capture(Views(), torch.empty(1000, 64, device="meta"))
    assert peak_activation_bytes(captured, 1000) == pytest.approx(2.5 * SIZE)


def convolution(in_channels: int, out_channels: int, kernel: int, stride: int, groups: int, size: int) -> Layer:
    padding = kernel // 2 if kernel < 16 else 0
    return layer_kinds["conv2d"].layer(
        in_channels=in_channels,
        out_channels=out_channels,
        kernel_size=kernel,
        stride=stride,
        groups=groups,
        in_size=size,
        padding=padding,
        bias=False,
    )


@pytest.mark.parametrize(
    ("sizes", "batch_size", "kilobytes"),
    [
        ((3, 64, 7, 2, 1, 112), 4, 3211),  # an image stays as it is; its output is blocked and plain for a moment
        ((64, 64, 3, 1, 1, 28), 1, 348),  # input and weights are copied
        ((100, 60, 3, 1, 1, 14), 4, 622),  # and padded
        ((72, 72, 3, 2, 72, 28), 1, 260),  # each channel by itself
        ((512, 512, 3, 1, 1, 7), 4, 9839),  # mostly weights
        ((3, 192, 16, 16, 1, 112), 4, 590),  # patches of an image
        ((64, 64, 1, 1, 1, 28), 4, 0),  # a matrix product
        ((100, 60, 3, 1, 1, 14), 1, 706),  # a single small input is unfolded
    ],
)
def test_convolutions_take_what_was_read_off_torch(
    sizes: tuple[int, int, int, int, int, int], batch_size: int, kilobytes: float
) -> None:
    found = convolution_scratch(convolution(*sizes), batch_size, 4, threads=1)
    assert found / 1e3 == pytest.approx(kilobytes, rel=0.01, abs=1)


def test_other_layers_take_nothing() -> None:
    layer = layer_kinds["linear"].layer(in_features=8, out_features=8)
    assert convolution_scratch(layer, 4, 4, threads=1) == 0.0
