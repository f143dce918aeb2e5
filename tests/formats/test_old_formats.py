"""Runs and bundles that earlier versions wrote still open, answer as they did, and can be gone on with.

`first` was written by medn before candidates and bundles had their second version: the made-up run of the other tests,
three families, six seconds. `second` was written before training tables were, and before visits held quantities by
name: a real sweep of `sweep.yaml` on a loaded device, four families, memory and slow calls.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import medn
from medn.capture.capture import capture
from medn.cli.main import run as run_command
from medn.model.composition import load_composition

FORMATS = Path(__file__).parent
FIRST, SECOND = FORMATS / "first", FORMATS / "second"

Answer = tuple[float, float, float, float, bool]
ANSWERS: list[tuple[Path, str, dict[str, Any], Answer]] = [
    (
        FIRST,
        "linear",
        {"in_features": 100, "out_features": 200, "batch_size": 8},
        (0.00013717328296567897, 0.00011015207719839814, 0.0001708230115868924, 0.8571428571428571, True),
    ),
    (
        FIRST,
        "linear",
        {"in_features": 9000, "out_features": 9000, "batch_size": 8},
        (0.39253150977853496, 0.21349798023912653, 0.7216976291599528, 0.8571428571428571, False),
    ),
    (
        FIRST,
        "activation",
        {"function": "relu", "elements": 5000},
        (4.857171484562909e-06, 3.802685778956125e-06, 6.204066336747739e-06, 0.8, True),
    ),
    (
        SECOND,
        "linear",
        {"in_features": 104, "out_features": 200, "batch_size": 4, "utilization": 0.5},
        (9.233183451019327e-06, 8.860776762673678e-06, 9.62124189826142e-06, 0.8571428571428571, True),
    ),
    (
        SECOND,
        "linear",
        {"in_features": 4096, "out_features": 4096},
        (9.978524527877164e-05, 4.205045456217374e-05, 0.0002367892399503683, 0.8571428571428571, False),
    ),
    (
        SECOND,
        "activation",
        {"function": "gelu", "elements": 5000, "batch_size": 4},
        (1.694855885153804e-05, 1.5958684243633506e-05, 1.7999832740512063e-05, 0.8571428571428571, True),
    ),
]
"""What the version that wrote the bundle said."""


@pytest.fixture(params=[FIRST, SECOND], ids=lambda path: path.name)
def version(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def old_run(version: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(version / "run", tmp_path / "run"))


@pytest.mark.parametrize(("version", "kind", "asked", "said"), ANSWERS)
def test_an_old_bundle_answers_as_it_did(version: Path, kind: str, asked: dict[str, Any], said: Answer) -> None:
    assert medn.load(version / "bundle.medn").layer(kind, **asked)[:5] == pytest.approx(said, rel=1e-6)


def test_an_old_bundle_tells_memory_and_slow_calls_as_it_did() -> None:
    _, kind, asked, _ = ANSWERS[3]
    layer = medn.load(SECOND / "bundle.medn").layer(kind, **asked)
    assert layer.memory_bytes == pytest.approx(90788.18763127993, rel=1e-6)
    assert layer.latency_p90_s == pytest.approx(1.1974070427758437e-05, rel=1e-6)


def test_an_old_sweep_has_nothing_left_to_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(SECOND / "run", tmp_path / "run"))
    config = str(SECOND / "sweep.yaml")
    assert run_command(["sweep", config, "--run", str(run), "--mix-environments", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["visits"] == 0


@pytest.mark.parametrize("verb", ["summary", "leaderboard", "select", "report"])
def test_an_old_run_is_read_by_every_verb(verb: str, old_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([verb, str(old_run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_what_was_trained_before_can_be_chosen_and_shipped(version: Path, old_run: Path) -> None:
    assert run_command(["select", str(old_run), "--json"]) == 0
    kind, asked, said = next(answer[1:] for answer in ANSWERS if answer[0] == version)
    assert medn.load(old_run / "run.medn").layer(kind, **asked).latency_s == pytest.approx(said[0], rel=0.2)


def test_an_old_run_is_trained_on(old_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["train", str(old_run), "--time", "2", "--regressors", "linear,roofline", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["regressor"] for each in told["candidates"] if not each["reason"]} == {"linear", "roofline"}


def test_a_file_that_medn_place_wrote_is_a_composition() -> None:
    composition = load_composition(FIRST / "placement.json")
    assert (composition.stretch, composition.overhead_s, composition.largest_batch) == (1.25, 3e-6, 16.0)


def test_a_model_is_predicted_with_a_file_that_medn_place_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture(torch.nn.Linear(64, 64), torch.zeros(1, 64)).save(tmp_path / "net.json")
    old = ["--composition", str(FIRST / "placement.json")]
    seconds = []
    for options in ([], old):
        assert run_command(["predict", str(FIRST / "bundle.medn"), str(tmp_path / "net.json"), "--json", *options]) == 0
        seconds.append(json.loads(capsys.readouterr().out)["latency_s"])
    assert seconds[1] == pytest.approx(1.25 * seconds[0] + 3e-6)
