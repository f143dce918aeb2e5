"""The conditions part of a sweep config: under which circumstances layers are measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from medn.core.conditions import ALWAYS_SAID, CONDITIONS, with_dtypes
from medn.core.config import Mistake
from medn.core.domains import Domain, Fixed, parse_domain, wrong_parts
from medn.core.errors import did_you_mean
from medn.core.parameters import Parameter
from medn.core.text import shown
from medn.core.values import Scalar
from medn.layer_generators.schema import DOMAIN_FORMS, Schema, domain_schema, value_schema

PER_LAYER = Parameter("per_layer", "how many are drawn for each layer; all where left out", int, low=1)

NAME_TAKEN = "this name has a meaning already; choose another"


def _first_domains() -> dict[str, Domain]:
    """The first conditions are drawn even where a config does not name them, so that old configs keep their plans."""
    return {name: Fixed(default) for name in ALWAYS_SAID if (default := CONDITIONS[name].default) is not None}


@dataclass(frozen=True)
class Conditions:
    """The circumstances layers are measured under, a domain each."""

    domains: Mapping[str, Domain] = field(default_factory=_first_domains)
    per_layer: int | None = None


def read_conditions(written: Mapping[object, object], dtypes: Iterable[str]) -> tuple[Conditions, list[Mistake]]:
    """What a config says of the conditions, and what is wrong with it; `dtypes` are those that the config states."""
    table = with_dtypes(dtypes)
    known = (*table, PER_LAYER.name)
    domains, mistakes = _first_domains(), list[Mistake]()
    for name, said in written.items():
        if not isinstance(name, str) or name not in known:
            near = did_you_mean(str(name), known)
            mistakes.append(((str(name),), f"unknown key.{near} Known: {', '.join(known)}"))
        elif name in table:
            domains[name], wrong = read_domain(said, table[name].mistake)
            mistakes += [((name, *path), sentence) for path, sentence in wrong]
    per_layer = written.get(PER_LAYER.name)
    mistake = None if per_layer is None else PER_LAYER.mistake(per_layer)
    if mistake:
        mistakes.append(((PER_LAYER.name,), mistake))
    return Conditions(domains, per_layer if isinstance(per_layer, int) else None), mistakes


def read_own(written: Mapping[object, object], taken: Collection[str]) -> tuple[dict[str, Domain], list[Mistake]]:
    """A user's own conditions, each a value or a domain, and what is wrong with them; names in `taken` are refused."""
    domains: dict[str, Domain] = {}
    mistakes: list[Mistake] = []
    for name, said in written.items():
        if not isinstance(name, str) or not name.isidentifier():
            mistakes.append(((str(name),), f"a column is named with letters, digits and '_' (got {name!r})"))
        elif name in taken:
            mistakes.append(((name,), NAME_TAKEN))
        else:
            domains[name], wrong = read_domain(said, lambda value: None)
            types = {type(part) if isinstance(part, (str, bool)) else float for _, part in domains[name].parts()}
            if not wrong and len(types) > 1:
                wrong = [((), f"must be all numbers, all strings, or all true or false (got {shown(said)})")]
            mistakes += [((name, *path), sentence) for path, sentence in wrong]
    return domains, mistakes


def read_domain(written: object, mistake: Callable[[Scalar], str | None]) -> tuple[Domain, list[Mistake]]:
    """The domain that was written, and everything that is wrong with it."""
    try:
        domain = parse_domain(written)
    except ValueError as error:
        return Fixed(0), [((), str(error))]
    return domain, wrong_parts(domain, mistake)


def conditions_schema() -> Schema:
    """The JSON Schema of the conditions."""
    properties = {name: domain_schema(value_schema(known), known.about) for name, known in CONDITIONS.items()}
    properties[PER_LAYER.name] = {"description": PER_LAYER.about, "anyOf": [value_schema(PER_LAYER), {"type": "null"}]}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def own_schema() -> Schema:
    """The JSON Schema of a user's own conditions, which may have any name."""
    value = {"type": ["number", "string", "boolean"]}
    forms = [{"$ref": f"#/$defs/{form}"} for form in DOMAIN_FORMS]
    values = {"type": "array", "items": value, "minItems": 1}
    return {"type": ["object", "null"], "additionalProperties": {"anyOf": [value, values, *forms]}}
