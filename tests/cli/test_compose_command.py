"""`medn compose` as a person meets it: models of one's own, really timed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from medn.bundle.bundle import read_bundle, write_bundle
from medn.cli.main import run as medn
from medn.core.errors import UsageError
from medn.core.values import Samples
from medn.devices.backend import Backend, backends
from medn.model import measured_models as measuring
from medn.model.composition import load_composition

Capture = pytest.CaptureFixture[str]

MODULE = """
import torch

def net(*sizes):
    return torch.nn.Sequential(*[torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]), torch.zeros(1, sizes[0])

def small(): return net(64, 64)
def wide(): return net(128, 512, 128)
def deep(): return net(*[96] * 6)
def weightless():
    with torch.device("meta"):
        return net(64, 64)
"""
THREE = ["python:compose_nets:small", "python:compose_nets:wide", "python:compose_nets:deep"]


@pytest.fixture(autouse=True)
def in_a_folder_with_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compose_nets.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "compose_nets", raising=False)
    monkeypatch.setattr(measuring, "ROUNDS", 2)
    monkeypatch.setattr(measuring, "VISIT_S", 0.01)


@pytest.fixture
def bundle(bundle_path: Path, tmp_path: Path) -> str:
    made_up = read_bundle(bundle_path)
    write_bundle(tmp_path / "here.medn", replace(made_up, backends=dict.fromkeys(made_up.devices, "torch")))
    return str(tmp_path / "here.medn")


def test_models_are_timed_and_a_composition_written(bundle: str, tmp_path: Path, capsys: Capture) -> None:
    assert medn(["compose", bundle, *THREE]) == 0
    out, err = capsys.readouterr()
    assert all(model in out for model in THREE)
    assert "round 2 of 2" in err
    assert "times as long as alone" in err
    assert load_composition(tmp_path / "composition.json").stretch > 0
    assert medn(["predict", bundle, THREE[0], "--composition", "composition.json"]) == 0


def test_the_former_name_works_and_says_the_new_one(bundle: str, capsys: Capture) -> None:
    assert medn(["place", bundle, *THREE]) == 0
    assert "medn place is now called medn compose" in capsys.readouterr().err
    assert medn(["predict", bundle, THREE[0], "--composition", "placement.json"]) == 0


def test_the_former_name_is_not_listed(capsys: Capture) -> None:
    assert medn(["--help"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert "compose" in listed
    assert "place" not in listed


def test_json_has_the_composition_and_the_models(bundle: str, capsys: Capture) -> None:
    assert medn(["compose", bundle, *THREE, "--out", "nets.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["composition"] == json.loads(Path("nets.json").read_text())
    for row in found["models"]:
        assert row["error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)


def test_models_teach_at_several_batch_sizes(bundle: str, capsys: Capture) -> None:
    assert medn(["compose", bundle, *THREE, "--batch-sizes", "1,4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["composition"]["smallest_batch"], found["composition"]["largest_batch"]) == (1, 4)
    assert [(row["model"], row["batch_size"]) for row in found["models"]] == [
        (model, size) for model in THREE for size in (1, 4)
    ]
    assert found["models"][1]["measured_s"] > 0


@pytest.mark.parametrize("sizes", ["", "0", "1,x", "1.5", "-4"])
def test_batch_sizes_that_are_none_are_one_sentence(sizes: str, bundle: str, capsys: Capture) -> None:
    assert medn(["compose", bundle, *THREE, "--batch-sizes", sizes]) == 2
    assert "--batch-sizes: must be whole numbers from 1 on, such as 1,4,16" in capsys.readouterr().err


def test_a_batch_that_is_no_multiple_of_the_examples_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="batch size 3: must be a multiple of that of the example inputs, 2"):
        measuring.batched((torch.nn.ReLU(), (torch.zeros(2, 5),)), 3)


def test_a_larger_batch_repeats_the_inputs() -> None:
    _, (images, scale) = measuring.batched((torch.nn.ReLU(), (torch.ones(2, 5), torch.tensor(1.0))), 6)
    assert images.shape == (6, 5)
    assert scale.shape == ()


@pytest.mark.parametrize(
    ("models", "mistake"),
    [
        (THREE[:2], "at least 3 different models (got 2)"),
        ([*THREE[:2], "net.onnx"], "must be timm:NAME or python:MODULE:FUNCTION"),
        ([*THREE[:2], "python:compose_nets:weightless"], "needs weights with data"),
    ],
)
def test_what_cannot_be_timed_is_one_sentence(models: list[str], mistake: str, bundle: str, capsys: Capture) -> None:
    assert medn(["compose", bundle, *models]) == 2
    assert mistake in capsys.readouterr().err


def test_a_device_that_is_no_backend_here_is_one_sentence(bundle_path: Path, capsys: Capture) -> None:
    assert medn(["compose", str(bundle_path), *THREE]) == 2
    err = capsys.readouterr().err
    assert err.startswith("medn: no device backend named 'made-up'")  # before any model is made


def test_whole_numbers_without_data_become_indices() -> None:
    module, (indices,) = measuring.plain(torch.nn.Embedding(5, 3), torch.empty(4, dtype=torch.int64, device="meta"))
    assert module(indices).shape == (4, 3)


def test_a_model_is_called_as_its_example_says_and_gives_its_first_output() -> None:
    class Two(torch.nn.Module):
        def forward(self, left: torch.Tensor, *, right: torch.Tensor) -> tuple[torch.Tensor, int]:
            return left - right, 7

    module, given = measuring.plain(Two(), {"left": torch.ones(2), "right": torch.zeros(2)})
    assert module(*given).tolist() == [1, 1]


def samples(wall_s: float, cpu_s: float, preempted: bool) -> Samples:
    return Samples(np.full(2, wall_s), np.full(2, cpu_s), np.full(2, preempted))


WAITED = samples(3.0, 1.0, preempted=True)


def seconds_of_two(monkeypatch: pytest.MonkeyPatch, backend: Backend, *timed: Samples) -> list[float]:
    """Two models in one round, and whatever is timed after them, timed so."""
    answers = iter(timed)
    monkeypatch.setattr(measuring, "ROUNDS", 1)
    monkeypatch.setattr(measuring, "take_samples", lambda *given: next(answers))
    made = dict.fromkeys(("one", "two"), lambda: (torch.nn.ReLU(), (torch.zeros(2),)))
    found = [each.seconds for each in measuring.measure_models(backend, made).values()]
    assert not list(answers)
    return found


@pytest.mark.parametrize(("cpu_s", "counted"), [(2.0, 1.0), (0.1, 3.0)], ids=["calling thread", "other threads"])
def test_a_preempted_model_counts_by_processor_time_where_others_show_that_it_tells(
    cpu_s: float, counted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = samples(2.0, cpu_s, preempted=False)
    assert seconds_of_two(monkeypatch, backends["torch"], WAITED, other) == [counted, 2.0]


def test_where_every_model_was_preempted_a_short_one_shows_whether_processor_time_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = samples(1e-4, 1e-4, preempted=False)
    assert seconds_of_two(monkeypatch, backends["torch"], WAITED, WAITED, short) == [1.0, 1.0]
    assert seconds_of_two(monkeypatch, backends["torch"], WAITED, WAITED, WAITED) == [3.0, 3.0]


def test_a_model_elsewhere_than_on_the_host_never_counts_by_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(type(backends["torch"])):  # type: ignore[misc]
        runs_on_host = False

    assert seconds_of_two(monkeypatch, Elsewhere(), WAITED, samples(2.0, 2.0, preempted=False)) == [3.0, 2.0]
