"""The description of the interface: it is valid, and it says yes and no as the server does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from medn.serving.answers import Answers, TooLarge
from medn.serving.limits import ServerLimits
from medn.serving.schema import openapi


@pytest.fixture(scope="module")
def document(bundle: Path) -> dict[str, Any]:
    return openapi(Answers(bundle, "fast", max_rows=300), ServerLimits(size_bytes=20_000, rows=300))


def validator(document: dict[str, Any], name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    return jsonschema.Draft202012Validator(schema)


def test_every_schema_is_one(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert names <= set(document["components"]["schemas"])


def test_every_operation_has_an_id_of_its_own_and_answers(document: dict[str, Any]) -> None:
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert all("200" in operation["responses"] for operation in operations)


def test_every_described_path_answers(server: Any, document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method in methods:
            assert server.ask(method.upper(), path, "{}" if method == "post" else None)[0] in (200, 422)


def test_the_served_document_is_this_one(server: Any, document: dict[str, Any]) -> None:
    assert server.get("/openapi.json")["paths"] == document["paths"]


LAYERS = [
    {"kind": "linear", "in_features": 8, "out_features": 16},
    {"kind": "linear", "in_features": 8, "out_features": 16, "bias": False, "batch_size": 4, "device": "slow"},
    {"kind": "activation", "function": "relu", "elements": 100, "utilization": 0.3},
    {"kind": "linear", "in_features": 8},
    {"kind": "linear", "in_features": 0, "out_features": 16},
    {"kind": "linear", "in_features": "8", "out_features": 16},
    {"kind": "linear", "in_features": 8, "out_features": 16, "batch_size": 0},
    {"kind": "linear", "in_features": 8, "out_features": 16, "device": "none"},
    {"kind": "linear", "in_features": 8, "out_features": 16, "more": 1},
    {"kind": "activation", "function": "rely", "elements": 100},
    {"kind": "none"},
    {"in_features": 8},
]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_schema_of_a_layer_agrees_with_the_server(
    server: Any, document: dict[str, Any], layer: dict[str, Any]
) -> None:
    status, answer = server.post("/v1/layer", layer)
    assert validator(document, "Layer").is_valid(layer) == (status == 200)
    validator(document, "Prediction" if status == 200 else "Error").validate(answer)


TABLES = [
    {"rows": LAYERS[:1]},
    {"columns": {"kind": "linear", "in_features": [8, 9], "out_features": 16}},
    {"kind": "linear", "columns": {"in_features": [8, 9], "out_features": 16}, "device": "slow"},
    {"rows": []},
    {"rows": {}},
    {"columns": {}},
    {},
    {"rows": LAYERS[:1], "columns": {}},
    {"rows": LAYERS[:1], "device": "none"},
    {"rows": LAYERS[:1] * 301},
]


@pytest.mark.parametrize("table", TABLES, ids=range(len(TABLES)))
def test_the_schema_of_a_table_agrees_with_the_server(
    server: Any, document: dict[str, Any], table: dict[str, Any]
) -> None:
    status, answer = server.post("/v1/predict", table)
    assert validator(document, "Table").is_valid(table) == (status == 200)
    validator(document, "Predictions" if status == 200 else "Error").validate(answer)


def test_a_name_that_a_shorthand_sets_is_not_required() -> None:
    from medn.estimator.query import Query
    from medn.layer_generators.kind import layer_kinds
    from medn.serving.schema import layer_schema

    schema = layer_schema(Query(layer_kinds["max_pool2d"], {}), {"type": "string"})
    layer = {"kind": "max_pool2d", "channels": 8, "in_h": 8, "in_w": 8, "kernel_size": 2}
    jsonschema.Draft202012Validator(schema).validate(layer)


def test_too_many_rows_are_told_apart_from_wrong_ones(bundle: Path) -> None:
    with pytest.raises(TooLarge):
        Answers(bundle, "fast", max_rows=1).predict(b'{"rows": [{}, {}]}')
