"""How a regressor does beyond the work that it learned from, and what is made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.splits import Split
from medn.core.table import Schema, Table
from medn.deployed.beyond import BOUNDED, HELD, OWN, WAYS
from medn.deployed.checked import chosen_way, pack_checked
from medn.pipeline.candidates import Candidate, deployed_of
from medn.pipeline.extrapolation import check, cut, made_ready, restored, work
from medn.pipeline.judging import Prepared, judged
from medn.pipeline.selecting import select_run
from medn.pipeline.tables import read_source
from medn.pipeline.train import prepare, train_run
from medn.regressors.regressor import Effort, regressors
from medn.selection.budget import Budget

WriteRun = Callable[..., Path]


@pytest.fixture(scope="module")
def prepared(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    run = write_run(tmp_path_factory.mktemp("beyond") / "run", layers=120)
    return made_ready(prepare(read_source(run), ["linear"], Split(), 0, False)[0]["made-up"]["linear"], 0)


def table(names: tuple[str, ...], *columns: list[float]) -> Table:
    inputs = np.array(columns).T
    return Table(Schema(names), inputs, np.ones(len(inputs)), np.arange(len(inputs)).astype(str))


def test_work_is_flops_else_bytes_else_the_product_of_sizes() -> None:
    assert work(table(("memory_bytes", "flops"), [1, 2], [5, 6])).tolist() == [5, 6]
    assert work(table(("size", "memory_bytes"), [9, 9], [1, 2])).tolist() == [1, 2]
    assert work(table(("size", "batch_size"), [1, 2], [3, 4])).tolist() == [8, 15]


def test_the_two_halves_do_not_overlap(prepared: Prepared) -> None:
    halves = cut(prepared)
    assert halves.is_enough
    assert work(halves.train).max() <= halves.above < min(work(part).min() for part in halves.larger.values())
    assert len(halves.train) == pytest.approx(0.7 * len(prepared.train), abs=2)


def test_the_roofline_of_the_check_knows_the_smaller_rows_alone(prepared: Prepared) -> None:
    assert prepared.smaller is not None
    assert prepared.smaller.range.high.max() <= cut(prepared).train.inputs.max()
    assert prepared.smaller.roofline is not None
    assert prepared.roofline is not None


def test_a_constant_is_held_and_a_law_is_not(prepared: Prepared, plain_regressors: object) -> None:
    ways = {}
    for name, settings in (("median", {}), ("test-law", {"slope": 0.8})):
        found = check(regressors[name], {"linear": prepared}, settings, Effort(10.0))["linear"]
        ways[name] = chosen_way(found, default=OWN)
    assert ways == {"median": HELD, "test-law": BOUNDED}


def test_held_efficiency_keeps_even_a_constant_growing(prepared: Prepared) -> None:
    found = check(regressors["median"], {"linear": prepared}, {}, Effort(10.0))["linear"]["test"]
    assert np.corrcoef(found.log_latency(HELD), found.measured)[0, 1] > 0.5
    assert np.ptp(found.log_latency(OWN)) < 1e-9


def test_too_few_rows_are_left_out(prepared: Prepared) -> None:
    few = made_ready(replace(prepared, train=prepared.train.take(np.arange(5))), 0)
    assert few.smaller is None
    assert check(regressors["median"], {"linear": few}, {}, Effort(10.0)) == {}


def test_a_check_that_was_saved_says_the_same(prepared: Prepared) -> None:
    found = check(regressors["roofline"], {"linear": prepared}, regressors["roofline"].defaults, Effort(10.0))["linear"]
    again = restored(pack_checked(found), prepared)
    assert again is not None
    for part, larger in found.items():
        np.testing.assert_allclose(again[part].errors(HELD), larger.errors(HELD), atol=1e-4)
        np.testing.assert_array_equal(again[part].groups, larger.groups)


def test_intervals_beyond_the_range_hold_what_they_promise(
    write_run: WriteRun, tmp_path: Path, plain_regressors: object
) -> None:
    """The exponent is a little wrong, so the error grows with the distance."""
    run = write_run(tmp_path / "run", layers=400, activations=0)
    found = prepare(read_source(run), ["linear"], Split.parse("range:flops:1e5"), 0, False)[0]["made-up"]["linear"]
    ready = replace(made_ready(found, 0), way=BOUNDED)
    settings = {"slope": 0.7}
    checked = check(regressors["test-law"], {"linear": ready}, settings, Effort(10.0))["linear"]
    form = regressors["test-law"].fit(ready.train, ready.validation, settings, Effort(10.0)).export()
    blank = Candidate("made-up", "linear", "test-law", key="", budget_s=1.0, seed=0, split="")
    candidate = judged(blank, ready, form, ready.roofline, checked=checked)
    deployed = deployed_of(candidate)
    answer, measured_s = deployed.answer(ready.test.inputs), ready.test.latency_s
    outside = ~answer.inside
    covered = (measured_s >= answer.low_s) & (measured_s <= answer.high_s)
    assert outside.sum() > 30
    assert covered[outside].mean() > 0.8
    as_inside = deployed.interval.bounds(answer.latency_s, np.ones(len(outside)))
    assert ((measured_s >= as_inside[0]) & (measured_s <= as_inside[1]))[outside].mean() < 0.6


def test_ensembles_have_an_extrapolation_error_and_a_way_of_their_own(
    write_run: WriteRun, tmp_path: Path, plain_regressors: object
) -> None:
    run = write_run(tmp_path / "run", layers=120, activations=0)
    train_run(run, seconds=4.0, families=("median", "ridge", "roofline", "test-law"))
    rows = [row for row in select_run(run, Budget()).leaderboard.rows if "+" in row["candidate"]]
    assert rows
    for row in rows:
        assert row["extrapolation_mape"] > 0
        assert row["extrapolation_mape"] <= 1.01 * max(row["extrapolation_held_mape"], row["extrapolation_own_mape"])
        assert row["beyond"] in WAYS
