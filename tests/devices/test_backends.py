"""Every installed backend runs every layer kind as torch does, or says in words why it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from medn.core.errors import ConfigError
from medn.core.values import Condition, Layer, Scalar
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.workload import Workload, make_workload, output_error
from medn.layer_generators.kind import LayerKind, layer_kinds

TOLERANCE = 5e-3
"""Relative to the largest output: fast convolutions compute in another order and lose some digits."""
MOST_FLOPS = 4e6
DRAWS = 3
KINDS = list(layer_kinds)
COMPILED_KINDS = ("activation", "layer_norm", "linear")
"""torch.compile takes seconds where the others take milliseconds: three kinds, and one layer of each."""
CONFORMING = [(name, kind) for name in backends for kind in (COMPILED_KINDS if name == "torch-compile" else KINDS)]
HEAVY = ("torch", "onnx", "onnxruntime", "openvino", "MNN")


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
    return make_workload(layer, Condition(**condition))  # type: ignore[arg-type]


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


@pytest.mark.parametrize(("name", "kind_name"), CONFORMING)
def test_outputs_are_those_of_torch_at_every_run(name: str, kind_name: str) -> None:
    backend, supported = installed(name), 0
    for layer in layers(layer_kinds[kind_name])[: 1 if name == "torch-compile" else None]:
        workload = make_workload(layer, Condition(batch_size=3), device=backend.torch_device)
        try:
            runner = ran(backend, workload, times=3)
        except Unsupported:
            continue
        assert output_error(runner.outputs(), workload.expected()) <= TOLERANCE, f"{layer} on {name}"
        supported += 1
    assert supported, f"{name} runs no layer of the kind {kind_name}"


@pytest.mark.parametrize("name", [name for name in backends if name != "torch-compile"])
@pytest.mark.parametrize("more", [{"kv_heads": 2}, {"window": 5}, {"kv_heads": 1, "window": 3}], ids=str)
def test_grouped_and_windowed_attention_is_that_of_torch(name: str, more: dict[str, int]) -> None:
    backend = installed(name)
    layer = layer_kinds["attention"].layer(heads=4, head_size=8, sequence_length=16, causal=True, **more)
    workload = make_workload(layer, Condition(batch_size=2), device=backend.torch_device)
    runner = ran(backend, workload, times=2)
    assert output_error(runner.outputs(), workload.expected()) <= TOLERANCE


@pytest.mark.parametrize("name", list(backends))
def test_a_single_batch_entry_runs_too(name: str) -> None:
    backend = installed(name)
    workload = make_workload(linear().layer, Condition(batch_size=1), device=backend.torch_device)
    assert output_error(ran(backend, workload, times=1).outputs(), workload.expected()) <= TOLERANCE


@pytest.mark.parametrize("name", [backend.name for backend in backends.values() if "bf16" not in backend.dtypes])
def test_a_data_type_it_cannot_run_is_unsupported(name: str) -> None:
    with pytest.raises(Unsupported, match=f"{name} does not run layers in bf16, only in fp32"):
        installed(name).prepare(linear(dtype="bf16"))


def test_torch_runs_bf16() -> None:
    workload = linear(dtype="bf16")
    assert ran(backends["torch"], workload, times=1).outputs()[0].shape == workload.expected()[0].shape


@pytest.mark.parametrize("kind_name", ["lstm", "gru"])
def test_torch_compile_says_why_it_runs_no_recurrent_layers(kind_name: str) -> None:
    layer = layers(layer_kinds[kind_name])[0]
    with pytest.raises(Unsupported, match="leaves recurrent layers to eager torch"):
        installed("torch-compile").prepare(make_workload(layer, Condition()))


def test_a_pooling_that_cannot_be_traced_is_exported_by_the_second_exporter() -> None:
    pytest.importorskip("onnxscript")
    layer = layer_kinds["adaptive_avg_pool2d"].layer(channels=2, in_h=11, in_w=11, out_h=3, out_w=3)
    workload = make_workload(layer, Condition())
    runner = ran(installed("onnxruntime"), workload, times=1)
    assert output_error(runner.outputs(), workload.expected()) <= TOLERANCE


def test_what_neither_exporter_takes_is_unsupported_on_an_onnx_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)  # the second exporter needs it
    layer = layer_kinds["adaptive_avg_pool2d"].layer(channels=2, in_h=11, in_w=11, out_h=3, out_w=3)
    with pytest.raises(Unsupported, match="torch cannot export it to ONNX"):
        installed("onnxruntime").prepare(make_workload(layer, Condition()))


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_uses_the_threads_of_the_condition(threads: int) -> None:
    import torch

    backends["torch"].prepare(linear(threads=threads))
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", ["mnn", "onnxruntime", "openvino"])
def test_preparing_prints_nothing(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    ran(installed(name), linear(), times=1)
    assert capfd.readouterr() == ("", "")


def test_openvino_runs_without_its_telemetry() -> None:
    installed("openvino").prepare(linear())
    assert sys.modules["openvino_telemetry"] is None  # type: ignore[comparison-overlap]


def test_listing_the_backends_imports_none_of_their_libraries() -> None:
    script = (
        "import sys; from medn.devices.backend import backends\n"
        "for backend in backends.values(): backend.missing(); backend.versions()\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize("name", list(backends))
def test_versions_are_told_for_every_installed_library(name: str) -> None:
    backend = installed(name)
    assert set(backend.versions()) == set(backend.packages)


class Absent(Backend):
    name = "absent"
    description = "needs a library that nobody has"
    packages = ("no_such_library",)

    def load(self, workload: Workload) -> Runner:
        raise AssertionError("never loaded")


def test_a_missing_library_is_a_sentence_that_says_what_to_install() -> None:
    assert Absent().missing() == "absent needs no_such_library: pip install 'medn[train]'"


def test_a_missing_library_of_an_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Absent, "extra", "absent-things")
    assert Absent().missing() == "absent needs no_such_library: pip install 'medn[absent-things]'"


def test_a_missing_library_has_no_version() -> None:
    assert Absent().versions() == {}


def test_torch_cuda_says_what_it_lacks() -> None:
    reason = backends["torch-cuda"].missing()
    assert reason is None or reason.startswith("torch-cuda needs ")
