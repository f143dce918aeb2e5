"""Whole models over HTTP: captured JSON, ONNX files, and what is refused of them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import medn
from medn.exporting.layer_list import listed_model
from medn.layer_generators.kind import layer_kinds
from medn.serving.answers import Answers
from medn.serving.model_reader import ModelReader
from medn.serving.schema import openapi

onnx = pytest.importorskip("onnx")
BINARY = {"content-type": "application/octet-stream"}


def captured(count: int = 2) -> bytes:
    layers = [layer_kinds["linear"].layer(in_features=64 * (place + 1), out_features=64) for place in range(count)]
    return listed_model(layers).to_json()


def onnx_file(size: int = 64, repeats: int = 1) -> bytes:
    """Matrix products in a row, of a batch that is left open."""
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [size, size], bytes(4 * size * size), raw=True)
    names = ["x", *(f"h{place}" for place in range(repeats))]
    nodes = [onnx.helper.make_node("MatMul", [names[at], "w"], [names[at + 1]]) for at in range(repeats)]
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["batch", size]) for name in (names[0], names[-1])]
    graph = onnx.helper.make_graph(nodes, "g", [ends[0]], [ends[1]], [weight])
    return bytes(onnx.helper.make_model(graph).SerializeToString())


def test_a_captured_model_is_what_the_predictor_says(server: Any, bundle: Path) -> None:
    status, answer = server.post("/v1/model", captured())
    assert status == 200
    expected = medn.load(bundle, "fast").model(Answers(bundle, "fast")._captured(captured(), "application/json", None))
    assert answer["latency_s"] == pytest.approx(expected.latency_s)
    assert [layer["kind"] for layer in answer["layers"]] == ["linear", "linear"]


def test_an_onnx_file_is_captured_at_the_batch_size_of_the_address(server: Any) -> None:
    answers = [server.ask("POST", f"/v1/model?batch_size={size}", onnx_file(), BINARY) for size in (1, 16)]
    assert [status for status, _, _ in answers] == [200, 200]
    one, many = (json.loads(text) for _, text, _ in answers)
    assert (one["batch_size"], many["batch_size"]) == (1, 16)
    assert [layer["kind"] for layer in one["layers"]] == ["linear"]
    assert many["latency_s"] > one["latency_s"]


def test_utilization_and_device_stand_in_the_address(server: Any) -> None:
    _, fast = server.post("/v1/model", captured())
    _, slow = server.post("/v1/model?device=slow&utilization=0.5", captured())
    assert slow["utilization"] == 0.5
    assert slow["latency_s"] != fast["latency_s"]


def test_the_answer_is_as_the_document_says(server: Any, bundle: Path) -> None:
    document = openapi(Answers(bundle, "fast"))
    schema = {"$ref": "#/components/schemas/ModelPrediction", "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(server.post("/v1/model", captured())[1])


def test_layers_of_models_are_counted(server: Any) -> None:
    before = server.counts()["medn_layers_total"]
    server.post("/v1/model", captured(3))
    assert server.counts()["medn_layers_total"] == before + 3


def broken(**changes: Any) -> bytes:
    """A captured model with other values in its first layer."""
    content = json.loads(captured())
    content["model"]["layers"][0] |= changes
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("address", "body", "headers", "sentence"),
    [
        ("?batchsize=1", captured(), {}, "Did you mean 'batch_size'?"),
        ("?batch_size=many", captured(), {}, "batch_size: must be a whole number (got 'many')"),
        ("?batch_size=0", captured(), {}, "batch_size"),
        ("?utilization=2", captured(), {}, "utilization"),
        ("?utilization=nan", captured(), {}, "utilization"),
        ("?device=fsat", captured(), {}, "Did you mean 'fast'?"),
        ("", b"{}", {}, "not a captured model of this version"),
        ("", b"{", {}, "not a captured model of this version"),
        ("", b"[" * 9000, {}, "not a captured model of this version"),
        ("", broken(batch_size=0), {}, "layers.0.batch_size: must be at least 1"),
        ("", broken(inputs=[5], input_bytes=[1]), {}, "must be earlier layers"),
        ("", broken(flops=-1), {}, "layers.0.flops: must be from 0 on"),
        ("", b"", BINARY, "the model: "),
        ("", b"not onnx" * 50, BINARY, "the model: "),
        ("", onnx_file()[:-40], BINARY, "the model: "),
    ],
)
def test_what_is_no_model_is_one_sentence(
    server: Any, address: str, body: bytes, headers: dict[str, str], sentence: str
) -> None:
    given = headers or {"content-type": "application/json"}
    status, text, _ = server.ask("POST", f"/v1/model{address}", body, given)
    assert status == 422, text
    assert sentence in json.loads(text)["error"]
    assert "\n" not in json.loads(text)["error"]


@pytest.mark.parametrize("value", [10**30, 10**400, 1e308])
@pytest.mark.parametrize("name", ["flops", "moved_bytes", "parameter_bytes", "output_bytes", "batch_size", "repeats"])
def test_enormous_numbers_break_nothing(server: Any, name: str, value: float) -> None:
    status, text, _ = server.ask("POST", "/v1/model", broken(**{name: value}, layer=None))
    assert status in (200, 422), text
    if status == 422:
        assert json.loads(text)["error"]


def test_other_content_types_are_refused(server: Any) -> None:
    status, text, _ = server.ask("POST", "/v1/model", b"x", {"content-type": "text/plain"})
    assert status == 415
    assert "application/json or application/octet-stream" in json.loads(text)["error"]


def test_more_layers_than_allowed_are_refused(server: Any) -> None:
    status, answer = server.post("/v1/model", captured(301))
    assert status == 413
    assert answer["error"] == "301 layers are more than this server takes at once (300)"


@pytest.fixture(scope="module")
def small(serving: Any, bundle: Path) -> Iterator[Any]:
    options = ["--max-model-bytes", "20000", "--max-seconds", "0.001"]
    with serving.Server(bundle, "--device", "fast", *options) as started:
        yield started


@pytest.mark.parametrize("headers", [BINARY, {"content-type": "application/json"}])
def test_a_model_above_the_limit_is_refused(small: Any, headers: dict[str, str]) -> None:
    status, text, _ = small.ask("POST", "/v1/model", b" " * 20_001, headers)
    assert status == 413
    assert "20000 bytes" in json.loads(text)["error"]


@pytest.mark.parametrize("address", ["/v1/model", "/v1/predict"])
def test_what_takes_too_long_is_told_and_holds_nobody_up(small: Any, address: str) -> None:
    rows = [{"kind": "linear", "in_features": 8 + place, "out_features": 8} for place in range(200)]
    body, headers = (onnx_file(8), BINARY) if address == "/v1/model" else (json.dumps({"rows": rows}), None)
    status, text, found = small.ask("POST", address, body, headers or {"content-type": "application/json"})
    assert status == 503
    assert "no answer within 0.001 s" in json.loads(text)["error"]
    assert found["retry-after"] == "1"
    layer = {"kind": "linear", "in_features": 8, "out_features": 8}
    assert small.post("/v1/layer", layer)[0] == 200


def test_the_limits_are_stated(small: Any) -> None:
    paths = small.get("/openapi.json")["paths"]
    said = paths["/v1/model"]["post"]["description"]
    assert "At most 20,000 bytes and 100,000 layers" in said
    assert "answered within 0.001 s" in said
    assert "At most 16,000,000 bytes and 100,000 rows" in paths["/v1/predict"]["post"]["description"]


def test_a_file_that_takes_too_long_ends_its_process_alone() -> None:
    reader = ModelReader(seconds=30.0)
    try:
        assert len(reader.read(onnx_file(), 1).layers) == 1
        reader.seconds = 0.0
        with pytest.raises(medn.MednError, match="the model cannot be read: no answer within 0 s"):
            reader.read(onnx_file(repeats=500), 1)
        reader.seconds = 30.0
        assert len(reader.read(onnx_file(), 4).layers) == 1
    finally:
        reader.stop()


def test_a_reader_that_is_stopped_ends_what_it_reads() -> None:
    reader = ModelReader(seconds=100.0)
    reader.read(onnx_file(), 1)
    failed: list[Exception] = []

    def read() -> None:
        try:
            reader.read(onnx_file(repeats=30_000), 1)
        except medn.MednError as error:
            failed.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    reading.join(0.5)
    reader.stop()
    reading.join(20.0)
    assert not reading.is_alive()
    assert len(failed) == 1
    with pytest.raises(medn.MednError, match="the server is stopping"):
        reader.read(onnx_file(), 1)


def test_nothing_stays_behind_of_a_server(serving: Any, bundle: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path))
        with serving.Server(bundle, "--device", "fast") as server:
            assert server.ask("POST", "/v1/model", onnx_file(), BINARY)[0] == 200
            assert server.stop()[0] == 0
    for _ in range(50):
        if not list(tmp_path.glob("medn-serve-*")):
            return
        time.sleep(0.1)
    raise AssertionError(list(tmp_path.iterdir()))
