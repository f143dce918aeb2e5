"""The points that an adaptive sweep chooses, on a device that obeys a law and is asked without being measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from medn.adaptive import adaptive_sweep
from medn.adaptive.adaptive_sweep import FIRST_POINTS, AdaptiveProgress, AdaptiveSweep
from medn.adaptive.progress import AIM, POINTS
from medn.adaptive.run_curve import ADAPTIVE_NOTE, run_curve
from medn.core.store import Store
from medn.core.values import Condition, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder


def config_of(**changes: object) -> SweepConfig:
    written: dict[str, object] = {
        "name": "chosen",
        "seed": 3,
        "devices": ["torch"],
        "layers": {"linear": {"in_features": {"log_range": [16, 2048]}, "out_features": {"log_range": [16, 2048]}}},
        "conditions": {"batch_size": [1, 4]},
    }
    return parse_sweep(json.dumps({**written, **changes}))


def latency_s(point: Point) -> float:
    kind = layer_kinds[point.layer.kind]
    costs = kind.costs(kind.values_of(point.layer), point.condition.batch_size, 4)
    return float(1e-6 + costs.flops / 2e10 + costs.parameter_bytes / 5e9)


def visits(points: list[Point]) -> Iterator[tuple[Point, Visit]]:
    for point in points:
        times = latency_s(point) * np.ones(3)
        samples = Samples(times, times, np.zeros(3, dtype=bool))
        for number in range(2):
            yield point, Visit(point.key, number, "here", 0.0, "ok", samples=samples, elapsed_s=0.1)


def measured(store: Store, chooser: AdaptiveSweep, rounds: int = 100) -> list[list[Point]]:
    """The points of each round, each recorded as if it were measured."""
    store.add_environment("here", {"source": "a law"})
    found: list[list[Point]] = []
    while len(found) < rounds and (points := chooser.next_points(store)):
        store.record(visits(points))
        found.append(points)
    return found


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medn.adaptive.pool.POOL_POINTS", 200)
    monkeypatch.setattr(adaptive_sweep, "CANDIDATES", 60)
    monkeypatch.setattr(adaptive_sweep, "POPULATION", 40)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_rounds_grow_and_no_point_comes_twice(folder: RunFolder) -> None:
    with folder.store() as store:
        rounds = measured(store, AdaptiveSweep(config_of(), folder), rounds=4)
    assert [len(points) for points in rounds] == [FIRST_POINTS, 8, 10, 13]
    assert len({point for points in rounds for point in points}) == sum(map(len, rounds))


def test_every_device_measures_the_same(folder: RunFolder) -> None:
    config = config_of(devices=["torch", {"name": "other", "backend": "torch"}])
    with folder.store() as store:
        for points in measured(store, AdaptiveSweep(config, folder), rounds=2):
            on = {name: {(p.layer, p.condition) for p in points if p.device == name} for name in ("torch", "other")}
            assert on["torch"] == on["other"] != set()


def test_it_ends_at_the_aim_and_says_so(folder: RunFolder) -> None:
    told: list[AdaptiveProgress] = []
    with folder.store() as store:
        measured(store, AdaptiveSweep(config_of(), folder, aim=0.3, on_round=told.append))
    assert [each.end for each in told if each.end] == [AIM]
    assert told[-1].error is not None
    assert told[-1].error.error <= 0.3


def test_it_ends_with_the_budget_of_points(folder: RunFolder) -> None:
    chooser = AdaptiveSweep(config_of(budget={"points": 40}), folder, aim=0.001)
    with folder.store() as store:
        rounds = measured(store, chooser)
    assert sum(map(len, rounds)) == 40
    assert chooser.last is not None
    assert chooser.last.end == POINTS


def test_a_sweep_that_was_killed_goes_on_with_what_it_had_chosen(folder: RunFolder) -> None:
    with folder.store() as store:
        chooser = AdaptiveSweep(config_of(), folder)
        before = measured(store, chooser, rounds=2)
        unmeasured = chooser.next_points(store)  # and killed before the first visit
    with folder.store() as store:
        again = AdaptiveSweep(config_of(), folder).next_points(store)
    assert set(again) == {point for points in before for point in points} | set(unmeasured)


def test_the_same_measurements_make_the_same_choice(tmp_path: Path) -> None:
    chosen = []
    for name in ("first", "second"):
        with RunFolder(tmp_path / name).store() as store:
            chosen.append(measured(store, AdaptiveSweep(config_of(), RunFolder(tmp_path / name)), rounds=3))
    assert chosen[0] == chosen[1]


def test_listed_layers_are_all_among_the_first_points(folder: RunFolder) -> None:
    listed = [{"in_features": 64 + place, "out_features": 512} for place in range(30)]
    domains = {"in_features": {"log_range": [16, 2048]}, "out_features": {"log_range": [16, 2048]}}
    config = config_of(sampler="listed", layers={"linear": {**domains, "listed": listed}})
    with folder.store() as store:
        points = AdaptiveSweep(config, folder).next_points(store)
    first = {(point.layer.values["in_features"], point.condition.batch_size) for point in points}
    assert first == {(64 + place, batch_size) for place in range(30) for batch_size in (1, 4)}


def test_a_kind_that_cannot_be_measured_is_given_up(folder: RunFolder) -> None:
    config = config_of(layers={"linear": {}, "softmax": {}})
    chooser = AdaptiveSweep(config, folder)
    with folder.store() as store:
        store.add_environment("here", {"source": "a law"})
        for _ in range(3):
            points = chooser.next_points(store)
            good = [point for point in points if point.layer.kind == "linear"]
            bad = [point for point in points if point.layer.kind == "softmax"]
            store.record(visits(good))
            store.record((point, Visit(point.key, 0, "here", 0.0, "unsupported", "no such kernel")) for point in bad)
    assert (len(bad), len(good) > 0) == (0, True)


def test_chosen_points_are_learned_from_but_not_judged_by(folder: RunFolder) -> None:
    with folder.store() as store:
        rounds = measured(store, AdaptiveSweep(config_of(), folder), rounds=4)
        chosen = set(store.read_note(ADAPTIVE_NOTE)["informative"])
    assert 0 < len(chosen) < sum(map(len, rounds))
    (kind,) = run_curve(folder.path).kinds
    assert kind.layers == len({point.layer for points in rounds for point in points})


def test_the_points_of_another_config_do_no_harm(folder: RunFolder) -> None:
    with folder.store() as store:
        measured(store, AdaptiveSweep(config_of(), folder), rounds=3)
    other = config_of(layers={"linear": {"in_features": [8, 9], "out_features": {"log_range": [16, 2048]}}})
    with folder.store() as store:
        rounds = measured(store, AdaptiveSweep(other, folder), rounds=2)
    assert {point.layer.values["in_features"] for points in rounds for point in points} == {8, 9}


def test_a_sweep_measures_what_it_is_given_until_there_is_no_more(folder: RunFolder) -> None:
    config = config_of(measure={"visits": 1, "max_visits": 1, "visit_time": 0.01}, conditions={})
    linear = layer_kinds["linear"]
    points = [Point(linear.layer(in_features=size, out_features=16), Condition(), "torch") for size in (8, 16, 32)]
    batches = iter([points[:2], points[2:]])
    planned: list[int] = []
    outcome = run_sweep(
        config,
        folder,
        next_points=lambda store: next(batches, ()),
        on_visit=lambda number, done, in_all, point, visit: planned.append(in_all),
    )
    assert (outcome.visits, outcome.finished, planned) == (3, True, [2, 2, 3])
