"""The OpenAPI document, made from the parameters of the layer kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medn import __version__
from medn.core.parameters import Parameter
from medn.core.quantities import FURTHER, LATENCY
from medn.core.values import Scalar
from medn.estimator.query import Query
from medn.serving.answers import Answers

Json = dict[str, Any]

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
PREDICTED: Mapping[str, str] = {
    LATENCY.name: LATENCY.about,
    "low_s": "the latency of a share `level` of layers like the measured ones lies between this",
    "high_s": "and this",
    "level": "what the interval promises",
    "in_range": "whether layers like this one were measured; if not, the latency is an extrapolation",
}
ERRORS = {
    "400": "the request was broken off or is not HTTP",
    "408": "the request did not arrive in time",
    "413": "the request is larger than the server allows",
    "415": "the request is not application/json",
    "422": "the request asks for something impossible; the error says what",
    "503": "too many requests wait for an answer; try again later",
}


def openapi(answers: Answers) -> Json:
    """The whole document."""
    queries = {
        kind: predictor.estimator(kind).query for predictor in answers.predictors.values() for kind in predictor.kinds
    }
    device = _device(answers)
    components = {f"{kind}_layer": layer_schema(query, device) for kind, query in sorted(queries.items())}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"medn: {answers.bundle.name}",
            "version": __version__,
            "description": "Predicts what layers of neural networks cost on a device.",
        },
        "paths": {
            "/v1/layer": {"post": _operation("layer", "What one layer costs", "Layer", "Prediction")},
            "/v1/predict": {"post": _operation("predict", "What many layers cost", "Table", "Predictions")},
            "/v1/bundle": {
                "get": _plain("bundle", "What can be predicted, and where it was measured", "application/json")
            },
            "/healthz": {"get": _plain("health", "Whether the server answers", "application/json")},
            "/metrics": {"get": _plain("metrics", "Counts for Prometheus", "text/plain")},
        },
        "components": {
            "schemas": {
                **components,
                "Layer": {
                    "oneOf": [_reference(name) for name in components],
                    "discriminator": {
                        "propertyName": "kind",
                        "mapping": {name.removesuffix("_layer"): _reference(name)["$ref"] for name in components},
                    },
                },
                "Table": _table(answers),
                "Prediction": _prediction(),
                "Predictions": _predictions(),
                "Error": _object({"error": {"type": "string", "description": "one sentence"}}, ["error"]),
            }
        },
    }


def layer_schema(query: Query, device: Json) -> Json:
    """One kind. A name that another one can set is not required by itself."""
    kind = query.kind
    properties = {name: _value(each, query.defaults.get(name)) for name, each in query.parameters.items()}
    properties |= {name: _value(each, None) for name, each in kind.conveniences.items()}
    for name, targets in kind.shorthands.items():
        properties[name] = _value(query.parameters[targets[0]], None) | {"description": f"sets {', '.join(targets)}"}
    replaceable = {target for targets in kind.shorthands.values() for target in targets}
    required = [name for name in query.parameters if name not in query.defaults and name not in replaceable]
    if kind.conveniences:  # these may stand for any of the others
        required = []
    properties["kind"] = {"const": kind.name}
    properties["device"] = device
    return _object(properties, ["kind", *required]) | {"description": kind.description}


def _value(parameter: Parameter, default: Scalar | None) -> Json:
    schema: Json = {"type": TYPES[parameter.type], "description": parameter.about}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.low is not None:
        schema["minimum"] = parameter.low
    if parameter.high is not None:
        schema["maximum"] = parameter.high
    if default is not None:
        schema["default"] = default
    return schema


def _table(answers: Answers) -> Json:
    """Columns or rows: their names are those of the layers, which the server checks for each kind."""
    scalar = {"type": ["number", "string", "boolean", "null"]}
    one_or_many = {"anyOf": [scalar, {"type": "array", "items": scalar, "maxItems": answers.max_rows}]}
    beside: Json = {
        "kind": {"type": "string", "description": "of all rows, where there is no column `kind`"},
        "device": _device(answers),
    }
    columns = {"type": "object", "additionalProperties": one_or_many, "minProperties": 1}
    row = {"type": "object", "additionalProperties": scalar}
    rows = {"type": "array", "items": row, "minItems": 1, "maxItems": answers.max_rows}
    return {
        "oneOf": [
            _object({"columns": columns, **beside}, ["columns"]),
            _object({"rows": rows, **beside}, ["rows"]),
        ]
    }


def _device(answers: Answers) -> Json:
    return {"type": "string", "enum": list(answers.predictors), "default": answers.default}


def _prediction() -> Json:
    further = {name: f"{quantity.about}; null where it was not measured" for name, quantity in FURTHER.items()}
    properties = {
        name: {"type": "boolean" if name == "in_range" else ["number", "null"], "description": about}
        for name, about in {**PREDICTED, **further}.items()
    }
    return _object(properties, list(properties))


def _predictions() -> Json:
    """Each column has one entry per row; a quantity that no kind has is null as a whole."""
    columns: Json = {
        name: {"type": ["array", "null"], "items": one, "description": one["description"]}
        for name, one in _prediction()["properties"].items()
    }
    return _object({"rows": {"type": "integer"}, **columns}, ["rows", *columns])


def _object(properties: Json, required: list[str]) -> Json:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(name: str) -> Json:
    return {"application/json": {"schema": _reference(name)}}


def _operation(name: str, summary: str, request: str, response: str) -> Json:
    errors = {status: {"description": about, "content": _content("Error")} for status, about in ERRORS.items()}
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": _content(request)},
        "responses": {"200": {"description": "the answer", "content": _content(response)}, **errors},
    }


def _plain(name: str, summary: str, media: str) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "the answer", "content": {media: {}}}},
    }
