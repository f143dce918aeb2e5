"""How a regressor does beyond the work that it learned from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.core.splits import Split
from medn.core.table import Schema, Table
from medn.pipeline.extrapolation import cut, extrapolation_scores, work
from medn.pipeline.tables import read_source
from medn.pipeline.train import prepare
from medn.pipeline.training import Prepared
from medn.regressors.regressor import Effort, regressors

WriteRun = Callable[..., Path]


@pytest.fixture(scope="module")
def prepared(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    run = write_run(tmp_path_factory.mktemp("beyond") / "run", layers=120)
    return prepare(read_source(run), ["linear"], Split(), 0, False)[0]["made-up"]


def table(names: tuple[str, ...], *columns: list[float]) -> Table:
    inputs = np.array(columns).T
    return Table(Schema(names), inputs, np.ones(len(inputs)), np.arange(len(inputs)).astype(str))


def test_work_is_flops_else_bytes_else_the_product_of_sizes() -> None:
    assert work(table(("memory_bytes", "flops"), [1, 2], [5, 6])).tolist() == [5, 6]
    assert work(table(("size", "memory_bytes"), [9, 9], [1, 2])).tolist() == [1, 2]
    assert work(table(("size", "batch_size"), [1, 2], [3, 4])).tolist() == [8, 15]


def test_the_two_halves_do_not_overlap(prepared: dict[str, Prepared]) -> None:
    halves = cut(prepared["linear"])
    assert halves.is_enough
    assert work(halves.train).max() <= halves.above < min(work(part).min() for part in halves.beyond)
    assert len(halves.train) == pytest.approx(0.8 * len(prepared["linear"].train), abs=2)


def test_scores_are_those_beyond_the_least_work(prepared: dict[str, Prepared]) -> None:
    found = extrapolation_scores(regressors["roofline"], prepared, regressors["roofline"].defaults, Effort(10.0))
    assert found["linear"]["rows"] == sum(map(len, cut(prepared["linear"]).beyond))
    assert 0 < found["linear"]["mape"] < 1


def test_held_efficiency_keeps_even_a_constant_growing(prepared: dict[str, Prepared]) -> None:
    found = extrapolation_scores(regressors["median"], prepared, {}, Effort(10.0))
    assert found["linear"]["spearman"] > 0.5


def test_too_few_rows_are_left_out(prepared: dict[str, Prepared]) -> None:
    from dataclasses import replace

    few = replace(prepared["linear"], train=prepared["linear"].train.take(np.arange(5)))
    assert extrapolation_scores(regressors["median"], {"linear": few}, {}, Effort(10.0)) == {}
