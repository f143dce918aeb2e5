"""Programs of any size become rows, and what is filled up changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from medn.programs.encodings import ENCODINGS, HEAD, as_tokens, leaf_rows, pooled_rows, step_rows
from medn.programs.programs import LEAF_SIZE, MeasuredPrograms
from medn.programs.steps import NUMBERS, STEP_SIZE, STEPS, step_vectors

TRACE = [
    [
        ["GetLoops", ["b0"], [], ["l1", "l2"]],
        ["SamplePerfectTile", ["l1"], [2, 64], ["v3", "v4"]],
        ["OfAnotherVersion", ["l1"], [], []],
    ],
    [[1, [7, 3]]],
]


def test_a_row_holds_every_leaf_with_its_place(programs: MeasuredPrograms, devices: tuple[str, ...]) -> None:
    head, mask, positions, vectors = as_tokens(leaf_rows(programs.programs, devices), LEAF_SIZE)
    first = programs.programs[0]
    assert devices[int(head[0, 0])] == first.device
    assert mask[0].sum() == len(first.leaves)
    np.testing.assert_array_equal(positions[0, : len(first.leaves)], first.positions)
    np.testing.assert_array_equal(vectors[0, : len(first.leaves)], first.leaves)
    assert not vectors[0, len(first.leaves) :].any()


def test_programs_have_different_numbers_of_leaves_and_steps(programs: MeasuredPrograms) -> None:
    assert len({len(program.leaves) for program in programs.programs}) > 2
    assert len({len(program.trace[0]) for program in programs.programs}) > 2


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_device_that_is_not_known_is_told_apart(name: str, programs: MeasuredPrograms) -> None:
    program = programs.programs[0]
    known, unknown = (
        ENCODINGS[name].rows([each], (program.device,)) for each in (program, replace(program, device=""))
    )
    assert known.shape == unknown.shape
    assert (known != unknown).sum() == 1


def test_pooled_rows_have_the_width_that_a_bundle_is_checked_with(
    programs: MeasuredPrograms, devices: tuple[str, ...]
) -> None:
    rows = pooled_rows(programs.programs, devices)
    assert rows.shape == (len(programs), ENCODINGS["pooled"].width(len(devices)))
    assert np.isfinite(rows).all()


def test_a_step_is_its_kind_its_decisions_and_its_parameters() -> None:
    vectors = step_vectors(TRACE)
    assert vectors.shape == (3, STEP_SIZE)
    tile = vectors[1]
    assert tile[STEPS.index("SamplePerfectTile")] == 1
    np.testing.assert_allclose(tile[len(STEPS) + 1 :][:NUMBERS], [3, 2, np.log2(3), np.log2(65), 0, 0, 0, 0], rtol=1e-6)


def test_a_step_of_an_unknown_kind_is_still_a_step() -> None:
    assert step_vectors(TRACE)[2, len(STEPS)] == 1


def test_a_program_without_steps_is_a_row_without_tokens(programs: MeasuredPrograms) -> None:
    row = step_rows([replace(programs.programs[0], trace=[[], []])], ("tvm-avx",))
    assert row.shape == (1, HEAD + 2 + STEP_SIZE)
    assert not row[0, HEAD:].any()
