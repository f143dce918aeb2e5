"""A layer made real: the same numbers every time, harmless to every kernel, and quick to make."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from medn.core.values import Condition, Layer
from medn.devices.pool import POOL_SIZE
from medn.devices.workload import WrongOutput, make_workload, output_error
from medn.layer_generators.kind import layer_kinds


def smallest(kind_name: str) -> Layer:
    kind = layer_kinds[kind_name]
    return kind.layer(**{name: domain.at(0.0) for name, domain in kind.sweep.items()})


def linear(in_features: int = 8, out_features: int = 4) -> Layer:
    return layer_kinds["linear"].layer(in_features=in_features, out_features=out_features)


def weights(layer: Layer, condition: Condition | None = None) -> list[np.ndarray]:
    module = make_workload(layer, condition or Condition()).module
    return [parameter.numpy() for parameter in module.parameters()]


@pytest.mark.parametrize("kind_name", list(layer_kinds))
def test_outputs_are_finite_and_of_the_shape_the_kind_says(kind_name: str) -> None:
    workload = make_workload(smallest(kind_name), Condition(batch_size=2))
    shape = layer_kinds[kind_name].output_shape(SimpleNamespace(**workload.layer.values), 2)
    assert workload.expected()[0].shape == shape
    assert all(np.isfinite(array).all() for array in workload.expected())


@pytest.mark.parametrize("kind_name", list(layer_kinds))
def test_parameters_and_inputs_hold_no_denormal_numbers(kind_name: str) -> None:
    workload = make_workload(smallest(kind_name), Condition(batch_size=2))
    tensors = [*workload.module.parameters(), *workload.inputs]
    for values in (tensor.numpy() for tensor in tensors if tensor.is_floating_point()):
        assert np.isfinite(values).all()
        assert (np.abs(values) > 1e-6).all()


def test_the_same_layer_holds_the_same_numbers() -> None:
    first, second = (make_workload(linear(), Condition()) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first.module.parameters(), second.module.parameters(), strict=True))
    assert (first.inputs[0] == second.inputs[0]).all()


def test_the_batch_size_does_not_change_the_weights() -> None:
    one, many = weights(linear(), Condition(batch_size=1)), weights(linear(), Condition(batch_size=16))
    assert all((a == b).all() for a, b in zip(one, many, strict=True))


def test_another_layer_holds_other_numbers() -> None:
    assert (weights(linear(8, 4))[0][:4, :4] != weights(linear(8, 5))[0][:4, :4]).any()


def test_a_weight_larger_than_the_pool_is_filled_to_its_end() -> None:
    weight = weights(linear(1100, 1000))[0]
    assert weight.size > POOL_SIZE
    assert (weight != 0).all()


def test_a_bf16_condition_gives_bf16_weights_and_inputs() -> None:
    import torch

    workload = make_workload(linear(), Condition(dtype="bf16"))
    dtypes = {tensor.dtype for tensor in (*workload.module.parameters(), *workload.inputs)}
    assert dtypes == {torch.bfloat16}
    assert workload.expected()[0].dtype == np.float32


def test_index_inputs_stay_within_the_table() -> None:
    layer = layer_kinds["embedding"].layer(vocabulary=5, features=4, tokens=200)
    indices = make_workload(layer, Condition(batch_size=4)).inputs[0].numpy()
    assert set(np.unique(indices)) == {0, 1, 2, 3, 4}


def test_running_variances_are_positive() -> None:
    module = make_workload(smallest("batch_norm2d"), Condition()).module
    assert all((buffer > 0).all() for name, buffer in module.named_buffers() if name.endswith("running_var"))


def test_the_module_is_in_evaluation_mode_and_needs_no_gradients() -> None:
    module = make_workload(smallest("batch_norm2d"), Condition()).module
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_a_small_layer_is_ready_soon_after_its_module() -> None:
    import torch

    def least_s(make: Callable[[], object]) -> float:
        times = []
        for _ in range(20):
            started = time.thread_time()
            make()
            times.append(time.thread_time() - started)
        return min(times)

    assert least_s(lambda: make_workload(linear(), Condition())) < 30 * least_s(lambda: torch.nn.Linear(8, 4))


def test_making_a_layer_leaves_random_initialisation_on_for_others() -> None:
    import torch

    make_workload(linear(), Condition())
    assert torch.nn.Linear(64, 64).weight.std() > 0.01


def test_the_error_is_relative_to_the_largest_expected_value() -> None:
    assert output_error([np.float32([1, 9])], [np.float32([1, 10])]) == pytest.approx(0.1)


def test_the_error_of_an_output_that_should_be_zero_is_absolute() -> None:
    assert output_error([np.float32([0.5])], [np.float32([0.0])]) == 0.5


def test_the_error_is_that_of_the_worst_output() -> None:
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert output_error([ones, zeros], [ones, ones]) == 1.0


def test_outputs_of_another_shape_are_wrong() -> None:
    with pytest.raises(WrongOutput, match=r"\(3, 1\).* where torch gives .*\(3,\)"):
        output_error([np.ones((3, 1), np.float32)], [np.ones(3, np.float32)])


def test_outputs_that_are_not_finite_are_wrong() -> None:
    with pytest.raises(WrongOutput, match="not finite"):
        output_error([np.float32([np.nan])], [np.float32([1.0])])
