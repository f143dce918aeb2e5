"""Measuring a new device: chosen points, in rounds, going on from what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from medn.core.errors import UsageError
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder
from medn.runs.tables import read_source
from medn.transfer.adapt_sweep import AdaptSweep, Aim, Wanted, prepared_sweep

Rounds = list[tuple[int, float | None]]


def measure(run: Path, known: Path, aim: Aim, seconds: float | None = None) -> tuple[AdaptSweep, Rounds]:
    """Measure linear layers on torch, a short visit each."""
    rounds: Rounds = []

    def note(points: int, error: float | None) -> None:
        rounds.append((points, error))

    wanted = Wanted("torch", ("linear",))
    config, choosing = prepared_sweep(run, [known], wanted, aim, way="medoids", seed=0, on_round=note)
    measure_once = config.measure.model_copy(update={"visits": 1, "max_visits": 1, "visit_time_s": 0.005})
    quick = config.model_copy(update={"measure": measure_once})
    run_sweep(quick, RunFolder(run), seconds=seconds, next_points=choosing.next_points)
    return choosing, rounds


def points(run: Path) -> set[str]:
    return {str(row["point_key"]) for row in read_source(run).rows["linear"]}


@pytest.fixture(scope="module")
def measured(known: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("measured") / "run"
    measure(run, known, Aim(points=12))
    return run


def test_so_many_points_are_measured_on_the_new_device(measured: Path) -> None:
    assert len(points(measured)) == 12
    assert {row["device"] for row in read_source(measured).rows["linear"]} == {"torch"}


def test_more_points_are_added_to_those_there_are(measured: Path, known: Path) -> None:
    before = points(measured)
    measure(measured, known, Aim(points=15))
    assert len(points(measured)) == 15
    assert before < points(measured)


def test_rounds_go_on_until_the_error_is_small_enough(known: Path, tmp_path: Path) -> None:
    _, rounds = measure(tmp_path / "run", known, Aim(error=0.99))
    (count, error), *_ = rounds
    assert count == 10
    assert error is None or error > 0
    assert len(points(tmp_path / "run")) == rounds[-1][0]


def test_an_error_that_is_out_of_reach_ends_at_the_points(known: Path, tmp_path: Path) -> None:
    _, rounds = measure(tmp_path / "run", known, Aim(points=15, error=1e-6))
    assert [count for count, _ in rounds] == [10, 15]


def test_the_new_device_has_the_inputs_of_its_sources(known: Path, tmp_path: Path) -> None:
    config, choosing = prepared_sweep(
        tmp_path / "run", [known], Wanted("torch"), Aim(40), way="random", seed=0, on_round=lambda points, error: None
    )
    assert set(choosing.pool.pairs) == {"linear", "activation"}
    assert "hardware" not in config.inputs  # the sources learned without data sheets


def test_too_few_points_for_the_kinds_are_refused() -> None:
    with pytest.raises(UsageError, match="15 are too few for 2 layer kinds, which need 10 each: 20"):
        Aim(points=15).check(2)
