"""The sentences of a report follow from its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medn.report.content import Content, KindContent
from medn.report.next_steps import next_steps
from medn.report.summary_text import names_of, summary
from medn.report.verdicts import verdict

Change = Callable[..., Content]


@pytest.fixture
def changed(content: Content) -> Change:
    """The same content where the chosen rows of all kinds say something else."""

    def change(**facts: Any) -> Content:
        return replace(content, kinds=tuple(with_row(kind, **facts) for kind in content.kinds))

    return change


def with_row(kind: KindContent, **facts: Any) -> KindContent:
    return replace(kind, rows=tuple({**row, **facts} if row["chosen"] else row for row in kind.rows))


@pytest.mark.parametrize("noise", [None, 0.001, 0.05, 0.5])
@pytest.mark.parametrize(("mape", "expected"), [(0.05, "good"), (0.051, "fair"), (0.15, "fair"), (0.16, "poor")])
def test_the_verdict_is_by_the_error_and_no_better_on_a_noisier_machine(
    content: Content, mape: float, noise: float | None, expected: str
) -> None:
    assert verdict(with_row(content.kinds[0], mape=mape, noise_mean=noise)) == expected


def test_the_summary_says_what_was_measured_and_how_good_it_is(changed: Change) -> None:
    said = summary(changed(mape=0.05, median=0.04, noise_mean=0.03, us_1=12.0, bytes=1500, coverage=0.9))
    assert said[0] == "This run holds 158 measured points of 2 layer kinds on made-up (imported from a law)."
    assert "half of the predictions are within 4.0 % of the measurement, and the mean error is 5.0 %" in said[1]
    assert "repeat within 3.0 % on average" in said[1]
    assert said[2] == (
        "Accurate: activation (5.0 %) and linear (5.0 %). Close to what the measurements allow: activation and linear."
    )
    assert said[3] == "The chosen predictors take 12 to 12 us for one prediction and 3 kB in all."


def test_bad_kinds_are_called_bad(changed: Change) -> None:
    assert "Not to be relied on yet: activation (40.0 %) and linear (40.0 %)." in summary(changed(mape=0.4))


def test_unknown_noise_is_called_unknown(changed: Change) -> None:
    said = summary(changed(noise_mean=None, mape=0.04, median=0.02))
    assert "How well the measurements of activation and linear repeat is not known" in said[1]
    assert "what the measurements allow" not in said[2]


def test_few_tested_layers_are_called_few(content: Content) -> None:
    kind = content.kinds[0]
    few = replace(kind, test=kind.test.take(np.flatnonzero(kind.test.groups == kind.test.groups[0])))
    assert "Tested on too few layers to tell: activation" in summary(replace(content, kinds=(few,)))[2]


def test_points_with_wrong_outputs_are_told(content: Content) -> None:
    first, second = content.kinds
    source = replace(first.source, left_out={"wrong: the output differs": 3})
    said = next_steps(replace(content, kinds=(replace(first, source=source), second)))
    assert any("left out (3 of activation): do not trust them" in step.sentence for step in said)


def test_intervals_that_hold_too_little_are_named(changed: Change) -> None:
    assert "too few for activation and linear, beyond what chance explains" in summary(changed(coverage=0.3))[-1]
    assert summary(changed(coverage=0.88))[-1].endswith("as far off as chance explains.")
    said = next_steps(changed(coverage=0.3))
    assert any(step.sentence.startswith("Do not lean on the intervals of") for step in said)


def test_points_that_could_not_be_used_are_mentioned(content: Content) -> None:
    assert any("could not be used (2 of linear)" in step.sentence for step in next_steps(content))


def test_several_devices_are_told_apart(content: Content) -> None:
    first, second = content.kinds
    said = summary(replace(content, kinds=(replace(first, device="phone"), second)))
    assert "on made-up and phone" in said[0]
    assert "activation on phone" in said[2]


def test_test_points_that_were_never_calm_are_told_apart(changed: Change) -> None:
    said = summary(changed(never_calm=0.25, never_calm_mape=0.2, calm_mape=0.05))[1]
    assert "25.0 % of the test points were never calm" in said
    assert "20.0 %, is partly that of measuring; that of the others is 5.0 %." in said
    assert "never calm" not in " ".join(summary(changed(never_calm=0.0)))


def test_where_all_test_points_were_never_calm_there_are_no_others(changed: Change) -> None:
    said = summary(changed(never_calm=1.0, never_calm_mape=0.2, calm_mape=None))[1]
    assert "is partly that of measuring. " in f"{said} "


def test_of_few_tested_layers_only_what_is_sure_is_told(content: Content) -> None:
    kind = content.kinds[0]
    few = replace(kind, test=kind.test.take(np.flatnonzero(kind.test.groups == kind.test.groups[0])))
    assert verdict(with_row(few, mape=0.01, mape_low=0.005)) == "unclear"
    assert verdict(with_row(few, mape=0.5, mape_low=0.1)) == "unclear"
    assert verdict(with_row(few, mape=0.5, mape_low=None)) == "unclear"
    assert verdict(with_row(few, mape=0.5, mape_low=0.2)) == "poor"


def test_of_many_kinds_some_are_named(content: Content) -> None:
    kinds = tuple(replace(content.kinds[0], kind=f"kind{number}") for number in range(20))
    assert names_of(replace(content, kinds=kinds), kinds).endswith("kind5, kind6 and 13 more")
