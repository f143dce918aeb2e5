"""Forms that lean on other devices, and how those devices see a row, say the same in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from medn.core.table import Table
from medn.program.symbols import traced
from medn.regressors.conformance import far_away, make_known_table
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.kernel import Kernel
from medn.regressors.regressor import Effort, regressors
from medn.regressors.sources import Sources
from medn.regressors.views import CODE, FILLED, LARGER, SCALED, SHARE, View
from tests.program.conftest import Run


@pytest.fixture(scope="module")
def table() -> Table:
    return make_known_table(120, seed=1)


@pytest.fixture(
    scope="module", params=["source_stack", "best_source", "lightgbm_on_stack", "gaussian_process_on_stack"]
)
def stack(request: pytest.FixtureRequest, table: Table) -> Form:
    family = regressors[request.param]
    if family.missing() is not None:
        pytest.skip(f"{request.param} is not installed")
    few = table.take(np.arange(40))
    return family.fit(few, table.take(np.arange(40, 60)), family.defaults, Effort(seconds=2.0, seed=1)).export()


def test_every_engine_runs_a_stack(stack: Form, table: Table, run: Run) -> None:
    inputs = np.vstack([table.inputs, far_away(table)])
    program = traced(inputs.shape[1], lambda row: [stack.log_value(row)])  # type: ignore[arg-type]
    found = np.exp(run(program, np.ascontiguousarray(inputs.T))[0])
    assert found == pytest.approx(stack.predict(inputs), rel=1e-5)


VIEW: dict[str, Any] = {
    "constants": np.array([7.0]),
    "operation": np.array([LARGER, SCALED, CODE, FILLED, SHARE, CODE, SCALED], dtype=np.int8),
    "first": np.array([0, 3, 2, 1, 0, 2, 1], dtype=np.int32),
    "second": np.array([1, 0, 0, 0, 1, 1, 0], dtype=np.int32),
    "factors": np.array([[2.0, 1.0, 3.0, 0.25, 1.0, 2.0, -1.0], [0.5, 1.0, 9.0, 1.0, 3.0, 4.0, 1.0]]),
    "codes": np.array([2, 0, 1], dtype=np.int32),
    "low": np.full(7, -50.0),
    "high": np.full(7, 50.0),
    "work": np.array([0, 1], dtype=np.int32),
}


def test_every_engine_sees_a_row_as_another_device_does(run: Run) -> None:
    view = View(**VIEW)
    rows = np.array([[3.0, 8.0, 0.0], [100.0, 1.0, 2.0], [0.0, 0.0, 3.0], [5.0, 90.0, -1.0], [1.0, 4.0, 1.0]])
    law = Affine(np.arange(7, dtype=np.int32), np.arange(1.0, 8.0), constant=500.0, floor=0.5)
    sources = Sources(("other",), (law,), (view,), (0,))
    expected = view.inputs(rows)
    assert expected[:, 2].tolist() == [2.0, 1.0, 9.0, 9.0, 0.0]
    assert expected[:, 5].tolist() == [0.0, 4.0, 4.0, 4.0, 1.0]
    assert expected[:, 4].tolist() == pytest.approx([3 / 27, 100 / 103, 0.0, 5 / 275, 1 / 13], rel=1e-6)
    assert expected[:, 3].tolist() == [1.0, 0.25, 0.0, pytest.approx(22.5 / 23), 1.0]

    def formula(row: Any) -> list[Any]:
        return [sources.logs(row)[:, 0], *(view.inputs(row)[:, place] for place in range(view.width))]

    found = run(traced(3, formula), np.ascontiguousarray(rows.T))
    np.testing.assert_allclose(found[1:], expected.T, rtol=1e-6)
    # What a device takes is not rounded: a last digit of its logarithm in single precision is a millionth.
    np.testing.assert_allclose(found[0], sources.logs(rows)[:, 0], rtol=1e-12)


def test_every_engine_runs_kernels_of_no_points(table: Table, run: Run) -> None:
    """Support vector regression keeps none where its tolerance holds them all."""
    encoding = Encoding.fit(table.schema, table.inputs)
    points = np.empty((0, encoding.width), dtype=np.float32)
    form = Kernel(encoding, points, np.empty(0), constant=-3.0, gamma=0.5)
    program = traced(table.inputs.shape[1], lambda row: [form.log_value(row)])  # type: ignore[arg-type]
    assert run(program, np.ascontiguousarray(table.inputs.T))[0] == pytest.approx(-3.0)
