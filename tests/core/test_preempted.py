"""Which visits count by processor time, by made-up samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from medn.core.preempted import tells_wall_time, with_processor_time
from medn.core.statistic import Statistic, choose_target, split_half_difference
from medn.core.values import NO_SAMPLES, Condition, Layer, Measurement, Point, Samples, Visit, freeze


def visit(
    *wall_s: float, cpu_s: float = 1.0, preempted: int = 0, on_host: bool = True, place: str = "here", calls: int = 1
) -> Visit:
    """Of samples that took so long, the first of them pre-empted, each so long on the processor."""
    marks = np.arange(len(wall_s)) < preempted
    samples = Samples(np.array(wall_s), np.full(len(wall_s), cpu_s), marks, calls)
    runs = {"compute": [1e-5]} if on_host else {}
    return Visit("key", 0, place, 0.0, "ok", samples=samples, reference_runs=runs)


def measurement(*visits: Visit, kind: str = "linear", device: str = "torch", **condition: float) -> Measurement:
    return Measurement(Point(Layer(kind, freeze({"size": 8})), Condition(**condition), device), visits)


CALM = visit(1.0, 1.01, 1.0)
WAITED = visit(3.0, 4.0, 5.0, preempted=3)


def marks(*measurements: Measurement) -> list[bool]:
    return [visit.by_processor_time for each in with_processor_time(measurements) for visit in each.visits]


def latency_s(*measurements: Measurement) -> float:
    """Of the last one, by the target of all of them."""
    marked = with_processor_time(measurements)
    return choose_target(marked)[0].latency_s(marked[-1])


def test_a_visit_that_was_preempted_throughout_counts_by_processor_time() -> None:
    assert marks(measurement(CALM), measurement(WAITED)) == [False, True]
    assert latency_s(measurement(CALM), measurement(WAITED)) == 1.0


def test_where_some_samples_were_not_preempted_they_alone_count() -> None:
    partly = visit(3.0, 4.0, 1.2, cpu_s=1.1, preempted=2)
    assert marks(measurement(partly), measurement(WAITED)) == [False, True]
    assert latency_s(measurement(WAITED), measurement(partly)) == 1.2


def test_processor_time_never_counts_for_more_than_wall_time() -> None:
    assert latency_s(measurement(CALM), measurement(visit(3.0, 4.0, cpu_s=9.0, preempted=2))) < 4.0


@pytest.mark.parametrize("nothing", [0.0, math.nan])
def test_a_processor_time_that_was_not_counted_is_not_taken_for_one(nothing: float) -> None:
    assert latency_s(measurement(CALM), measurement(visit(3.0, 3.0, cpu_s=nothing, preempted=2))) == 3.0


@pytest.mark.parametrize("cpu_s", [0.02, 0.8, 1.9, math.nan], ids=["own threads", "waits", "two threads", "unknown"])
def test_where_processor_time_is_not_about_wall_time_it_never_counts(cpu_s: float) -> None:
    undisturbed = visit(1.0, 1.0, cpu_s=cpu_s)
    assert marks(measurement(undisturbed), measurement(visit(3.0, cpu_s=cpu_s, preempted=1))) == [False, False]


def test_without_undisturbed_samples_nothing_is_known() -> None:
    assert marks(measurement(WAITED, WAITED)) == [False, False]


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda: measurement(CALM, device="onnxruntime"),
        lambda: measurement(CALM, threads=2),
        lambda: measurement(visit(1.0, place="elsewhere")),
        lambda: measurement(CALM, utilization=0.5),
    ],
    ids=["device", "threads", "environment", "load"],
)
def test_what_another_device_threads_environment_or_load_shows_does_not_count(
    elsewhere: Callable[[], Measurement],
) -> None:
    assert marks(elsewhere(), measurement(WAITED)) == [False, False]


def test_under_load_waiting_is_part_of_the_latency() -> None:
    assert marks(measurement(CALM), measurement(WAITED, utilization=0.5)) == [False, False]
    assert latency_s(measurement(CALM), measurement(WAITED, utilization=0.5)) == 4.0


def test_a_kind_that_computes_in_other_threads_keeps_the_others_from_counting() -> None:
    most = [measurement(visit(100.0, cpu_s=100.0))] * 9
    other = measurement(visit(1.0, cpu_s=0.1), kind="softmax")
    assert marks(*most, measurement(WAITED))[-1]
    assert not any(marks(*most, other, measurement(WAITED)))


def test_short_samples_that_hold_reading_the_clocks_do_not_decide() -> None:
    short = measurement(visit(5e-6, 5e-6, cpu_s=8e-6), kind="activation")
    assert marks(short, measurement(CALM), measurement(WAITED))[-1]


def test_a_device_that_the_host_says_nothing_of_never_counts_by_its_processor_time() -> None:
    """A host that waits for a GPU in a busy loop takes as much processor time as wall time."""
    calm, waited = visit(1.0, on_host=False), visit(3.0, preempted=1, on_host=False)
    assert marks(measurement(calm, waited)) == [False, False]


def test_a_run_that_goes_on_counts_its_earlier_visits_too() -> None:
    earlier = visit(3.0, preempted=1, on_host=False)
    assert marks(measurement(earlier, CALM)) == [True, False]


def test_a_failed_visit_does_not_count() -> None:
    failed = Visit("key", 0, "here", 0.0, "failed", samples=NO_SAMPLES)
    assert marks(measurement(CALM, failed)) == [False, False]


def test_calls_of_a_sample_weigh_as_long_as_they_took() -> None:
    once, often = Samples(np.ones(1), np.full(1, 0.5), np.zeros(1, bool)), visit(1.0, 1.0, calls=100).samples
    assert tells_wall_time([[once, often]])
    assert not tells_wall_time([[once]])
    assert not tells_wall_time([[once], [often]])


def test_what_waits_long_and_short_repeats_by_processor_time() -> None:
    waited = [visit(wait, wait + 1.0, preempted=2) for wait in (3.0, 9.0, 4.0, 7.0)]
    marked = with_processor_time([measurement(CALM), measurement(*waited)])[1]
    by_wall, by_processor = (Statistic(0.0, 0.5, undisturbed=True, processor_time=asked) for asked in (False, True))
    assert split_half_difference(marked.good_visits, by_wall) == pytest.approx(4.5 / 5.75)
    assert split_half_difference(marked.good_visits, by_processor) == 0.0


def test_the_definition_says_processor_time_where_a_visit_counts_by_it() -> None:
    told = [choose_target(with_processor_time([measurement(CALM, each)]))[0].idle for each in (CALM, WAITED)]
    assert [each.processor_time for each in told] == [False, True]
    assert str(told[1]).endswith("within a visit, pre-empted visits by processor time")
