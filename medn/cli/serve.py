"""`medn serve`: a bundle over HTTP."""

from __future__ import annotations

import os
import signal
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from medn.cli.output import AsJson, say, write_json
from medn.cli.verbosity import LOGGER
from medn.core.errors import MednError
from medn.core.packages import need


def serve(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The file NAME.medn of a run.")],
    device: Annotated[str | None, typer.Option("--device", help="The device of requests that name none.")] = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 picks a free one.")] = 8765,
    max_bytes: Annotated[int, typer.Option("--max-bytes", min=1, help="Of one request.")] = 16_000_000,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Of one table.")] = 100_000,
    max_model_bytes: Annotated[int, typer.Option("--max-model-bytes", min=1, help="Of one model.")] = 64_000_000,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", min=0.001, help="Until a table or a model is answered.")
    ] = 60.0,
    max_connections: Annotated[int, typer.Option("--max-connections", min=1, help="More are turned away.")] = 256,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Holds a token that requests must bring; else MEDN_TOKEN."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer predictions over HTTP, for programs in any language.

    POST /v1/layer and /v1/predict take JSON, /v1/model a whole model; / is a page to try them on, /docs and
    /openapi.json describe them. It prints where it listens and serves until Ctrl-C or SIGTERM, then finishes the
    requests under way. With a token, requests need the header `Authorization: Bearer TOKEN`; nothing is encrypted, so
    put a proxy in front before other machines may ask.

    \b
    Examples:
      medn serve runs/laptop/laptop.medn
      medn serve runs/laptop/laptop.medn --port 0 --json
      curl -H 'content-type: application/json' http://127.0.0.1:8765/v1/layer \\
           -d '{"kind": "linear", "in_features": 512, "out_features": 512, "batch_size": 8}'
      curl -H 'content-type: application/octet-stream' 'http://127.0.0.1:8765/v1/model?batch_size=8' \\
           --data-binary @model.onnx
    """
    need("serving", "prometheus_client", "starlette", "uvicorn", extra="serve")
    from medn.serving.application import application
    from medn.serving.limits import ServerLimits
    from medn.serving.server import address, listen
    from medn.serving.server import serve as serve_on

    token = _token(token_file)
    limits = ServerLimits(
        max_bytes,
        max_rows,
        max_connections,
        waiting_bytes=max(ServerLimits.waiting_bytes, max_bytes, max_model_bytes),
        model_bytes=max_model_bytes,
        answer_s=max_seconds,
    )
    served = application(bundle, device, limits, token)
    with listen(host, port) as listening:
        url = address(listening)
        if as_json:
            write_json({"url": url, "bundle": str(bundle)})
        else:
            typer.echo(url)
        say(f"serving {bundle}{' to those who bring the token' if token else ''}; stop with Ctrl-C")
        if not token and not ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback:
            LOGGER.warning("other machines can ask without a token; --token-file gives it one")
        stopped_by = serve_on(served, listening, max_connections)
    if stopped_by is None:
        raise MednError(f"serving {bundle} ended by itself; the reason is above")
    if stopped_by is signal.SIGINT:
        raise KeyboardInterrupt  # as it is in any other verb
    say("stopped")


def _token(file: Path | None) -> str:
    from medn.serving.access import checked_token, read_token

    if file is not None:
        return read_token(file)
    text = os.environ.get("MEDN_TOKEN", "")
    return checked_token(text, "MEDN_TOKEN") if text else ""
