"""The HTTP endpoints: limits, content types and statuses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medn.core.errors import MednError, did_you_mean
from medn.serving.answers import Answers, TooLarge
from medn.serving.metrics import Metrics
from medn.serving.schema import openapi

PAGE = Path(__file__).with_name("page.html")
LAYER_BYTES = 65_536
"""One layer is never larger. It is predicted in the event loop, which it must not block."""
ARRIVAL_S = 30.0
"""How long the body of a request may take to arrive."""
PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
)

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class ServerLimits:
    """Limits of one request, and of all of them together."""

    size_bytes: int = 16_000_000
    rows: int = 100_000
    connections: int = 256
    waiting_bytes: int = 64_000_000
    """Of all requests that were received and are not answered yet."""


def application(path: Path, device: str | None, limits: ServerLimits) -> ASGIApp:
    """The ASGI application for one bundle."""
    metrics = Metrics()
    endpoints = Endpoints(Answers(path, device, limits.rows), metrics, limits)
    routes = [Route(path, endpoint, methods=[method]) for path, (method, endpoint) in endpoints.table.items()]
    handlers: dict[Any, Any] = {
        HTTPException: endpoints.refused,
        MednError: endpoints.impossible,
        ClientDisconnect: endpoints.gone,
        Exception: endpoints.failed,
    }
    served = Starlette(routes=routes, exception_handlers=handlers, lifespan=endpoints.lifespan)
    served.router.redirect_slashes = False  # an address is right or wrong
    return MeteredApplication(served, metrics, frozenset(endpoints.table))


class Endpoints:
    """The handlers of all addresses."""

    def __init__(self, answers: Answers, metrics: Metrics, limits: ServerLimits) -> None:
        self.answers = answers
        self.metrics = metrics
        self.limits = limits
        self.pending = PendingBodies(limits.waiting_bytes, metrics)
        self.about = _encoded(answers.about())
        self.schema = _encoded(openapi(answers))
        self.page = PAGE.read_bytes()
        self.table: dict[str, tuple[str, Endpoint]] = {
            "/v1/layer": ("POST", self.layer),
            "/v1/predict": ("POST", self.predict),
            "/v1/bundle": ("GET", self._fixed(self.about)),
            "/openapi.json": ("GET", self._fixed(self.schema)),
            "/healthz": ("GET", self._fixed(_encoded({"status": "ok"}))),
            "/metrics": ("GET", self.counts),
            "/": ("GET", self.front),
        }

    @asynccontextmanager
    async def lifespan(self, application: Starlette) -> AsyncIterator[None]:
        """The thread for tables ends with the server, after the requests it still has."""
        with ThreadPoolExecutor(1, "tables") as self.worker:
            yield

    async def layer(self, request: Request) -> Response:
        async with self.pending.body(request, min(LAYER_BYTES, self.limits.size_bytes)) as body:
            answer = self.answers.layer(body)
        self.metrics.layers.inc()
        return _json(_encoded(answer))

    async def predict(self, request: Request) -> Response:
        async with self.pending.body(request, self.limits.size_bytes) as body:

            def work() -> tuple[int, bytes]:
                answer = self.answers.predict(body)
                return answer["rows"], _encoded(answer)

            rows, encoded = await asyncio.get_running_loop().run_in_executor(self.worker, work)
        self.metrics.layers.inc(rows)
        return _json(encoded)

    async def counts(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def front(self, request: Request) -> Response:
        return Response(self.page, media_type="text/html", headers={"content-security-policy": PAGE_POLICY})

    async def refused(self, request: Request, error: HTTPException) -> Response:
        sentence = error.detail
        if error.status_code == 404:
            addresses = ", ".join(self.table)
            sentence = f"nothing at {request.url.path}.{did_you_mean(request.url.path, self.table)} Known: {addresses}"
        elif error.status_code == 405:
            sentence = f"{request.url.path} takes {self.table[request.url.path][0]} (got {request.method})"
        return _sentence(error.status_code, sentence, error.headers)

    async def impossible(self, request: Request, error: MednError) -> Response:
        return _sentence(413 if isinstance(error, TooLarge) else 422, str(error))

    async def gone(self, request: Request, error: ClientDisconnect) -> Response:
        return _sentence(400, "the request was broken off")

    async def failed(self, request: Request, error: Exception) -> Response:
        """The server's own mistake: it is logged where the server runs."""
        return _sentence(500, f"unexpected {type(error).__name__}; the server's log says more")

    def _fixed(self, content: bytes) -> Endpoint:
        async def answer(request: Request) -> Response:
            return _json(content)

        return answer


class MeteredApplication:
    """Counts and times every request; addresses that do not exist are counted together."""

    def __init__(self, application: ASGIApp, metrics: Metrics, addresses: frozenset[str]) -> None:
        self.application = application
        self.metrics = metrics
        self.addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.in_progress += 1
        try:
            await self.application(scope, receive, noted)
        finally:
            self.metrics.in_progress -= 1
            endpoint = scope["path"] if scope["path"] in self.addresses else "other"
            self.metrics.add(endpoint, status, time.perf_counter() - began)


class PendingBodies:
    """The bodies of requests that are not answered yet: all of them together have a bounded size."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self.max_bytes = max_bytes
        self.metrics = metrics

    @asynccontextmanager
    async def body(self, request: Request, limit: int) -> AsyncIterator[bytearray]:
        """The body of a request, which counts from its first byte until it is answered."""
        content = bytearray()
        try:
            async for chunk in _chunks(request, limit):
                if self.metrics.waiting_bytes + len(chunk) > self.max_bytes:
                    message = f"requests of more than {self.max_bytes} bytes wait already; try again later"
                    raise HTTPException(503, message, {"retry-after": "1"})
                self.metrics.waiting_bytes += len(chunk)
                content += chunk
            yield content
        finally:
            self.metrics.waiting_bytes -= len(content)


async def _chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body of a request as it arrives, refused as soon as it is known to be too large, before it is read."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HTTPException(415, f"the request must be application/json (got {media_type or 'no content type'})")
    too_large = HTTPException(413, f"the request is larger than the {limit} bytes that this server takes here")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    received = 0
    until = asyncio.get_running_loop().time() + ARRIVAL_S
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout_at(until):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive within {ARRIVAL_S:g} s") from None
        if chunk is None:
            return
        received += len(chunk)
        if received > limit:
            raise too_large
        yield chunk


def _encoded(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _json(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(content, status, headers, media_type="application/json")


def _sentence(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json(_encoded({"error": sentence}), status, headers)
