"""What ships says the same in every engine, in the range and beyond it, whether or not an input tells the work."""

from __future__ import annotations

import numpy as np
import pytest

from medn.core.intervals import LEVEL, Interval, Spread
from medn.core.learn_range import learn_range
from medn.core.table import Schema, Table
from medn.deployed.beyond import BOUNDED, EDGE, HELD, WAYS
from medn.deployed.deployed import Deployed
from medn.program.symbols import traced
from medn.regressors.encoding import Encoding
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.kernel import Kernel
from tests.program.conftest import Run

SCHEMAS = {
    "work": Schema(("size", "flops", "function"), {"function": ("relu", "tanh")}),
    "sizes": Schema(("size", "share", "function"), {"function": ("relu", "tanh")}),
    "names": Schema(("first", "second", "third"), dict.fromkeys(("first", "second", "third"), ("a", "b"))),
}
LAW = Affine(np.arange(3, dtype=np.int32), np.array([1.0, 30.0, 5.0]), constant=1.0, floor=0.5)
INTERVAL = Interval(LEVEL, 1.5, 40, Spread(0.1, 1.0, (0.1, 0.2, 0.3, 0.4), 0.05, 0.3), 40, 0.2)


def measured(schema: str) -> Table:
    random = np.random.default_rng(3)
    columns = [random.uniform(2.0, 90.0, 60), random.uniform(0.1, 0.9, 60), random.integers(0, 2, 60)]
    if schema == "names":
        columns = [random.integers(0, 2, 60) for _ in columns]
    inputs = np.column_stack(columns).astype(np.float32).astype(np.float64)
    return Table(SCHEMAS[schema], inputs, np.exp(LAW.log_value(inputs)), np.arange(60).astype(str))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_engine_answers_alike_in_and_out_of_range(schema: str, way: str, run: Run) -> None:
    train = measured(schema)
    shipped = Deployed(LAW, learn_range(train, train), INTERVAL, {}, way)
    far = [[9000.0, 0.5, 0.0], [0.01, 0.5, 1.0], [9000.0, 40.0, -1.0], [50.0, 0.5, 7.0]]
    rows = np.vstack([train.inputs, far])
    expected = shipped.answer(rows)
    assert 0 < expected.inside.sum() < len(rows)
    found = run(traced(3, lambda row: list(shipped.answer(row))), np.ascontiguousarray(rows.T))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, np.array(expected, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize(("way", "times"), [(HELD, 1), (EDGE, 1), (BOUNDED, 2)])
def test_a_form_is_asked_once_of_rows_inside_and_at_the_edge(way: str, times: int) -> None:
    train = measured("work")
    encoding = Encoding.fit(train.schema, train.inputs)
    points = encoding.transform(train.inputs).astype(np.float32)
    form = Kernel(encoding, points, np.full(len(points), 0.1), constant=-3.0, gamma=0.5)
    shipped = Deployed(form, learn_range(train, train), INTERVAL, {}, way)
    program = traced(3, lambda row: list(shipped.answer(row)))  # type: ignore[arg-type]
    assert sum(step.operation == "kernel" for step in program.steps) == times
