"""How the server holds up: a bounded number of clients that ask without a pause, for a minute.

    python -m experiments.serve_load runs/laptop/laptop.medn --seconds 60 --out results

Starts `medn serve` on a free port, and clients in another process: each has one connection and sends its next request
when the last one is answered. Most ask for one layer, every tenth for a table of 1,000 of one kind. The layers are
drawn from where the bundle was measured, more of them than the server remembers. With --engines c,numpy a server of
each engine is asked, one after the other. Writes serve_load.{md,json}; the exit code is 1 if any request failed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from experiments.script import named
from experiments.tables import markdown_table, write_tables
from medn.core.environment import usable_cores
from medn.core.errors import MednError, UsageError
from medn.predictor.predictor import Predictor
from medn.program.engines import NUMPY, VARIABLE, C
from medn.serving.answers import Answers

LAYERS = 20_000
TABLE_ROWS = 1_000
TABLE_EVERY = 10
WARM_UP_S = 3.0
HEADERS = {"content-type": "application/json"}
MOST_DRAWS = 20
"""How many times as many layers as are wanted may be drawn: many a drawn layer is impossible."""
Row = dict[str, Any]
Answered = tuple[str, float, bool]
"""The endpoint, the seconds until the answer, and whether it was a good one."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--device", default=None, help="needed where the bundle knows several")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--layers", type=int, default=LAYERS, help="how many different ones are asked for")
    parser.add_argument("--engines", default="c", help="of c and numpy, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    try:
        rows, about = run(options)
    except MednError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    write_tables(options.out, "serve_load", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 1 if any(row["errors"] for row in rows) else 0


def run(options: argparse.Namespace) -> tuple[list[Row], Row]:
    served = Answers(options.bundle, options.device)
    layers = draw_layers(served, options.layers, np.random.default_rng(options.seed))
    rows, about = [], dict[str, Any]()
    for engine in named("engine", options.engines, dict.fromkeys((C, NUMPY))):
        found, told = serve(engine, served.default, layers, options)
        rows += found
        about |= {f"{name}, {engine}": value for name, value in told.items()}
    about |= {
        "clients": f"{options.connections} connections for {options.seconds:g} s, another process on the same machine",
        "layers": f"{len(layers)} different ones of {len({layer['kind'] for layer in layers})} kinds",
        "cores": usable_cores(),
    }
    return rows, about


def serve(engine: str, device: str, layers: Sequence[Row], options: argparse.Namespace) -> tuple[list[Row], Row]:
    """A server of one engine under load."""
    command = [sys.executable, "-m", "medn", "serve", str(options.bundle), "--port", "0", "--device", device]
    environment = {**os.environ, VARIABLE: engine}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout
            address = urlsplit(server.stdout.readline().strip()).netloc
            ask_for(address, layers, WARM_UP_S, options)
            before, load_before = resident_bytes(address), os.getloadavg()[0]
            answers = ask_for(address, layers, options.seconds, options)
            after = resident_bytes(address)
        finally:
            server.send_signal(signal.SIGTERM)
    about = {
        "server memory": f"{before / 1e6:.1f} MB after warming up, {after / 1e6:.1f} MB at the end",
        "server's exit code": server.returncode,
        "load average before": round(load_before, 1),
    }
    rows = [endpoint_row(name, answers, options.seconds) for name in ("/v1/layer", "/v1/predict")]
    return [{"engine": engine, **row} for row in rows], about


def draw_layers(answers: Answers, count: int, random: np.random.Generator) -> list[Row]:
    """Layers of all kinds in equal numbers, each of which the predictor takes."""
    predictor = answers.predictors[answers.default]
    about = answers.about()["devices"][answers.default]
    share = -(-count // len(about))
    drawn = [layer for kind, measured in about.items() for layer in _draw(predictor, kind, measured, share, random)]
    return [drawn[place] for place in random.permutation(len(drawn))[:count]]


def _draw(predictor: Predictor, kind: str, measured: Row, count: int, random: np.random.Generator) -> Iterator[Row]:
    """Layers of one kind, evenly on the logarithmic scale between the ends of what was measured."""
    parameters = predictor.estimator(kind).query.parameters
    drawn = 0
    for _ in range(MOST_DRAWS * count):
        layer: Row = {}
        for name, seen in measured["measured"].items():
            if parameters[name].type is str:
                layer[name] = str(random.choice(seen))
            elif parameters[name].type is float:
                layer[name] = float(random.uniform(*seen))
            else:
                low, high = np.log1p(seen)
                layer[name] = parameters[name].type(round(float(np.expm1(random.uniform(low, high)))))
        try:
            predictor.layer(kind, **layer)
        except UsageError:  # sizes that cannot go together
            continue
        yield {"kind": kind, **layer}
        drawn += 1
        if drawn == count:
            return


def ask_for(address: str, layers: Sequence[Row], seconds: float, options: argparse.Namespace) -> list[Answered]:
    """What clients in another process found."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_clients, args=(sending, address, layers, seconds, options.connections))
    process.start()
    sending.close()
    try:
        answers: list[Answered] = receiving.recv()
    except EOFError:
        raise MednError("the clients ended without a result") from None
    finally:
        process.join()
    return answers


def _clients(sending: Any, address: str, layers: Sequence[Row], seconds: float, connections: int) -> None:
    single = [json.dumps(layer).encode() for layer in layers]
    tables = [json.dumps({"columns": columns}).encode() for columns in _tables(layers)]
    answers: list[Answered] = []
    stop = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=_client, args=(address, single, tables, place, stop, answers))
        for place in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sending.send(answers)


def _tables(layers: Sequence[Row]) -> Iterator[Row]:
    """The layers of each kind as columns, by as many as a table has; what is left over is repeated."""
    for kind in sorted({layer["kind"] for layer in layers}):
        own = [layer for layer in layers if layer["kind"] == kind]
        for start in range(0, len(own), TABLE_ROWS):
            rows = [own[place % len(own)] for place in range(start, start + TABLE_ROWS)]
            yield {name: [row[name] for row in rows] for name in rows[0]}


def _client(
    address: str, single: Sequence[bytes], tables: Sequence[bytes], place: int, stop: float, answers: list[Answered]
) -> None:
    """One connection that asks until the time is over; a broken one is an error, and a new one follows."""
    random = np.random.default_rng(place)
    connection = http.client.HTTPConnection(address, timeout=30)
    number = place
    while time.perf_counter() < stop:
        number += 1
        path, bodies = ("/v1/layer", single) if number % TABLE_EVERY else ("/v1/predict", tables)
        body = bodies[random.integers(len(bodies))]
        began = time.perf_counter()
        try:
            connection.request("POST", path, body, HEADERS)
            answer = connection.getresponse()
            answer.read()
            good = answer.status == 200
        except (OSError, http.client.HTTPException):
            connection.close()
            good = False
        answers.append((path, time.perf_counter() - began, good))
    connection.close()


def resident_bytes(address: str) -> int:
    """The memory of the server by its own account."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return next(int(float(line.split()[1])) for line in lines if line.startswith("process_resident_memory_bytes "))


def endpoint_row(path: str, answers: Sequence[Answered], seconds: float) -> Row:
    times = np.array([spent for endpoint, spent, good in answers if endpoint == path and good])
    errors = sum(endpoint == path and not good for endpoint, _, good in answers)
    middle, high, worst = (np.quantile(times, [0.5, 0.99, 1.0]) * 1e3).tolist() if len(times) else (None, None, None)
    rows = TABLE_ROWS if path == "/v1/predict" else 1
    return {
        "endpoint": path,
        "requests": len(times) + errors,
        "errors": errors,
        "requests/s": len(times) / seconds,
        "layers/s": rows * len(times) / seconds,
        "p50 ms": middle,
        "p99 ms": high,
        "worst ms": worst,
    }


if __name__ == "__main__":
    sys.exit(main())
