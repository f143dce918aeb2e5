"""Stays at blocks beside a sweep: spread over it, committed one by one, not made twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from medn.blocks.stays import SHORTEST_SWEEP_S, STAY_S, STAYS, BlockStays, Case, affordable, cases_of, stay_s
from medn.runs.folder import RunFolder

TOLD: list[str] = []


def made(folder: RunFolder) -> list[int]:
    """How many visits each block of a run has."""
    with folder.store() as store:
        return [len(visits) for _, visits in store.blocks()]


def test_stays_are_spread_over_a_sweep_and_those_that_are_held_are_not_made_again(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medn.blocks.stays.STAY_S", 0.0)
    folder = RunFolder(tmp_path / "run")
    cases = cases_of([source], ["torch"], (), threads=1)
    with BlockStays(folder, cases, None, TOLD.append) as stays:
        stays.after_visit(1, 100)
        assert made(folder) == [1] * 4
        stays.after_visit(20, 100)
        assert made(folder) == [1] * 4
        stays.after_visit(60, 100)
        assert made(folder) == [2] * 4
        stays.finish()
    assert made(folder) == [STAYS] * 4
    with BlockStays(folder, cases, None, TOLD.append) as again:  # the same command once more
        again.after_visit(1, 100)
        again.finish()
    assert made(folder) == [STAYS] * 4


def test_a_model_that_cannot_be_made_is_told_of_and_left_alone(tmp_path: Path) -> None:
    told: list[str] = []
    with BlockStays(
        RunFolder(tmp_path / "run"), [Case("python:nothing:make", "torch", None, 1)], None, told.append
    ) as stays:
        stays.finish()
    assert len(told) == 1
    assert "nothing" in told[0]
    assert "compose as they usually do" in told[0]


def test_a_short_sweep_has_no_time_for_blocks_and_many_models_share_theirs() -> None:
    cases = cases_of(["a", "b"], ["torch", "onnxruntime"], (1, 4), threads=1)
    assert len(cases) == 8
    assert affordable(cases, SHORTEST_SWEEP_S - 1) == ()
    assert affordable(cases, 2 * SHORTEST_SWEEP_S) == cases[:2]
    assert affordable(cases, None) == cases
    assert stay_s(1, None) == STAY_S
    assert stay_s(8, 100.0) < stay_s(1, 100.0)
