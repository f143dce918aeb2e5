"""What backends run as one, read from their own graphs, and whether the rules say the same."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest
import torch

from experiments.fusion_rules import Read, fusing_backends, read_model, read_module
from medn.devices.backend import NodeGroups, backends
from medn.devices.onnx_export import export_onnx
from medn.fusion.chain_counts import agreement, count_chains, count_folded
from medn.fusion.fuse import fuse, fused_members
from medn.fusion.rules import ChainCount, rules_for

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


@pytest.fixture(params=[device.name for device in backends.values() if device.fusion_rules is not None])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if missing := backends[name].missing():
        pytest.skip(missing)
    return name


@pytest.fixture
def read_fused(backend: str) -> Callable[[bytes], NodeGroups]:
    return backends[backend].fused_groups


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.act = torch.nn.ReLU()
        self.head = torch.nn.Linear(16, 8)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        start = self.act(self.first(image))
        hidden = self.third(self.act(self.second(start)))
        result: torch.Tensor = self.head(self.act(hidden + start).mean((2, 3)))
        return result


IMAGE = torch.zeros(1, 16, 8, 8)


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"], indirect=True)
def test_a_convolution_runs_with_the_sum_and_the_activation_after_it(read_fused: Callable[[bytes], NodeGroups]) -> None:
    groups = read_fused(export_onnx(Block().eval(), (IMAGE,), None, ""))
    assert [list(group) for group in groups if "Conv" in "".join(group)] == [
        ["/first/Conv", "/act/Relu"],
        ["/second/Conv", "/act_1/Relu"],
        ["/third/Conv", "/Add", "/act_2/Relu"],
    ]


def test_every_node_is_in_one_group(read_fused: Callable[[bytes], NodeGroups]) -> None:
    groups = read_fused(export_onnx(Block().eval(), (IMAGE,), None, ""))
    products = ["/first/Conv", "/second/Conv", "/third/Conv", "/head/Gemm"]
    others = ["/act/Relu", "/act_1/Relu", "/act_2/Relu", "/Add", "/ReduceMean"]
    assert sorted(name for group in groups for name in group) == sorted(products + others)


def test_nodes_that_a_product_of_rows_absorbs_are_found(read_fused: Callable[[bytes], NodeGroups]) -> None:
    net = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.Softmax(-1)).eval()
    groups = read_fused(export_onnx(net, (torch.zeros(1, 4, 16),), None, ""))
    assert [set(group) for group in groups] == [
        {"/0/LayerNormalization"},
        {"/1/MatMul", "/1/Add"},
        {"/2/Softmax"},
    ]


@pytest.fixture(scope="module")
def resnet18() -> Read:
    return read_model("resnet18", fusing_backends())


@needs_timm
def test_the_groups_of_a_captured_file_are_those_of_the_graph(resnet18: Read, backend: str) -> None:
    rules = rules_for(backend)
    assert rules is not None
    members = fused_members(resnet18.exported, rules)
    names = {frozenset(resnet18.exported.layers[index].name for index in group) for group in members}
    views = {layer.name for layer in resnet18.exported.layers}
    shown = {frozenset(group) & views for group in resnet18.groups[backend]}
    assert names == shown - {frozenset()}


@needs_timm
def test_a_captured_module_makes_the_groups_of_its_file(resnet18: Read, backend: str) -> None:
    rules = rules_for(backend)
    assert rules is not None
    module, file = (fuse(model, rules) for model in (resnet18.captured, resnet18.exported))
    assert [layer.layer for layer in module.layers] == [layer.layer for layer in file.layers]
    assert [layer.inputs for layer in module.layers] == [layer.inputs for layer in file.layers]


@needs_timm
def test_all_batch_norms_of_a_residual_network_are_folded_by_the_export(resnet18: Read) -> None:
    count = count_folded(resnet18.captured, resnet18.exported, ("conv2d", "batch_norm2d"))
    assert (count.fused, count.apart) == (20, 0)


BLOCK_GROUPS = [
    ["/first/Conv", "/act/Relu"],
    ["/second/Conv", "/act_1/Relu"],
    ["/third/Conv", "/Add", "/act_2/Relu"],
    ["/ReduceMean"],
    ["/head/Gemm"],
]


def test_chains_are_counted_with_their_beginnings_and_with_what_is_left_apart() -> None:
    read = read_module("block", Block().eval(), (IMAGE,), ())
    assert sorted(count_chains(read.exported, BLOCK_GROUPS)) == [
        ChainCount(("adaptive_avg_pool2d", "linear"), 0, 1),
        ChainCount(("conv2d", "activation relu"), 2, 0),
        ChainCount(("conv2d", "activation relu", "conv2d"), 0, 1),
        ChainCount(("conv2d", "elementwise add none"), 1, 0),
        ChainCount(("conv2d", "elementwise add none", "activation relu"), 1, 0),
        ChainCount(("conv2d", "elementwise add none", "activation relu", "adaptive_avg_pool2d"), 0, 1),
    ]


def test_agreement_is_the_share_of_layers_in_the_same_group() -> None:
    rules = rules_for("onnxruntime")
    assert rules is not None
    read = read_module("block", Block().eval(), (IMAGE,), ())
    other = [["/first/Conv"], ["/act/Relu"], *BLOCK_GROUPS[1:]]
    assert [agreement(read.exported, groups, rules) for groups in (BLOCK_GROUPS, other)] == [1.0, 7 / 9]
