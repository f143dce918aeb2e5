"""What is true of every layer kind, medn's own and those of plug-ins, as tests that anyone can run:

pytest --pyargs medn.layer_generators.kind_conformance -k my_kind
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from medn.core.errors import ConfigError
from medn.core.values import Layer
from medn.layer_generators.kind import Costs, LayerKind, TensorSpec, layer_kinds

if TYPE_CHECKING:
    import torch

DrawLayers = Callable[..., list[Layer]]

MOST_DRAWS = 50_000


def _drawn(kind: LayerKind, seed: int) -> Iterator[Layer | None]:
    random = Random(f"{kind.name} {seed}")
    while True:
        given = {name: domain.at(random.random()) for name, domain in kind.sweep.items()}
        try:
            yield kind.layer(**given)
        except ConfigError:
            yield None


@pytest.fixture(scope="session")
def draw() -> Callable[[LayerKind, int], list[Layer | None]]:
    """So many draws of a kind's sweep; None for each that its rules refuse."""
    return lambda kind, count: [layer for _, layer in zip(range(count), _drawn(kind, seed=0), strict=False)]


@pytest.fixture(scope="session")
def small_layers() -> DrawLayers:
    """So many valid layers of a kind that run in a moment."""

    def small(kind: LayerKind, count: int, most_flops: float = 2e7, most_bytes: float = 4e6) -> list[Layer]:
        found: list[Layer] = []
        for layer in itertools.islice(_drawn(kind, seed=1), MOST_DRAWS):
            if layer is None:
                continue
            costs = kind.costs(kind.values_of(layer), batch_size=1, element_bytes=4)
            moved = costs.input_bytes + costs.output_bytes + costs.parameter_bytes
            if costs.flops <= most_flops and moved <= most_bytes:
                found.append(layer)
            if len(found) == count:
                return found
        raise AssertionError(f"{MOST_DRAWS} draws of the sweep of {kind.name} hold fewer than {count} small layers")

    return small


@pytest.fixture(params=list(layer_kinds))
def kind(request: pytest.FixtureRequest) -> LayerKind:
    return layer_kinds[request.param]


def tensor(spec: TensorSpec, device: str = "cpu") -> torch.Tensor:
    import torch

    if spec.indices_below is not None:
        return torch.zeros(spec.shape, dtype=torch.int64, device=device)
    return torch.zeros(spec.shape, device=device)


def run(kind: LayerKind, layer: Layer, batch_size: int, device: str = "cpu") -> tuple[Any, list[Any], list[Any]]:
    """The module, what it was called with and what it gave."""
    import torch

    values = kind.values_of(layer)
    with torch.device(device):
        module = kind.build(values).eval()
    inputs = [tensor(spec, device) for spec in kind.inputs(values, batch_size)]
    with torch.inference_mode():
        output = module(*inputs)
    return module, inputs, flatten(output)


def flatten(output: Any) -> list[torch.Tensor]:
    import torch

    return [output] if isinstance(output, torch.Tensor) else [tensor for part in output for tensor in flatten(part)]


def costs_of(kind: LayerKind, layer: Layer, batch_size: int) -> Costs:
    return kind.costs(kind.values_of(layer), batch_size, element_bytes=4)


def size_bytes(tensors: Any) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def test_kind_is_described_in_words(kind: LayerKind) -> None:
    assert kind.description
    assert all(parameter.about for parameter in (*kind.parameters, *kind.conveniences.values()))


def test_names_of_a_kind_are_unique(kind: LayerKind) -> None:
    assert len(set(kind.names)) == len(kind.names)


def test_defaults_are_valid(kind: LayerKind) -> None:
    for parameter in kind.parameters:
        assert parameter.default is None or parameter.mistake(parameter.default) is None


def test_sweep_tiles_and_shorthands_speak_of_known_names(kind: LayerKind) -> None:
    parameters = {parameter.name for parameter in kind.parameters}
    assert set(kind.sweep) <= set(kind.names)
    assert set(kind.tiled) <= parameters
    assert all(set(targets) <= parameters for targets in kind.shorthands.values())


def test_sweep_gives_every_required_parameter(kind: LayerKind) -> None:
    given = {name: domain.at(0.0) for name, domain in kind.sweep.items()}
    assert not [mistake for mistake in kind.resolve(given)[1] if "missing" in mistake]


def test_sweep_values_are_allowed(kind: LayerKind) -> None:
    for name, domain in kind.sweep.items():
        for parameter in kind.meaning(name):
            assert [parameter.mistake(value) for value in domain.grid()] == [None] * len(domain.grid())


def test_at_least_a_fifth_of_the_default_draws_is_possible(
    kind: LayerKind, draw: Callable[[LayerKind, int], list[Layer | None]]
) -> None:
    drawn = draw(kind, 200)
    assert sum(layer is not None for layer in drawn) >= 0.2 * len(drawn)


