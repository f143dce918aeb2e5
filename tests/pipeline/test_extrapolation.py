"""How a regressor does beyond the work that it learned from, and what is made of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.splits import Split
from medn.core.table import Schema, Table
from medn.deployed.beyond import HELD, OWN
from medn.deployed.checked import chosen_way, pack_checked
from medn.pipeline.extrapolation import check, cut, made_ready, restored, work
from medn.pipeline.judging import Prepared
from medn.pipeline.tables import read_source
from medn.pipeline.train import prepare
from medn.regressors.regressor import Effort, regressors

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
        ways[name] = chosen_way(found, default=HELD if name == "test-law" else OWN)
    assert ways["median"] == HELD
    assert ways["test-law"] != HELD


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
