"""When an adaptive sweep is done, and why."""

from __future__ import annotations

import numpy as np
import pytest

from medn.adaptive.curve import LearningCurve
from medn.adaptive.progress import AIM, EXHAUSTED, FLOOR, judge
from medn.adaptive.run_curve import KindCurve, RunCurve


def kind(name: str, error: float, floor: float = 0.0, weight: float = 1.0) -> KindCurve:
    """With 100 layers it errs by so much, and by a quarter less above the floor with each doubling."""
    slope = np.log2(4 / 3)
    laws = np.array([[(error - floor) * 100**slope, slope]] * 2)
    curve = LearningCurve(100, (25, 50, 75), (error, error, error), floor, laws)
    return KindCurve("desk", name, 100, 100, weight, curve)


def young(name: str, layers: int = 10) -> KindCurve:
    return KindCurve("desk", name, 24, layers, 0.0, None, "too few layers")


def run_of(*kinds: KindCurve) -> RunCurve:
    return RunCurve(kinds, 600.0)


ALL = ("conv2d", "linear")


def test_it_goes_on_while_the_error_is_larger_than_asked_for() -> None:
    done = judge(run_of(kind("linear", 0.10)), 100, ALL, aim=0.05)
    assert (done.end, done.wanting) == ("", {"linear"})


def test_it_ends_at_the_aim() -> None:
    assert judge(run_of(kind("linear", 0.04)), 100, ALL, aim=0.05).end == AIM


def test_the_aim_is_for_the_mean_over_kinds_by_their_weight() -> None:
    kinds = kind("linear", 0.02, weight=9), kind("conv2d", 0.2, weight=1)
    assert judge(run_of(*kinds), 100, ALL, aim=0.05).end == AIM
    assert judge(run_of(*kinds), 100, ALL, aim=0.03).end == ""


def test_a_kind_that_cannot_be_judged_yet_keeps_it_from_ending() -> None:
    done = judge(run_of(kind("linear", 0.04), young("conv2d")), 100, ALL, aim=0.05)
    assert (done.end, done.wanting) == ("", {"conv2d"})


def test_a_kind_that_cannot_be_measured_does_not() -> None:
    assert judge(run_of(kind("linear", 0.04), young("conv2d", layers=0)), 100, ALL, aim=0.05).end == AIM


def test_it_ends_where_only_noise_is_left() -> None:
    assert judge(run_of(kind("linear", 0.10, floor=0.095)), 100, ALL, aim=0.05).end == FLOOR


def test_a_kind_at_its_noise_gets_no_more_points() -> None:
    done = judge(run_of(kind("linear", 0.10, floor=0.095), kind("conv2d", 0.2)), 100, ALL, aim=None)
    assert (done.end, done.wanting) == ("", {"conv2d"})


def test_it_ends_where_there_is_nothing_more_to_measure() -> None:
    assert judge(run_of(kind("linear", 0.10)), 100, (), aim=0.05).end == EXHAUSTED


def test_the_time_left_is_that_of_the_forecast() -> None:
    assert judge(run_of(kind("linear", 0.08)), 100, ALL, aim=0.06).left_s == pytest.approx(600, rel=0.05)


@pytest.mark.parametrize("aim", [None, 0.001])
def test_without_an_aim_in_sight_no_time_is_told(aim: float | None) -> None:
    assert judge(run_of(kind("linear", 0.08)), 100, ALL, aim=aim).left_s is None
