"""The sequential test keeps its error rates, and the detector its rate of false alarms."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from medn.core.sequential import ChangeDetector, Hypotheses, SequentialTest, promised_spread, student_quantile


def verdicts(shift: float, scale: float, spread: float, heavy: bool = True, tests: int = 200) -> Counter[str]:
    """What tests find on points with a common shift and errors `scale` times as large as promised."""
    random, found = np.random.default_rng(7), Counter[str]()
    for _ in range(tests):
        test = SequentialTest()
        while test.verdict == "undecided" and test.count < 400:
            noise = random.standard_t(4) if heavy else random.standard_normal() * 2.132 / 1.645
            test.add(shift + scale * spread * noise, spread)
        found[test.verdict] += 1
    return found


@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize("shift", [0.0, math.log(1.03), -math.log(1.03)])
@pytest.mark.parametrize("spread", [0.03, 0.2])
def test_a_change_that_is_not_there_is_found_once_in_twenty_at_most(shift: float, spread: float, heavy: bool) -> None:
    assert verdicts(shift, 1.0, spread, heavy)["changed"] <= 200 * 0.05


@pytest.mark.parametrize("shift", [math.log(1.1), -math.log(1.1), math.log(1.5)])
@pytest.mark.parametrize("spread", [0.03, 0.2])
def test_a_common_shift_is_missed_once_in_twenty_at_most(shift: float, spread: float) -> None:
    assert verdicts(shift, 1.0, spread)["fits"] <= 200 * 0.06  # five in a hundred, and luck


def test_errors_twice_as_large_are_found() -> None:
    assert verdicts(0.0, 2.0, 0.2)["fits"] <= 200 * 0.06


def test_quantiles_are_those_of_student() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    for share in (0.02, 0.3, 0.5, 0.9, 0.975):
        assert student_quantile(share) == pytest.approx(scipy_stats.t.ppf(share, 4), abs=1e-9)


def test_an_interval_promises_the_spread_that_it_covers_at_its_level() -> None:
    random = np.random.default_rng(0)
    spread = promised_spread(0.8, 1.25, 0.9)
    covered = np.abs(spread * random.standard_t(4, 100_000)) <= math.log(1.25)
    assert covered.mean() == pytest.approx(0.9, abs=0.005)


def test_one_wild_point_decides_nothing() -> None:
    test = SequentialTest()
    test.add(math.log(1000.0), 0.05)
    assert test.verdict == "undecided"


def test_a_detector_finds_a_change_soon() -> None:
    random, detector = np.random.default_rng(1), ChangeDetector()
    for _ in range(300):
        detector.add(0.1 * random.standard_t(4), 0.1)
    assert not detector.found
    for _ in range(40):
        detector.add(math.log(1.25) + 0.1 * random.standard_t(4), 0.1)
    assert detector.found


def test_a_common_factor_is_told_before_larger_errors() -> None:
    told = Hypotheses(tolerance=0.1).change
    assert told("scattered", math.log(1.2)) == "slower"
    assert told("scattered", math.log(0.8)) == "faster"
    assert told("scattered", math.log(1.05)) == "scattered"


def test_a_detector_gives_no_false_alarm_in_thousands_of_points() -> None:
    random, detector = np.random.default_rng(2), ChangeDetector()
    for _ in range(5000):
        detector.add(0.1 * random.standard_t(4), 0.1)
    assert not detector.found


def test_evidence_is_the_same_for_slower_and_for_faster_mirrored() -> None:
    first, second = (Hypotheses().evidence(sign * 0.2, 0.1) for sign in (1, -1))
    assert first["slower"] == pytest.approx(second["faster"])
    assert first["scattered"] == pytest.approx(second["scattered"])
