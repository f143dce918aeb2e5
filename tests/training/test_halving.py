"""Time by promise: every family has a look, those that can still win go on, and what was decided stays decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from medn.core.splits import Split, some_layers
from medn.core.table import Schema, Table
from medn.deployed.candidate import Candidate
from medn.regressors.regressor import regressors
from medn.runs.tables import read_source
from medn.training import halving
from medn.training.candidate_store import load_candidates
from medn.training.halving import Halving, by_promise, look, read_standings, search, whole
from medn.training.job import Job, Round
from medn.training.prepared import Prepared, prepare
from medn.training.train_run import TrainOutcome, train_run
from tests.conftest import load_plugins

WriteRun = Callable[..., Path]

FAMILIES = ("median", "linear", "test-near", "test-law", "test-broken")
"""Two power laws: that of `test-near` begins near the device's own, the other one far from it."""


def trained(run: Path, *families: str, **options: Any) -> TrainOutcome:
    return train_run(run, **{"seconds": 20.0, "families": families or FAMILIES, "kinds": ["linear"], **options})


@pytest.fixture(scope="module")
def held_out_run(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained by looks at some of the rows, as if there were very many. Copy it before changing anything."""
    run = write_run(tmp_path_factory.mktemp("halving") / "run", layers=60, activations=0, memory_bytes=None)
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "plain_regressors")
        as_if_many(patch)
        trained(run)
    return run


def as_if_many(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("medn.core.splits.MOST_CROSS_FITTED", 10)
    patch.setattr(halving, "LOOK_ROWS", 30)


@pytest.fixture
def many(held_out_run: Path, monkeypatch: pytest.MonkeyPatch, plain_regressors: ModuleType) -> Path:
    as_if_many(monkeypatch)
    return held_out_run


def candidates(run: Path) -> dict[str, Candidate]:
    return {each.regressor: each for each in load_candidates(run / "candidates")}


def jobs(run: Path, *families: str, seconds: float = 20.0) -> list[Job]:
    tables, _ = prepare(read_source(run), ["linear"], Split(), 0, without_unstable=False)
    return [Job(run / "candidates", "made-up", name, tables["made-up"], "random", 0, seconds, 0.0) for name in families]


def table(layers: int, rows_each: int) -> Table:
    rows = layers * rows_each
    groups = np.repeat([f"layer {place}" for place in range(layers)], rows_each)
    return Table(Schema(("size",), {}), np.arange(rows, dtype=float)[:, None] + 1, np.ones(rows), groups)


def test_some_layers_are_whole_layers() -> None:
    drawn = some_layers(table(50, 4), 30, seed=0)
    names, counts = np.unique(drawn.groups, return_counts=True)
    assert (len(names), set(counts)) == (8, {4})
    assert some_layers(table(5, 4), 20, seed=0).inputs.shape == (20, 1)


def test_a_look_of_many_rows_sees_some_of_them(many: Path) -> None:
    (job,) = jobs(many, "test-law")
    looked = look(job)
    assert looked.some_rows
    assert 30 <= len(looked.tables["linear"].train) < len(job.tables["linear"].train)
    assert looked.key == job.key


def test_the_best_goes_on_and_the_hopeless_does_not(many: Path) -> None:
    found = candidates(many)
    assert len(found["test-near"].facts.rounds) == len(found["test-law"].facts.rounds) == len(Round)
    assert found["test-near"].facts.has_all_rows
    assert found["test-near"].facts.trials.made > 1
    assert found["test-law"].facts.trials.made == 1


def test_a_family_that_had_a_look_stays_a_candidate_and_says_what_it_learned_from(many: Path) -> None:
    law = candidates(many)["test-law"]
    assert law.is_good
    assert 30 <= law.facts.learned_rows < law.facts.split_sizes["train"]


def test_looks_at_some_rows_have_less_time_than_looks_at_all(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = jobs(many, *FAMILIES)
    rounds = Halving(own, own, processes=1, retry_failed=False)
    of_some = rounds.seconds(Round.LOOK, 100.0)
    monkeypatch.setattr(halving, "LOOK_ROWS", 10_000)
    assert of_some < rounds.seconds(Round.LOOK, 100.0) < rounds.seconds(Round.WHOLE, 100.0)


def test_the_same_training_again_has_nothing_to_do(many: Path) -> None:
    assert trained(many).trained == 0


def test_less_time_for_fits_than_they_take_leaves_the_fewest(many: Path) -> None:
    own = jobs(many, "linear", "test-near", "test-law")
    standings = {
        place: {name: replace(each, facts=replace(each.facts, fit_seconds=100.0)) for name, each in found.items()}
        for place, found in read_standings(own).items()
    }
    assert [job.regressor for job in whole(own, standings, seconds=1.0)] == ["test-near"]
    assert [job.regressor for job in search(own, standings, seconds=1.0)] == ["test-near"]


def test_time_that_whole_fits_leave_goes_to_those_of_other_families(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_regressors: ModuleType
) -> None:
    """As where a look suggests that there is time for one family, and it then takes less."""
    as_if_many(monkeypatch)
    monkeypatch.setattr(halving, "HOPELESS", 1e6)
    monkeypatch.setattr(halving, "whole", lambda *asked: whole(*asked)[:1])
    run = write_run(tmp_path / "run", layers=60, activations=0, memory_bytes=None)
    trained(run)
    found = candidates(run)
    assert {name: found[name].facts.has_all_rows for name in ("linear", "test-near", "test-law")} == {
        "linear": True,
        "test-near": True,
        "test-law": True,
    }
    assert trained(run).trained == 0


def test_a_family_that_fills_its_time_is_given_more_than_its_look_took(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = jobs(many, "linear", "test-near", "test-law")
    some = {"learned_rows": 30, "learned_from": "train", "fit_seconds": 1.0}
    standings = {
        place: {name: replace(each, facts=replace(each.facts, **some)) for name, each in found.items()}
        for place, found in read_standings(own).items()
    }
    (as_it_took,) = whole(own, standings, seconds=1.0)
    monkeypatch.setattr(type(regressors[as_it_took.regressor]), "fills_time", True)
    (longer,) = whole(own, standings, seconds=1.0)
    assert longer.share == pytest.approx(halving.CUT_SHORT * as_it_took.share)


def standing_of(prepared: Prepared, log_errors: dict[str, Any], like: Candidate) -> dict[str, Candidate]:
    """Candidates whose held-out predictions are off by these logarithms."""
    assert like.scores is not None
    found = {}
    for name, off in log_errors.items():
        logs = np.log(prepared.validation.target) + off
        error = float(np.abs(np.exp(off) - 1).mean())
        scores = replace(like.scores, validation=replace(like.scores.validation, mape=error))
        found[name] = replace(like, regressor=name, scores=scores, held_out=logs)
    return found


def test_what_errs_elsewhere_goes_before_what_errs_alike(many: Path) -> None:
    (job,) = jobs(many, "linear")
    prepared = job.tables["linear"]
    sign = np.where(np.arange(len(prepared.validation)) % 2, 1.0, -1.0)
    errors = {"linear": 0.100 * sign, "ridge": 0.101 * sign, "lasso": -0.12 * sign, "roofline": 0.2 * sign}
    found = standing_of(prepared, errors, candidates(many)["linear"])
    assert by_promise(found, prepared) == ["linear", "lasso", "ridge"]


def test_what_cannot_use_more_rows_has_less_promise(many: Path) -> None:
    (job,) = jobs(many, "linear")
    prepared = job.tables["linear"]
    off = np.full(len(prepared.validation), 0.1)
    found = standing_of(prepared, {"gaussian_process": 0.9 * off, "linear": off}, candidates(many)["linear"])
    rows = len(prepared.rows.train)
    found = {name: replace(each, facts=replace(each.facts, learned_rows=rows // 8)) for name, each in found.items()}
    assert by_promise(found, prepared)[0] == "gaussian_process"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(regressors["gaussian_process"]), "largest", rows // 8)
        assert by_promise(found, prepared)[0] == "linear"


def test_few_families_all_search_from_the_start(
    write_run: WriteRun, tmp_path: Path, plain_regressors: ModuleType
) -> None:
    run = write_run(tmp_path / "run", activations=0, memory_bytes=None)
    trained(run, "median", "test-near", "test-law", seconds=8.0)
    found = candidates(run)
    assert found["test-near"].facts.trials.made > 1
    assert found["test-law"].facts.trials.made > 1
