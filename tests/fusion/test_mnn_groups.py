"""What MNN runs as one, read from the graph that its converter writes."""

from __future__ import annotations

import pytest
import torch

from medn.devices.backend import NodeGroups, Unsupported
from medn.devices.mnn_groups import read_fused
from medn.devices.onnx_export import export_onnx
from medn.fusion.rules import rules_for

pytest.importorskip("MNN")

IMAGE = torch.zeros(1, 8, 6, 6)
ROWS = torch.zeros(1, 4, 16)


def groups(module: torch.nn.Module, example: torch.Tensor = IMAGE) -> NodeGroups:
    return read_fused(export_onnx(module.eval(), (example,), None, ""))


class Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU()

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.act(self.conv(image) + image)
        return result


@pytest.mark.parametrize(("function", "node"), [(torch.nn.ReLU(), "Relu"), (torch.nn.ReLU6(), "Clip")])
def test_a_convolution_absorbs_normalisation_and_a_clipping_activation(function: torch.nn.Module, node: str) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), function)
    assert groups(net) == (("/0/Conv", f"/2/{node}"),)


def test_a_convolution_leaves_other_activations_apart() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.Sigmoid())
    assert groups(net) == (("/0/Conv",), ("/1/Sigmoid",))


def test_a_convolution_in_groups_absorbs_the_activation_although_it_is_split() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, groups=2), torch.nn.ReLU())
    assert groups(net) == (("/0/Conv", "/1/Relu"),)


def test_an_activation_is_absorbed_across_a_view() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.Flatten(), torch.nn.ReLU(), torch.nn.Linear(128, 4))
    assert set(groups(net)) == {("/0/Conv", "/2/Relu"), ("/1/Flatten",), ("/3/Gemm",)}


def test_a_sum_runs_with_the_activation_and_without_the_convolution() -> None:
    assert groups(Residual()) == (("/conv/Conv",), ("/Add", "/act/Relu"))


def test_a_function_that_is_spelled_out_is_one_operator_behind_a_product_with_its_bias() -> None:
    product, function = groups(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()), ROWS)
    assert product == ("/0/MatMul", "/0/Add")
    assert [name.rpartition("/")[2] for name in function] == ["Div", "Erf", "Add", "Mul", "Mul_1"]


def test_a_product_of_rows_absorbs_the_activation() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
    assert groups(net, ROWS) == (("/0/MatMul", "/0/Add", "/1/Relu"),)


def test_every_part_of_what_is_split_is_made_by_the_split() -> None:
    class Halves(torch.nn.Module):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            left, right = torch.tanh(rows).split(8, dim=-1)
            return torch.exp(left) - torch.sigmoid(right)

    assert sorted(map(len, groups(Halves(), ROWS))) == [1, 1, 1, 1, 1]


def test_a_model_that_mnn_does_not_take_is_refused_with_a_reason() -> None:
    class Checked(torch.nn.Module):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.isnan(image)

    with pytest.raises(Unsupported, match="mnn does not convert it"):
        groups(Checked())


def test_the_rules_of_mnn_have_its_activations() -> None:
    rules = rules_for("mnn")
    assert rules is not None
    assert {("conv2d", "activation relu"), ("elementwise add none", "activation relu")} <= rules.chains
    assert not {chain for chain in rules.chains if chain[:2] == ("conv2d", "elementwise add none")}
