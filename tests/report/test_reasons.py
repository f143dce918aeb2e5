"""Why a candidate was chosen, was not, or failed."""

from __future__ import annotations

from typing import Any

import pytest

from medn.report.reasons import reason

CHOSEN = {
    **{"candidate": "ridge", "mape": 0.08, "validation_mape": 0.07, "us_1": 5.0, "bytes": 1000, "load_ms": 1.0},
    **{"chosen": True, "note": ""},
}


@pytest.mark.parametrize(
    ("facts", "budget", "expected"),
    [
        ({"mape": None, "note": "stopped after 5 s"}, {}, "failed: stopped after 5 s"),
        ({"validation_mape": 0.09}, {}, "validation error 9.0 %, chosen 7.0 %"),
        (
            {"validation_mape": 0.07, "us_1": 9.0},
            {},
            "validation error 7.0 %, chosen 7.0 %: no better beyond luck, and dearer",
        ),
        ({"validation_mape": 0.06, "us_1": 2.0}, {}, "validation error 6.0 %, chosen 7.0 %: no better beyond luck"),
        ({"bytes": 60_000}, {"max_kb": 50.0}, "60 kB of the 50 kB that all kinds may take"),
        ({"load_ms": 3.0}, {"max_load_ms": 2.0}, "3 ms of the 2 ms that loading may take"),
        (
            {"validation_mape": 0.05},
            {"max_us": 4.0},
            "validation error 5.0 %, chosen 7.0 %: too dear for the limits, with the other kinds",
        ),
        (
            {"validation_mape": 0.05},
            {"mode": "fast"},
            "validation error 5.0 %, chosen 7.0 %: mode fast took a cheaper one",
        ),
    ],
)
def test_a_candidate_that_was_not_chosen_says_why(facts: dict[str, Any], budget: dict[str, Any], expected: str) -> None:
    assert reason({**CHOSEN, "chosen": False, **facts}, CHOSEN, budget) == expected


def test_what_was_kept_from_before_says_so() -> None:
    kept = {**CHOSEN, "mape": None, "note": "kept as chosen before"}
    assert reason(CHOSEN, CHOSEN, {}) == "chosen"
    assert reason(kept, kept, {}) == "chosen: kept as chosen before"
