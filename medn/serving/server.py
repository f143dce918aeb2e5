"""Starts and stops the server; on a signal, running requests finish first."""

from __future__ import annotations

import signal
import socket
import sys
from types import FrameType
from typing import TYPE_CHECKING

from medn.core.errors import MednError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

FINISHING_S = 20
"""How long requests under way may take after the signal to stop."""
IDLE_S = 30
"""After which a connection that asks nothing is closed."""
SWITCH_S = 0.0005
"""How long the thread for tables may compute before a single layer gets its turn: a tenth of Python's usual time."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; port 0 picks a free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address, family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MednError(f"cannot listen on {host}, port {port}: {reason}") from None
    # Connections inherit it. Without it the body of an answer waits 40 ms for the receipt of its head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address(listening: socket.socket) -> str:
    """Where a socket can be reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(application: ASGIApp, listening: socket.socket, max_connections: int) -> signal.Signals | None:
    """Serve until a signal says to stop, and give that signal. None if serving could not start."""
    import uvicorn

    from medn.serving.connections import bounded_protocol

    received: list[signal.Signals] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number))

    config = uvicorn.Config(
        application,
        http=bounded_protocol(max_connections),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=max_connections,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=FINISHING_S,
    )
    sys.setswitchinterval(SWITCH_S)
    # uvicorn handles signals while it runs, and afterwards raises them again for the previous handlers.
    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return received[0] if received else None
