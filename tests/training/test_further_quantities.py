"""Memory and energy beside the latency: learned where they were measured, from the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import medn
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.core.splits import Split
from medn.runs.tables import kind_table, read_source
from medn.selection.budget import Budget
from medn.training.further_quantities import further_root, load_further
from medn.training.train_run import train_run

WAITING = 4.0
"""As the made-up run has it."""


@pytest.fixture(scope="module")
def run(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("further") / "run")
    train_run(folder, seconds=20.0, families=["median"])
    return folder


def test_measured_memory_is_learned_whatever_regressors_learn_the_latency(run: Path) -> None:
    found = load_further(run)
    assert found.keys() == {("made-up", "activation"), ("made-up", "linear")}
    candidate = found["made-up", "linear"]["memory_bytes"]
    assert candidate.deployed is not None
    inputs = kind_table(read_source(run), "linear").table.inputs
    assert candidate.deployed.predict(inputs) == pytest.approx(np.full(len(inputs), 4096), rel=0.01)


@pytest.fixture(scope="module")
def loaded_run(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("loaded") / "run", activations=0, utilizations=(0.0, 0.3, 0.6, 0.9))
    train_run(folder, seconds=20.0, families=["roofline"])
    return folder


def test_the_tail_is_learned_where_load_was_swept(loaded_run: Path, run: Path) -> None:
    assert "latency_p90_s" in load_further(loaded_run)["made-up", "linear"]
    assert "latency_p90_s" not in load_further(run)["made-up", "linear"]


def test_a_busy_device_is_predicted_to_have_slow_calls(loaded_run: Path) -> None:
    bundle_run(loaded_run, select_run(loaded_run, Budget()).chosen)
    predictor = medn.load(loaded_run / "run.medn")
    asked = {"in_features": 300, "out_features": 300, "batch_size": 8}
    slow = {busy: predictor.layer("linear", **asked, utilization=busy) for busy in (0.0, 0.3, 0.9)}
    for busy, found in slow.items():
        assert found.latency_p90_s is not None
        assert found.latency_p90_s / found.latency_s == pytest.approx(1 + WAITING * busy, rel=0.3)
        assert found.latency_p99_s is None  # of 20 calls nobody can say
    table = predictor.predict({"kind": "linear", **asked, "utilization": [0.0, 0.3, 0.9]})
    assert table.latency_p90_s == pytest.approx([found.latency_p90_s for found in slow.values()], rel=1e-6)


def test_the_tail_is_never_below_the_latency_nor_grows_faster_beyond_the_range(loaded_run: Path) -> None:
    bundle_run(loaded_run, select_run(loaded_run, Budget()).chosen)
    predictor = medn.load(loaded_run / "run.medn")
    found = predictor.layer("linear", in_features=20_000, out_features=20_000, batch_size=8, utilization=0.9)
    assert found.latency_p90_s is not None
    assert not found.in_range
    assert 1 <= found.latency_p90_s / found.latency_s <= 1 + WAITING


def test_what_was_not_measured_is_not_learned(run: Path) -> None:
    assert all("energy_j" not in quantities for quantities in load_further(run).values())


def test_candidates_of_further_quantities_are_not_among_those_of_latency(run: Path) -> None:
    outcome = train_run(run, seconds=20.0, families=["median"])
    assert {each.regressor for each in outcome.candidates} == {"median"}


def test_what_is_learned_is_kept_when_training_again(run: Path) -> None:
    written = {path: path.stat().st_mtime_ns for path in further_root(run, "memory_bytes").rglob("candidate.json")}
    train_run(run, seconds=20.0, families=["median"])
    assert written
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_split_that_answers_another_question_learns_no_memory(write_run: Callable[..., Path], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    train_run(folder, seconds=20.0, families=["median"], split=Split.parse("range:batch_size:4"))
    assert load_further(folder) == {}
