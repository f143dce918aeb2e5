"""The conditions part of a sweep config: under which circumstances layers are measured."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from medn.core.config import Section, raise_mistakes
from medn.core.domains import Domain, Fixed, parse_domain, wrong_parts
from medn.core.values import CONDITION_COLUMNS
from medn.layer_generators.condition import CONDITIONS
from medn.layer_generators.schema import Schema, domain_schema, value_schema


def condition_mistake(name: str, value: object) -> str | None:
    """What is wrong with the value of a condition, without its name; None if nothing is."""
    return CONDITIONS[name].mistake(value)


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
    return {name: domain_schema(value_schema(known), known.about) for name, known in CONDITIONS.items()}
