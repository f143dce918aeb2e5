"""Every engine, so that what one says is compared with what formulas say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from medn.core.table import Array
from medn.program.c_engine import CMachine, is_built
from medn.program.numpy_engine import NumpyMachine
from medn.program.onnx_engine import Model
from medn.program.program import Program

Run = Callable[[Program, Array], Array]


def by_onnxruntime(program: Program, columns: Array) -> Array:
    import onnxruntime

    model = Model()
    row = model.row([model.numbers(f"x{place}") for place in range(program.inputs)])
    for place, value in enumerate(model.writer.program(program, row)):
        model.result(f"y{place}", value)
    session = onnxruntime.InferenceSession(model.graph.model("formula"), providers=["CPUExecutionProvider"])
    return np.array(session.run(None, {f"x{place}": column for place, column in enumerate(columns)}))


ENGINES: dict[str, Run] = {
    "numpy": lambda program, columns: NumpyMachine(program).run(columns),
    "c": lambda program, columns: CMachine(program).run(columns),
    "onnx": by_onnxruntime,
}


@pytest.fixture(params=ENGINES)
def run(request: pytest.FixtureRequest) -> Run:
    if request.param == "c" and not is_built():
        pytest.skip("no C engine")
    if request.param == "onnx":
        pytest.importorskip("onnxruntime")
    return ENGINES[request.param]
