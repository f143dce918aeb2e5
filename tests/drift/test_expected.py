"""Points of a check are like those that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

import medn
from medn.core.errors import NothingMeasured
from medn.drift.expected import expected_from_bundle, expected_from_run


def test_points_lie_inside_what_was_measured_with_what_is_predicted(convolution_bundle: Path) -> None:
    predictor = medn.load(convolution_bundle)
    points = expected_from_bundle(predictor, 40)
    assert len(points) == 40
    assert {each.point.layer.kind for each in points[:5]} == set(predictor.kinds)
    for each in points:
        found = predictor.layer(each.point.layer.kind, **each.point.layer.values, **each.point.condition.values)
        assert found.in_range
        assert each.latency_s == pytest.approx(found.latency_s)


def test_points_follow_from_the_seed(convolution_bundle: Path) -> None:
    predictor = medn.load(convolution_bundle)
    first, second, other = (expected_from_bundle(predictor, 10, seed) for seed in (0, 0, 1))
    assert first == second
    assert first != other


def test_points_of_a_run_have_what_was_measured_then(law_bundle: Path) -> None:
    predictor = medn.load(law_bundle)
    points = expected_from_run(predictor, law_bundle.parent, 10)
    assert len(points) == 10
    for each in points:
        values = each.point.layer.values
        law = 2 * 8 * int(values["in_features"]) * int(values["out_features"]) / 2e10
        assert each.latency_s == pytest.approx(law, rel=0.1)
        assert each.spread < 0.02


def test_a_run_without_the_device_is_said_so(law_bundle: Path, bundle_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="holds no point on made-up"):
        expected_from_run(medn.load(bundle_path), law_bundle.parent, 10)
