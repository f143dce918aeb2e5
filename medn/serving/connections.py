"""Connections with timeouts and limits: a client must send and read in time, and none can hold all connections.

The server library waits for a client forever: for the rest of a header, for a first byte, for an answer to be read.
Each such client takes a connection, and some hundreds of them take all.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEADER_S = 10.0
"""How long the header of a request may take to arrive, from the connection or from its first byte on; and what is left
of a request that was answered before it was read."""
READING_S = 30.0
"""How long a client may leave an answer unread."""
UNFINISHED_PER_CLIENT = 32
"""Connections of one client that may wait for their header at the same time."""
SHARE_PER_CLIENT = 0.75
"""Of all connections, so that others get their turn."""


class Clients:
    """The clients of one server and their connections."""

    def __init__(self, most: int) -> None:
        self.max_per_client = max(1, round(SHARE_PER_CLIENT * most)) if most > 2 else most
        self.max_unfinished = max(1, most // 2)
        self.unfinished: dict[BoundedProtocol, None] = {}
        """Those whose header has not arrived, the oldest first."""
        self.counts: Counter[str] = Counter()
        """Connections by client."""

    def wait(self, protocol: BoundedProtocol) -> None:
        """A header is awaited. Where too many are, the oldest connection is dropped."""
        own = [waiting for waiting in self.unfinished if waiting.host == protocol.host]
        if len(own) >= UNFINISHED_PER_CLIENT:
            own[0].drop()
        elif len(self.unfinished) >= self.max_unfinished:
            next(iter(self.unfinished)).drop()
        self.unfinished[protocol] = None


class BoundedProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, with a timeout for every wait."""

    clients: Clients
    """Set by `bounded_protocol`: one for each server."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.host = ""
        self._header: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        self.clients.counts[self.host] += 1
        if self.clients.counts[self.host] > self.clients.max_per_client:
            self._refuse()
            return
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_is_here()
        self._answer_is_read()
        self.clients.counts[self.host] -= 1
        if self.clients.counts[self.host] <= 0:
            del self.clients.counts[self.host]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        theirs = self.conn.their_state
        begun = theirs is h11.IDLE and bool(self.conn.trailing_data[0])
        left_over = theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE  # of what is answered already
        if (begun or left_over) and not self.transport.is_closing():
            self._await_header()
        else:
            self._header_is_here()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(READING_S, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer_is_read()

    def drop(self) -> None:
        """End the connection now, whatever it waits for."""
        self.clients.unfinished.pop(self, None)
        self.transport.abort()

    def _await_header(self) -> None:
        if self._header is None:
            self.clients.wait(self)
            self._header = self.loop.call_later(HEADER_S, self.drop)

    def _header_is_here(self) -> None:
        self.clients.unfinished.pop(self, None)
        if self._header is not None:
            self._header.cancel()
            self._header = None

    def _answer_is_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _refuse(self) -> None:
        """Answer before any request: the response says why, and the connection ends."""
        message = f"one client has at most {self.clients.max_per_client} connections to this server"
        body = json.dumps({"error": message}).encode()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def bounded_protocol(max_connections: int) -> type[BoundedProtocol]:
    """The protocol class of one server, which shares the state of its connections."""
    return type("BoundedProtocol", (BoundedProtocol,), {"clients": Clients(max_connections)})
