"""The HTTP endpoints: limits, content types and statuses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from medn.core.errors import MednError, did_you_mean
from medn.serving.access import GuardedApplication
from medn.serving.answers import JSON_TYPE, ONNX_TYPES, Answers, TooLarge
from medn.serving.docs_page import POLICY, docs_page
from medn.serving.limits import ServerLimits
from medn.serving.metrics import Metrics
from medn.serving.model_reader import ModelReader
from medn.serving.schema import openapi

PAGE = Path(__file__).with_name("page.html")
PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
)

Endpoint = Callable[[Request], Awaitable[Response]]


def application(path: Path, device: str | None, limits: ServerLimits, token: str = "") -> ASGIApp:
    """The ASGI application for one bundle; with a token, for those who bring it."""
    metrics = Metrics()
    reader = ModelReader(limits.answer_s)
    endpoints = Endpoints(Answers(path, device, limits.rows, reader), metrics, limits, bool(token))
    routes = [Route(path, endpoint, methods=[method]) for path, (method, endpoint) in endpoints.table.items()]
    handlers: dict[Any, Any] = {
        HTTPException: endpoints.refused,
        MednError: endpoints.impossible,
        ClientDisconnect: endpoints.gone,
        Exception: endpoints.failed,
    }
    served = Starlette(routes=routes, exception_handlers=handlers, lifespan=endpoints.lifespan)
    served.router.redirect_slashes = False  # an address is right or wrong
    guarded = GuardedApplication(served, token) if token else served
    return MeteredApplication(guarded, metrics, frozenset(endpoints.table))


class Endpoints:
    """The handlers of all addresses."""

    def __init__(self, answers: Answers, metrics: Metrics, limits: ServerLimits, with_token: bool = False) -> None:
        self.answers = answers
        self.metrics = metrics
        self.limits = limits
        self.pending = PendingBodies(limits.waiting_bytes, metrics, limits.arrival_s)
        self.about = _encoded(answers.about())
        document = openapi(answers, limits, with_token)
        self.schema = _encoded(document)
        self.docs = docs_page(document)
        self.page = PAGE.read_bytes()
        self.table: dict[str, tuple[str, Endpoint]] = {
            "/v1/layer": ("POST", self.layer),
            "/v1/predict": ("POST", self.predict),
            "/v1/model": ("POST", self.model),
            "/v1/bundle": ("GET", self._fixed(self.about)),
            "/openapi.json": ("GET", self._fixed(self.schema)),
            "/healthz": ("GET", self._fixed(_encoded({"status": "ok"}))),
            "/metrics": ("GET", self.counts),
            "/docs": ("GET", self.documentation),
            "/": ("GET", self.front),
        }

    @asynccontextmanager
    async def lifespan(self, application: Starlette) -> AsyncIterator[None]:
        """The threads for tables and for models end with the server, after the requests they still have."""
        with ThreadPoolExecutor(1, "tables") as self.tables, ThreadPoolExecutor(1, "models") as self.models:
            yield
            if self.answers.reader is not None:  # by now nobody waits for what it reads
                self.answers.reader.stop()

    async def layer(self, request: Request) -> Response:
        async with self.pending.body(request, min(self.limits.layer_bytes, self.limits.size_bytes)) as body:
            answer = self.answers.layer(body)
        self.metrics.layers.inc()
        return _json(_encoded(answer))

    async def predict(self, request: Request) -> Response:
        async with self.pending.body(request, self.limits.size_bytes) as body:

            def work() -> tuple[int, bytes]:
                answer = self.answers.predict(body)
                return answer["rows"], _encoded(answer)

            rows, encoded = await self._in_time(self.tables, work)
        self.metrics.layers.inc(rows)
        return _json(encoded)

    async def model(self, request: Request) -> Response:
        media_types = (JSON_TYPE, *ONNX_TYPES)
        async with self.pending.body(request, self.limits.model_bytes, media_types) as body:
            parameters = dict(request.query_params)

            def work() -> tuple[int, bytes]:
                answer = self.answers.model(body, _media_type(request), parameters)
                return answer.pop("layers_count"), _encoded(answer)

            layers, encoded = await self._in_time(self.models, work)
        self.metrics.layers.inc(layers)
        return _json(encoded)

    async def _in_time(self, worker: ThreadPoolExecutor, work: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        """What a thread computes. What does not begin in time is not begun; what has begun is left alone."""
        try:
            async with asyncio.timeout(self.limits.answer_s):
                return await asyncio.get_running_loop().run_in_executor(worker, work)
        except TimeoutError:
            message = f"no answer within {self.limits.answer_s:g} s; ask for less at once, or try again later"
            raise HTTPException(503, message, {"retry-after": "1"}) from None

    async def counts(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def front(self, request: Request) -> Response:
        return Response(self.page, media_type="text/html", headers={"content-security-policy": PAGE_POLICY})

    async def documentation(self, request: Request) -> Response:
        return Response(self.docs, media_type="text/html", headers={"content-security-policy": POLICY})

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

    def __init__(self, max_bytes: int, metrics: Metrics, arrival_s: float) -> None:
        self.max_bytes = max_bytes
        self.arrival_s = arrival_s
        self.metrics = metrics

    @asynccontextmanager
    async def body(
        self, request: Request, limit: int, media_types: Sequence[str] = (JSON_TYPE,)
    ) -> AsyncIterator[bytearray]:
        """The body of a request, which counts from its first byte until it is answered."""
        content = bytearray()
        try:
            async for chunk in _chunks(request, limit, media_types, self.arrival_s):
                if self.metrics.waiting_bytes + len(chunk) > self.max_bytes:
                    message = f"requests of more than {self.max_bytes} bytes wait already; try again later"
                    raise HTTPException(503, message, {"retry-after": "1"})
                self.metrics.waiting_bytes += len(chunk)
                content += chunk
            yield content
        finally:
            self.metrics.waiting_bytes -= len(content)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _chunks(request: Request, limit: int, media_types: Sequence[str], arrival_s: float) -> AsyncIterator[bytes]:
    """The body of a request as it arrives, refused as soon as it is known to be too large, before it is read."""
    media_type = _media_type(request)
    if media_type not in media_types:
        allowed = " or ".join(media_types)
        raise HTTPException(415, f"the request must be {allowed} (got {media_type or 'no content type'})")
    too_large = HTTPException(413, f"the request is larger than the {limit} bytes that this server takes here")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    received = 0
    until = asyncio.get_running_loop().time() + arrival_s
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout_at(until):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive within {arrival_s:g} s") from None
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
