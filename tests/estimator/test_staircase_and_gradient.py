"""Latency along a parameter, and how it changes with each."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import medn
from medn.core.errors import UsageError
from medn.core.table import as_inputs
from medn.estimator.prediction import Predictions
from medn.estimator.staircase import Staircase
from medn.layer_generators.features import analytic_columns
from medn.layer_generators.kind import layer_kinds
from medn.predictor.predictor import Predictor


@pytest.fixture(scope="module")
def network(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    return medn.load(made_up_bundle.write_made_up_bundle(tmp_path_factory.mktemp("network") / "run", "network"))


def staircase(sizes: Any, latency_s: Any, name: str = "out_channels") -> Staircase:
    predictions = Predictions.empty(len(sizes), ())
    predictions.latency_s[:] = latency_s
    return Staircase("conv2d", {}, {name: np.array(sizes)}, predictions)


def tiles(sizes: Any, tile: int) -> Any:
    """A device that computes whole tiles."""
    return np.ceil(np.array(sizes) / tile) * tile * 1e-6 + 1e-5


@pytest.mark.parametrize("tile", [1, 8, 16, 32])
def test_the_step_to_round_to_is_the_tile_of_the_device(tile: int) -> None:
    sizes = np.arange(1, 513)
    assert staircase(sizes, tiles(sizes, tile)).round_to == tile


def test_a_step_below_that_of_the_table_is_not_claimed() -> None:
    sizes = np.arange(8, 513, 8)
    assert staircase(sizes, sizes * 1e-6).round_to == 8


@pytest.mark.parametrize("sizes", [[3], [1, 2, 3], [0.5, 1.5, 2.5, 3.5, 4.5]])
def test_too_few_or_broken_sizes_have_no_step(sizes: list[float]) -> None:
    assert staircase(sizes, np.ones(len(sizes))).round_to is None


def test_a_size_is_worthwhile_if_no_larger_one_is_as_fast() -> None:
    sizes = np.arange(1, 17)
    assert sizes[staircase(sizes, tiles(sizes, 8)).is_worthwhile].tolist() == [8, 16]


def test_a_table_covers_all_combinations(bundle_path: Path) -> None:
    predictor = medn.load(bundle_path)
    found = predictor.table("linear", {"in_features": [64, 128]}, out_features=range(100, 104), batch_size=8)
    assert len(found) == 8
    assert (found.round_to, found.is_worthwhile) == (None, None)
    row = found.rows()[5]
    assert (row["in_features"], row["out_features"]) == (128, 101)
    alone = predictor.layer("linear", in_features=128, out_features=101, batch_size=8)
    assert row["latency_s"] == pytest.approx(alone.latency_s, rel=1e-6)


def test_a_table_needs_something_that_varies(bundle_path: Path) -> None:
    with pytest.raises(UsageError, match="a table needs a parameter with several values"):
        medn.load(bundle_path).table("linear", in_features=64, out_features=64)


@pytest.mark.parametrize("name", ["in_features", "out_features", "batch_size"])
def test_a_gradient_is_what_a_little_more_costs(name: str, network: Predictor) -> None:
    given: dict[str, Any] = {"in_features": 200, "out_features": 300, "batch_size": 4}
    estimator = network.estimator("linear")

    def latency_s(value: float) -> float:
        """Of a layer whose size is no whole number, its remainders held."""
        opened = {**estimator.query.open(given, 1), name: np.array([value])}
        inputs = as_inputs({**opened, **analytic_columns(estimator.kind, opened)}, estimator.range.schema)
        start = estimator.query.open(given, 1)
        before = as_inputs({**start, **analytic_columns(estimator.kind, start)}, estimator.range.schema)
        held = [estimator.range.schema.index(column) for column in estimator.range.free]
        inputs[:, held] = before[:, held]
        return float(estimator.deployed.form.predict(inputs)[0])

    step = 0.02 * given[name]
    expected = (latency_s(given[name] + step) - latency_s(given[name] - step)) / (2 * step)
    assert network.gradient("linear", **given)[name] == pytest.approx(expected, rel=0.01)


def test_a_gradient_names_what_the_inputs_depend_on(network: Predictor) -> None:
    found = network.gradient("linear", in_features=200, out_features=300)
    assert set(found) == {"in_features", "out_features", "rows", "batch_size", "load_average"}


def test_trees_have_no_gradient_and_say_so(made_up_bundle: ModuleType, tmp_path: Path) -> None:
    predictor = medn.load(made_up_bundle.write_made_up_bundle(tmp_path / "run", "trees"))
    with pytest.raises(UsageError, match="'trees' has no gradient"):
        predictor.gradient("linear", in_features=200, out_features=300)


def test_there_is_no_gradient_where_nothing_was_measured(network: Predictor) -> None:
    with pytest.raises(UsageError, match="linear: this layer lies outside what was measured"):
        network.gradient("linear", in_features=200_000, out_features=300)


@pytest.mark.parametrize("name", list(layer_kinds))
def test_every_kind_has_slopes(name: str) -> None:
    from medn.core.table import Schema
    from medn.estimator.gradient import input_slopes
    from medn.estimator.query import Query

    kind = layer_kinds[name]
    for fraction in (0.2, 0.5, 0.8):
        given = {parameter: domain.at(fraction) for parameter, domain in kind.sweep.items()}
        query = Query(kind, {})
        opened = query.open(given, 1)
        features = analytic_columns(kind, opened)
        names, slopes = input_slopes(query, opened, Schema(("flops", "moved_bytes")), ())
        assert (slopes[:, names.index("batch_size")] >= 0).all()
        flops = float(np.asarray(features["flops"]).ravel()[0])
        assert slopes[0, names.index("batch_size")] == pytest.approx(flops / 1, rel=0.2)
