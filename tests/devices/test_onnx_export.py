"""From a torch module to an ONNX file: right, quiet, and cached within bounds."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from medn.core.values import Condition
from medn.devices import file_cache, onnx_export
from medn.devices.backend import Unsupported
from medn.devices.onnx_export import export_onnx
from medn.devices.workload import Workload, make_workload
from medn.layer_generators.kind import layer_kinds


def linear(cache: Path | None = None, batch_size: int = 2) -> Workload:
    layer = layer_kinds["linear"].layer(in_features=8, out_features=4)
    return make_workload(layer, Condition(batch_size=batch_size), cache)


def recurrent() -> Workload:
    layer = layer_kinds["lstm"].layer(input_size=4, hidden_size=4, sequence_length=3)
    return make_workload(layer, Condition(batch_size=2))


def unknown_operator():  # type: ignore[no-untyped-def]
    import torch

    class Unknown(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i0(x)

    return Unknown(), (torch.ones(2),)


def test_the_file_is_a_valid_model_with_the_batch_in_its_shapes() -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load_model_from_string(linear(batch_size=3).onnx_file())
    onnx.checker.check_model(model, full_check=True)
    (slot,) = model.graph.input
    assert slot.name == "input_0"
    assert [size.dim_value for size in slot.type.tensor_type.shape.dim] == [3, 8]


def test_every_output_of_a_module_is_an_output_of_the_file() -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load_model_from_string(recurrent().onnx_file())
    assert len(model.graph.output) == len(recurrent().expected()) == 3


def test_a_cached_file_is_read_back(tmp_path: Path) -> None:
    content = linear(tmp_path).onnx_file()
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == content
    file.write_bytes(b"from the cache")
    assert linear(tmp_path).onnx_file() == b"from the cache"


def test_another_batch_size_is_another_file(tmp_path: Path) -> None:
    linear(tmp_path, batch_size=1).onnx_file()
    linear(tmp_path, batch_size=2).onnx_file()
    assert len(list(tmp_path.iterdir())) == 2


def test_nothing_is_written_without_a_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    linear().onnx_file()
    assert not list(tmp_path.iterdir())


def test_a_file_above_the_bound_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cache, "LARGEST_CACHED_BYTES", 10)
    linear(tmp_path).onnx_file()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("bound", "value"), [("CACHE_FILES", 2), ("CACHE_BYTES", 1900)])
def test_a_full_cache_drops_its_oldest_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(file_cache, bound, value)
    for age, name in ((300, "oldest.onnx"), (200, "older.onnx")):
        (tmp_path / name).write_bytes(b"x" * 1000)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    linear(tmp_path).onnx_file()
    names = {file.name for file in tmp_path.iterdir()}
    assert len(names) == 2
    assert "oldest.onnx" not in names


def test_weights_beyond_the_limit_of_the_format_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_export, "LARGEST_MODEL_BYTES", 100)
    with pytest.raises(Unsupported, match="an ONNX file holds at most 2 GiB"):
        linear().onnx_file()


def test_an_operator_that_does_not_export_is_unsupported_by_name() -> None:
    module, inputs = unknown_operator()
    with pytest.raises(Unsupported, match=r"torch cannot export it to ONNX: .*aten::i0"):
        export_onnx(module, inputs, None, "unknown")


def test_the_exporter_prints_and_warns_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recurrent().onnx_file()  # torch warns about its batch size
        module, inputs = unknown_operator()
        with pytest.raises(Unsupported):
            export_onnx(module, inputs, None, "unknown")  # torch prints its graph
    assert not caught
    assert capfd.readouterr() == ("", "")


def test_the_fast_path_of_attention_is_on_again_afterwards() -> None:
    import torch

    linear().onnx_file()
    assert torch.backends.mha.get_fastpath_enabled()
