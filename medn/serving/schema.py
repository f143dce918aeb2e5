"""The OpenAPI document, made from the parameters of the layer kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medn import __version__
from medn.core.conditions import CONDITIONS
from medn.core.parameters import Parameter
from medn.core.quantities import FURTHER, LATENCY
from medn.core.values import Scalar
from medn.estimator.query import Query
from medn.serving.answers import ONNX_TYPES, Answers, measured_range
from medn.serving.limits import ServerLimits

Json = dict[str, Any]

TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
PREDICTED: Mapping[str, str] = {
    LATENCY.name: LATENCY.about,
    "low_s": "the latency of a share `level` of layers like the measured ones lies between this",
    "high_s": "and this",
    "level": "what the interval promises",
    "in_range": "whether layers like this one were measured; if not, the latency is an extrapolation",
}
MODEL_TOTALS: Mapping[str, str] = {
    LATENCY.name: "seconds of one run of the whole model",
    "low_s": "the interval begins here",
    "high_s": "and ends here",
    "weight_bytes": "of its parameters",
    "peak_activation_bytes": "of tensors between layers at most at the same time",
    "unknown_share": "of the time, in layers that the bundle does not predict",
    "outside_share": "of the time, in layers outside what was measured",
}
ERRORS = {
    "400": "the request was broken off or is not HTTP",
    "401": "the server asks for a token, and the request brought none or another",
    "408": "the request did not arrive in time",
    "413": "the request is larger than the server allows",
    "415": "the request is of another content type",
    "422": "the request asks for something impossible; the error says what",
    "503": "too many requests wait for an answer, or it took too long; try again later",
}


def openapi(answers: Answers, limits: ServerLimits | None = None, with_token: bool = False) -> Json:
    """The whole document; with the limits of a server, those too."""
    limits = limits or ServerLimits(rows=answers.max_rows)
    queries = {
        kind: predictor.estimator(kind).query for predictor in answers.predictors.values() for kind in predictor.kinds
    }
    device, example = _device(answers), _example(answers)
    components = {f"{kind}_layer": layer_schema(query, device) for kind, query in sorted(queries.items())}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"medn: {answers.bundle.name}",
            "version": __version__,
            "description": "Predicts what layers of neural networks cost on a device.",
        },
        **({"security": [{"token": []}]} if with_token else {}),
        "paths": {
            "/v1/layer": {
                "post": _operation("layer", "What one layer costs", "Layer", "Prediction", example)
                | {"description": f"At most {min(limits.layer_bytes, limits.size_bytes):,} bytes."}
            },
            "/v1/predict": {
                "post": _operation("predict", "What many layers cost", "Table", "Predictions", {"rows": [example]})
                | {"description": f"At most {limits.size_bytes:,} bytes and {limits.rows:,} rows; {_in_time(limits)}"}
            },
            "/v1/model": {"post": _model_operation(answers, limits)},
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
                "CapturedModel": _captured_model(),
                "ModelPrediction": _model_prediction(),
                "Prediction": _prediction(),
                "Predictions": _predictions(),
                "Error": _object({"error": {"type": "string", "description": "one sentence"}}, ["error"]),
            },
            **({"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}} if with_token else {}),
        },
    }


def _example(answers: Answers) -> Json:
    """A layer of the first kind, from the middle of what was measured."""
    predictor = answers.predictors[answers.default]
    kind = predictor.kinds[0]
    estimator = predictor.estimator(kind)
    measured = measured_range(estimator.range, estimator.query.parameters)
    layer: Json = {"kind": kind}
    for name, parameter in estimator.query.parameters.items():
        ends = measured.get(name)
        if name in estimator.query.defaults:
            continue
        if ends and isinstance(ends[0], float) and parameter.type is not bool:
            layer[name] = parameter.type(round((max(ends[0], 1.0) * ends[1]) ** 0.5))
        else:
            layer[name] = ends[0] if ends else (parameter.choices or (parameter.low or 1,))[0]
    return layer


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
    properties = {**_predicted(), "outside": _outside()}
    return _object(properties, list(properties))


def _predicted() -> Json:
    further = {name: f"{quantity.about}; null where it was not measured" for name, quantity in FURTHER.items()}
    return {
        name: {"type": "boolean" if name == "in_range" else ["number", "null"], "description": about}
        for name, about in {**PREDICTED, **further}.items()
    }


def _outside() -> Json:
    scalar, bound = {"type": ["number", "string", "boolean"]}, {"type": ["number", "null"]}
    one = _object(
        {
            "name": {"type": "string", "description": "of a value, or `combination` for all of them together"},
            "value": scalar,
            "low": bound,
            "high": bound | {"description": "the edges; null where `known` lists what was measured"},
            "known": {"type": "array", "items": scalar},
            "sentence": {"type": "string"},
        },
        ["name", "value", "low", "high", "known", "sentence"],
    )
    about = "what lies outside what was measured, and where the edge is; empty in range"
    return {"type": "array", "items": one, "description": about}


def _predictions() -> Json:
    """Each column has one entry per row; a quantity that no kind has is null as a whole."""
    columns: Json = {
        name: {"type": ["array", "null"], "items": one, "description": one["description"]}
        for name, one in _predicted().items()
    }
    return _object({"rows": {"type": "integer"}, **columns}, ["rows", *columns])


def _object(properties: Json, required: list[str]) -> Json:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(name: str, example: Json | None = None) -> Json:
    return {"application/json": {"schema": _reference(name), **({"example": example} if example else {})}}


def _operation(name: str, summary: str, request: str, response: str, example: Json | None = None) -> Json:
    errors = {status: {"description": about, "content": _content("Error")} for status, about in ERRORS.items()}
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": _content(request, example)},
        "responses": {"200": {"description": "the answer", "content": _content(response)}, **errors},
    }


def _model_operation(answers: Answers, limits: ServerLimits) -> Json:
    """The model is the body; how it runs stands in the address, for either content type."""
    operation = _operation(
        "model", "What a whole model costs, in all and layer by layer", "CapturedModel", "ModelPrediction"
    )
    file = {"type": "string", "contentMediaType": "application/octet-stream", "description": "an ONNX file"}
    operation["requestBody"]["content"] |= {media: {"schema": file} for media in ONNX_TYPES}
    conditions = {name: _value(CONDITIONS[name], None) for name in ("batch_size", "utilization")}
    schemas = {**conditions, "device": _device(answers) | {"description": "where the bundle knows several"}}
    size = f"At most {limits.model_bytes:,} bytes and {limits.rows:,} layers"
    return operation | {
        "description": f"A model captured and saved as JSON, or an ONNX file. {size}; {_in_time(limits)}",
        "parameters": [
            {"name": name, "in": "query", "required": False, "description": schema["description"], "schema": schema}
            for name, schema in schemas.items()
        ],
    }


def _in_time(limits: ServerLimits) -> str:
    return f"it must arrive within {limits.arrival_s:g} s and is answered within {limits.answer_s:g} s, or not at all."


def _captured_model() -> Json:
    about = "as `CapturedModel.save` of medn writes it"
    properties = {"model": {"type": "object", "description": "its layers, inputs and outputs"}, "version": {"const": 1}}
    return _object(properties, ["model"]) | {"description": about}


def _model_prediction() -> Json:
    number = {"type": ["number", "null"]}
    totals = {name: number | {"description": about} for name, about in MODEL_TOTALS.items()}
    layer = {
        "type": "object",
        "required": ["name", "kind", "latency_s", "low_s", "high_s", "share", "in_range", "known"],
    }
    layers = {"type": "array", "items": layer, "description": "in the order in which they run"}
    # Beside these, whatever quantities the bundle knows, and what was assumed.
    return {"type": "object", "properties": {**totals, "layers": layers}, "required": [*totals, "layers"]}


def _plain(name: str, summary: str, media: str) -> Json:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "the answer", "content": {media: {}}}},
    }
