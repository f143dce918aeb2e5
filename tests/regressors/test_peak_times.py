"""Times at the peaks of data sheets as a form."""

from __future__ import annotations

import numpy as np
import pytest

from medn.program.engines import machine
from medn.program.symbols import traced
from medn.regressors.form import restore
from medn.regressors.forms.peak_times import PeakTimes
from medn.regressors.forms.roofline import Columns

INPUTS = np.array([[1e9, 4e6, 1e6], [0.0, 1e3, 1e3]])
"""FLOPs, bytes read and bytes written."""

FORM = PeakTimes(
    Columns(0, (1, 2), None, None),
    np.array([[1e12, 1e11, 1e5], [2e12, 5e11, 1e5]]),
    np.array([-1.0, 1.0]),
)


def test_it_adds_up_arithmetic_traffic_and_overhead() -> None:
    first = 1e9 / 1e12 + 5e6 / 1e11 + 1e-5
    second = 1e9 / 2e12 + 5e6 / 5e11 + 1e-5
    assert FORM.log_value(INPUTS)[0] == pytest.approx(np.log(second / first))


def test_it_is_written_and_read() -> None:
    assert restore(FORM.parts(), 3).log_value(INPUTS) == pytest.approx(FORM.log_value(INPUTS))


def test_it_is_a_program() -> None:
    program = traced(3, lambda inputs: [FORM.log_value(inputs)])  # type: ignore[arg-type]
    assert machine(program).run(INPUTS.T)[0] == pytest.approx(FORM.log_value(INPUTS), rel=1e-6)


@pytest.mark.parametrize(
    ("rates", "weights"),
    [(np.zeros((1, 3)), np.ones(1)), (np.ones((2, 3)), np.ones(1)), (np.ones((0, 3)), np.ones(0))],
)
def test_what_cannot_be_evaluated_is_refused(rates: np.ndarray, weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="device"):
        PeakTimes(FORM.columns, rates, weights).check(3)
