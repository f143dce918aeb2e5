"""A torch module becomes its layers in order, with what flows between them, without being run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError


class Net(torch.nn.Module):
    """A module made of a function, and of the parts it uses."""

    def __init__(self, function: Any, **parts: torch.nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: Any, **more: Any) -> Any:
        return self.function(self, *inputs, **more)


def kinds(model: CapturedModel) -> list[str | None]:
    return [each.layer.kind if each.layer else None for each in model.layers]


def edges(model: CapturedModel) -> list[tuple[int, int, int]]:
    return [(edge.source, edge.target, edge.size_bytes) for edge in model.edges]


@pytest.fixture(scope="module")
def residual() -> CapturedModel:
    net = Net(
        lambda self, x: self.head((self.norm(self.conv(x)) + x).relu_().mean((2, 3))),
        conv=torch.nn.Conv2d(4, 4, 3, padding=1),
        norm=torch.nn.BatchNorm2d(4),
        head=torch.nn.Linear(4, 5),
    )
    return capture(net, torch.zeros(2, 4, 8, 8))


def test_layers_come_in_the_order_they_run(residual: CapturedModel) -> None:
    expected = ["conv2d", "batch_norm2d", "elementwise", "activation", "adaptive_avg_pool2d", "linear"]
    assert kinds(residual) == expected
    assert [each.name for each in residual.layers] == ["conv", "norm", "", "", "", "head"]


def test_batch_size_is_no_part_of_a_layer(residual: CapturedModel) -> None:
    assert residual.batch_size == 2
    assert {each.batch_size for each in residual.layers} == {2}
    assert residual.layers[-1].layer is not None
    assert residual.layers[-1].layer.values == {"in_features": 4, "out_features": 5, "rows": 1, "bias": True}


def test_edges_say_who_feeds_whom_with_how_many_bytes(residual: CapturedModel) -> None:
    image, pooled = 2 * 4 * 8 * 8 * 4, 2 * 4 * 4
    expected = [(-1, 0, image), (0, 1, image), (1, 2, image), (-1, 2, image), (2, 3, image), (3, 4, image)]
    assert edges(residual) == [*expected, (4, 5, pooled)]


def test_inputs_and_outputs_are_named_with_their_producers(residual: CapturedModel) -> None:
    assert [(port.shape, port.dtype, port.size_bytes) for port in residual.inputs] == [((2, 4, 8, 8), "fp32", 2048)]
    assert [(port.shape, port.producers) for port in residual.outputs] == [((2, 5), (5,))]


def test_parameters_are_counted_per_layer_and_once_for_the_model(residual: CapturedModel) -> None:
    conv, norm, head = (4 * 4 * 9 + 4) * 4, 4 * 4 * 4, (4 * 5 + 5) * 4
    assert [each.parameter_bytes for each in residual.layers] == [conv, norm, 0, 0, 0, head]
    assert residual.parameter_bytes == conv + norm + head + 8  # the batches that batch normalisation counted


def test_views_cost_nothing_and_pass_their_producers_on() -> None:
    net = Net(lambda self, x: self.relu(x).permute(0, 2, 1).unsqueeze(1)[:, :, :2].sigmoid(), relu=torch.nn.ReLU())
    model = capture(net, torch.zeros(1, 6, 8))
    assert kinds(model) == ["activation", "activation"]
    assert edges(model) == [(-1, 0, 192), (0, 1, 48)]


def test_a_copy_that_a_view_needs_is_a_layer() -> None:
    model = capture(Net(lambda self, x: x.permute(0, 2, 1).reshape(-1)), torch.zeros(1, 6, 8))
    assert [each.operator for each in model.layers] == ["aten.clone"]
    assert kinds(model) == ["copy"]


def test_a_tensor_given_twice_is_read_once() -> None:
    model = capture(Net(lambda self, x: x * x), torch.zeros(1, 6))
    assert edges(model) == [(-1, 0, 24)]


def test_a_part_written_joins_those_that_wrote_before() -> None:
    def fill(self: Net, x: torch.Tensor) -> torch.Tensor:
        held = x.tanh()
        held[:, :2] = x[:, 2:].sigmoid()
        return held.relu()

    model = capture(Net(fill), torch.zeros(1, 4))
    assert model.layers[-1].inputs == (0, 2)


def test_a_module_used_twice_is_two_layers_of_one_name() -> None:
    model = capture(Net(lambda self, x: self.fc(self.fc(x)), fc=torch.nn.Linear(3, 3)), torch.zeros(1, 3))
    assert [each.name for each in model.layers] == ["fc", "fc"]
    assert model.parameter_bytes == 48


def test_functional_calls_are_layers() -> None:
    weight = torch.zeros(5, 3, 3, 3)
    model = capture(Net(lambda self, x: functional.relu(functional.conv2d(x, weight)) + 1), torch.zeros(1, 3, 8, 8))
    assert kinds(model) == ["conv2d", "activation", "elementwise"]


def test_attention_is_one_layer() -> None:
    net = Net(lambda self, q, k: functional.scaled_dot_product_attention(q, k, k, is_causal=True))
    model = capture(net, (torch.zeros(2, 3, 7, 8), torch.zeros(2, 3, 7, 8)))
    assert kinds(model) == ["attention"]
    assert edges(model) == [(-1, 0, 1344), (-2, 0, 1344)]


@pytest.mark.parametrize("fast", [True, False])
def test_encoder_layers_are_taken_apart_alike_whether_torch_would_fuse_them(fast: bool) -> None:
    net = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=not fast)
    found = kinds(capture(net, torch.zeros(2, 5, 16)))
    assert sorted(filter(None, found)) == sorted(
        ["multihead_attention", *["linear"] * 2, *["layer_norm"] * 2, *["elementwise"] * 2, "activation"]
    )


def test_rms_norm_is_one_layer_as_module_and_as_function() -> None:
    net = Net(lambda self, x: functional.rms_norm(self.norm(x), (8,)), norm=torch.nn.RMSNorm(8))
    assert kinds(capture(net, torch.zeros(2, 5, 8))) == ["rms_norm", "rms_norm"]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_is_one_layer_however_long_the_sequence(kind: str) -> None:
    rnn = getattr(torch.nn, kind)(4, 8, 2, batch_first=True, bidirectional=True)
    net = Net(lambda self, x: self.fc(self.rnn(x)[0][:, -1]), rnn=rnn, fc=torch.nn.Linear(16, 2))
    model = capture(net, torch.zeros(3, 50_000, 4, device="meta"))
    assert kinds(model) == [kind.lower(), "linear"]
    assert model.layers[0].layer is not None
    assert (model.layers[0].layer.values["sequence_length"], model.layers[0].batch_size) == (50_000, 3)
    assert model.layers[0].parameter_bytes == model.parameter_bytes - 34 * 4


def test_experts_of_a_mixture_share_the_rows() -> None:
    def experts(self: Net, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        offsets = torch.tensor([8, 16], dtype=torch.int32)
        return torch._grouped_mm(rows, weights, offs=offsets).relu()

    model = capture(Net(experts), (torch.zeros(16, 8), torch.zeros(2, 8, 4)))
    found = [each for each in model.layers if each.layer]
    assert [each.layer.kind for each in found if each.layer] == ["linear", "linear", "activation"]
    assert found[0].flops + found[1].flops == 2 * 16 * 8 * 4


def test_rows_and_batch_are_told_apart_in_a_matrix_product() -> None:
    model = capture(torch.nn.Linear(4, 5), torch.zeros(3, 7, 4))
    assert model.layers[0].layer is not None
    assert (model.layers[0].layer.values["rows"], model.layers[0].batch_size) == (7, 3)


def test_another_batch_size_than_the_examples() -> None:
    net = Net(lambda self, x, scale: self.fc(x) * scale, fc=torch.nn.Linear(4, 5))
    inputs = (torch.zeros(2, 4), torch.ones(5))
    model = capture(net, inputs, batch_size=16)
    assert model.batch_size == 16
    assert {each.batch_size for each in model.layers} == {16}
    assert model.flops == 8 * capture(net, inputs).flops


def test_keyword_inputs_and_nested_outputs() -> None:
    net = Net(lambda self, x, factor: {"a": x * factor, "b": [x.relu()]})
    model = capture(net, {"x": torch.zeros(2, 4), "factor": 3.0})
    assert len(model.outputs) == 2
    assert kinds(model) == ["elementwise", "activation"]


def test_conditions_on_example_values_take_the_true_branch() -> None:
    def masked(self: Net, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x.relu() if mask.all() else x.tanh()

    for value, function in ((1, "relu"), (0, "tanh")):
        model = capture(Net(masked), (torch.zeros(1, 9000), torch.full((1, 5), value)))
        assert model.guesses == 0
        assert [each.layer.values["function"] for each in model.layers if each.layer] == [function]


def test_values_that_only_a_run_would_know_are_guessed_and_counted() -> None:
    net = Net(lambda self, x: x.relu() if x.isnan().any() else x.tanh())
    model = capture(net, torch.zeros(1, 9000, device="meta"))
    assert model.guesses == 1
    assert model.layers[-1].operator == "aten.tanh"
    assert model.how == "shapes alone"


def test_shapes_that_depend_on_known_values_are_exact() -> None:
    net = Net(lambda self, x, mask: x[mask.nonzero()[:, 0]].relu() * len(mask.tolist()))
    model = capture(net, (torch.zeros(6, 3), torch.tensor([1, 0, 1, 1, 0, 0])))
    assert model.layers[-1].output_bytes == 3 * 3 * 4
    assert model.how == "shapes alone"


def test_a_value_overwritten_with_something_unknown_is_no_longer_known() -> None:
    def count(self: Net, x: torch.Tensor) -> torch.Tensor:
        held = torch.zeros(3)
        held.copy_(x[:3])
        return x * 2 if held[0] else x

    assert capture(Net(count), torch.zeros(9000, device="meta")).guesses == 1


def test_a_model_larger_than_memory_is_captured() -> None:
    with torch.device("meta"):
        net = torch.nn.Sequential(torch.nn.Linear(200_000, 200_000), torch.nn.ReLU())
    model = capture(net, torch.zeros(1, 200_000))
    assert model.parameter_bytes > 160e9
    assert kinds(model) == ["linear", "activation"]


def test_weights_with_data_are_neither_computed_with_nor_changed() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Dropout())
    net[1].eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    model = capture(net, torch.zeros(1, 3, 100_000, 100_000, device="meta"))
    assert model.how == "shapes alone"
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert [part.training for part in net] == [True, False, True]
    assert not any(tensor.is_meta for tensor in net.parameters())


def test_a_model_that_refuses_tensors_without_data_is_exported_first() -> None:
    def picky(self: Net, x: torch.Tensor) -> torch.Tensor:
        if x.is_meta:
            raise ValueError("no data")
        return self.fc(x).relu()

    model = capture(Net(picky, fc=torch.nn.Linear(4, 5)), torch.zeros(2, 4))
    assert model.how == "torch.export"
    assert [(each.name, each.batch_size) for each in model.layers] == [("fc", 2), ("", 2)]


def test_shapes_that_depend_on_data_need_one_real_run() -> None:
    net = Net(lambda self, x: functional.relu(self.fc(x[x.sum(1) > 0])), fc=torch.nn.Linear(2000, 3))
    example = torch.cat([torch.ones(3, 2000), -torch.ones(5, 2000)])
    model = capture(net, example)
    assert model.how == "one real run"
    assert model.outputs[0].shape == (3, 3)
    assert kinds(model)[-2:] == ["linear", "activation"]


def test_a_real_run_gives_the_same_layers_as_shapes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from medn.capture import torch_capture

    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.Hardswish(inplace=True),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(392, 6),
        torch.nn.Softmax(-1),
    )
    on_shapes = capture(net, torch.zeros(2, 3, 16, 16))
    monkeypatch.setattr(torch_capture, "ROUTES", {"one real run": torch_capture.ROUTES["one real run"]})
    really = capture(net, torch.zeros(2, 3, 16, 16))
    assert [each.layer for each in really.layers] == [each.layer for each in on_shapes.layers]
    assert edges(really) == edges(on_shapes)


def test_a_lazy_layer_is_captured_as_it_is_after_its_first_call() -> None:
    net = torch.nn.Sequential(torch.nn.LazyLinear(5), torch.nn.ReLU())
    model = capture(net, torch.zeros(2, 4))
    assert (model.how, kinds(model)) == ("shapes alone", ["linear", "activation"])
    assert model.parameter_bytes == model.layers[0].parameter_bytes == (4 * 5 + 5) * 4


def test_inputs_that_do_not_fit_are_one_sentence() -> None:
    with pytest.raises(
        UsageError, match=r"^Linear cannot be captured with these inputs\. shapes alone, torch\.export: .*8x3"
    ) as caught:
        capture(torch.nn.Linear(4, 5), torch.zeros(8, 3))
    assert "\n" not in str(caught.value)


def test_a_batch_size_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="batch_size: must be at least 1"):
        capture(torch.nn.ReLU(), torch.zeros(1, 3), batch_size=0)


def test_operators_without_a_kind_are_listed_with_their_shares() -> None:
    model = capture(Net(lambda self, x: x.sort().values.relu()), torch.zeros(2, 6))
    (found,) = model.unknown_operators
    assert (found.operator, found.count) == ("aten.sort", 1)
    assert found.flops_share == model.unknown_flops_share == 0.5
    sorted_bytes, relu_bytes = (48 + 48 + 96), 96
    assert found.bytes_share == pytest.approx(sorted_bytes / (sorted_bytes + relu_bytes))


def test_picking_rows_reads_no_more_than_it_writes() -> None:
    net = Net(lambda self, table, rows: table.index_select(0, rows))
    model = capture(net, (torch.zeros(1000, 4), torch.tensor([3, 5])))
    assert model.layers[0].moved_bytes == 2 * 4 * 4 * 2 + 2 * 8


def test_products_without_a_kind_have_their_flops_counted() -> None:
    net = torch.nn.ConvTranspose3d(4, 6, 2, stride=2)
    model = capture(net, torch.zeros(1, 4, 5, 5, 5))
    assert kinds(model) == [None]
    assert model.flops == 2 * 4 * 6 * 8 * 125


def test_arithmetic_of_indices_is_no_layer_of_a_kind() -> None:
    model = capture(Net(lambda self, x: x + 1), torch.zeros(2, 5, dtype=torch.int64))
    assert (kinds(model), model.layers[0].dtype) == ([None], "int64")


def test_half_precision_counts_its_own_bytes() -> None:
    model = capture(torch.nn.Linear(4, 4, bias=False).to(torch.bfloat16), torch.zeros(2, 4, dtype=torch.bfloat16))
    assert (model.layers[0].dtype, model.layers[0].moved_bytes) == ("bf16", 2 * (8 + 16 + 8))


def test_a_number_the_code_makes_comes_from_no_layer() -> None:
    def scaled(self: Net, x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = x.tanh() * torch.tensor([0.5])
        return x

    model = capture(Net(scaled), torch.zeros(1, 1))
    assert [each.inputs for each in model.layers] == [(-1,), *((index,) for index in range(39))]


def test_heads_that_share_keys_are_told_apart_from_those_that_do_not() -> None:
    net = Net(lambda self, q, k: functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True))
    (found,) = capture(net, (torch.zeros(2, 6, 7, 8), torch.zeros(2, 2, 7, 8))).layers
    assert found.layer is not None
    assert (found.layer.values["heads"], found.layer.values["kv_heads"], found.layer.values["causal"]) == (6, 2, True)


def test_what_a_mask_hides_is_computed() -> None:
    net = Net(lambda self, q, mask: functional.scaled_dot_product_attention(q, q, q, mask))
    (found,) = capture(net, (torch.zeros(2, 3, 7, 8), torch.ones(7, 7, dtype=torch.bool))).layers
    assert found.layer is not None
    assert found.layer.values["causal"] is False
    assert found.flops == 4 * 2 * 3 * 7 * 7 * 8


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("heads_first", [False, True])
def test_heads_are_joined_with_a_copy_only_where_torch_makes_one(dropout: float, heads_first: bool) -> None:
    """One kernel for all of attention lays its output out as the query is."""

    def attended(q: torch.Tensor) -> torch.Tensor:
        heads = q if heads_first else q.transpose(1, 2)
        return functional.scaled_dot_product_attention(heads, heads, heads, None, dropout, True).transpose(1, 2)

    example = torch.zeros(2, 3, 7, 8)
    found = capture(Net(lambda self, q: attended(q).flatten(2)), example)
    assert ("copy" in kinds(found)) == (not attended(example).is_contiguous())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.sum(1), ("sum", 1, 3, 40)),
        (lambda x: x.mean(-1, keepdim=True), ("mean", 12, 10, 1)),
        (lambda x: x.amax((1, 2)), ("max", 1, 12, 10)),
    ],
)
def test_sums_over_axes_are_layers(function: Any, expected: tuple[Any, ...]) -> None:
    (found,) = capture(Net(lambda self, x: function(x)), torch.zeros(2, 3, 4, 10)).layers
    assert found.layer is not None
    assert found.layer.kind == "reduction"
    assert tuple(found.layer.values[name] for name in ("function", "outer", "reduced", "inner")) == expected
    assert found.batch_size == 2


@pytest.mark.parametrize("function", [lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum((1, 3))])
def test_sums_over_the_batch_or_over_axes_apart_are_none(function: Any) -> None:
    (found,) = capture(Net(lambda self, x: function(x)), torch.zeros(2, 3, 4, 10)).layers
    assert found.layer is None
