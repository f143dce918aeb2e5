"""The measuring loop, driven by a clock that only moves when the layer or the flush does."""

from __future__ import annotations

import pytest

from medn.devices.take_samples import LEAST_SAMPLES, MOST_SAMPLES, VisitOptions, half_width, take_samples


class FakeMachine:
    """A clock, a timer and counters in one; a layer call moves the clock by its cost."""

    def __init__(self, costs: list[float], preempted_calls: set[int] | None = None) -> None:
        self.now = 0.0
        self.costs = costs
        self.calls = 0
        self.switches = 0
        self.preempted_calls = preempted_calls or set()

    def run(self) -> None:
        self.now += self.costs[self.calls % len(self.costs)]
        self.switches += self.calls in self.preempted_calls
        self.calls += 1

    def start(self) -> None:
        self.started = self.now

    def stop(self) -> float:
        return self.now - self.started

    def clock(self) -> float:
        return self.now

    def resources(self) -> tuple[float, int]:
        return self.now / 2, self.switches


def measure(machine: FakeMachine, options: VisitOptions, **more: object):  # type: ignore[no-untyped-def]
    return take_samples(machine.run, machine, machine.resources, options, clock=machine.clock, **more)  # type: ignore[arg-type]


def test_a_steady_layer_ends_its_visit_early() -> None:
    machine = FakeMachine([1e-3])
    samples = measure(machine, VisitOptions(seconds=1.0))
    assert samples.wall_s == pytest.approx(1e-3)
    assert samples.cpu_s == pytest.approx(5e-4)
    assert len(samples) == 2 * LEAST_SAMPLES
    assert machine.now < 0.2


def test_a_restless_layer_uses_up_its_time() -> None:
    machine = FakeMachine([1e-3, 2e-3, 3e-3, 5e-3])
    measure(machine, VisitOptions(seconds=0.5, precision=0.001, quantile=0.5))
    assert machine.now == pytest.approx(0.5, abs=0.01)


def test_very_short_layers_are_called_many_times_per_sample() -> None:
    machine = FakeMachine([1e-6])
    samples = measure(machine, VisitOptions(seconds=0.05))
    assert samples.calls_per_sample == pytest.approx(50, abs=1)
    assert samples.wall_s == pytest.approx(1e-6)


def test_a_call_longer_than_the_visit_is_its_only_sample() -> None:
    machine = FakeMachine([2.0])
    samples = measure(machine, VisitOptions(seconds=0.05))
    assert len(samples) == machine.calls == 1


def test_warm_up_calls_are_not_among_the_samples() -> None:
    machine = FakeMachine([9e-3] + [1e-3] * 1000)
    assert max(measure(machine, VisitOptions(seconds=0.05)).wall_s) == pytest.approx(1e-3)


def test_preempted_samples_are_marked_and_kept() -> None:
    machine = FakeMachine([1e-3], preempted_calls=set(range(0, 1000, 3)))
    samples = measure(machine, VisitOptions(seconds=0.1))
    assert samples.preempted.any()
    assert not samples.preempted.all()


def test_samples_are_bounded() -> None:
    machine = FakeMachine([1e-4 * (1 + step) for step in range(50)])
    assert len(measure(machine, VisitOptions(seconds=100.0, precision=0.01, quantile=0.5))) == MOST_SAMPLES


def test_a_cold_sample_is_one_call_after_one_flush() -> None:
    machine = FakeMachine([1e-6])
    flushes = []
    samples = measure(machine, VisitOptions(seconds=0.01), before_sample=lambda: flushes.append(machine.calls))
    assert samples.calls_per_sample == 1
    assert flushes == list(range(machine.calls))


def test_half_width_shrinks_with_more_samples() -> None:
    values = [1.0, 1.1, 1.2, 1.3, 1.4]
    assert half_width(values * 40, 0.5) < half_width(values * 4, 0.5)


def test_the_reference_is_timed_before_between_and_after_the_samples() -> None:
    machine, seen = FakeMachine([1e-3]), []
    measure(machine, VisitOptions(seconds=0.1, precision=-1), beside=lambda: seen.append(machine.now))
    assert seen == pytest.approx([0.0, 0.03, 0.06, 0.09, 0.1], abs=5e-3)


def test_what_follows_the_reference_at_once_is_not_timed_where_samples_are_short() -> None:
    machine, seen = FakeMachine([1e-3]), []
    samples = measure(machine, VisitOptions(seconds=0.1, precision=-1), beside=lambda: seen.append(machine.calls))
    warm_up = 10
    assert machine.calls == warm_up + len(samples) + len(seen) - 2


def test_a_long_sample_is_not_repeated_for_the_reference() -> None:
    machine = FakeMachine([2e-2])
    samples = measure(machine, VisitOptions(seconds=0.1, precision=-1), beside=lambda: None)
    assert machine.calls == 1 + len(samples)


def test_a_visit_of_one_sample_has_the_reference_before_and_after_it() -> None:
    machine, seen = FakeMachine([2.0]), []
    measure(machine, VisitOptions(seconds=0.05), beside=lambda: seen.append(machine.now))
    assert seen == [0.0, 2.0]
