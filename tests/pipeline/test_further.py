"""Memory and energy beside the latency: learned where they were measured, from the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.core.splits import Split
from medn.pipeline.further import further_root, load_further
from medn.pipeline.tables import kind_table, read_source
from medn.pipeline.train import train_run


@pytest.fixture(scope="module")
def run(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("further") / "run")
    train_run(folder, seconds=2.0, families=["median"])
    return folder


def test_measured_memory_is_learned_whatever_regressors_learn_the_latency(run: Path) -> None:
    found = load_further(run)
    assert found.keys() == {("made-up", "activation"), ("made-up", "linear")}
    candidate = found["made-up", "linear"]["memory_bytes"]
    assert candidate.form is not None
    inputs = kind_table(read_source(run), "linear").table.inputs
    assert candidate.form.predict(inputs) == pytest.approx(np.full(len(inputs), 4096), rel=0.01)


def test_what_was_not_measured_is_not_learned(run: Path) -> None:
    assert all("energy_j" not in quantities for quantities in load_further(run).values())


def test_candidates_of_further_quantities_are_not_among_those_of_latency(run: Path) -> None:
    outcome = train_run(run, seconds=2.0, families=["median"])
    assert {each.regressor for each in outcome.candidates} == {"median"}


def test_what_is_learned_is_kept_when_training_again(run: Path) -> None:
    written = {path: path.stat().st_mtime_ns for path in further_root(run, "memory_bytes").rglob("candidate.json")}
    train_run(run, seconds=2.0, families=["median"])
    assert written
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_split_that_answers_another_question_learns_no_memory(write_run: Callable[..., Path], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    train_run(folder, seconds=2.0, families=["median"], split=Split.parse("range:batch_size:4"))
    assert load_further(folder) == {}
