"""A captured model is saved and loaded without loss, and without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medn.capture.capture import capture
from medn.capture.captured_model import load_captured
from medn.core.errors import UsageError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.CELU())
    capture(net, torch.zeros(2, 3, 8, 8)).save(tmp_path / "captured.json")
    return tmp_path / "captured.json"


def test_saving_and_loading_changes_nothing(saved: Path) -> None:
    model = load_captured(saved)
    assert model.layers[0].layer is not None
    assert model.layers[0].layer.values["bias"] is True
    model.save(saved)
    assert load_captured(saved) == model


def test_loading_needs_neither_torch_nor_onnx(saved: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from medn.capture.captured_model import load_captured; "
        f"model = load_captured(Path({str(saved)!r})); assert model.unknown_operators and model.edges; "
        "assert not {'torch', 'onnx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def changed(saved: Path, change: Any) -> Path:
    content = json.loads(saved.read_text())
    change(content)
    saved.write_text(json.dumps(content))
    return saved


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: it.update(version=2), "version"),
        (lambda it: it["model"]["layers"][0].pop("flops"), "model.layers.0.flops"),
        (lambda it: it["model"]["layers"][1].update(inputs=[7]), r"layers.1.inputs: must be earlier layers"),
        (lambda it: it["model"]["layers"][1].update(input_bytes=[]), r"layers.1.input_bytes"),
        (lambda it: it["model"]["layers"][1].update(flops=-5), r"layers.1.flops: must be from 0 on \(got -5\)"),
        (lambda it: it["model"]["layers"][1].update(batch_size=0), r"layers.1.batch_size: must be at least 1"),
        (lambda it: it["model"]["layers"][1].update(repeats=-1), r"layers.1.repeats: must be at least 1"),
        (lambda it: it["model"]["layers"][0]["layer"].update(kind="conv2"), "Did you mean 'conv2d'"),
        (lambda it: it["model"]["layers"][0]["layer"]["parameters"].pop(), "layers.0.layer"),
    ],
)
def test_a_changed_file_is_refused_with_the_place(change: Any, said: str, saved: Path) -> None:
    with pytest.raises(UsageError, match=said):
        load_captured(changed(saved, change))


def test_a_file_that_is_not_there_or_no_json_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_captured(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("no")
    with pytest.raises(UsageError, match="not a captured model of this version"):
        load_captured(tmp_path / "text.json")


def test_a_model_saved_before_layers_could_repeat_still_loads(saved: Path) -> None:
    expected = load_captured(saved)

    def without_new_fields(content: Any) -> None:
        content["model"].pop("notes")
        for layer in content["model"]["layers"]:
            layer.pop("repeats")

    assert load_captured(changed(saved, without_new_fields)) == expected


def test_work_is_counted_as_often_as_it_is_done(saved: Path) -> None:
    once = load_captured(saved)
    often = replace(once, layers=tuple(replace(layer, repeats=7) for layer in once.layers))
    assert (often.flops, often.moved_bytes) == (7 * once.flops, 7 * once.moved_bytes)
    assert often.unknown_bytes_share == pytest.approx(once.unknown_bytes_share)


def test_what_goes_into_a_loop_crosses_once_and_what_stays_inside_each_time(saved: Path) -> None:
    once = load_captured(saved)
    often = replace(once, layers=tuple(replace(layer, repeats=7) for layer in once.layers))
    factors = [now.size_bytes / before.size_bytes for now, before in zip(often.edges, once.edges, strict=True)]
    assert factors == [1.0, 7.0, 7.0]
