"""JSON Schemas of what a sweep config may hold, so that an editor can complete and check one."""

from __future__ import annotations

from typing import Any

from medn.core.conditions import CONDITIONS
from medn.layer_generators.kind import LayerKind, Parameter, layer_kinds

Schema = dict[str, Any]


def _ends(value: Schema) -> Schema:
    return {"type": "array", "items": value, "minItems": 2, "maxItems": 2}


def _form(keyword: str, value: Schema, **more: Schema) -> Schema:
    properties = {keyword: value, **more}
    return {"type": "object", "properties": properties, "required": [keyword], "additionalProperties": False}


POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
_WHOLE: Schema = {"type": "integer", "minimum": 1}
DOMAIN_FORMS: dict[str, Schema] = {
    "range": _form("range", _ends({"type": "number"}), step=POSITIVE),
    "log_range": _form("log_range", _ends(_WHOLE), multiple_of=_WHOLE),
    "powers_of_two": _form("powers_of_two", _ends(_WHOLE)),
    "choices": _form("choices", {"type": "object", "additionalProperties": POSITIVE, "minProperties": 1}),
}
"""What `domain_schema` refers to; belongs under `$defs` of the whole schema."""


def domain_schema(value: Schema, about: str) -> Schema:
    """A value, a list of values, or one of the forms a domain can be written in."""
    numeric = {"number": ["range"], "integer": ["range", "log_range", "powers_of_two"]}
    forms = [*numeric.get(value.get("type", ""), []), "choices"]
    values = {"type": "array", "items": value, "minItems": 1}
    return {"description": about, "anyOf": [value, values, *({"$ref": f"#/$defs/{form}"} for form in forms)]}


def value_schema(parameter: Parameter) -> Schema:
    """The values one parameter takes."""
    if parameter.type is bool:
        return {"type": "boolean"}
    if parameter.type is str and parameter.further:  # others may be stated
        return {"type": "string", "examples": list(parameter.choices)}
    if parameter.type is str:
        return {"enum": list(parameter.choices)} if parameter.choices else {"type": "string"}
    limits = {"minimum": parameter.low, "maximum": parameter.high}
    number = "integer" if parameter.type is int else "number"
    return {"type": number, **{key: limit for key, limit in limits.items() if limit is not None}}


def layers_schema() -> Schema:
    """Every layer kind with the names it is described with."""
    kinds = {kind.name: _kind_schema(kind) for kind in layer_kinds.values()}
    return {"type": "object", "properties": kinds, "additionalProperties": False, "minProperties": 1}


def _kind_schema(kind: LayerKind) -> Schema:
    properties: Schema = {"share": {**POSITIVE, "description": "this kind's share of the points, 1 where left out"}}
    properties["listed"] = _listed_schema(kind)
    for name in kind.names:
        first, *others = kind.meaning(name)
        about = f"sets {', '.join(other.name for other in (first, *others))}" if others else first.about
        properties[name] = domain_schema(value_schema(first), about)
        properties[name]["anyOf"].append({"type": "null"})
    return {
        "type": ["object", "null"],
        "description": kind.description,
        "properties": properties,
        "additionalProperties": False,
    }


def _listed_schema(kind: LayerKind) -> Schema:
    """Layers with a value for each parameter, and domains of the conditions that a layer says itself."""
    values = {name: value_schema(kind.meaning(name)[0]) for name in kind.names}
    values |= {name: domain_schema(value_schema(known), known.about) for name, known in CONDITIONS.items()}
    entry = {"type": "object", "properties": values, "additionalProperties": False}
    return {"type": "array", "items": entry, "description": "layers to measure first, for the sampler 'listed'"}
