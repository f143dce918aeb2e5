"""Intervals of what ships: calibrated in range and by layer, and wider the farther away a layer is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medn.core.intervals import calibrate, conformal_quantile, fit_spread
from medn.core.learn_range import learn_range
from medn.core.table import Array, Schema, Table
from medn.deployed.beyond import BOUNDED, HELD, OWN
from medn.deployed.calibration import interval_coverage, width_warning
from medn.deployed.deployed import Deployed
from medn.regressors.form import Form, Parts
from tests.deployed.calibrating import UNCALIBRATED, calibrated

SCHEMA = Schema(("m", "n", "k", "flops", "moved_bytes", "device"), {"device": ("one", "two", "rare")})


def products(rows: int, seed: int, device: float | None = None, largest: float = 4096, noise: float = 0.08) -> Table:
    """Matrix products of several devices in one table: the rare one is a hundred times as slow, and larger."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.uniform(np.log(16), np.log(largest), (rows, 3)))
    m, n, k = sizes.T
    devices = random.integers(0, 2, rows).astype(float) if device is None else np.full(rows, device)
    inputs = np.column_stack([sizes, 2 * m * n * k, 4 * (m * k + k * n + m * n), devices])
    latency_s = truth(inputs) * np.exp(noise * random.normal(size=rows))
    return Table(SCHEMA, inputs, latency_s, np.arange(rows).astype(str))


def truth(inputs: Array) -> Array:
    return (5e-6 + inputs[:, 3] / 1e12) * np.where(inputs[:, 5] == 2, 100.0, 1.0 + inputs[:, 5])


def joined(*tables: Table) -> Table:
    columns = [np.concatenate([getattr(table, name) for table in tables]) for name in ("inputs", "target")]
    return Table(SCHEMA, columns[0], columns[1], np.arange(len(columns[0])).astype(str))


class Known(Form):
    """Right for the devices it has seen."""

    name = "test-known"

    def log_value(self, inputs: Array) -> Array:
        return np.log(5e-6 + inputs[:, 3] / 1e12) + np.log1p(np.minimum(inputs[:, 5], 1.0))

    def parts(self) -> Parts:
        return Parts(self.name)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Known:
        return cls()


@pytest.fixture(scope="module")
def uncalibrated() -> Deployed:
    return Deployed(Known(), learn_range(products(800, 0), products(200, 1)), UNCALIBRATED, {}, OWN)


def pooled(seed: int) -> Table:
    return joined(products(200, seed), products(40, seed + 1, device=2.0, largest=65_536))


def test_rows_out_of_range_do_not_widen_the_intervals_of_those_inside(uncalibrated: Deployed) -> None:
    validation, calibration, inside = products(200, 2), pooled(4), products(400, 6)
    distance = uncalibrated.range.distance
    spread = fit_spread(uncalibrated.predict(validation.inputs), validation.target, distance(validation.inputs))
    everything = calibrate(
        spread, uncalibrated.predict(calibration.inputs), calibration.target, distance(calibration.inputs)
    )
    exploded = replace(uncalibrated, interval=everything)
    mended = calibrated(uncalibrated, validation, calibration)
    wide, narrow = (interval_coverage(each, each.answer(inside.inputs), inside.target) for each in (exploded, mended))
    assert (wide.inside_width or 0.0) > 10
    assert 0.0 < (narrow.inside_width or 0.0) < 0.4
    assert mended.answer(inside.inputs).inside.mean() > 0.95
    assert 0.84 < (narrow.inside_covered or 0.0) < 0.96


def test_a_width_that_says_nothing_is_told(uncalibrated: Deployed) -> None:
    wide, narrow = (
        interval_coverage(each, each.answer(rows.inputs), rows.target).inside_width
        for noise in (2.0, 0.05)
        for rows in [products(300, 8, noise=noise)]
        for each in [calibrated(uncalibrated, products(200, 2, noise=noise), products(200, 4, noise=noise))]
    )
    assert width_warning("lightgbm", narrow) is None
    assert str(width_warning("lightgbm", wide)).startswith("the intervals of lightgbm are ")


def test_where_no_row_is_in_range_all_of_them_count(uncalibrated: Deployed) -> None:
    far = products(50, 3, device=2.0)
    made = calibrated(uncalibrated, far, far)
    assert made.interval.calibration_rows == 50
    assert np.isfinite(made.bounds(far.inputs)).all()


def test_a_layer_with_many_rows_counts_once() -> None:
    scores = np.concatenate([np.full(1000, 9.0), np.linspace(0, 1, 99)])
    groups = np.array(["noisy"] * 1000 + [f"{place}" for place in range(99)])
    assert conformal_quantile(scores, groups, 0.9) < 1.0
    assert conformal_quantile(scores, np.arange(len(scores)).astype(str), 0.9) == 9.0


def test_coverage_holds_for_new_layers_whose_rows_err_alike() -> None:
    random = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        errors = np.abs(random.normal(size=31))
        rows = random.integers(1, 9, 30)
        quantile = conformal_quantile(np.repeat(errors[:30], rows), np.repeat(np.arange(30).astype(str), rows), 0.9)
        shares.append(errors[30] <= quantile)
    assert 0.86 < np.mean(shares) < 0.95


def test_few_layers_promise_less_however_many_their_rows(uncalibrated: Deployed) -> None:
    rows = products(90, 3)
    few = replace(rows, groups=np.repeat(["a", "b", "c"], 30))
    assert calibrated(uncalibrated, rows, few).interval.guaranteed_level == pytest.approx(0.75)
    assert calibrated(uncalibrated, rows, rows).interval.guaranteed_level == 0.9


@pytest.mark.parametrize("way", [HELD, OWN, BOUNDED])
@pytest.mark.parametrize("noisy", ["short", "long", "middle"])
def test_widths_never_shrink_beyond_the_edge_and_grow_with_the_distance(
    uncalibrated: Deployed, way: str, noisy: str
) -> None:
    def shaken(table: Table, seed: int) -> Table:
        place = np.log(table.target) - np.log(table.target).mean()
        spread = 0.02 * np.exp({"short": -place, "long": place, "middle": 3 - place**2}[noisy].clip(-3, 3))
        return replace(
            table, target=truth(table.inputs) * np.exp(spread * np.random.default_rng(seed).normal(size=len(place)))
        )

    made = calibrated(replace(uncalibrated, way=way), shaken(products(400, 2), 0), shaken(products(400, 4), 1))
    made = replace(made, interval=replace(made.interval, widening=0.1))
    m = np.exp(np.linspace(np.log(2000), np.log(1e7), 60))
    n = k = np.full(60, 1000.0)
    inputs = np.column_stack([m, n, k, 2 * m * n * k, 4 * (m * k + k * n + m * n), np.zeros(60)])
    found = made.answer(inputs)
    widths = np.log(found.high / found.value)
    outside = ~found.inside
    assert found.inside[0]
    assert outside[-1]
    assert (np.diff(widths[outside]) > 0).all()
    assert widths[outside].min() >= widths[found.inside][-1]
    assert widths[outside][-1] > widths[found.inside].max()
