"""The summary of a run: counts, noise, drift and failures, each from visits with known numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.statistic import NoiseFloor
from medn.core.store import Store
from medn.core.values import Condition, Layer, Point, Samples, Visit, freeze
from medn.layer_generators.sweep import Measure
from medn.measuring.sweep_time import expected_seconds
from medn.runs.measured import TARGET_NOTE
from medn.runs.summary import RunSummary, summarise

Entry = tuple[Point, Visit]


def point(kind: str = "linear", utilization: float = 0.0, size: int = 8, threads: int = 1) -> Point:
    condition = Condition(utilization=utilization, threads=threads)
    return Point(Layer(kind, freeze({"size": size})), condition, "torch")


def visits(of: Point, *latencies_s: float, reference_s: float | None = None, disturbed: int = 0) -> list[Entry]:
    """One visit of four samples for each latency; the first `disturbed` samples of each were interrupted."""
    made = []
    for number, latency_s in enumerate(latencies_s):
        wall = np.full(4, latency_s)
        samples = Samples(wall, wall, np.arange(4) < disturbed)
        made.append((of, Visit(of.key, number, "here", 0.0, "ok", samples=samples, reference_s=reference_s)))
    return made


def failure(of: Point, reason: str) -> Entry:
    return of, Visit(of.key, 0, "here", 0.0, "failed", reason)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "measurements.sqlite")


def summary_of(store: Store, *entries: Entry, unstable_above: float | None = None) -> RunSummary:
    with store:
        store.add_environment("here", {})
        store.record(entries)
        if unstable_above is not None:
            store.note("config", {"unstable_above": unstable_above})
        return summarise(store)


def test_points_visits_and_samples_are_counted(store: Store) -> None:
    found = summary_of(store, *visits(point(), 1.0, 1.0), *visits(point(size=9), 2.0), failure(point(size=10), "no"))
    assert (found.points, found.visits, found.samples) == (3, 3, 12)
    assert found.statuses == {"ok": 2, "failed": 1}


def test_idle_and_loaded_points_of_a_kind_are_told_apart(store: Store) -> None:
    found = summary_of(store, *visits(point(), 1.0), *visits(point(utilization=0.5), 3.0))
    assert [(kind.loaded, kind.points, kind.latency_median_s) for kind in found.kinds] == [
        (False, 1, 1.0),
        (True, 1, 3.0),
    ]


def test_a_kind_shows_its_range_of_latencies(store: Store) -> None:
    entries = [entry for size in (1, 2, 3) for entry in visits(point(size=size), float(size) ** 2)]
    (kind,) = summary_of(store, *entries).kinds
    assert (kind.latency_low_s, kind.latency_median_s, kind.latency_high_s) == (1.0, 4.0, 9.0)


def test_the_noise_floor_is_that_of_idle_points_alone(store: Store) -> None:
    found = summary_of(store, *visits(point(), 1.0, 1.0), *visits(point(utilization=0.5), 1.0, 3.0))
    assert found.idle_noise is not None
    assert (found.idle_noise.points, found.idle_noise.median) == (1, 0.0)
    noises = {kind.loaded: kind.noise for kind in found.kinds}
    assert noises[True] is not None
    assert noises[True].median == 1.0


def test_one_visit_alone_has_no_noise_floor(store: Store) -> None:
    found = summary_of(store, *visits(point(), 1.0))
    assert (found.idle_noise, found.repeatability, found.kinds[0].noise) == (None, {}, None)


@pytest.mark.parametrize(("threshold", "unstable"), [(None, 1), (0.5, 0)])
def test_what_counts_as_unstable_is_what_the_config_said(threshold: float | None, unstable: int, store: Store) -> None:
    (kind,) = summary_of(store, *visits(point(), 1.0, 1.1), unstable_above=threshold).kinds
    assert kind.unstable == unstable


def test_visits_with_a_slow_reference_kernel_are_counted(store: Store) -> None:
    calm = [entry for size in range(4) for entry in visits(point(size=size), 1.0, reference_s=1.0)]
    found = summary_of(store, *calm, *visits(point(size=9), 1.0, reference_s=1.5))
    assert found.drifted_visits == 1


def test_disturbed_samples_are_a_share(store: Store) -> None:
    assert summary_of(store, *visits(point(), 1.0, 1.0, disturbed=1)).disturbed_samples == 0.25


def test_failures_are_counted_by_reason_the_most_frequent_first(store: Store) -> None:
    failures = [failure(point(size=size), "too large" if size else "too small") for size in range(3)]
    found = summary_of(store, *failures)
    assert found.failures == (("failed: too large", 2), ("failed: too small", 1))
    assert (found.visits, found.kinds) == (0, ())


def with_output_error(entries: list[Entry], error: float) -> list[Entry]:
    """As an earlier medn stored it: compared, timed, and called ok whatever came out."""
    return [(of, replace(visit, output_error=error if visit.pass_number == 0 else None)) for of, visit in entries]


def test_the_largest_output_error_of_a_kind_is_told(store: Store) -> None:
    near = with_output_error(visits(point(), 1.0, 1.0), 0.001), with_output_error(visits(point(size=9), 1.0), 0.003)
    assert summary_of(store, *near[0], *near[1]).kinds[0].output_error == 0.003


def test_points_whose_outputs_are_wrong_are_no_measurements_whatever_their_visits_say(store: Store) -> None:
    wrong = with_output_error(visits(point(size=9), 5.0, 5.0), 0.5)
    found = summary_of(store, *visits(point(), 1.0, 1.0), *wrong)
    assert found.statuses == {"ok": 1, "wrong": 1}
    assert (found.kinds[0].points, found.kinds[0].latency_high_s) == (1, 1.0)


def test_json_tells_the_target_in_words(store: Store) -> None:
    told = summary_of(store, *visits(point(), 1.0, 1.0)).as_json()
    assert told["target"]["loaded"] == "median over visits of the median within a visit"


def test_an_estimate_adds_visits_load_and_starts() -> None:
    measure = Measure.model_validate({"visits": 10, "visit_time": 0.08})
    assert expected_seconds([point(), point(size=9)], measure) == pytest.approx(2 + 3)
    assert expected_seconds([point(utilization=0.5)], measure) == pytest.approx(1.15 + 3)
    assert expected_seconds([point(), point(threads=2)], measure) == pytest.approx(2 + 6)


def test_calm_visits_and_points_that_never_were_are_counted_where_known(store: Store) -> None:
    def with_runs(entries: list[Entry], *slowness: float) -> list[Entry]:
        return [
            (of, replace(visit, reference_runs={"compute": [slow * 1e-5]}))
            for (of, visit), slow in zip(entries, slowness, strict=True)
        ]

    found = summary_of(
        store,
        *with_runs(visits(point(), 1.0, 1.0), 1.0, 1.5),
        *with_runs(visits(point(size=9), 1.0, 1.0), 2.0, 1.5),
        *visits(point("softmax"), 1.0, 1.0),
    )
    assert found.calm_visits == 1
    assert [(kind.kind, kind.never_calm) for kind in found.kinds] == [("linear", 1), ("softmax", None)]


def waited(of: Point, *latencies_s: float) -> list[Entry]:
    """Pre-empted throughout: each took a second of processor time."""
    return [
        (of, replace(visit, samples=replace(visit.samples, cpu_s=np.ones(4))))
        for of, visit in visits(of, *latencies_s, disturbed=4)
    ]


def undisturbed(of: Point, *latencies_s: float) -> list[Entry]:
    return [(of, replace(visit, reference_runs={"compute": [1e-5]})) for of, visit in visits(of, *latencies_s)]


def test_noise_unstable_points_and_visits_tell_that_preempted_ones_count_by_processor_time(store: Store) -> None:
    found = summary_of(store, *undisturbed(point(), 1.0, 1.0), *waited(point(size=9), 3.0, 7.0))
    (kind,) = found.kinds
    assert (kind.unstable, kind.latency_high_s) == (0, 1.0)
    assert found.idle_noise == kind.noise == NoiseFloor(2, 0.0, 0.0)
    assert (found.processor_time_visits, found.disturbed_samples) == (2, 0.5)
    assert found.as_json()["target"]["idle"].endswith("pre-empted visits by processor time")


def test_a_target_that_was_recorded_before_goes_on_to_count_by_wall_time(store: Store) -> None:
    entries = [*undisturbed(point(), 1.0, 1.0), *waited(point(size=9), 3.0, 7.0)]
    with store:
        store.add_environment("here", {})
        store.record(entries)
        before = {"within": 0.0, "across": 0.0, "undisturbed": True}
        store.note(TARGET_NOTE, {"idle": before, "loaded": before, "chosen_from": store.state().as_json()})
        found = summarise(store)
    assert (found.kinds[0].unstable, found.kinds[0].latency_high_s) == (1, 3.0)
    assert found.processor_time_visits == 0