def test_most_default_layers_are_quick_to_run(
    kind: LayerKind, draw: Callable[[LayerKind, int], list[Layer | None]]
) -> None:
    costs = [costs_of(kind, layer, 1) for layer in draw(kind, 200) if layer is not None]
    quick = [each.flops < 2e9 and each.input_bytes + each.output_bytes < 2e8 for each in costs]
    assert np.mean(quick) > 0.85


@pytest.mark.parametrize("batch_size", [1, 3])
def test_output_has_the_shape_that_was_foretold(kind: LayerKind, batch_size: int, small_layers: Any) -> None:
    for layer in small_layers(kind, 8):
        outputs = run(kind, layer, batch_size)[2]
        assert tuple(outputs[0].shape) == kind.output_shape(kind.values_of(layer), batch_size), str(layer)


def test_output_shape_holds_on_many_layers_without_data(kind: LayerKind, small_layers: Any) -> None:
    few = kind.name in ("lstm", "gru")  # without data torch goes through their steps one by one
    for layer in small_layers(kind, 3 if few else 60, most_flops=1e7 if few else 1e9, most_bytes=1e8):
        outputs = run(kind, layer, 2, device="meta")[2]
        assert tuple(outputs[0].shape) == kind.output_shape(kind.values_of(layer), 2), str(layer)


def test_bytes_are_those_of_the_real_tensors(kind: LayerKind, small_layers: Any) -> None:
    for layer in small_layers(kind, 8):
        module, inputs, outputs = run(kind, layer, batch_size=2)
        held = [*module.parameters(), *(each for each in module.buffers() if each.is_floating_point())]
        costs = costs_of(kind, layer, 2)
        assert costs.input_bytes == size_bytes(inputs), str(layer)
        assert costs.output_bytes == size_bytes(outputs), str(layer)
        assert costs.parameter_bytes == size_bytes(held), str(layer)


def test_no_layer_is_without_work(kind: LayerKind, small_layers: Any) -> None:
    # What only moves counts each move as one operation: the logarithm of no work is no number to learn from.
    assert all(costs_of(kind, layer, 1).flops > 0 for layer in small_layers(kind, 5))


def test_costs_of_columns_are_those_of_single_layers(kind: LayerKind, small_layers: Any) -> None:
    layers = small_layers(kind, 20)
    batch_sizes = [1 + index % 5 for index in range(len(layers))]
    columns = SimpleNamespace(
        **{
            parameter.name: np.array([kind.complete(layer.values)[parameter.name] for layer in layers])
            for parameter in kind.parameters
        }
    )
    together = kind.costs(columns, np.array(batch_sizes), 4)
    single = [costs_of(kind, layer, batch_size) for layer, batch_size in zip(layers, batch_sizes, strict=True)]
    for name in ("flops", "input_bytes", "output_bytes", "parameter_bytes"):
        expected = [getattr(costs, name) for costs in single]
        assert np.broadcast_to(getattr(together, name), len(layers)).tolist() == expected, name
    for name, column in together.more.items():
        assert np.broadcast_to(column, len(layers)).tolist() == [costs.more[name] for costs in single], name


def test_modules_are_built_without_data(kind: LayerKind, small_layers: Any) -> None:
    import torch

    for layer in small_layers(kind, 5):
        with torch.device("meta"):
            module = kind.build(kind.values_of(layer))
        assert all(each.is_meta for each in (*module.parameters(), *module.buffers()))


def test_layer_is_its_own_description(kind: LayerKind, small_layers: Any) -> None:
    for layer in small_layers(kind, 5):
        again = kind.layer(**dict(reversed(layer.values.items())))
        assert again == layer
        assert again.key == layer.key


def test_every_missing_parameter_is_named(kind: LayerKind) -> None:
    required = [parameter.name for parameter in kind.parameters if parameter.default is None]
    with pytest.raises(ConfigError) as error:
        kind.layer()
    assert set(error.value.mistakes) == {f"{name}: missing" for name in required}


def test_unknown_parameter_gets_its_near_miss(kind: LayerKind) -> None:
    name = kind.parameters[0].name
    with pytest.raises(ConfigError, match=f"Did you mean '{name}'"):
        kind.layer(**{f"{name}x": 1})


def test_value_outside_its_limits_is_a_sentence(kind: LayerKind, small_layers: Any) -> None:
    (layer,) = small_layers(kind, 1)
    for parameter in kind.parameters:
        wrong = -1 if parameter.mistake(-1) else "wrong"  # some numbers may be negative
        with pytest.raises(ConfigError) as error:
            kind.layer(**{**layer.values, parameter.name: wrong})
        assert error.value.mistakes[0].startswith(f"{parameter.name}: must be ")
        assert f"(got {wrong!r})" in error.value.mistakes[0]
