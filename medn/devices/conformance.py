"""What is true of every backend and every probe, medn's own and those of plug-ins, as tests that anyone can run:

pytest --pyargs medn.devices.conformance -k my_backend
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from medn.core.errors import ConfigError
from medn.core.values import Condition, Layer, Scalar
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.probe import probes
from medn.devices.workload import Workload, make_workload, output_error
from medn.layer_generators.kind import LayerKind, layer_kinds

TOLERANCE = 5e-3
"""Relative to the largest output: fast convolutions compute in another order and lose some digits."""
MOST_FLOPS = 4e6
DRAWS = 3
KINDS = list(layer_kinds)
COMPILED = {"torch-compile", *(name for name in backends if backends[name].draws_schedules)}
"""Compilers take seconds where the others take milliseconds: three kinds, and one layer of each."""
COMPILED_KINDS = ("activation", "layer_norm", "linear")
CONFORMING = [(name, kind) for name in backends for kind in (COMPILED_KINDS if name in COMPILED else KINDS)]


def layers(kind: LayerKind) -> list[Layer]:
    """The smallest layer, each of its choices and flags the other way, and some random small ones."""
    found = [kind.layer(**{name: domain.at(0.0) for name, domain in kind.sweep.items()})]
    for given in (*_choices(kind, found[0]), *_draws(kind)):
        with suppress(ConfigError):  # not every draw is possible
            found.append(kind.layer(**given))
    return [layer for layer in dict.fromkeys(found) if _flops(kind, layer) <= MOST_FLOPS]


def _choices(kind: LayerKind, layer: Layer) -> Iterator[dict[str, Scalar]]:
    for parameter in kind.parameters:
        options = (False, True) if parameter.type is bool else parameter.choices
        yield from ({**layer.values, parameter.name: option} for option in options)


def _draws(kind: LayerKind) -> Iterator[dict[str, Scalar]]:
    random = Random(kind.name)
    for _ in range(DRAWS):
        yield {name: domain.at(random.random() * 0.6) for name, domain in kind.sweep.items()}


def _flops(kind: LayerKind, layer: Layer) -> float:
    return float(kind.costs(kind.values_of(layer), batch_size=1, element_bytes=4).flops)


def linear(**condition: int | str) -> Workload:
    layer = layer_kinds["linear"].layer(in_features=8, out_features=4)
    return make_workload(layer, Condition(**condition))


def installed(name: str) -> Backend:
    backend = backends[name]
    if reason := backend.missing():
        pytest.skip(reason)
    return backend


def ran(backend: Backend, workload: Workload, times: int) -> Runner:
    runner = backend.prepare(workload)
    with runner.context():
        for _ in range(times):
            runner.run()
    return runner


@pytest.fixture(scope="module", autouse=True)
def environment() -> Iterator[None]:
    """What the backends ask of the process they run in."""
    with pytest.MonkeyPatch.context() as patch:
        for backend in backends.values():
            for name, value in backend.environment(threads=1).items():
                patch.setitem(os.environ, name, value)
        yield


def layers_run(name: str, kind_name: str) -> tuple[int, list[str]]:
    """How many layers of a kind a backend runs as torch does, and why it does not run others."""
    backend, supported, reasons = installed(name), 0, []
    for layer in layers(layer_kinds[kind_name])[: 1 if name in COMPILED else None]:
        workload = make_workload(layer, Condition(batch_size=3), device=backend.torch_device)
        try:
            runner = ran(backend, workload, times=3)
        except Unsupported as reason:
            reasons.append(str(reason))
            continue
        assert output_error(runner.outputs(), workload.expected()) <= TOLERANCE, f"{layer} on {name}"
        supported += 1
    return supported, reasons


@pytest.mark.parametrize(("name", "kind_name"), CONFORMING)
def test_outputs_are_those_of_torch_or_it_says_why_there_are_none(name: str, kind_name: str) -> None:
    supported, reasons = layers_run(name, kind_name)
    assert supported or reasons
    assert all(reasons)


@pytest.mark.parametrize("name", list(backends))
def test_a_single_batch_entry_runs_too(name: str) -> None:
    backend = installed(name)
    workload = make_workload(linear().layer, Condition(batch_size=1), device=backend.torch_device)
    assert output_error(ran(backend, workload, times=1).outputs(), workload.expected()) <= TOLERANCE


@pytest.mark.parametrize("name", [backend.name for backend in backends.values() if "bf16" not in backend.dtypes])
def test_a_data_type_it_cannot_run_is_unsupported(name: str) -> None:
    with pytest.raises(Unsupported, match=f"{name} does not run layers in bf16, only in fp32"):
        installed(name).prepare(linear(dtype="bf16"))


@pytest.mark.parametrize("name", list(backends))
def test_versions_are_told_for_every_installed_library(name: str) -> None:
    backend = installed(name)
    assert set(backend.versions()) == set(backend.packages)


@pytest.mark.parametrize("name", list(backends))
def test_a_backend_describes_itself(name: str) -> None:
    backend = backends[name]
    assert backend.name == name
    assert backend.description
    assert backend.dtypes


@pytest.mark.parametrize("name", list(probes))
def test_a_probe_reads_a_finite_number_or_none(name: str) -> None:
    number = probes[name].read()
    assert number is None or math.isfinite(number)
    assert probes[name].description
