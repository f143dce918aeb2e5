"""Training a run end to end on a made-up device: candidates, reasons, resuming, and nothing half done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from medn.core.errors import NothingMeasured, StoreError, UsageError
from medn.core.splits import Split
from medn.deployed.candidate import Candidate, scores_of
from medn.deployed.packing import pack, unpack
from medn.regressors.form import Parts
from medn.runs.tables import kind_table, read_source
from medn.training.candidate_store import load_candidate, load_candidates, save_candidate
from medn.training.train_run import TrainOutcome, train_run
from medn.training.tuning import open_journal
from tests.conftest import load_plugins

WriteRun = Callable[..., Path]


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path, plain_regressors: ModuleType) -> Path:
    return write_run(tmp_path / "run", memory_bytes=None)


def trained(run: Path, *families: str, **options: Any) -> TrainOutcome:
    return train_run(run, **{"seconds": 20.0, "families": families or ("median", "test-law"), **options})


def by_place(outcome: TrainOutcome) -> dict[tuple[str, str], Candidate]:
    return {(each.kind, each.regressor): each for each in outcome.candidates}


class Finished(NamedTuple):
    """A run that was trained. Copy it before changing anything."""

    run: Path
    outcome: TrainOutcome
    progress: list[tuple[int, int, int]]


@pytest.fixture(scope="module")
def finished(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    run = write_run(tmp_path_factory.mktemp("finished") / "run", memory_bytes=None)
    seen: list[tuple[int, int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "plain_regressors")
        outcome = trained(run, seed=3, on_progress=lambda done, planned, made: seen.append((done, planned, len(made))))
    return Finished(run, outcome, seen)


@pytest.fixture
def finished_copy(finished: Finished, tmp_path: Path, plain_regressors: ModuleType) -> Path:
    found: Path = shutil.copytree(finished.run, tmp_path / "finished")
    return found


def test_every_kind_and_family_becomes_a_candidate(finished: Finished) -> None:
    outcome = finished.outcome
    assert set(by_place(outcome)) == {
        (kind, family) for kind in ("activation", "linear") for family in ("median", "test-law")
    }
    assert (outcome.trained, outcome.refused) == (4, ())


def test_the_law_is_found_and_the_best_is_chosen_on_validation(finished: Finished) -> None:
    outcome = finished.outcome
    assert [(each.kind, each.regressor) for each in outcome.best()] == [
        ("activation", "test-law"),
        ("linear", "test-law"),
    ]
    best = outcome.best()[1]
    assert scores_of(best).test.mape < 0.1
    assert abs(best.facts.settings["slope"] - 0.8) < 0.1


def test_a_candidate_says_all_that_is_known(finished: Finished) -> None:
    candidate = by_place(finished.outcome)["linear", "test-law"]
    assert sum(candidate.facts.split_sizes.values()) == 78
    scores = scores_of(candidate)
    assert scores.test_inside is not None
    assert (scores.test_outside is not None) == (scores.outside > 0)
    assert candidate.facts.noise is not None
    assert candidate.facts.noise.median < 0.05
    assert candidate.facts.inputs == {"inputs": ["raw", "analytic", "hardware", "probes"], "drop": ["bias"]}
    assert candidate.facts.constants["dtype"] == "fp32"
    assert candidate.facts.left_out == {"failed: no such kernel": 2}
    assert candidate.facts.trials.made > 1
    assert 0 < candidate.row_us < 10_000
    assert candidate.size_bytes > 0
    assert 0.5 <= scores.coverage.covered <= 1
    assert (candidate.facts.seed, candidate.facts.split, candidate.facts.budget_s) == (3, "random", 20.0)
    assert candidate.facts.target["idle"]


def test_a_saved_candidate_predicts_intervals_and_range_alike(finished: Finished) -> None:
    run = finished.run
    (candidate,) = (
        each for each in load_candidates(run / "candidates") if (each.kind, each.regressor) == ("linear", "test-law")
    )
    table = kind_table(read_source(run), "linear", device="made-up").table
    assert candidate.deployed is not None
    assert candidate.facts.schema == candidate.deployed.schema == table.schema
    predicted_s, low_s, high_s, inside = candidate.deployed.answer(table.inputs)
    assert np.median(np.abs(predicted_s / table.target - 1)) < 0.1
    assert ((low_s <= table.target) & (table.target <= high_s)).mean() > 0.7
    assert inside.mean() > 0.8


def test_the_history_of_the_search_is_kept(finished: Finished) -> None:
    (journal,) = (finished.run / "candidates" / "made-up" / "linear" / "test-law").glob("*.journal")
    assert open_journal(journal).trials[0].params == {"slope": 0.5}


FAILING = {
    "test-broken": "RuntimeError: this family always fails",
    "test-lying": "the deployed form differs by 0.01 from the fitted regressor",
    "test-hasty": "it has learned nothing: an error of ",
    "test-absent": "test-absent needs no_such_library: pip install 'medn[train]'",
}


@pytest.fixture(scope="module")
def failing(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    run = write_run(tmp_path_factory.mktemp("failing") / "run", memory_bytes=None)
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "plain_regressors")
        return Finished(run, trained(run, "median", *FAILING, kinds=["linear"]), [])


@pytest.mark.parametrize("family", list(FAILING))
def test_a_family_that_fails_is_a_row_with_the_reason(failing: Finished, family: str) -> None:
    assert by_place(failing.outcome)["linear", family].reason.startswith(FAILING[family])


def test_families_that_fail_are_kept_beside_the_good_ones(failing: Finished) -> None:
    assert [each.regressor for each in failing.outcome.best()] == ["median"]
    assert {each.regressor: each.is_good for each in load_candidates(failing.run / "candidates")} == {
        "median": True,
        **dict.fromkeys(FAILING, False),
    }


def test_a_candidate_knows_its_error_beyond_the_least_work(write_run: WriteRun, run: Path) -> None:
    large = write_run(run.parent / "large", layers=100, activations=0)
    candidate = by_place(trained(large, "median"))["linear", "median"]
    extrapolation = scores_of(candidate).extrapolation
    assert extrapolation is not None
    assert extrapolation.scores.rows >= 8
    assert extrapolation.scores.mape > 0


def test_families_that_share_kinds_are_fitted_once_for_all(run: Path) -> None:
    candidates = by_place(trained(run, "test-shared"))
    first, second = candidates["linear", "test-shared"], candidates["activation", "test-shared"]
    one, two = first.facts, second.facts
    assert (one.settings, one.trials, one.fit_seconds) == (two.settings, two.trials, two.fit_seconds)


def test_a_kind_with_too_few_layers_is_refused_and_the_rest_trained(write_run: WriteRun, run: Path) -> None:
    few = write_run(run.parent / "few", activations=5)
    outcome = trained(few, "median")
    (refused,) = outcome.refused
    assert (refused.kind, refused.reason) == ("activation", "too few different layers to learn from: 5, needed 8")
    assert [each.kind for each in outcome.candidates] == ["linear"]


def test_nothing_but_refused_kinds_is_said(write_run: WriteRun, run: Path) -> None:
    with pytest.raises(NothingMeasured, match="activation on made-up: too few different layers"):
        trained(write_run(run.parent / "few", activations=5), "median", kinds=["activation"])


def test_finished_candidates_are_not_fitted_again(finished: Finished, finished_copy: Path) -> None:
    again = trained(finished_copy, seed=3)
    assert again.trained == 0
    assert [each.summary() for each in again.candidates] == json.loads(
        json.dumps([each.summary() for each in finished.outcome.candidates])
    )


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"without_unstable": True}, {"seconds": 21.0}], ids=["seed", "rows", "time"]
)
def test_what_changes_the_answer_trains_again(finished_copy: Path, change: dict[str, Any]) -> None:
    assert trained(finished_copy, "test-law", kinds=["linear"], **{"seed": 3, **change}).trained == 1


def test_more_time_goes_on_with_the_search(run: Path) -> None:
    first = trained(run, "test-law", kinds=["linear"], seconds=0.5).candidates[0]
    more = trained(run, "test-law", kinds=["linear"], seconds=4.0).candidates[0]
    assert more.facts.trials.made >= first.facts.trials.made
    assert scores_of(more).validation.mape <= scores_of(first).validation.mape + 1e-9


def test_damaged_arrays_are_noticed_and_trained_again(finished_copy: Path) -> None:
    folder = finished_copy / "candidates" / "made-up" / "linear" / "median"
    (folder / "arrays.safetensors").write_bytes(b"something else")
    with pytest.raises(StoreError, match=r"arrays.safetensors is not the one it was saved with"):
        load_candidate(folder)
    assert trained(finished_copy, "median", kinds=["linear"], seed=3).trained == 1
    assert load_candidate(folder).is_good


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}'])
def test_a_damaged_candidate_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "candidate.json").write_text(text)
    with pytest.raises(StoreError, match="medn train RUN"):
        load_candidate(tmp_path)


def test_the_same_seed_trains_the_same(write_run: WriteRun, run: Path) -> None:
    other = write_run(run.parent / "other", memory_bytes=None)
    first, second = (
        by_place(trained(each, "median", "roofline", seed=5, seconds=60.0))["linear", "roofline"]
        for each in (run, other)
    )
    assert first.scores == second.scores
    assert first.facts.key == second.facts.key


SCRIPT = """
from pathlib import Path
from medn.training.train_run import train_run
train_run(Path({run!r}), seconds=30.0, families=("median", "test-stuck"))
"""


def test_a_killed_training_goes_on_where_it_stopped(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = run / "stuck"
    monkeypatch.setenv("MEDN_TEST_STUCK", str(stuck))
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(run=str(run))])
    deadline = time.monotonic() + 60
    while not stuck.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait()
    finished = load_candidates(run / "candidates")
    assert {each.regressor for each in finished} == {"median"}
    monkeypatch.delenv("MEDN_TEST_STUCK")
    outcome = trained(run, "median", "test-stuck", seconds=30.0, kinds=["linear"])
    assert outcome.trained == 1
    assert all(each.is_good for each in outcome.candidates)


def test_processes_give_what_one_process_gives(write_run: WriteRun, run: Path) -> None:
    other = write_run(run.parent / "other", memory_bytes=None)
    one, two = (trained(each, "median", "linear", jobs=jobs) for each, jobs in ((run, 1), (other, 2)))
    assert [each.scores for each in one.candidates] == [each.scores for each in two.candidates]


def test_progress_counts_to_the_end(finished: Finished) -> None:
    assert [done for done, _, _ in finished.progress] == [1, 2, 3, 4]
    assert {planned for _, planned, _ in finished.progress} == {4}


def test_devices_are_trained_apart(write_run: WriteRun, run: Path) -> None:
    both = write_run(run.parent / "both", devices=("one", "a/b"))
    outcome = trained(both, "median", kinds=["linear"])
    assert {each.device for each in outcome.candidates} == {"one", "a/b"}
    assert {each.device for each in load_candidates(both / "candidates")} == {"one", "a/b"}


def test_a_device_left_out_is_tested_on_from_all_others(write_run: WriteRun, run: Path) -> None:
    both = write_run(run.parent / "both", devices=("one", "two"))
    outcome = trained(both, "test-law", kinds=["linear"], split=Split.parse("device:two"))
    (candidate,) = outcome.candidates
    assert candidate.device == "all-devices"
    assert 0.3 < scores_of(candidate).test.mape < 0.7  # twice as slow as what was learned from
    assert not (both / "candidates").exists()


def test_what_needs_an_absurd_interval_is_not_offered(run: Path) -> None:
    outcome = trained(run, "median", "test-falling", kinds=["linear"])
    assert "an interval must not reach farther" in by_place(outcome)["linear", "test-falling"].reason
    assert {each.regressor for each in load_candidates(run / "candidates") if each.is_good} == {"median"}


def test_beyond_a_range_the_efficiency_is_held(run: Path) -> None:
    outcome = trained(run, "median", kinds=["linear"], split=Split.parse("range:flops:300000"))
    (candidate,) = outcome.candidates
    assert scores_of(candidate).outside > 0.5
    # The median of smaller layers is a fraction of what larger ones take; held, it grows with the work.
    outside = scores_of(candidate).test_outside
    assert outside is not None
    assert (outside.spearman or 0.0) > 0.5
    assert (run / "candidates-range-flops-300000").is_dir()


def test_two_trainings_in_one_folder_are_kept_apart(run: Path) -> None:
    from medn.runs.folder import RunFolder

    with RunFolder(run).locked(), pytest.raises(StoreError, match="in use"):
        trained(run)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kinds": ["linea"]}, "no measured layer kind named 'linea'. Did you mean 'linear'?"),
        ({"families": ["medain"]}, "no regressor named 'medain'. Did you mean 'median'?"),
    ],
)
def test_a_wrong_name_is_said_before_anything_is_trained(run: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        trained(run, **options)
    assert words in str(refused.value)
    assert not (run / "candidates").exists()


def test_forms_inside_forms_are_packed_and_unpacked() -> None:
    leaf = Parts("leaf", {"a": 1}, {"x": np.arange(3)[::-1]})
    parts = Parts("sum", {"b": [1.5]}, {"x": np.ones((2, 2), dtype=np.float32)}, (leaf, leaf))
    again = unpack(*pack(parts))
    assert again.inner[1].facts == {"a": 1}
    assert again.inner[0].arrays["x"].tolist() == [2, 1, 0]
    assert again.arrays["x"].dtype == np.float32


def test_a_full_or_forbidden_folder_is_one_sentence(finished: Finished, tmp_path: Path) -> None:
    candidate = by_place(finished.outcome)["linear", "median"]
    root = tmp_path / "elsewhere"
    (root / "made-up" / "linear" / "median" / "candidate.json").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"cannot write .*candidate.json"):
        save_candidate(root, candidate)
