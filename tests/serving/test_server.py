"""The real server over HTTP: answers, refusals, limits, counts."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import medn

LINEAR = {"in_features": 100, "out_features": 200, "batch_size": 8}
JSON = {"content-type": "application/json"}


def test_a_layer_is_what_the_predictor_says(server: Any, bundle: Path) -> None:
    status, answer = server.post("/v1/layer", {"kind": "linear", **LINEAR})
    assert status == 200
    assert answer == medn.load(bundle, "fast").layer("linear", **LINEAR).as_json()


def test_a_layer_outside_is_answered_with_what_lies_outside(server: Any) -> None:
    _, answer = server.post("/v1/layer", {"kind": "linear", **LINEAR, "threads": 2})
    assert not answer["in_range"]
    assert answer["outside"][0] == {
        "name": "threads",
        "value": 2,
        "low": None,
        "high": None,
        "known": [1],
        "sentence": "threads=2 (measured: 1)",
    }


def test_another_device_is_asked_by_its_name(server: Any, bundle: Path) -> None:
    _, answer = server.post("/v1/layer", {"kind": "linear", "device": "slow", **LINEAR})
    assert answer == medn.load(bundle, "slow").layer("linear", **LINEAR).as_json()


def test_columns_and_rows_give_the_same(server: Any) -> None:
    columns = {"kind": ["linear", "linear"], "in_features": [64, 128], "out_features": 32}
    rows = [{"kind": "linear", "in_features": size, "out_features": 32} for size in (64, 128)]
    first, second = server.post("/v1/predict", {"columns": columns}), server.post("/v1/predict", {"rows": rows})
    assert first == second
    assert first[0] == 200
    assert first[1]["rows"] == len(first[1]["latency_s"]) == 2


def test_kinds_may_be_mixed(server: Any, bundle: Path) -> None:
    rows = [{"kind": "linear", **LINEAR}, {"kind": "activation", "function": "relu", "elements": 5000}]
    _, answer = server.post("/v1/predict", {"rows": rows})
    predicted = medn.load(bundle, "fast").predict(rows)
    assert answer["latency_s"] == predicted.latency_s.tolist()
    assert answer["memory_bytes"] is None


def test_a_kind_may_stand_beside_the_table(server: Any) -> None:
    status, answer = server.post("/v1/predict", {"kind": "linear", "columns": {"in_features": 8, "out_features": 8}})
    assert (status, answer["rows"]) == (200, 1)


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/v1/layer", {"kind": "linar", **LINEAR}, "Did you mean 'linear'?"),
        ("/v1/layer", LINEAR, "kind: missing. Known: activation, linear"),
        ("/v1/layer", {"kind": ["linear"]}, "kind: must be a string"),
        ("/v1/layer", {"kind": "linear", "in_features": 0, "out_features": 1}, "must be at least 1 (got 0)"),
        ("/v1/layer", {"kind": "linear", "in_features": [1, 2], "out_features": 1}, "in_features: must be"),
        ("/v1/layer", {"kind": "linear", "in_features": {}, "out_features": 1}, "in_features: must be"),
        ("/v1/layer", {"kind": "linear", "in_feature": 5}, "Did you mean 'in_features'?"),
        ("/v1/layer", {"kind": "linear", "self": 5}, "no column named 'self'"),
        ("/v1/layer", {"kind": "linear", "device": "fsat", **LINEAR}, "Did you mean 'fast'?"),
        ("/v1/layer", {"kind": "linear", "device": [], **LINEAR}, "no device named"),
        ("/v1/layer", '{"kind": NaN}', "NaN is not a JSON number"),
        ("/v1/layer", '{"kind": "linear", "in_features": 1e999, "out_features": 8}', "in_features: must be"),
        ("/v1/layer", "{", "the request is not JSON"),
        ("/v1/layer", "", "the request is not JSON"),
        ("/v1/layer", b"\xff\xfe{}", "the request is not JSON"),
        ("/v1/layer", "[" * 5000, "the request is not JSON"),
        ("/v1/layer", "[]", "must be a JSON object (got a list)"),
        ("/v1/predict", {}, "either 'columns' or 'rows'"),
        ("/v1/predict", {"columns": {}, "rows": []}, "either 'columns' or 'rows'"),
        ("/v1/predict", {"columns": []}, "columns: must be an object with a list for each column (got a list)"),
        ("/v1/predict", {"columns": {}}, "the table has no columns"),
        ("/v1/predict", {"rows": []}, "the table has no rows"),
        ("/v1/predict", {"rows": [1]}, "a row must be"),
        ("/v1/predict", {"rows": None}, "rows: must be a list of objects (got null)"),
        ("/v1/predict", {"rows": [{"kind": "linear", **LINEAR}, {"kind": "linear"}]}, "row 1: linear:"),
        ("/v1/predict", {"kind": 1, "columns": LINEAR}, "kind: must be a string"),
        ("/v1/predict", {"kind": "linear", "columns": {**LINEAR, "in_features": [[1], [2]]}}, "one value per row"),
        ("/v1/predict", {"kind": "linear", "columns": {"in_features": [1, 2], "out_features": [1]}}, "one length"),
    ],
)
def test_what_is_impossible_is_one_sentence(server: Any, path: str, body: Any, sentence: str) -> None:
    status, answer = server.post(path, body)
    assert status == 422
    assert sentence in answer["error"]
    assert "\n" not in answer["error"]


def test_an_unknown_address_names_the_near_one(server: Any) -> None:
    status, text, _ = server.ask("GET", "/v1/layers")
    assert status == 404
    assert "Did you mean '/v1/layer'?" in json.loads(text)["error"]


def test_a_slash_at_the_end_is_another_address(server: Any) -> None:
    assert server.ask("GET", "/healthz/")[0] == 404


def test_the_wrong_method_is_told_the_right_one(server: Any) -> None:
    status, text, headers = server.ask("GET", "/v1/layer")
    assert status == 405
    assert headers["allow"] == "POST"
    assert json.loads(text)["error"] == "/v1/layer takes POST (got GET)"


@pytest.mark.parametrize("sort", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_content_type_is_refused(server: Any, sort: str) -> None:
    status, text, _ = server.ask("POST", "/v1/layer", "{}", {"content-type": sort})
    assert status == 415
    assert "application/json" in json.loads(text)["error"]


def test_a_content_type_may_name_its_characters(server: Any) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert server.ask("POST", "/v1/layer", {"kind": "linear", **LINEAR}, headers)[0] == 200


def test_a_request_that_says_it_is_too_large_is_refused_before_it_is_sent(server: Any) -> None:
    connection = server.connection()
    connection.putrequest("POST", "/v1/predict")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", str(10**12))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert "20000 bytes" in json.loads(answer.read())["error"]
    connection.close()


def test_a_request_that_does_not_say_its_size_is_refused_while_it_is_read(server: Any) -> None:
    connection = server.connection()
    connection.putrequest("POST", "/v1/predict")
    connection.putheader("content-type", "application/json")
    connection.putheader("transfer-encoding", "chunked")
    connection.endheaders()
    for _ in range(3):
        connection.send(b"2710\r\n" + b" " * 10_000 + b"\r\n")
    answer = connection.getresponse()
    assert answer.status == 413
    connection.close()


def test_more_rows_than_allowed_are_refused(server: Any) -> None:
    status, answer = server.post("/v1/predict", {"kind": "linear", "columns": {"in_features": [8] * 301}})
    assert status == 413
    assert answer["error"] == "301 rows are more than this server takes at once (300)"


def test_health_is_a_plain_yes(server: Any) -> None:
    assert server.get("/healthz") == {"status": "ok"}


def test_the_bundle_is_described(server: Any) -> None:
    about = server.get("/v1/bundle")
    assert about["device"] == "fast"
    linear = about["devices"]["slow"]["linear"]
    low, high = linear["measured"]["in_features"]
    assert 1 < low < high
    assert about["devices"]["fast"]["activation"]["measured"]["function"] == ["relu", "tanh"]
    assert linear["constants"]["dtype"] == "fp32"


def test_requests_and_layers_are_counted(server: Any) -> None:
    before = server.counts()
    server.post("/v1/predict", {"kind": "linear", "columns": {"in_features": [8, 9, 10], "out_features": 4}})
    server.ask("GET", "/nothing/here")
    after = server.counts()
    answered = 'medn_requests_total{endpoint="/v1/predict",status="200"}'
    assert after[answered] == before.get(answered, 0) + 1
    assert after["medn_layers_total"] == before["medn_layers_total"] + 3
    assert after['medn_requests_total{endpoint="other",status="404"}'] >= 1
    assert after["process_resident_memory_bytes"] > 1e6
    assert after["medn_requests_in_progress"] == 1  # the question for the counts itself


def test_one_connection_serves_many_requests(server: Any) -> None:
    connection = server.connection()
    for _ in range(3):
        connection.request("POST", "/v1/layer", json.dumps({"kind": "linear", **LINEAR}), JSON)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
    connection.close()


def test_many_clients_at_once_get_their_own_answers(server: Any, bundle: Path) -> None:
    predictor = medn.load(bundle, "fast")
    wrong: list[int] = []

    def client(size: int) -> None:
        for _ in range(5):
            _, one = server.post("/v1/layer", {"kind": "linear", "in_features": size, "out_features": 8})
            table = {"kind": "linear", "columns": {"in_features": [size] * 50, "out_features": 8}}
            _, many = server.post("/v1/predict", table)
            expected = predictor.layer("linear", in_features=size, out_features=8).latency_s
            if one["latency_s"] != pytest.approx(expected) or many["latency_s"] != pytest.approx([expected] * 50):
                wrong.append(size)

    threads = [threading.Thread(target=client, args=(size,)) for size in range(50, 58)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_more_connections_than_allowed_are_turned_away(serving: Any, bundle: Path) -> None:
    with serving.Server(bundle, "--device", "fast", "--max-connections", "2") as small:
        waiting = [small.connection() for _ in range(2)]
        for connection in waiting:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        assert small.ask("GET", "/healthz")[0] == 503
        for connection in waiting:
            connection.close()
