"""The limits of a server, each stated in its description of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Limits of one request, and of all of them together."""

    size_bytes: int = 16_000_000
    rows: int = 100_000
    """Of a table, and layers of a model."""
    connections: int = 256
    waiting_bytes: int = 64_000_000
    """Of all requests that were received and are not answered yet."""
    layer_bytes: int = 65_536
    """One layer is never larger. It is predicted in the event loop, which it must not block."""
    model_bytes: int = 64_000_000
    arrival_s: float = 30.0
    """How long the body of a request may take to arrive."""
    answer_s: float = 60.0
    """How long a table or a model may take to be answered, with the wait for those before it."""
