"""The sweep config for given models: what is in it, and what it plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.core.values import Layer, Point
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.model.sweep_config import ModelSweep, as_yaml, model_sweep


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.deep = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(torch.relu(self.deep(torch.relu(self.first(given)))).mean((2, 3)))
        return result


@pytest.fixture(scope="module")
def net() -> CapturedModel:
    return capture(Net(), torch.zeros(1, 3, 24, 24))


@pytest.fixture(scope="module")
def sweep(net: CapturedModel) -> ModelSweep:
    return model_sweep({"net": net}, ["torch"], [1, 4])


def parsed(sweep: ModelSweep, points: int) -> SweepConfig:
    return parse_sweep(as_yaml(sweep.config(points), "medn sweep --for net"))


def drawn_layers(points: list[Point], kind: str) -> list[Layer]:
    return list(dict.fromkeys(point.layer for point in points if point.layer.kind == kind))


def own_layers(net: CapturedModel) -> set[Layer]:
    return {captured.layer for captured in net.layers if captured.layer is not None}


def test_the_config_has_the_kinds_and_layers_of_the_model(net: CapturedModel, sweep: ModelSweep) -> None:
    config = parsed(sweep, 300)
    assert {each.layer for chosen in config.layers.values() for each in chosen.space.listed} == own_layers(net)


def test_the_very_layers_come_first_and_under_all_their_conditions(net: CapturedModel, sweep: ModelSweep) -> None:
    points = plan_points(parsed(sweep, 300)).points
    for kind in ("conv2d", "linear", "activation"):
        own = {layer for layer in own_layers(net) if layer.kind == kind}
        assert set(drawn_layers(points, kind)[: len(own)]) == own
        for layer in own:
            conditions = {(p.condition.batch_size, p.condition.cache) for p in points if p.layer == layer}
            assert conditions == {(1, "hot"), (1, "cold"), (4, "hot"), (4, "cold")}


def test_a_budget_that_is_used_up_by_the_very_layers_plans_no_other(net: CapturedModel, sweep: ModelSweep) -> None:
    points = plan_points(parsed(sweep, sweep.own_points)).points
    assert {point.layer for point in points} == own_layers(net)


def test_neighbours_are_possible_layers_near_those_of_the_model(sweep: ModelSweep) -> None:
    convolutions = drawn_layers(plan_points(parsed(sweep, 300)).points, "conv2d")
    assert len(convolutions) > 20
    for layer in convolutions:
        assert layer_kinds["conv2d"].layer(**layer.values) == layer
        assert (layer.values["kernel_h"], layer.values["stride_h"]) == (3, 1)
        assert 12 <= int(layer.values["in_h"]) <= 48
        assert layer.values["in_h"] == layer.values["in_w"]


def test_depthwise_layers_have_depthwise_neighbours(sweep: ModelSweep) -> None:
    convolutions = drawn_layers(plan_points(parsed(sweep, 300)).points, "conv2d")
    grouped = [layer for layer in convolutions if layer.values["groups"] != 1]
    assert len({layer.values["groups"] for layer in grouped}) > 3


@pytest.mark.parametrize("points", [100, 300])
def test_the_written_config_plans_the_same_points_again(sweep: ModelSweep, points: int) -> None:
    assert plan_points(parsed(sweep, points)).points == plan_points(parsed(sweep, points)).points


def test_a_larger_budget_keeps_the_points_of_a_smaller_one(sweep: ModelSweep) -> None:
    small, large = ({point.key for point in plan_points(parsed(sweep, points)).points} for points in (150, 400))
    assert small < large


def test_every_kind_has_enough_layers_to_learn_from_however_small_it_is() -> None:
    tiny = capture(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Softmax(-1)), torch.zeros(1, 4))
    sweep = model_sweep({"tiny": tiny}, ["torch"])
    points = plan_points(parsed(sweep, sweep.usual_points)).points
    assert all(len(drawn_layers(points, kind)) >= 12 for kind in ("linear", "softmax"))


def test_a_kind_that_takes_hardly_any_time_is_learned_too_from_few_points() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Softmax(-1))
    sweep = model_sweep({"net": capture(model, torch.zeros(8, 1024))}, ["torch"])
    few, fewer = (plan_points(parsed(sweep, points)).points for points in (120, 30))
    assert all(len(drawn_layers(few, kind)) >= 12 for kind in ("linear", "activation", "softmax"))
    assert len(drawn_layers(few, "linear")) > 2 * len(drawn_layers(few, "activation"))
    assert all(4 <= len(drawn_layers(fewer, kind)) <= 6 for kind in ("linear", "activation", "softmax"))


def test_most_points_go_where_most_of_the_time_goes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1000))
    config = parsed(model_sweep({"net": capture(model, torch.zeros(8, 1024))}, ["torch"]), 400)
    assert config.layers["linear"].share > 4 * config.layers["activation"].share


def test_without_batch_sizes_that_of_the_capture_is_measured() -> None:
    model = capture(torch.nn.Linear(32, 32), torch.zeros(6, 32))
    assert model_sweep({"net": model}, ["torch"]).config(20)["conditions"]["batch_size"] == 6


def test_a_layer_with_a_batch_of_its_own_is_measured_at_it() -> None:
    class Windows(torch.nn.Module):
        """Attention over 9 windows of every image, as a batch of 9."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(32, 32)

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            tokens = self.linear(given).reshape(-1, 2, 16, 16)
            result: torch.Tensor = torch.nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
            return result

    captured = capture(Windows(), torch.zeros(1, 9 * 16, 32))
    points = plan_points(parsed(model_sweep({"net": captured}, ["torch"], [1, 2]), 200)).points
    batches = {
        point.condition.batch_size for point in points if point.layer == drawn_layers(points, point.layer.kind)[0]
    }
    wanted = {layer.batch_size * factor for layer in captured.layers if layer.layer for factor in (1, 2)}
    assert len(wanted) > 2
    assert batches == wanted


