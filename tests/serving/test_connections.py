"""Clients that keep the server waiting: each is let go in time, and the others are served meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from medn.serving import connections
from medn.serving.server import listen

HALF = b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-half: "
LARGE = 64_000_000


def connected(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=30)


def health(url: str, source: str) -> int:
    """The status that a client at another address gets."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30, source_address=(source, 0))
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


def test_others_are_served_beside_hundreds_of_half_sent_headers(serving: Any, bundle: Path) -> None:
    with serving.Server(bundle, "--device", "fast") as server:
        half = [connected(server.url) for _ in range(300)]
        try:
            for each in half:
                each.sendall(HALF)
            assert [health(server.url, "127.0.0.2") for _ in range(20)] == [200] * 20
            assert [health(server.url, "127.0.0.1") for _ in range(20)] == [200] * 20
        finally:
            for each in half:
                each.close()


def test_one_client_does_not_take_all_connections(serving: Any, bundle: Path) -> None:
    with serving.Server(bundle, "--device", "fast", "--max-connections", "8") as server:
        kept = [server.connection() for _ in range(8)]
        statuses = []
        for connection in kept:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            statuses.append(answer.status)
            answer.read()
        assert statuses == [200] * 6 + [503] * 2
        assert health(server.url, "127.0.0.2") == 200
        for connection in kept:
            connection.close()


def test_all_bodies_together_are_bounded(serving: Any, bundle: Path) -> None:
    """The bodies are never finished, so each waits; what is more than 64 MB is told to come back."""
    with serving.Server(bundle, "--device", "fast") as server:
        kind = b"content-type: application/json\r\n"
        head = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\n" + kind + b"content-length: 15999999\r\n\r\n"
        waiting = [connected(server.url) for _ in range(5)]
        for each in waiting[:4]:
            each.sendall(head + b" " * 15_900_000)
        deadline = time.monotonic() + 30
        while server.counts()["medn_waiting_bytes"] != 63_600_000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        refused = waiting[4]
        refused.sendall(head + b" " * 1_000_000)
        answer = refused.recv(4096)
        assert b" 503 " in answer
        assert b"retry-after: 1" in answer
        for each in waiting:
            each.close()
        while server.counts()["medn_waiting_bytes"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize(
    "table",
    [
        {"kind": "linear", "columns": {f"column {place}": [1] for place in range(700)}},
        {"rows": [{f"column {place}": 1} for place in range(290)]},
    ],
    ids=["columns", "rows"],
)
def test_a_wide_table_of_unknown_columns_names_few_of_them(server: Any, table: Any) -> None:
    status, answer = server.post("/v1/predict", table)
    assert status == 422
    assert "'column 0', 'column 1', 'column 2' and " in answer["error"]
    assert len(answer["error"]) < 1000


def test_one_long_text_does_not_make_all_of_a_column_long(bundle: Path) -> None:
    from medn.core.errors import UsageError
    from medn.serving.answers import Answers

    table = {
        "kind": "linear",
        "columns": {"in_features": 8, "out_features": 8, "dtype": ["x" * 10_000_000] + ["fp32"] * 99_999},
    }
    with pytest.raises(UsageError, match="row 0: linear: dtype: must be one of"):
        Answers(bundle, "fast").predict(json.dumps(table).encode())


async def answer_at_once(scope: Any, receive: Any, send: Any) -> None:
    body = bytes(LARGE) if scope["path"] == "/large" else b"ok"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], socket.socket]]:
    """Makes connections to a server that waits for a fraction of a second."""
    monkeypatch.setattr(connections, "HEADER_S", 0.2)
    monkeypatch.setattr(connections, "READING_S", 0.2)
    with listen("127.0.0.1", 0) as listening, serving_here(listening):
        yield lambda: socket.create_connection(listening.getsockname(), timeout=30)


@contextmanager
def serving_here(listening: socket.socket) -> Iterator[None]:
    config = uvicorn.Config(answer_at_once, http=connections.bounded_protocol(64), lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def is_answered(connection: socket.socket) -> bool:
    found = b""
    while not found.endswith(b"\r\n\r\nok"):
        part = connection.recv(4096)
        if not part:
            return False
        found += part
    return b"200 OK" in found


def ended_while_sending(connection: socket.socket) -> bool:
    try:
        for _ in range(600):
            connection.sendall(b"x")
            time.sleep(0.05)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"G", HALF])
def test_a_header_that_does_not_arrive_ends_the_connection(sent: bytes, impatient: Callable[[], socket.socket]) -> None:
    with impatient() as connection:
        connection.sendall(sent)
        assert ended(connection)


def test_a_header_that_trickles_in_ends_the_connection(impatient: Callable[[], socket.socket]) -> None:
    with impatient() as connection:
        assert ended_while_sending(connection)


def test_the_second_header_of_a_connection_has_its_time_too(impatient: Callable[[], socket.socket]) -> None:
    with impatient() as connection:
        connection.sendall(HALF + b"1\r\n\r\n")
        assert is_answered(connection)
        connection.sendall(HALF)
        assert ended(connection)


def test_the_rest_of_a_body_that_nobody_reads_is_not_waited_for(impatient: Callable[[], socket.socket]) -> None:
    with impatient() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n")
        assert is_answered(connection)
        assert ended_while_sending(connection)


def test_an_answer_that_nobody_fetches_is_given_up(impatient: Callable[[], socket.socket]) -> None:
    with impatient() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(1.0)
        received = 0
        try:
            while part := connection.recv(1 << 20):
                received += len(part)
        except ConnectionResetError:
            pass
        assert received < LARGE


def test_a_connection_that_asks_in_time_stays(impatient: Callable[[], socket.socket]) -> None:
    with impatient() as connection:
        for _ in range(4):
            connection.sendall(HALF + b"1\r\n\r\n")
            assert is_answered(connection)
            time.sleep(0.3)
