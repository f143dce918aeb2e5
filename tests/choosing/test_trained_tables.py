"""Select, report and bundle read the tables that training wrote, and a candidate is stale when its table is another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from medn.choosing.bundling import bundle_run
from medn.choosing.evaluation import STALE, evaluate_places, evaluate_run
from medn.choosing.select_run import select_run
from medn.core.errors import StoreError
from medn.core.store import Store
from medn.report.content import gather
from medn.runs.folder import RunFolder
from medn.runs.training_table import read_facts
from medn.selection.budget import Budget
from medn.training.train_run import train_run

FAMILIES = ("median", "roofline")


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "desk"))


def refuse(*_: object) -> None:
    raise AssertionError("the measurements were read")


def add_visit(run: Path) -> None:
    with RunFolder(run).store() as store:
        first = next(store.measurements())
        slower = replace(first.visits[0].samples, wall_s=2 * first.visits[0].samples.wall_s)
        store.record([(first.point, replace(first.visits[0], pass_number=99, samples=slower))])


def keys(run: Path) -> set[str]:
    return {(read_facts(path) or {})["key"] for path in run.glob("tables/*/*")}


def test_select_report_and_bundle_read_no_measurements(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("measurements", "conditions"):
        monkeypatch.setattr(Store, name, refuse)
    bundle_run(run, select_run(run, Budget()).chosen)
    assert {each.kind for each in gather(run).kinds} == {"activation", "linear"}


def test_a_bundle_tells_what_one_made_from_the_measurements_tells(run: Path) -> None:
    from medn.bundle.bundle import read_bundle

    chosen = select_run(run, Budget()).chosen
    told = read_bundle(bundle_run(run, chosen, run / "tables.medn"))
    shutil.rmtree(run / "tables")
    again = read_bundle(bundle_run(run, chosen, run / "measurements.medn"))
    assert told.streaming == again.streaming
    assert [each.usual for each in told.entries] == [each.usual for each in again.entries]


def test_a_run_that_grew_is_chosen_from_as_it_was_trained_and_says_so(run: Path) -> None:
    before = {each.kind: each.scores for each in select_run(run, Budget()).chosen}
    add_visit(run)
    outcome = select_run(run, Budget())
    assert outcome.grown is not None
    assert "holds more measurements (visits: 1) than activation, linear learned from" in outcome.grown
    assert {each.kind: each.scores for each in outcome.chosen} == before
    assert gather(run).grown == outcome.grown


def test_training_again_makes_a_new_table_of_what_was_added(run: Path, plain_regressors: ModuleType) -> None:
    before = keys(run)
    add_visit(run)
    train_run(run, seconds=60.0, families=FAMILIES)
    assert len(keys(run) - before) == 1  # the other kind has no new visit
    evaluation = evaluate_places(run)
    assert evaluation.grown is None
    (changed,) = (each for each in evaluation.found if STALE in each.failed.values())
    assert changed.candidates.keys() == set(FAMILIES)


def test_training_the_same_again_keeps_table_and_candidates(run: Path, plain_regressors: ModuleType) -> None:
    before = keys(run)
    assert train_run(run, seconds=0.1, families=FAMILIES).trained == 0
    assert keys(run) == before


def test_a_candidate_of_another_table_is_stale_though_its_error_is_the_same(run: Path) -> None:
    path = run / "candidates" / "made-up" / "linear" / "ridge" / "candidate.json"
    path.write_text(path.read_text().replace(json.loads(path.read_text())["table"], "0" * 20))
    (linear,) = evaluate_run(run, kinds=["linear"])
    assert linear.failed["ridge"] == STALE
    assert "roofline" in linear.candidates


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"{}")])
def test_a_table_that_is_gone_is_made_again(run: Path, damage: Callable[[Path], object]) -> None:
    whole = evaluate_run(run)
    for path in run.glob("tables/*/*"):
        damage(path)
    again = evaluate_run(run)
    assert [each.prepared.table.key for each in again] == [each.prepared.table.key for each in whole]
    assert [each.candidates.keys() for each in again] == [each.candidates.keys() for each in whole]


def test_what_was_chosen_from_another_table_is_not_reported(run: Path, plain_regressors: ModuleType) -> None:
    select_run(run, Budget())
    train_run(run, seconds=60.0, families=FAMILIES, seed=5)
    with pytest.raises(StoreError, match="medn select RUN"):
        gather(run)


def test_another_seed_makes_all_others_stale(run: Path, plain_regressors: ModuleType) -> None:
    train_run(run, seconds=60.0, families=FAMILIES, seed=5)
    for each in evaluate_run(run):
        assert each.candidates.keys() == set(FAMILIES)
        assert each.prepared.table.seed == 5
