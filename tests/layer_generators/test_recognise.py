"""Every kind finds its own layers again in what a model does, and leaves the other kinds' alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from medn.core.values import Layer
from medn.layer_generators.fused import FUSED_KINDS
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.layer_generators.kinds.copy import swapped_axes
from medn.layer_generators.operation import Operation, Recognised, operation_of, unfold_batch
from medn.layer_generators.recognition import recognise, recognise_module

BATCH_SIZE = 3
BY_MODULE = ("lstm", "gru", "multihead_attention", "rms_norm")
"""torch takes these apart into many operations."""
FUSED = tuple(FUSED_KINDS.values())
"""Several layers of a model, put together by the rules of a backend."""
BY_OPERATION = [name for name in layer_kinds if name not in (*BY_MODULE, *FUSED)]
ON_THE_CPU = ("attention",)
"""Without data torch takes attention apart; with data it calls a fused operator."""


class Recorder(TorchDispatchMode):
    """Writes down every operation of a model."""

    def __init__(self, model_batch: int | None) -> None:
        super().__init__()
        self.model_batch = model_batch
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        output = function(*arguments, **(keywords or {}))
        self.operations.append(operation_of(function, arguments, keywords or {}, output, self.model_batch))
        return output


def record(module: torch.nn.Module, inputs: list[torch.Tensor], model_batch: int | None = None) -> list[Operation]:
    with torch.no_grad(), Recorder(model_batch) as recorder:
        module(*inputs)
    return recorder.operations


def made(kind: LayerKind, layer: Layer) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    values = kind.values_of(layer)
    with torch.device("cpu" if kind.name in ON_THE_CPU else "meta"):
        inputs = [
            torch.zeros(spec.shape, dtype=torch.float32 if spec.indices_below is None else torch.int64)
            for spec in kind.inputs(values, BATCH_SIZE)
        ]
        return kind.build(values).eval(), inputs


def read_again(kind: LayerKind, found: Recognised) -> Layer:
    return kind.layer(**found.parameters)


def costs_of(layer: Layer, batch_size: int) -> tuple[int, ...]:
    costs = layer_kinds[layer.kind].costs(layer_kinds[layer.kind].values_of(layer), batch_size, element_bytes=4)
    return (costs.flops, costs.input_bytes, costs.output_bytes, costs.parameter_bytes)


@pytest.mark.parametrize("name", BY_OPERATION)
def test_kind_finds_itself_with_the_same_parameters(name: str, small_layers: Any) -> None:
    kind = layer_kinds[name]
    for layer in small_layers(kind, 25):
        operations = record(*made(kind, layer), model_batch=BATCH_SIZE)
        found = [each for each in map(kind.recognise, operations) if each is not None]
        assert len(found) == 1, str(layer)
        again = read_again(kind, found[0])
        if name == "elementwise" and layer.values["rows"] == 1:
            # With a single row, some ways of broadcasting are the same operation.
            assert costs_of(again, found[0].batch_size) == costs_of(layer, BATCH_SIZE), str(layer)
        elif name == "attention" and "window" in layer.values:
            # torch has only a mask for a window, and what a mask hides is computed.
            all_tokens = kind.layer(**{**layer.values, "causal": False, "window": 0})
            assert (again, found[0].batch_size) == (all_tokens, BATCH_SIZE)
        else:
            assert (again, found[0].batch_size) == (layer, BATCH_SIZE)


@pytest.mark.parametrize("name", BY_OPERATION)
def test_no_other_kind_claims_its_operations(name: str, small_layers: Any) -> None:
    kind = layer_kinds[name]
    for layer in small_layers(kind, 10):
        for operation in record(*made(kind, layer)):
            claims = [other.name for other in layer_kinds.values() if other.recognise(operation) is not None]
            assert claims in ([], [name]), operation


@pytest.mark.parametrize("name", BY_MODULE)
def test_module_is_known_as_a_whole(name: str, small_layers: Any) -> None:
    kind = layer_kinds[name]
    for layer in small_layers(kind, 10):
        module, inputs = made(kind, layer)
        shapes = (tuple(inputs[0].shape),) * (3 if name == "multihead_attention" else 1)
        claims = [found for part in module.modules() if (found := recognise_module(part, shapes)) is not None]
        assert [(by.name, read_again(by, found), found.batch_size) for by, found in claims] == [
            (name, layer, BATCH_SIZE)
        ]


@pytest.mark.parametrize("name", BY_OPERATION)
def test_ordinary_module_is_not_taken_as_a_whole(name: str, small_layers: Any) -> None:
    module, inputs = made(layer_kinds[name], small_layers(layer_kinds[name], 1)[0])
    assert recognise_module(module, tuple(tuple(each.shape) for each in inputs)) is None


def test_fused_multihead_attention_is_known_by_its_operator() -> None:
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    tokens = torch.zeros(3, 5, 8)
    with torch.inference_mode():
        operations = record(lambda x: module(x, x, x, need_weights=False), [tokens])  # type: ignore[arg-type]
    names = [kind.name for kind, _ in filter(None, map(recognise, operations))]
    assert names == ["multihead_attention"]


def test_batch_folded_into_rows_is_all_of_them_where_the_models_batch_is_unknown() -> None:
    assert unfold_batch(24, Operation("aten.mm")) == (24, 1)
    assert unfold_batch(24, Operation("aten.mm", model_batch=4)) == (4, 6)
    assert unfold_batch(25, Operation("aten.mm", model_batch=4)) == (25, 1)


@pytest.mark.parametrize(
    ("build", "shapes", "name", "parameters"),
    [
        (lambda: torch.nn.ReLU(inplace=True), [(2, 3, 4)], "activation", {"function": "relu", "elements": 12}),
        (lambda: torch.nn.GELU(approximate="tanh"), [(2, 8)], "activation", {"function": "gelu_tanh"}),
        (lambda: torch.nn.LayerNorm((3, 4)), [(2, 5, 3, 4)], "layer_norm", {"features": 12, "rows": 5}),
        (lambda: torch.nn.MaxPool2d(2), [(1, 3, 8, 8)], "max_pool2d", {"stride_h": 2}),
        (lambda: lambda x: x.mean((2, 3)), [(2, 6, 5, 5)], "adaptive_avg_pool2d", {"channels": 6, "out_h": 1}),
        (lambda: lambda x, gate: gate * x, [(2, 6, 4, 5), (2, 6, 1, 1)], "elementwise", {"broadcast": "per_row"}),
        (lambda: lambda x, bias: x + bias, [(2, 6, 5), (5,)], "elementwise", {"broadcast": "per_column"}),
        (lambda: lambda x, mask: x + mask, [(2, 3, 6, 5), (2, 1, 1, 5)], "elementwise", {"columns": 5, "rows": 18}),
        (lambda: lambda x, place: x + place, [(2, 6, 5), (1, 6, 5)], "elementwise", {"broadcast": "batch"}),
        (lambda: lambda x: x * 0.5, [(2, 6, 5)], "elementwise", {"broadcast": "scalar", "operation": "mul"}),
        (lambda: lambda x: -x, [(2, 6, 5)], "elementwise", {"broadcast": "scalar", "operation": "mul"}),
        (lambda: lambda x: x**3, [(2, 6, 5)], "elementwise", {"broadcast": "scalar", "operation": "mul"}),
        (lambda: lambda x: 1 - x, [(2, 6, 5)], "elementwise", {"broadcast": "scalar", "operation": "sub"}),
        (lambda: lambda x: x.mul_(2), [(2, 6, 5)], "elementwise", {"broadcast": "scalar", "rows": 6}),
        (lambda: lambda x, y: x @ y, [(2, 3, 4, 5), (2, 3, 5, 6)], "matmul", {"rows": 4, "inner": 5, "columns": 6}),
        (
            lambda: lambda *x: torch.cat(x, 1),
            [(2, 8, 4, 4), (2, 3, 4, 4), (2, 4, 4, 4)],
            "concat",
            {"inputs": 3, "first_channels": 9, "other_channels": 3},
        ),
        (
            lambda: lambda *x: torch.stack(x, -3),
            [(2, 8, 4, 6), (2, 8, 4, 6)],
            "concat",
            {"inputs": 2, "first_channels": 1, "other_channels": 1, "in_h": 4, "in_w": 6},
        ),
        (
            lambda: lambda x: torch.cat([torch.zeros(0), x.transpose(1, 2)], 1),
            [(2, 5, 6, 8)],
            "copy",
            {"rows": 5, "columns": 6, "inner": 8},
        ),
        (
            lambda: lambda x: x.contiguous(memory_format=torch.channels_last),
            [(2, 5, 6, 8)],
            "copy",
            {"rows": 5, "columns": 48, "inner": 1},
        ),
        (lambda: lambda x: x.clone(), [(2, 5, 6)], "copy", {"rows": 1, "columns": 1, "inner": 30}),
        (
            lambda: lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
            [(2, 3, 4, 5)],
            "upsample",
            {"mode": "bilinear", "out_h": 8, "out_w": 10},
        ),
    ],
)
def test_other_spellings_are_recognised(build: Any, shapes: Any, name: str, parameters: dict[str, Any]) -> None:
    with torch.device("meta"):
        operations = record(build(), [torch.zeros(shape) for shape in shapes])
    ((kind, found),) = filter(None, map(recognise, operations))
    assert kind.name == name
    assert {each: found.parameters[each] for each in parameters} == parameters


@pytest.mark.parametrize(
    ("permuted", "sizes"),
    [
        ((0, 2, 1, 3), (2, 3, 4, 5)),  # heads side by side
        ((0, 1, 3, 2), (6, 4, 5, 1)),  # a matrix transposed
        ((1, 0, 2, 3), (1, 2, 3, 20)),
        ((2, 3, 0, 1), (1, 6, 20, 1)),  # neighbours move together
        ((0, 3, 2, 1), (2, 12, 5, 1)),  # three parts in reverse: the last is swapped with the two before it
    ],
)
def test_any_order_of_axes_becomes_two_that_are_swapped(permuted: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    view = torch.zeros(2, 3, 4, 5, device="meta").permute(permuted)
    assert swapped_axes(tuple(view.shape), view.stride(), view.contiguous().stride()) == sizes


def test_gaps_between_the_rows_of_a_copy_do_not_matter() -> None:
    query = torch.zeros(2, 7, 3, 4, 8, device="meta")[:, :, 1].transpose(1, 2)
    assert swapped_axes(tuple(query.shape), query.stride(), query.contiguous().stride()) == (2, 7, 4, 8)


def test_copy_of_a_broadcast_tensor_is_of_no_kind() -> None:
    (operation,) = record(
        lambda x: x.expand(4, 3, 5).clone(memory_format=torch.contiguous_format), [torch.zeros(3, 5)]
    )[-1:]  # type: ignore[arg-type]
    assert recognise(operation) is None


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), ()])
def test_degenerate_calls_never_raise(shape: tuple[int, ...]) -> None:
    with torch.device("meta"):
        tensor = torch.zeros(shape)
        for function in (torch.relu, lambda x: x + x, lambda x: x * 2, lambda x: torch.softmax(x, -1)):
            for operation in record(function, [tensor]):
                found = recognise(operation)
                assert found is None or found[1].batch_size >= 1


def test_language_models_own_rms_norm_is_recognised() -> None:
    class LlamaRMSNorm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(16))

    found = recognise_module(LlamaRMSNorm(), ((2, 7, 16),))
    assert found is not None
    assert found[0].name == "rms_norm"
    assert found[1] == Recognised({"features": 16, "rows": 7}, batch_size=2)


def test_sequence_first_lstm_is_read_by_its_own_axes() -> None:
    found = recognise_module(torch.nn.LSTM(4, 8), ((7, 2, 4),))
    assert found is not None
    assert (found[1].parameters["sequence_length"], found[1].batch_size) == (7, 2)