def test_a_device_that_fuses_is_measured_with_fused_kinds(net: CapturedModel) -> None:
    config = model_sweep({"net": net}, ["onnxruntime"]).config(100)
    assert {"fused_conv2d", "fused_linear"} <= config["layers"].keys()
    assert not {"conv2d", "activation"} & config["layers"].keys()
    assert config["layers"]["fused_conv2d"]["activation"] == "relu"
    assert config["conditions"]["cache"] == ["hot", "cold", "inside"]


def test_several_models_and_devices_are_one_config(net: CapturedModel) -> None:
    other = capture(torch.nn.LayerNorm(64), torch.zeros(2, 64))
    config = model_sweep({"net": net, "other": other}, ["torch", "onnxruntime"]).config(400)
    assert {"conv2d", "fused_conv2d", "layer_norm"} <= config["layers"].keys()
    assert config["name"] == "for-net-other"


def test_a_model_without_a_known_layer_is_refused(net: CapturedModel) -> None:
    strange = capture(torch.nn.PixelShuffle(2), torch.zeros(1, 4, 8, 8))
    unknown = replace(strange, layers=tuple(replace(layer, layer=None) for layer in strange.layers))
    with pytest.raises(UsageError, match="strange: none of its layers is of a kind that medn knows"):
        model_sweep({"net": net, "strange": unknown}, ["torch"])


def test_an_onnx_file_becomes_a_config(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, floating = onnx.helper, onnx.TensorProto.FLOAT
    tensors = [helper.make_tensor_value_info(name, floating, [1, 64]) for name in "ab"]
    graph = helper.make_graph([helper.make_node("Relu", ["a"], ["b"], name="act")], "net", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    captured = capture(str(tmp_path / "net.onnx"))
    config: dict[str, Any] = model_sweep({"net.onnx": captured}, ["torch"]).config(20)
    assert config["layers"]["activation"]["listed"] == [{"elements": 64, "function": "relu"}]
