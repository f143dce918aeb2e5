"""What a bundle predicts of one kind as an ONNX model: columns of plain parameters in, predictions out.

The programs are those that every other engine runs. A row that the kind does not allow is not a number in all outputs.
"""

from __future__ import annotations

import json

import numpy as np

from medn.core.errors import UsageError
from medn.estimator.estimator import Estimator
from medn.program.onnx_engine import Model
from medn.program.symbols import NOT_TRACED

OUTPUTS = ("latency_s", "low_s", "high_s")


def onnx_model(estimator: Estimator) -> bytes:
    """Raises a UsageError where formulas or forms are of a sort that cannot be written so."""
    try:
        return _written(estimator)
    except NOT_TRACED as error:
        raise UsageError(f"{estimator.kind.name} cannot be written as ONNX: {error}") from None


def _written(estimator: Estimator) -> bytes:
    programs, quantities = estimator.answering.programs, estimator.answering.quantities
    query, model = programs.query, Model()
    writer, graph = model.writer, model.graph
    columns = {
        name: model.strings(name, programs.strings.codes[name]) if parameter.type is str else model.numbers(name)
        for name, parameter in query.parameters.items()
    }
    unsaid = graph.step("Mul", writer.longest, writer.number(0.0))
    row = model.row([columns.get(name, unsaid) for name in query.names])
    good, matching, inputs = writer.program(programs.program(query.parameters.keys()), row)
    *told, inside = _reordered(writer.program(quantities.program(tuple(estimator.further)), inputs))
    for name, value in zip((*OUTPUTS, *estimator.further), told, strict=True):
        model.result(name, graph.step("Where", writer.cast(good, "bool"), value, writer.number(np.nan)))
    model.result("in_range", graph.step("Mul", graph.step("Mul", good, matching), inside), "bool")
    facts = {
        "kind": estimator.kind.name,
        "device": estimator.device,
        "level": repr(estimator.level),
        "defaults": json.dumps(query.defaults),
    }
    about = f"What {estimator.kind.name} layers cost on {estimator.device}, by medn"
    return graph.model(estimator.kind.name, about, facts)


def _reordered(results: list[str]) -> list[str]:
    """Whether a row is inside comes last."""
    latency, low, high, inside, *further = results
    return [latency, low, high, *further, inside]
