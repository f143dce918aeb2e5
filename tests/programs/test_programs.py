"""Measured programs are read with their latency by processor time, each once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.errors import StoreError, UsageError
from medn.core.store import Store
from medn.core.values import Condition, Measurement, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.programs.learn import split_programs
from medn.programs.programs import LEAF_SIZE, MeasuredPrograms, read_programs, visited_s


def test_every_program_has_leaves_places_and_a_latency(programs: MeasuredPrograms) -> None:
    assert len(programs) == 144
    assert {program.leaves.shape[1] for program in programs.programs} == {LEAF_SIZE}
    assert all(len(program.positions) == len(program.leaves) for program in programs.programs)
    assert (programs.latency_s > 0).all()


def test_programs_of_a_task_on_a_device_are_a_group(programs: MeasuredPrograms) -> None:
    assert len(np.unique(programs.groups)) == 6 * 3
    assert {int((programs.groups == group).sum()) for group in np.unique(programs.groups)} == {8}


def test_the_noise_is_that_of_two_visits(programs: MeasuredPrograms) -> None:
    assert programs.noise is not None
    assert 0 < programs.noise < 0.1
    assert replace(programs, repeat_s=np.full(len(programs), np.nan)).noise is None


def test_the_latency_is_the_least_processor_time_of_all_visits() -> None:
    point = Point(layer_kinds["linear"].layer(in_features=2, out_features=2), Condition(), "torch")
    visits = tuple(
        Visit(
            point.key,
            number,
            "here",
            0.0,
            "ok",
            samples=Samples(np.array([9.0, 9.0]), np.array(cpu), np.zeros(2, bool)),
        )
        for number, cpu in enumerate(([3.0, 4.0], [2.0, 5.0]))
    )
    assert visited_s(Measurement(point, visits)) == (2.0, 3.0)


def test_a_run_without_programs_says_how_to_measure_some(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "measurements.sqlite") as store,
        pytest.raises(StoreError, match=r"programs: \{schedules: 40\}"),
    ):
        read_programs(store)


def test_a_split_keeps_a_task_on_one_side(programs: MeasuredPrograms) -> None:
    split = split_programs(programs, seed=3)
    parts = [set(part.tasks) for part in (split.train, split.validation, split.test)]
    assert [len(part) for part in parts] == [4, 1, 1]
    assert len(set.union(*parts)) == 6


def test_programs_of_two_tasks_cannot_be_split(programs: MeasuredPrograms) -> None:
    two = programs.take(np.isin(programs.tasks, np.unique(programs.tasks)[:2]))
    with pytest.raises(UsageError, match="2 tasks cannot be split"):
        split_programs(two)
