"""Which visits count as calm, by made-up times of the reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from medn.core.calm import calm_visits, with_calm
from medn.core.values import Condition, Layer, Measurement, Point, Samples, Status, Visit, freeze

BEST = 20e-6


def visit(
    *slowness: float, memory: Sequence[float] = (), preempted: int = 0, status: Status = "ok", place: str = "here"
) -> Visit:
    """A visit of four samples whose reference took so many times as long as the best, once for each number."""
    runs = {"compute": [BEST * each for each in slowness]} | ({"memory": list(memory)} if memory else {})
    wall = np.full(4, 1.0) if status == "ok" else np.empty(0)
    samples = Samples(wall, wall, np.arange(len(wall)) < preempted)
    return Visit("key", 0, place, 0.0, status, samples=samples, reference_runs=runs if slowness else {})


def measurement(*visits: Visit, device: str = "torch", threads: int = 1) -> Measurement:
    return Measurement(Point(Layer("linear", freeze({"size": 8})), Condition(threads=threads), device), visits)


def calm_of(*measurements: Measurement) -> list[bool | None]:
    return [visit.calm for each in with_calm(measurements) for visit in each.visits]


def test_a_visit_is_calm_where_the_reference_took_about_its_best() -> None:
    assert calm_of(measurement(visit(1.0), visit(1.03), visit(1.2))) == [True, True, False]


def test_one_slow_run_of_the_reference_does_not_make_a_visit_disturbed() -> None:
    assert calm_of(measurement(visit(1.0, 1.0, 3.0))) == [True]


def test_every_kernel_must_have_been_fast() -> None:
    slow = visit(1.0, memory=[2.0])
    assert calm_of(measurement(*[visit(1.0, memory=[1.0])] * 9, slow))[-1] is False


def test_a_visit_with_no_times_of_the_reference_is_unknown() -> None:
    assert calm_of(measurement(visit(1.0), visit())) == [True, None]


def test_a_run_of_an_earlier_version_is_unknown_throughout() -> None:
    assert calm_of(measurement(visit(), visit())) == [None, None]


def test_a_visit_that_was_mostly_preempted_was_not_calm() -> None:
    assert calm_of(measurement(visit(1.0, preempted=3), visit(1.0, preempted=1))) == [False, True]


def test_a_failed_visit_is_unknown() -> None:
    assert calm_of(measurement(visit(1.0), visit(1.0, status="crashed"))) == [True, None]


@pytest.mark.parametrize("other", [{"device": "openvino"}, {"threads": 2}], ids=["device", "threads"])
def test_best_times_do_not_compare_between_places(other: dict[str, object]) -> None:
    assert calm_of(measurement(visit(1.0)), measurement(visit(2.0), **other)) == [True, True]  # type: ignore[arg-type]


def test_best_times_do_not_compare_between_environments() -> None:
    assert calm_of(measurement(visit(1.0), visit(2.0, place="elsewhere"))) == [True, True]


def test_a_few_lucky_runs_are_not_the_best() -> None:
    lucky, usual = [visit(0.5)], [visit(1.0) for _ in range(60)]
    assert calm_of(measurement(*lucky, *usual)) == [True] * 61


def test_calm_visits_are_counted_where_all_are_known() -> None:
    fast, slow, unknown, failed = visit(1.0), visit(2.0), visit(), visit(status="crashed")
    found = with_calm([measurement(fast, slow, failed), measurement(slow, unknown), measurement(unknown)])
    assert [calm_visits(each) for each in found] == [1, None, None]
