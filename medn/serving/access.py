"""A token that requests must bring, where the server has one."""

from __future__ import annotations

import hmac
import json
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from medn.core.errors import UsageError

FREE = frozenset({"/", "/docs", "/healthz", "/openapi.json"})
"""Addresses that say how to ask, and answer nothing about layers: open to all."""
SHORTEST = 16
REFUSAL = json.dumps({"error": "this server asks for a token: send the header 'Authorization: Bearer TOKEN'"}).encode()


def checked_token(text: str, source: str) -> str:
    """A token that a header can carry and nobody guesses."""
    token = text.strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{source}: a token must be at least {SHORTEST} visible characters of ASCII without spaces")
    return token


def read_token(path: Path) -> str:
    try:
        return checked_token(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the token cannot be read: {getattr(error, 'strerror', None) or error}") from None


class GuardedApplication:
    """Lets requests through that bring the token; others are refused before anything of them is read."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self.application = application
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE or self._knows(scope):
            await self.application(scope, receive, send)
            return
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        headers.append((b"content-length", str(len(REFUSAL)).encode()))
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": REFUSAL})

    def _knows(self, scope: Scope) -> bool:
        brought = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(brought) == 1 and hmac.compare_digest(brought[0], self._expected)
