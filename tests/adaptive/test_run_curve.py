"""The learning curves of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.adaptive.cross_validation import growing_errors
from medn.adaptive.run_curve import CURVE_FILE, RunCurve, keep_curve, kept_curve, run_curve, some_layers
from medn.core.errors import NothingMeasured, StoreError
from medn.core.table import Table
from medn.runs.tables import kind_table, read_source


@pytest.fixture(scope="module")
def run(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 linear layers, and 10 activations, which are too few for a curve."""
    return write_run(tmp_path_factory.mktemp("curve") / "desk", layers=48, activations=10)


@pytest.fixture(scope="module")
def found(run: Path) -> RunCurve:
    return run_curve(run)


@pytest.fixture(scope="module")
def linear(run: Path) -> Table:
    return kind_table(read_source(run), "linear").table


def test_every_kind_has_a_curve_or_the_reason_why_not(found: RunCurve) -> None:
    curves = {each.kind: (each.curve is not None, each.reason) for each in found.kinds}
    assert curves == {"linear": (True, ""), "activation": (False, "too few layers: 10")}


def test_the_error_on_other_layers_is_small_where_a_law_is_obeyed(found: RunCurve) -> None:
    (linear,) = (each for each in found.kinds if each.kind == "linear")
    told = linear.forecast(1.0)
    assert told is not None
    assert 0.0 < told.error < 0.2


def test_kinds_without_a_forecast_do_not_count_in_that_of_all(found: RunCurve) -> None:
    (linear,) = (each for each in found.kinds if each.kind == "linear")
    assert found.forecast(2.0) == linear.forecast(2.0)


def test_a_run_that_does_not_know_its_time_looks_ahead_to_twice_the_layers(found: RunCurve) -> None:
    assert (found.span_s, found.factor) == (None, 2.0)


@pytest.mark.parametrize(("measured_s", "span_s", "factor"), [(1200.0, 1200, 2.0), (1000.0, 600, 1.6), (5.0, 60, 4.0)])
def test_a_run_looks_ahead_by_a_round_time(measured_s: float, span_s: float, factor: float, found: RunCurve) -> None:
    ahead = RunCurve(found.kinds, measured_s)
    assert (ahead.span_s, ahead.factor) == (span_s, pytest.approx(factor))


def test_a_kept_curve_is_read_as_it_was_written(found: RunCurve, tmp_path: Path) -> None:
    assert kept_curve(tmp_path) is None
    keep_curve(tmp_path, found)
    assert kept_curve(tmp_path) == json.loads(json.dumps(found.as_json()))


@pytest.mark.parametrize("written", ["", "{}", "[]", '{"kinds": 3}', "\x00\xff"])
def test_a_damaged_curve_is_named_with_what_mends_it(written: str, tmp_path: Path) -> None:
    (tmp_path / CURVE_FILE).write_text(written)
    with pytest.raises(StoreError, match=f"{CURVE_FILE} cannot be read.*medn curve"):
        kept_curve(tmp_path)


def test_a_folder_without_measurements_has_no_curve(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured):
        run_curve(tmp_path)


def test_no_layer_is_judged_by_what_learned_from_it(linear: Table) -> None:
    """Layers whose target is their own number cannot be guessed from others."""
    random = np.random.default_rng(0)
    names, places = np.unique(linear.groups, return_inverse=True)
    strange = Table(linear.schema, linear.inputs, np.exp(random.normal(0, 2, len(names)))[places], linear.groups)
    growing = growing_errors(strange, seed=0)
    assert (growing.means(np.ones((1, len(growing.rows)))) > 0.5).all()


def test_only_the_rows_that_are_judged_count(linear: Table) -> None:
    judged = np.isin(linear.groups, np.unique(linear.groups)[:20])
    growing = growing_errors(linear, 0, judged)
    assert (growing.layers, len(growing.rows), growing.rows.sum()) == (len(set(linear.groups)), 20, judged.sum())


def test_of_very_many_layers_some_are_taken_with_all_their_rows(linear: Table) -> None:
    some = linear.take(some_layers(linear, 10, seed=0))
    assert len(set(some.groups)) == 10
    assert len(some) == sum(np.count_nonzero(linear.groups == name) for name in set(some.groups))
