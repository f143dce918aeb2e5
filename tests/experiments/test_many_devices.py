"""The experiment on how many devices one host keeps up with, and the faults of another, on a few."""

from __future__ import annotations

from experiments.loopback_ssh import Proxy, free_port
from experiments.many_devices import measured


def test_every_row_of_every_device_arrives() -> None:
    row = measured(devices=3, visit_s=0.0, points=2, visits=2)
    assert (row["rows"], row["all there"]) == (12, True)


def test_a_proxy_to_nowhere_ends_what_is_connected_to_it() -> None:
    import socket

    with Proxy(free_port()) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        client.settimeout(10)
        assert client.recv(1) == b""
