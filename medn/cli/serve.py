"""`medn serve`: a bundle over HTTP."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from medn.cli.output import AsJson, say, write_json
from medn.core.errors import MednError
from medn.core.packages import need


def serve(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The file NAME.medn of a run.")],
    device: Annotated[str | None, typer.Option("--device", help="The device of requests that name none.")] = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 picks a free one.")] = 8765,
    max_bytes: Annotated[int, typer.Option("--max-bytes", min=1, help="Of one request.")] = 16_000_000,
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="Of one table.")] = 100_000,
    max_connections: Annotated[int, typer.Option("--max-connections", min=1, help="More are turned away.")] = 256,
    as_json: AsJson = False,
) -> None:
    """Answer predictions over HTTP, for programs in any language.

    POST /v1/layer and /v1/predict take JSON; / is a page to try them on, /openapi.json describes them. It prints where
    it listens and serves until Ctrl-C or SIGTERM, then finishes the requests under way. There is no password: keep to
    this machine, or put a proxy in front.

    \b
    Examples:
      medn serve runs/laptop/laptop.medn
      medn serve runs/laptop/laptop.medn --port 0 --json
      curl -H 'content-type: application/json' http://127.0.0.1:8765/v1/layer \\
           -d '{"kind": "linear", "in_features": 512, "out_features": 512, "batch_size": 8}'
    """
    need("serving", "prometheus_client", "starlette", "uvicorn", extra="serve")
    from medn.serving.application import ServerLimits, application
    from medn.serving.server import address, listen
    from medn.serving.server import serve as serve_on

    served = application(bundle, device, ServerLimits(max_bytes, max_rows, max_connections))
    with listen(host, port) as listening:
        url = address(listening)
        if as_json:
            write_json({"url": url, "bundle": str(bundle)})
        else:
            typer.echo(url)
        say(f"serving {bundle}; stop with Ctrl-C")
        stopped_by = serve_on(served, listening, max_connections)
    if stopped_by is None:
        raise MednError(f"serving {bundle} ended by itself; the reason is above")
    if stopped_by is signal.SIGINT:
        raise KeyboardInterrupt  # as it is in any other verb
    say("stopped")
