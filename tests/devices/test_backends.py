"""Every backend keeps what all backends must, and what is one backend's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from medn.core.values import Condition
from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.conformance import *  # noqa: F403
from medn.devices.conformance import COMPILED, CONFORMING, TOLERANCE, installed, layers, layers_run, linear, ran
from medn.devices.workload import Workload, make_workload, output_error
from medn.layer_generators.kind import layer_kinds

HEAVY = ("torch", "onnx", "onnxruntime", "openvino", "MNN")


@pytest.mark.parametrize(("name", "kind_name"), CONFORMING)
def test_outputs_are_those_of_torch_or_it_says_why_there_are_none(name: str, kind_name: str) -> None:
    """In place of the suite's own: those of medn run layers of every kind."""
    assert layers_run(name, kind_name)[0], f"{name} runs no layer of the kind {kind_name}"


@pytest.mark.parametrize("name", [name for name in backends if name not in COMPILED])
@pytest.mark.parametrize("more", [{"kv_heads": 2}, {"window": 5}, {"kv_heads": 1, "window": 3}], ids=str)
def test_grouped_and_windowed_attention_is_that_of_torch(name: str, more: dict[str, int]) -> None:
    backend = installed(name)
    layer = layer_kinds["attention"].layer(heads=4, head_size=8, sequence_length=16, causal=True, **more)
    workload = make_workload(layer, Condition(batch_size=2), device=backend.torch_device)
    runner = ran(backend, workload, times=2)
    assert output_error(runner.outputs(), workload.expected()) <= TOLERANCE


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
