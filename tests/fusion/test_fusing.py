"""Captured models as compiled backends run them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel, load_captured
from medn.devices.onnx_export import export_onnx
from medn.fusion.fuse import fuse
from medn.fusion.rules import ChainCount, FusionRules, rules_for

IMAGE = torch.zeros(1, 8, 16, 16)
RELU, ADD, CONV = "activation relu", "elementwise add none", "conv2d"


def rules(*chains: tuple[str, ...]) -> FusionRules:
    counts = tuple(ChainCount(chain, 1, 0) for chain in chains)
    return FusionRules("made up", "1", (), (ChainCount((CONV, "batch_norm2d"), 1, 0),), counts)


RESIDUAL_RULES = rules((CONV, RELU), (CONV, ADD), (CONV, ADD, RELU), (ADD, "layer_norm"), ("linear", "activation gelu"))


class Residual(torch.nn.Module):
    """A block of a residual network, with a convolution on the short way where it is asked for."""

    def __init__(self, shortcut: bool = False) -> None:
        super().__init__()
        self.first, self.second = (torch.nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.first_norm, self.second_norm = torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(8)
        self.shortcut = torch.nn.Conv2d(8, 8, 1) if shortcut else torch.nn.Identity()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first_norm(self.first(image)))
        hidden = self.second_norm(self.second(hidden))
        return torch.relu(hidden + self.shortcut(image))


def fused(module: torch.nn.Module, image: torch.Tensor = IMAGE, by: FusionRules = RESIDUAL_RULES) -> CapturedModel:
    return fuse(capture(module.eval(), image), by)


def operators(model: CapturedModel) -> list[str]:
    return [layer.operator for layer in model.layers]


def ending(model: CapturedModel, index: int) -> tuple[str, object, object, object]:
    layer = model.layers[index].layer
    assert layer is not None
    return layer.kind, layer.values["activation"], layer.values["residual"], layer.values["bias"]


def test_a_residual_block_becomes_two_layers() -> None:
    assert operators(fused(Residual())) == ["conv2d+batch_norm2d+relu", "conv2d+batch_norm2d+add+relu"]


def test_a_fused_convolution_says_what_it_absorbed() -> None:
    model = fused(Residual())
    assert ending(model, 0) == ("fused_conv2d", "relu", False, True)
    assert ending(model, 1) == ("fused_conv2d", "relu", True, True)


def test_a_group_has_the_name_of_its_convolution() -> None:
    assert [layer.name for layer in fused(Residual()).layers] == ["first", "second"]


def test_a_residual_reads_both_of_its_operands() -> None:
    assert [layer.inputs for layer in fused(Residual()).layers] == [(-1,), (0, -1)]


def test_the_first_operand_of_a_sum_absorbs_it() -> None:
    model = fused(Residual(shortcut=True))
    # The short way is computed last, so the group that absorbs the sum moves behind it.
    assert [layer.name for layer in model.layers] == ["first", "shortcut", "second"]
    assert model.layers[2].inputs == (0, 1)


def test_a_product_absorbs_a_sum_rather_than_arithmetic_does() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(8, 8, 1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = image * 0.5 + self.conv(image)
            return result

    by = rules((CONV, ADD), ("elementwise mul scalar constant", ADD))
    assert operators(fused(Scaled(), by=by)) == ["aten.mul", "conv2d+add"]


def test_the_output_is_made_by_the_group() -> None:
    model = fused(Residual(shortcut=True))
    assert model.outputs[0].producers == (2,)


def test_flops_and_parameters_are_those_of_all_members() -> None:
    before = capture(Residual().eval(), IMAGE)
    after = fuse(before, RESIDUAL_RULES)
    assert after.flops == before.flops
    assert sum(layer.parameter_bytes for layer in after.layers) == sum(x.parameter_bytes for x in before.layers)


def test_what_stays_within_a_group_is_not_moved() -> None:
    before = capture(Residual().eval(), IMAGE)
    after = fuse(before, RESIDUAL_RULES)
    image_bytes = IMAGE.numel() * 4
    # Five of seven results are used within their group: each is neither written nor read.
    assert before.moved_bytes - after.moved_bytes == 5 * 2 * image_bytes


def test_a_layer_alone_becomes_its_fused_kind() -> None:
    model = fused(torch.nn.Conv2d(8, 4, 3))
    assert ending(model, 0) == ("fused_conv2d", "none", False, True)
    assert operators(model) == ["aten.convolution"]


def test_a_result_that_others_read_ends_its_group() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(8, 8, 1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            hidden = self.conv(image)
            return torch.relu(hidden) * hidden

    assert len(fused(Twice()).layers) == 3


def test_an_output_of_the_model_is_not_lost_within_a_group() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(8, 8, 1)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = self.conv(image)
            return hidden, torch.relu(hidden)

    model = fused(Both())
    assert [port.producers for port in model.outputs] == [(0,), (1,)]


def test_a_module_that_is_used_twice_makes_two_groups() -> None:
    class Again(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu = torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU()

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.relu(self.conv(self.relu(self.conv(image))))
            return result

    assert operators(fused(Again())) == ["conv2d+relu"] * 2


def test_an_activation_in_place_is_absorbed() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU(inplace=True))
    assert operators(fused(net)) == ["conv2d+relu"]


def test_a_second_activation_is_left_apart_although_a_rule_has_it() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU(), torch.nn.Sigmoid())
    by = rules((CONV, RELU), (CONV, RELU, "activation sigmoid"))
    assert [operator.split(".")[-1] for operator in operators(fused(net, by=by))] == ["conv2d+relu", "sigmoid"]


def test_a_layer_that_absorbs_a_sum_before_it_keeps_its_own_kind() -> None:
    class Normed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.norm(self.linear(rows) + rows)
            return result

    model = fused(Normed(), torch.zeros(1, 4, 16))
    assert operators(model)[-1] == "add+layer_norm"
    assert [layer.layer.kind for layer in model.layers if layer.layer] == ["fused_linear", "layer_norm"]


def test_a_fused_model_is_saved_and_loaded(tmp_path: Path) -> None:
    model = fused(Residual(shortcut=True))
    model.save(tmp_path / "fused.json")
    assert load_captured(tmp_path / "fused.json") == model


SPELLED = {"silu": torch.nn.SiLU(), "gelu": torch.nn.GELU(), "gelu_tanh": torch.nn.GELU("tanh")}


@pytest.mark.parametrize("function", list(SPELLED))
def test_what_an_exporter_spelled_out_is_put_together(function: str, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), SPELLED[function]).eval()
    rows = torch.zeros(1, 4, 16)
    file = tmp_path / "net.onnx"
    file.write_bytes(export_onnx(net, (rows,), None, ""))
    by = rules(("linear rows", f"activation {function}"))
    exported, captured = fuse(capture(file), by), fuse(capture(net, rows), by)
    assert [layer.layer for layer in exported.layers] == [layer.layer for layer in captured.layers]
    assert ending(exported, 0) == ("fused_linear", function, False, True)


def test_a_gate_by_another_tensor_is_no_silu() -> None:
    class Gated(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(image) * torch.relu(image)

    assert len(fused(Gated()).layers) == 3


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_the_rules_of_a_backend_are_known(backend: str) -> None:
    found = rules_for(backend)
    assert found is not None
    assert {(CONV, RELU), (CONV, ADD, RELU)} <= found.chains
    assert all(chain[:-1] in found.chains for chain in found.chains if len(chain) > 2)
    assert [count.chain for count in found.folded] == [(CONV, "batch_norm2d")]


def test_a_backend_that_runs_every_layer_by_itself_has_no_rules() -> None:
    assert rules_for("torch") is None


def test_what_runs_more_often_than_what_it_reads_is_not_fused_with_it() -> None:
    model = capture(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU()), IMAGE)
    first, second = model.layers
    loop = replace(model, layers=(first, replace(second, repeats=5)))
    assert [layer.repeats for layer in fuse(loop, RESIDUAL_RULES).layers] == [1, 5]


def test_a_group_runs_as_often_as_its_members() -> None:
    model = capture(torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU()), IMAGE)
    loop = replace(model, layers=tuple(replace(layer, repeats=5) for layer in model.layers))
    assert [layer.repeats for layer in fuse(loop, RESIDUAL_RULES).layers] == [5]
