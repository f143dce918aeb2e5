"""What must be true of a candidate read from a file before anything is computed with it.

Every check raises a ValueError with a sentence, or whatever a damaged part makes of it; the reader turns both into one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.intervals import Interval
from medn.core.ranges import Range
from medn.core.sheet import sheet_mistakes
from medn.core.table import Array, Schema
from medn.deployed.beyond import WAYS
from medn.layer_generators.declared import DeclaredKind
from medn.pipeline.candidates import Candidate
from medn.regressors.form import Form
from medn.regressors.forms.network import NetworkForm
from medn.regressors.forms.trees import Trees
from medn.regressors.forms.weighted_sum import WeightedSum

FASTEST = 1e18
"""Bytes per second that no memory reaches."""


def check_candidate(candidate: Candidate) -> None:
    deployed = candidate.deployed
    if deployed is None:
        raise ValueError(f"{candidate.kind} lacks its form, inputs, range or interval")
    _check_facts(candidate)
    _check_schema(deployed.schema)
    _check_range(deployed.range, deployed.schema)
    _check_interval(deployed.interval)
    if deployed.way not in WAYS:
        raise ValueError(f"what it does beyond its range is none of {', '.join(WAYS)}")
    check_form(deployed.form, deployed.range.low)
    if deployed.roofline:
        check_form(deployed.roofline, deployed.range.low)


def check_rates(written: Mapping[str, Any]) -> dict[str, float]:
    """Bytes per second by device."""
    for device, rate in written.items():
        if type(rate) not in (int, float) or not 0 < rate < FASTEST:
            raise ValueError(f"the rate at which {device} reads is no number above 0")
    return {str(device): float(rate) for device, rate in written.items()}


def _check_facts(candidate: Candidate) -> None:
    if not all(isinstance(text, str) for text in (candidate.device, candidate.kind, candidate.regressor)):
        raise ValueError("its device, kind or regressor is no text")
    if not all(isinstance(device, str) for device in candidate.devices):
        raise ValueError("the devices that it learned together are no texts")
    for device, sheet in candidate.sheets.items():
        if mistakes := sheet_mistakes(sheet):
            raise ValueError(f"the data sheet of {device} says {'; '.join(mistakes)}")
    for name, constant in candidate.constants.items():
        if not isinstance(constant, (bool, int, float, str)):
            raise ValueError(f"the constant {name} is neither a number nor a text")
    _check_finite("size", [candidate.size_bytes])
    tables: list[Mapping[str, Any]] = [candidate.coverage, *candidate.scores.values()]
    _check_finite("scores", [number for table in tables for number in table.values() if number is not None])


def _check_schema(schema: Schema) -> None:
    texts = [*schema.names, *(name for known in schema.categories.values() for name in known)]
    if not schema.names or not all(isinstance(text, str) for text in texts):
        raise ValueError("the names of its inputs are no texts")
    if len(set(schema.names)) < len(schema.names) or not set(schema.categories) <= set(schema.names):
        raise ValueError("the names of its inputs contradict one another")


def _check_range(known: Range, schema: Schema) -> None:
    width, components = len(schema.names), known.components.shape[1]
    if not known.low.shape == known.high.shape == known.shift.shape == (width,):
        raise ValueError("its range has not one bound per input")
    if known.centres.shape[1] != components or not len(known.centres):
        raise ValueError("the centres of its range do not fit its components")
    for array in (known.low, known.high, known.shift, known.components, known.centres):
        if not np.isfinite(array).all():
            raise ValueError("its range holds a number that is not finite")
    _check_finite("range", (known.slack, known.reach))
    if not (known.reach > 0 and known.slack >= 0 and (known.low <= known.high).all()):
        raise ValueError("its range makes no sense")
    if set(known.seen) != set(schema.categories):
        raise ValueError("the categories of its range are not those of its inputs")
    for name, codes in known.seen.items():
        if not codes or not all(isinstance(code, int) and 0 <= code < len(schema.categories[name]) for code in codes):
            raise ValueError(f"the codes of {name} are none of its categories")


def _check_interval(interval: Interval) -> None:
    spread = interval.spread
    numbers = (interval.level, interval.quantile, interval.calibration_rows, spread.centre, spread.scale)
    since = [number for number in (interval.calibration_layers, interval.widening) if number is not None]
    _check_finite("interval", (*numbers, *since, *spread.weights, spread.low, spread.high))
    if any(number < 0 for number in since):
        raise ValueError("its interval makes no sense")
    if not (0 < interval.level < 1 and interval.quantile >= 0 and interval.calibration_rows >= 0 and spread.scale > 0):
        raise ValueError("its interval makes no sense")
    if len(spread.weights) != 4 or spread.low > spread.high:
        raise ValueError("the spread of its interval makes no sense")


def check_usual(usual: Mapping[str, Any], candidate: Candidate) -> None:
    """What stands in for a column that a query leaves out must be what the column holds."""
    numbers = candidate.schema.numeric if candidate.schema else ()
    for name, value in usual.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"the usual value of {name} is neither a number nor a text")
        if name in numbers and isinstance(value, str):
            raise ValueError(f"the usual value of {name} is a text, and the column holds numbers")


def check_declared(kind: DeclaredKind, candidates: Iterable[Candidate]) -> None:
    """That what is declared are the columns that were learned from: texts where they are texts."""
    for candidate in candidates:
        if kind.name != candidate.kind:
            raise ValueError(f"the declaration of {kind.name} belongs to another layer kind")
        categories = candidate.schema.categories if candidate.schema else {}
        numbers = candidate.schema.numeric if candidate.schema else ()
        for parameter in kind.parameters:
            if parameter.name in (numbers if parameter.type is str else categories):
                raise ValueError(f"{parameter.name} was learned as something else than it is declared to be")


def check_form(form: Form, row: Array) -> None:
    """That a form takes rows like this one. What another library would run is checked without running it there."""
    if isinstance(form, WeightedSum):
        _check_finite("weights", form.weights)
        if not len(form.weights) == len(form.forms) > 0:
            raise ValueError("its weights are not as many as its forms")
        for inner in form.forms:
            check_form(inner, row)
    elif isinstance(form, Trees):
        _check_trees(form, len(row))
    elif isinstance(form, NetworkForm):
        _check_finite("bounds", form.bounds)
        encoded = form.encoding.transform(row[None]).astype(np.float32)
        if encoded.shape[1] != form.encoding.width:
            raise ValueError("its encoding names other columns than it makes")
        with np.errstate(over="ignore"):
            _check_result(form.walk(encoded))
    else:
        _check_result(form.log_latency(row[None]))


def _check_result(found: NDArray[Any]) -> None:
    if found.shape != (1,) or not np.isfinite(found).all():
        raise ValueError("its form does not give one number for one layer")


def _check_trees(form: Trees, width: int) -> None:
    """Children follow their parents within their own tree, so that every walk ends; features are inputs."""
    _check_finite("trees", (form.base, form.width))
    count = len(form.feature)
    if form.width != width or any(array.shape != (count,) for array in (form.number, form.right)):
        raise ValueError("its trees do not fit its inputs")
    if any(array.dtype.kind != "i" for array in (form.feature, form.right, form.roots)):
        raise ValueError("the places in its trees are no whole numbers")
    sizes = np.diff([*form.roots, count])
    if form.roots.ndim != 1 or not len(form.roots) or form.roots[0] != 0 or not (sizes > 0).all():
        raise ValueError("the roots of its trees are not in order")
    place = np.arange(count) - np.repeat(form.roots, sizes)
    in_order = (form.right > place + 1) & (form.right < np.repeat(sizes, sizes))
    if (form.feature < -1).any() or (form.feature >= width).any():
        raise ValueError("its trees ask for inputs that it has not")
    if not (in_order | (form.feature < 0)).all():
        raise ValueError("the branches of its trees lead astray")


def _check_finite(what: str, numbers: Iterable[Any]) -> None:
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        raise ValueError(f"its {what} hold something that is no finite number")
