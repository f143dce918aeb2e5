"""What a search measured of a task corrects what is said of programs alike."""

from __future__ import annotations

import numpy as np

from medn.programs.correction import TaskCorrection, whole_rows
from medn.programs.encodings import ENCODINGS
from medn.programs.programs import MeasuredPrograms

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(60, 3))
SCORES = RANDOM.normal(size=60)
SECONDS = np.exp(-SCORES - 2 * np.sin(ROWS[:, 0]))


def test_nothing_is_corrected_before_anything_is_measured() -> None:
    np.testing.assert_array_equal(TaskCorrection().corrected(ROWS, SCORES), SCORES)


def test_programs_alike_are_ranked_better_the_more_is_measured() -> None:
    correction, right = TaskCorrection(), []
    for until in (0, 15, 40):
        if until:
            correction.learn(ROWS[until - 15 : until], SCORES[until - 15 : until], SECONDS[until - 15 : until])
        told = correction.corrected(ROWS[40:], SCORES[40:])
        right.append(np.corrcoef(told, -np.log(SECONDS[40:]))[0, 1])
    assert right[0] < right[1]
    assert right[2] > right[0] + 0.2


def test_failed_trials_count_as_slow_and_alone_teach_nothing() -> None:
    correction = TaskCorrection()
    correction.learn(ROWS[:8], SCORES[:8], np.full(8, np.nan))
    assert len(correction) == 0
    correction.learn(ROWS[:8], SCORES[:8], np.where(np.arange(8) == 3, np.nan, SECONDS[:8]))
    assert np.isfinite(correction.corrected(ROWS, SCORES)).all()


def test_every_encoding_gives_rows_that_can_be_compared(programs: MeasuredPrograms, devices: tuple[str, ...]) -> None:
    for name, encoding in ENCODINGS.items():
        rows = whole_rows(encoding.rows(programs.programs[:5], devices), name)
        assert rows.shape[0] == 5
        assert np.isfinite(rows).all()
