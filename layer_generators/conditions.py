"""The conditions part of a sweep config: under which circumstances layers are measured."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from medn.core.config import Section, raise_mistakes
from medn.core.domains import Domain, Fixed, parse_domain, wrong_parts
from medn.core.values import CACHE_STATES, CONDITION_COLUMNS, ELEMENT_BYTES, MAXIMUM_UTILIZATION
from medn.layer_generators.kind import by_name, choice, integer
from medn.layer_generators.schema import Schema, domain_schema, value_schema

_CONDITIONS = by_name(
    integer("batch_size", "inputs per call", 1, 65_536),
    choice("cache", "whether a layer finds its data in the cache", CACHE_STATES),
    choice("dtype", "number format of data and weights", tuple(ELEMENT_BYTES)),
    integer("threads", "threads the device may use", 1, 1024),
)


def condition_mistake(name: str, value: object) -> str | None:
    """What is wrong with the value of a condition, without its name; None if nothing is."""
    if name in _CONDITIONS:
        return _CONDITIONS[name].mistake(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAXIMUM_UTILIZATION:
        return f"must be a number from 0 to {MAXIMUM_UTILIZATION} (got {value!r})"
    return None


class Conditions(Section):
    """The circumstances layers are measured under, a domain each."""

    batch_size: Domain = Fixed(1)
    utilization: Domain = Fixed(0.0)
    cache: Domain = Fixed("hot")
    dtype: Domain = Fixed("fp32")
    threads: Domain = Fixed(1)
    per_layer: int | None = Field(
        default=None, ge=1, description="how many are drawn for each layer; all where left out"
    )

    @field_validator(*CONDITION_COLUMNS, mode="plain")
    @classmethod
    def _read_domain(cls, written: object, info: ValidationInfo) -> Domain:
        domain, name = parse_domain(written), str(info.field_name)
        raise_mistakes(wrong_parts(domain, lambda value: condition_mistake(name, value)))
        return domain

    @property
    def domains(self) -> dict[str, Domain]:
        return {name: getattr(self, name) for name in CONDITION_COLUMNS}


def conditions_schema() -> dict[str, Schema]:
    """The JSON Schema of every condition."""
    schemas = {name: domain_schema(value_schema(known), known.about) for name, known in _CONDITIONS.items()}
    utilization = {"type": "number", "minimum": 0, "maximum": MAXIMUM_UTILIZATION}
    return schemas | {"utilization": domain_schema(utilization, "share of the device that other work holds")}
