"""The sentences of a report follow from its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from medn.report.content import Content, KindContent
from medn.report.summary_text import advice, summary, verdict

Change = Callable[..., Content]


@pytest.fixture
def changed(content: Content) -> Change:
    """The same content where the chosen rows of all kinds say something else."""

    def change(**facts: Any) -> Content:
        return replace(content, kinds=tuple(with_row(kind, **facts) for kind in content.kinds))

    return change


def with_row(kind: KindContent, **facts: Any) -> KindContent:
    return replace(kind, rows=tuple({**row, **facts} if row["chosen"] else row for row in kind.rows))


@pytest.mark.parametrize(
    ("mape", "median", "noise", "expected"),
    [
        (0.06, 0.04, 0.01, "good"),
        (0.12, 0.09, 0.05, "fair"),
        (0.12, 0.09, 0.01, "fair"),
        (0.12, 0.09, None, "fair"),
        (0.16, 0.04, 0.05, "poor"),
    ],
)
def test_the_verdict_is_by_the_error_and_no_better_on_a_noisier_machine(
    content: Content, mape: float, median: float, noise: float | None, expected: str
) -> None:
    assert verdict(with_row(content.kinds[0], mape=mape, median=median, noise_median=noise)) == expected


def test_the_summary_says_what_was_measured_and_how_good_it_is(changed: Change) -> None:
    said = summary(changed(mape=0.08, median=0.04, noise_median=0.02, us_1=12.0, bytes=1500, coverage=0.9))
    assert said[0] == "This run holds 138 measured points of 2 layer kinds on made-up (imported from a law)."
    assert "half of the predictions are within 4.0 % of the measurement, and the mean error is 8.0 %" in said[1]
    assert "repeat within 2.0 %" in said[1]
    assert said[2] == (
        "Accurate: activation (8.0 %) and linear (8.0 %). Close to what the measurements allow: activation and linear."
    )
    assert said[3] == "The chosen predictors take 12 to 12 us for one prediction and 3 kB in all."


def test_bad_kinds_are_called_bad(changed: Change) -> None:
    assert "Not to be relied on yet: activation (40.0 %) and linear (40.0 %)." in summary(changed(mape=0.4))


def test_unknown_noise_is_called_unknown(changed: Change) -> None:
    said = summary(changed(noise_median=None, mape=0.04, median=0.02))
    assert "How well the measurements of activation and linear repeat is not known" in said[1]
    assert "what the measurements allow" not in said[2]


def test_measuring_again_is_advised_only_where_the_noise_explains_the_error(changed: Change) -> None:
    assert not any("again" in sentence for sentence in advice(changed(mape=0.4, median=0.5, noise_median=0.06)))


def test_points_with_wrong_outputs_are_told(content: Content) -> None:
    first, second = content.kinds
    source = replace(first.source, left_out={"wrong: the output differs": 3})
    said = advice(replace(content, kinds=(replace(first, source=source), second)))
    assert any("left out (3 of activation): do not trust them" in sentence for sentence in said)


def test_intervals_that_hold_too_little_are_named(changed: Change) -> None:
    assert "too few for activation and linear, beyond what chance explains" in summary(changed(coverage=0.3))[-1]
    assert summary(changed(coverage=0.88))[-1].endswith("as far off as chance explains.")
    assert any(sentence.startswith("Do not lean on the intervals of") for sentence in advice(changed(coverage=0.3)))


@pytest.mark.parametrize(
    ("facts", "opening"),
    [
        (
            {"mape": 0.4, "noise_median": 0.2, "median": 0.3},
            "Measure activation and linear again, on a quieter machine",
        ),
        ({"mape": 0.4, "noise_median": 0.01}, "Measure more layers of activation and linear: 30 and 39 different ones"),
    ],
)
def test_advice_names_the_likely_cause(changed: Change, facts: dict[str, Any], opening: str) -> None:
    assert advice(changed(**facts))[0].startswith(opening)


def test_points_that_could_not_be_used_are_mentioned(content: Content) -> None:
    assert any("could not be used (2 of linear)" in sentence for sentence in advice(content))


def test_a_regressor_that_was_hardly_tuned_is_to_be_trained_longer(changed: Change) -> None:
    content = changed(mape=0.4)
    kinds = [
        replace(kind, histories=dict.fromkeys(kind.candidate.regressor.split("+"), (0.4, 0.3)))
        for kind in content.kinds
    ]
    assert any(sentence.startswith("Train longer") for sentence in advice(replace(content, kinds=tuple(kinds))))


def test_several_devices_are_told_apart(content: Content) -> None:
    first, second = content.kinds
    said = summary(replace(content, kinds=(replace(first, device="phone"), second)))
    assert "on made-up and phone" in said[0]
    assert "activation on phone" in said[2]
