"""What ships is chosen on validation tasks within a budget, and opened without what trained it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.bundle.archive import BadBundle, read_archive, write_archive
from medn.core.errors import UsageError
from medn.programs import ProgramPredictor, chosen_candidate, train_programs
from medn.programs.learn import ProgramCandidate
from medn.programs.programs import MeasuredPrograms
from medn.programs.scores import score_programs
from medn.selection.budget import Budget

SETTINGS = {
    "ast_encoder": {"epochs": 3, "width": 16},
    "primitive_attention": {"epochs": 3},
    "xgboost_pooled": {"most_trees": 20},
    "nest_encoder": {"epochs": 3, "width": 16},
    "xgboost_nests": {"most_trees": 20},
    "nest_ensemble": {"nest_encoder": {"epochs": 2, "width": 16}, "xgboost_nests": {"most_trees": 10}},
}


@pytest.fixture(scope="module")
def candidates(programs: MeasuredPrograms) -> list[ProgramCandidate]:
    return train_programs(programs, settings=SETTINGS)


def test_every_family_is_judged_timed_and_weighed(candidates: list[ProgramCandidate]) -> None:
    assert {each.predictor.family for each in candidates} == set(SETTINGS)
    for candidate in candidates:
        row = candidate.row()
        assert row["mape"] > 0
        assert 0 < row["top_1"] <= row["top_5"] <= 1
        assert min(row["us_1"], row["us_100"], row["kB"], row["fit_s"]) > 0


def test_a_budget_chooses_among_those_that_keep_it(candidates: list[ProgramCandidate]) -> None:
    smallest = min(candidates, key=lambda each: each.costs.bytes)
    assert chosen_candidate(candidates, Budget(max_kb=smallest.costs.bytes / 1000)) is smallest
    best = min(candidates, key=lambda each: each.validation.mape)
    assert chosen_candidate(candidates, Budget()) is best


def test_an_impossible_budget_is_refused_with_the_nearest(candidates: list[ProgramCandidate]) -> None:
    with pytest.raises(UsageError, match=r"nearest possible: .* kB"):
        chosen_candidate(candidates, Budget(max_kb=0.01))


def test_an_unknown_family_is_named_with_the_near_miss(programs: MeasuredPrograms) -> None:
    with pytest.raises(UsageError, match="Did you mean 'ast_encoder'"):
        train_programs(programs, families=["ast_encodr"])


def test_programs_that_an_earlier_version_kept_are_still_learned_from(programs: MeasuredPrograms) -> None:
    """It kept no loops."""
    told: list[str] = []
    old = replace(programs, programs=tuple(replace(each, nests=each.nests[:0]) for each in programs.programs))
    found = train_programs(old, families=["xgboost_pooled", "xgboost_nests"], settings=SETTINGS, tell=told.append)
    assert [each.predictor.family for each in found] == ["xgboost_pooled"]
    assert "144 programs were kept without their loops, by an earlier version of medn" in told


def test_top_scores_are_of_the_best_among_those_predicted_fastest(programs: MeasuredPrograms) -> None:
    one = programs.take(programs.groups == 0)
    exact = score_programs(one, one.latency_s, -one.latency_s)
    assert (exact.mape, exact.top_1, exact.top_5, exact.pairs) == (0, 1, 1, 1)
    worst = score_programs(one, 2 * one.latency_s, one.latency_s)
    assert worst.mape == pytest.approx(1)
    assert worst.top_1 == pytest.approx(one.latency_s.min() / one.latency_s.max())
    assert worst.pairs == 0


def test_a_bundle_is_read_without_torch_tvm_and_xgboost(candidates: list[ProgramCandidate], tmp_path: Path) -> None:
    for candidate in candidates:
        candidate.predictor.save(tmp_path / f"{candidate.predictor.family}.medn")
    program = (
        "import sys, pathlib\nfrom medn.programs import ProgramPredictor\n"
        f"for file in pathlib.Path({str(tmp_path)!r}).glob('*.medn'): ProgramPredictor.load(file)\n"
        "print(sorted({'torch', 'tvm', 'xgboost'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_bundle_of_something_else_is_refused_in_one_sentence(
    candidates: list[ProgramCandidate], tmp_path: Path
) -> None:
    file = tmp_path / "programs.medn"
    candidates[0].predictor.save(file)
    manifest, parts = read_archive(file)
    for wrong in ({"content": "layers"}, {"version": 99}, {"encoding": "pooled"}, {"devices": 3}):
        kept = {name: value for name, value in manifest.items() if name not in ("format", "parts")}
        write_archive(file, {**kept, **wrong}, parts)
        with pytest.raises(BadBundle, match="holds no predictor of tensor programs"):
            ProgramPredictor.load(file)


def test_the_leaderboard_tells_test_tasks(candidates: list[ProgramCandidate], programs: MeasuredPrograms) -> None:
    told = {each.test.rows for each in candidates}
    assert told == {int(np.isin(programs.tasks, np.unique(programs.tasks)[:1]).sum())} == {24}
