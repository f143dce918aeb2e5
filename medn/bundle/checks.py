"""What must be true of a candidate read from a file before anything is computed with it.

Every check raises a ValueError with a sentence, or whatever a damaged part makes of it; the reader turns both into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from medn.core.checking import check_name, check_numbers, check_scalars
from medn.core.data_sheet import sheet_mistakes
from medn.core.dtypes import stated_dtypes
from medn.core.text import shown
from medn.deployed.candidate import Candidate
from medn.layer_generators.declared_kind import DeclaredKind

FASTEST = 1e18
"""Bytes per second that no memory reaches."""


def check_candidate(candidate: Candidate) -> None:
    """What predicts has checked itself while it was read; this is what people are told of it."""
    if candidate.deployed is None:
        raise ValueError(f"{candidate.kind} lacks its form, inputs, range or interval")
    for what in ("device", "kind", "regressor"):
        check_name(f"its {what}", getattr(candidate, what))
    for device in candidate.facts.devices:
        check_name("a device that it learned", device)
    if candidate.facts.sheets and not set(candidate.answers_for) <= set(candidate.facts.sheets):
        raise ValueError("not all of its devices have a data sheet, and its inputs follow from data sheets")
    for device, sheet in candidate.facts.sheets.items():
        if mistakes := sheet_mistakes(sheet):
            raise ValueError(f"the data sheet of {shown(device)} says {'; '.join(mistakes)}")
    if stated_dtypes(candidate.facts.dtypes) != dict(candidate.facts.dtypes):
        raise ValueError("it states data types that medn knows already")
    check_numbers("its size", [candidate.size_bytes])
    for scores in (candidate.scores, candidate.costs):
        check_numbers("its scores", _numbers(scores))


def _numbers(values: Any) -> Iterator[Any]:
    """All that scores hold, in however many values inside one another, but strings and what is not known."""
    for value in vars(values).values() if values is not None else ():
        if is_dataclass(value):
            yield from _numbers(value)
        elif value is not None and not isinstance(value, str):
            yield value


def check_rates(written: Mapping[str, Any]) -> dict[str, float]:
    """Bytes per second by device."""
    check_numbers("the rate at which a device reads", written.values(), 1e-3, FASTEST)
    return {str(device): float(rate) for device, rate in written.items()}


def check_compositions(written: Mapping[str, Any]) -> dict[str, dict[str, float | bool]]:
    """Coefficients by device and name; what they mean is known, and checked, where models are predicted."""
    for device, coefficients in written.items():
        check_name("a device that layers compose on", device)
        check_numbers("how layers compose", [value for value in coefficients.values() if not isinstance(value, bool)])
    return {str(device): dict(coefficients) for device, coefficients in written.items()}


def check_usual(usual: Mapping[str, Any], candidate: Candidate) -> None:
    """What stands in for a column that a query leaves out must be what the column holds."""
    numbers = candidate.facts.schema.numeric if candidate.facts.schema else ()
    check_scalars("the usual value", usual)
    for name, value in usual.items():
        if name in numbers and isinstance(value, str):
            raise ValueError(f"the usual value of {name} is a string, and the column holds numbers")


def check_declared(kind: DeclaredKind, candidates: Iterable[Candidate]) -> None:
    """That what is declared are the columns that were learned from: strings where they are strings."""
    for candidate in candidates:
        if kind.name != candidate.kind:
            raise ValueError(f"the declaration of {kind.name} belongs to another layer kind")
        categories = candidate.facts.schema.categories if candidate.facts.schema else {}
        numbers = candidate.facts.schema.numeric if candidate.facts.schema else ()
        for parameter in kind.parameters:
            if parameter.name in (numbers if parameter.type is str else categories):
                raise ValueError(f"{parameter.name} was learned as something else than it is declared to be")


def check_revision(revision: object) -> None:
    if isinstance(revision, bool) or not isinstance(revision, int) or revision < 1:
        raise ValueError("the revision of its layer kind is no number from 1 on")
