"""The splits of the experiment keep networks and tasks apart; the search tells its best after every trial."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.tensor_programs.splits import device_from_few, networks_held_out
from experiments.tensor_programs.tasks import spread_out
from medn.core.store import Store
from medn.devices.backend import backends
from medn.devices.tensor_programs import task_of
from medn.layer_generators.kind import layer_kinds
from medn.programs import MeasuredPrograms, read_programs


@pytest.fixture(scope="module")
def programs(program_run: Path) -> MeasuredPrograms:
    with Store(program_run / "measurements.sqlite", must_exist=True) as store:
        return read_programs(store)


def test_nothing_of_a_held_out_network_is_learned_from(programs: MeasuredPrograms) -> None:
    network_of = {task: f"network {at // 2}" for at, task in enumerate(np.unique(programs.tasks))}
    part = networks_held_out(programs, network_of, seed=1)
    held = {network_of[task] for task in part.test.tasks}
    seen = {network_of[task] for task in (*part.train.tasks, *part.validation.tasks)}
    assert len(held) == 2
    assert not held & seen
    assert len(part.train) + len(part.validation) + len(part.test) == len(programs)


def test_a_device_gives_few_tasks_and_is_tested_on_others(programs: MeasuredPrograms) -> None:
    part = device_from_few(programs, "tvm-avx2", share=0.34, seed=0)
    assert {*part.test.devices} == {"tvm-avx2"}
    own = {task for rows in (part.train, part.validation) for task in rows.tasks[rows.devices == "tvm-avx2"]}
    assert len(own) == 1
    assert not own & {*part.test.tasks}


def test_tasks_are_spread_over_the_depth_of_a_network() -> None:
    assert spread_out(list("abcde")) == list("aecbd")
    assert spread_out([]) == []


@pytest.mark.skipif(backends["tvm-x86-64"].missing() is not None, reason=backends["tvm-x86-64"].missing() or "")
def test_a_search_never_gets_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.tensor_programs import search

    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    monkeypatch.setattr(search, "POPULATION", 8)
    monkeypatch.setattr(search, "PER_ITERATION", 4)
    layer = layer_kinds["matmul"].layer(rows=8, inner=8, columns=16)
    best = search.search(task_of(layer, 1, "x86-64", 1), "random", trials=8)
    assert len(best) == 8
    assert best == sorted(best, reverse=True)
