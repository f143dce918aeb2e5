"""Selecting from a made-up run: evaluation, ensembles, what is written, and that nothing is trained again."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from medn.choosing.bundling import bundle_run
from medn.choosing.ensembling import folded, with_ensembles
from medn.choosing.evaluation import STALE, Evaluated, evaluate_run
from medn.choosing.leaderboard import COLUMNS, arranged, load_leaderboard
from medn.choosing.select_run import SelectOutcome, select_run
from medn.core.errors import NothingMeasured, StoreError, UsageError
from medn.core.metrics import relative_errors, score
from medn.deployed.beyond import HELD
from medn.deployed.candidate import costs_of, deployed_of, scores_of
from medn.deployed.packing import pack
from medn.regressors.form import restore
from medn.regressors.forms.constant import Constant
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.selection.budget import Budget
from medn.selection.option import believed_error
from medn.training.candidate_store import load_candidate, load_candidates
from medn.training.train_run import train_run

WriteRun = Callable[..., Path]
GOOD = ["median", "ridge", "roofline", "test-law"]


@pytest.fixture(scope="module")
def run(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found: Path = shutil.copytree(trained_run, tmp_path_factory.mktemp("selecting") / "desk")
    return found


@pytest.fixture(scope="module")
def evaluated(run: Path) -> list[Evaluated]:
    return evaluate_run(run)


@pytest.fixture(scope="module")
def outcome(run: Path) -> SelectOutcome:
    return select_run(run, Budget())


def test_every_good_candidate_is_evaluated_and_the_others_say_why(evaluated: list[Evaluated]) -> None:
    assert [(each.device, each.kind) for each in evaluated] == [("made-up", "activation"), ("made-up", "linear")]
    for each in evaluated:
        assert sorted(each.candidates) == GOOD
        assert each.failed == {"test-broken": "RuntimeError: this family always fails"}


def test_predictions_are_those_that_were_scored_in_training(evaluated: list[Evaluated]) -> None:
    for each in evaluated:
        measured_s = each.prepared.test.target
        for name, candidate in each.candidates.items():
            error = relative_errors(each.predicted_s[name]["test"], measured_s).mean()
            assert error == pytest.approx(scores_of(candidate).test.mape, rel=1e-5)


def as_the_first_version_wrote_it(folder: Path) -> None:
    """Scores of the bare form, the whole range among the facts, no roofline, and one way beyond the range."""
    candidate = load_candidate(folder)
    deployed = deployed_of(candidate)
    facts = json.loads((folder / "candidate.json").read_text())
    for name in ("way", "roofline", "table"):
        del facts[name]
    for name in ("calibration_layers", "widening"):
        del facts["interval"][name]
    written = safetensors.numpy.save(pack(deployed.form.parts())[1])
    (folder / "arrays.safetensors").write_bytes(written)
    facts |= {"version": 1, "range": deployed.range.as_json(), "arrays_sha256": hashlib.sha256(written).hexdigest()}
    (folder / "candidate.json").write_text(json.dumps(facts))


def test_candidates_of_the_first_version_are_held_with_the_roofline_of_their_run(
    trained_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(trained_run, tmp_path / "desk")
    (place,) = evaluate_run(run, kinds=["linear"])
    test = place.prepared.test
    for path in run.glob("candidates/*/linear/*/candidate.json"):
        facts = json.loads(path.read_text())
        if not facts["reason"]:
            deployed = deployed_of(load_candidate(path.parent))
            held = replace(deployed, way=HELD, roofline=None)
            told = {"test": deployed.form, "test_held": held}
            scores = {name: score(each.predict(test.inputs), test.target).as_json() for name, each in told.items()}
            path.write_text(json.dumps(facts | {"scores": facts["scores"] | scores}))
            as_the_first_version_wrote_it(path.parent)
    (old,) = evaluate_run(run, kinds=["linear"])
    assert old.candidates.keys() == place.candidates.keys()
    for name, candidate in old.candidates.items():
        deployed = deployed_of(candidate)
        assert (deployed.way, deployed.interval.widening) == (HELD, None)
        assert deployed.roofline is deployed_of(old.candidates["roofline"]).form
        error = relative_errors(old.predicted_s[name]["test"], test.target).mean()
        assert scores_of(candidate).test.mape == pytest.approx(error, rel=1e-5)


def test_a_kind_can_be_evaluated_alone(run: Path) -> None:
    assert [each.kind for each in evaluate_run(run, kinds=["linear"])] == ["linear"]


def test_an_unknown_kind_is_refused(run: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'linear'"):
        evaluate_run(run, kinds=["linea"])


def test_a_run_without_candidates_names_the_verb(write_run: WriteRun, tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="medn train"):
        evaluate_run(write_run(tmp_path / "fresh", layers=10, activations=0))


def test_candidates_of_other_measurements_are_refused(trained_run: Path, write_run: WriteRun, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", seed=1)
    shutil.copytree(trained_run / "candidates", other / "candidates")
    with pytest.raises(StoreError, match=STALE):
        evaluate_run(other)


def test_an_ensemble_is_a_candidate_with_one_form(evaluated: list[Evaluated]) -> None:
    found = [(place, name) for place in map(with_ensembles, evaluated) for name in place.ensembles]
    assert found
    for place, name in found:
        candidate, inputs = place.candidates[name], place.prepared.test.inputs
        form = deployed_of(candidate).form
        assert isinstance(form, WeightedSum)
        inside = place.prepared.range.in_range(inputs)
        assert form.predict(inputs)[inside] == pytest.approx(place.predicted_s[name]["test"][inside])
        assert restore(form.parts(), inputs.shape[1]).predict(inputs) == pytest.approx(form.predict(inputs))
        assert candidate.regressor == name
        assert set(name.split("+")) == set(place.ensembles[name])
        assert scores_of(candidate).coverage.rows == len(inputs)
        assert candidate.facts.key not in {each.facts.key for each in evaluated[0].candidates.values()}


def test_an_ensemble_is_believed_to_be_better_than_its_members(evaluated: list[Evaluated]) -> None:
    for place in map(with_ensembles, evaluated):
        validation = place.prepared.validation
        layers = len(set(validation.groups))
        errors = {
            name: believed_error(
                float(relative_errors(own["validation"], validation.target).mean()),
                place.ensembles.get(name, {name: 1.0}).values(),
                layers,
            )
            for name, own in place.predicted_s.items()
        }
        for name, weights in place.ensembles.items():
            assert errors[name] < min(errors[member] for member in weights)


def test_what_members_share_is_computed_once() -> None:
    base, first, second = Constant(1.0), Constant(2.0), Constant(3.0)
    found = folded({WeightedSum([base, first]): 0.25, WeightedSum([Constant(1.0), second]): 0.75})
    assert found.weights == (1.0, 0.25, 0.75)
    assert found.log_value(np.zeros((2, 1))) == pytest.approx([1.0 + 0.5 + 2.25] * 2)


def test_one_is_chosen_for_every_kind_with_its_costs(outcome: SelectOutcome) -> None:
    assert [(each.device, each.kind) for each in outcome.chosen] == [("made-up", "activation"), ("made-up", "linear")]
    for candidate in outcome.chosen:
        assert candidate.deployed is not None
        assert costs_of(candidate).us_1 > 0
        assert costs_of(candidate).bytes > 0


def test_what_was_chosen_can_be_read_again(run: Path, outcome: SelectOutcome) -> None:
    found = load_candidates(run / "chosen")
    assert [each.summary() for each in found] == json.loads(json.dumps([each.summary() for each in outcome.chosen]))
    for again, chosen in zip(found, outcome.chosen, strict=True):
        row = np.full((1, len(chosen.facts.schema.names if chosen.facts.schema else ())), 8.0)
        assert deployed_of(again).predict(row) == pytest.approx(deployed_of(chosen).predict(row))


def test_choosing_again_replaces_what_was_chosen_and_measures_nothing(trained_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained_run, tmp_path / "desk")
    select_run(run, Budget())
    known = (run / "candidates" / "costs.json").stat().st_mtime_ns
    calls: list[int] = []
    outcome = select_run(run, Budget("small"), on_progress=lambda done, planned: calls.append(done))
    assert calls == []
    assert (run / "candidates" / "costs.json").stat().st_mtime_ns == known
    assert len(load_candidates(run / "chosen")) == len(outcome.chosen) == 2
    assert load_leaderboard(run).budget["mode"] == "small"


def test_a_leaderboard_has_every_column_for_every_candidate(run: Path, outcome: SelectOutcome) -> None:
    board = load_leaderboard(run)
    assert board == outcome.leaderboard
    assert all(tuple(row) == COLUMNS for row in board.rows)
    singles = [row for row in board.rows if row["kind"] == "linear" and "+" not in row["candidate"]]
    assert sorted(row["candidate"] for row in singles) == sorted([*GOOD, "test-broken"])
    assert sum(row["chosen"] for row in board.rows) == 2
    assert all(row["pareto"] for row in board.rows if row["chosen"])


def test_a_failed_candidate_is_a_row_with_its_reason(outcome: SelectOutcome) -> None:
    (row,) = arranged(outcome.leaderboard.rows, kinds=["linear"], candidates=["test-broken"])
    assert row["note"] == "RuntimeError: this family always fails"
    assert row["mape"] is None


def test_rows_say_what_the_candidate_scored(outcome: SelectOutcome) -> None:
    for candidate in outcome.chosen:
        (row,) = arranged(outcome.leaderboard.rows, kinds=[candidate.kind], chosen=True)
        assert row["coverage"] == scores_of(candidate).coverage.covered
        assert row["mape"] == scores_of(candidate).test.mape
        assert row["noise_median"] < 0.05
        assert row["us_1"] == costs_of(candidate).us_1


def test_schemes_end_with_the_chosen_one(outcome: SelectOutcome) -> None:
    found = [scheme["name"] for scheme in outcome.leaderboard.schemes]
    assert found == [
        *("only median", "only ridge", "only roofline", "only test-law"),
        *("best per kind", "efficient per kind", "ensemble per kind", "chosen"),
    ]
    chosen = outcome.leaderboard.schemes[-1]
    assert chosen["gain"]["value"] == 0
    assert chosen["accuracy"] == pytest.approx(1 - chosen["mape"])


def test_the_gain_is_over_the_best_single_regressor_where_there_is_no_medn(outcome: SelectOutcome) -> None:
    gain = outcome.leaderboard.gain
    assert gain["over"] in ("only ridge", "only roofline", "only test-law")
    assert gain["accuracy"]["low"] <= gain["accuracy"]["value"] <= gain["accuracy"]["high"]


def test_the_front_holds_the_most_accurate_and_the_cheapest(outcome: SelectOutcome) -> None:
    for resource in ("us", "bytes"):
        found = [each for each in outcome.leaderboard.front if each["resource"] == resource]
        assert found[0]["validation_mape"] == min(each["validation_mape"] for each in found)
        assert found[-1][resource] == min(each[resource] for each in found)
        assert found[0]["picks"].keys() == {"made-up/activation", "made-up/linear"}


def test_the_csv_has_the_same_rows(run: Path, outcome: SelectOutcome) -> None:
    with (run / "leaderboard.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["candidate"] for row in rows] == [row["candidate"] for row in outcome.leaderboard.rows]
    assert float(rows[0]["mape"]) == outcome.leaderboard.rows[0]["mape"]


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(max_us=1e-3), "no selection keeps within 0.001 us a row. The nearest possible: "),
        (Budget(weights={"linea": 2.0}), "no trained layer kind named 'linea'. Did you mean 'linear'?"),
    ],
)
def test_what_is_impossible_changes_nothing(run: Path, outcome: SelectOutcome, budget: Budget, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        select_run(run, budget)
    assert words in str(refused.value)
    assert load_leaderboard(run) == outcome.leaderboard


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": 2}'])
def test_a_damaged_leaderboard_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "leaderboard.json").write_text(text)
    with pytest.raises(StoreError, match="medn select"):
        load_leaderboard(tmp_path)


def test_rows_are_sorted_within_their_kind_with_the_best_first(outcome: SelectOutcome) -> None:
    for column, sign in (("mape", 1), ("r2", -1)):
        rows = arranged(outcome.leaderboard.rows, column, ["linear"])
        values = [sign * row[column] for row in rows if row[column] is not None]
        assert values == sorted(values)
        assert rows[-1]["candidate"] == "test-broken"


def test_devices_are_chosen_for_apart(write_run: WriteRun, tmp_path: Path) -> None:
    both = write_run(tmp_path / "both", devices=("one", "a/b"), layers=20, activations=0)
    train_run(both, seconds=1.0, families=("median", "roofline"))
    outcome = select_run(both, Budget())
    assert [each.device for each in outcome.chosen] == ["a/b", "one"]
    assert {each.device for each in load_candidates(both / "chosen")} == {"a/b", "one"}


def copied(trained_run: Path, folder: Path) -> Path:
    return shutil.copytree(trained_run, folder / "desk")


def spoilt(run: Path, kind: str) -> None:
    """Let every candidate of a kind have failed."""
    for path in (run / "candidates" / "made-up" / kind).glob("*/candidate.json"):
        facts = json.loads(path.read_text())
        path.write_text(json.dumps({**facts, "reason": "it crashed"}))


def test_a_kind_without_a_usable_candidate_is_told_and_stays_on_the_leaderboard(
    trained_run: Path, tmp_path: Path
) -> None:
    run = copied(trained_run, tmp_path)
    spoilt(run, "activation")
    outcome = select_run(run, Budget())
    assert [each.kind for each in outcome.chosen] == ["linear"]
    (lost,) = outcome.lost
    assert lost.sentence == "activation on made-up: it crashed"
    rows = [row for row in outcome.leaderboard.rows if row["kind"] == "activation"]
    assert {row["note"] for row in rows} == {"it crashed"}
    assert not any(row["chosen"] for row in rows)


def test_choosing_for_one_kind_keeps_the_others_as_they_were(trained_run: Path, tmp_path: Path) -> None:
    run = copied(trained_run, tmp_path)
    before = {each.kind: each.regressor for each in select_run(run, Budget()).chosen}
    outcome = select_run(run, Budget("small"), kinds=["linear"])
    after = {each.kind: each.regressor for each in load_candidates(run / "chosen")}
    assert after.keys() == {"activation", "linear"}
    assert after["activation"] == before["activation"]
    assert (outcome.kept, outcome.lost) == (("activation",), ())
    assert {row["kind"] for row in outcome.leaderboard.rows if row["chosen"]} == {"activation", "linear"}


def test_what_was_chosen_before_stays_though_its_candidates_are_stale(trained_run: Path, tmp_path: Path) -> None:
    run = copied(trained_run, tmp_path)
    before = {each.kind: each.regressor for each in select_run(run, Budget()).chosen}
    spoilt(run, "activation")
    select_run(run, Budget("small"), kinds=["linear"])
    after = {each.kind: each.regressor for each in load_candidates(run / "chosen")}
    assert after["activation"] == before["activation"]


def test_a_kind_alone_is_chosen_alone_where_nothing_was_chosen_before(trained_run: Path, tmp_path: Path) -> None:
    outcome = select_run(copied(trained_run, tmp_path), Budget(), kinds=["linear"])
    assert ([each.kind for each in outcome.chosen], outcome.kept) == (["linear"], ())


def test_a_kind_that_cannot_be_chosen_changes_nothing(trained_run: Path, tmp_path: Path) -> None:
    run = copied(trained_run, tmp_path)
    select_run(run, Budget())
    spoilt(run, "activation")
    with pytest.raises(StoreError, match="nothing can be chosen for activation on made-up: it crashed"):
        select_run(run, Budget(), kinds=["activation"])
    assert {each.kind for each in load_candidates(run / "chosen")} == {"activation", "linear"}


def test_the_size_budget_bounds_the_file(run: Path, outcome: SelectOutcome) -> None:
    """Over all budgets between the smallest possible and more than enough."""
    with pytest.raises(UsageError, match="kB") as refused:
        select_run(run, Budget(max_kb=0.1))
    least = float(str(refused.value).split("possible: ")[1].split(" ")[0])
    sizes = []
    for max_kb in np.geomspace(least, 10 * least, 6):
        chosen = select_run(run, Budget(max_kb=float(max_kb))).chosen
        sizes.append(bundle_run(run, chosen, run / "bounded.medn").stat().st_size)
        assert sizes[-1] <= 1000 * max_kb
    assert sizes[0] > 0.95 * 1000 * least


def test_the_bytes_of_a_candidate_are_what_it_adds_to_the_file(run: Path, outcome: SelectOutcome) -> None:
    size = bundle_run(run, outcome.chosen, run / "desk.medn").stat().st_size
    told = outcome.leaderboard.fixed_bytes + sum(costs_of(each).bytes for each in outcome.chosen)
    assert size <= told <= size + 30 * len(outcome.chosen)
