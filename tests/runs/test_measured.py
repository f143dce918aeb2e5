"""The target of a run is chosen once for the visits that there are, and recorded with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from medn.core.statistic import DEFAULT_IDLE_STATISTIC, LOADED_STATISTIC, Statistic, Target
from medn.core.store import Store
from medn.runs import measured
from medn.runs.folder import RunFolder
from medn.runs.measured import TARGET_NOTE, RunTarget, read_measured, record_target
from medn.runs.summary import summarise

WriteRun = Callable[..., Path]
OTHER = Target(Statistic(0.5, 0.5, undisturbed=False))


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path) -> RunFolder:
    return RunFolder(write_run(tmp_path / "run", layers=6, activations=0))


def recorded_as(store: Store, target: Target) -> RunTarget:
    """Record a target that nobody would choose."""
    _, chosen = read_measured(store)
    other = replace(chosen, target=target)
    record_target(store, other)
    return other


def test_a_recorded_target_is_read_and_not_chosen_again(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with run.store() as store:
        _, chosen = read_measured(store)
        record_target(store, chosen)
        monkeypatch.delattr(measured, "choose_target")
        assert read_measured(store)[1] == chosen


def test_every_reader_has_the_recorded_target(run: RunFolder) -> None:
    with run.store() as store:
        recorded_as(store, OTHER)
        assert summarise(store).target == OTHER


def test_visits_that_came_since_choose_anew(run: RunFolder) -> None:
    with run.store() as store:
        other = recorded_as(store, OTHER)
        first = next(store.measurements())
        store.record([(first.point, replace(first.visits[0], pass_number=99))])
        _, chosen = read_measured(store)
        assert chosen.target != OTHER
        assert chosen.chosen_from.visits == other.chosen_from.visits + 1


def test_a_note_that_does_not_say_which_visits_counts_for_none(run: RunFolder) -> None:
    with run.store() as store:
        store.note(TARGET_NOTE, OTHER.definition)
        assert read_measured(store)[1].target != OTHER


def test_the_state_tells_runs_of_equal_length_apart(write_run: WriteRun, tmp_path: Path, run: RunFolder) -> None:
    with RunFolder(write_run(tmp_path / "other", layers=6, activations=0, seed=1)).store() as other, run.store() as own:
        assert other.state().visits == own.state().visits
        assert other.state() != own.state()


def test_a_target_is_read_as_it_was_written() -> None:
    chosen = RunTarget(Target(DEFAULT_IDLE_STATISTIC, LOADED_STATISTIC))
    assert RunTarget.from_json(chosen.as_json()) == chosen
