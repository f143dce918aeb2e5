"""A bundle of made-up measurements, and the real server on it as a process of its own."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from medn.choosing.bundling import bundle_run
from medn.training.candidate_store import load_candidates
from medn.training.train_run import best_candidates, train_run

JSON = {"content-type": "application/json"}


def write_bundle(write_run: Callable[..., Path], folder: Path) -> Path:
    """Linear layers and activations on two devices."""
    run = write_run(folder / "desk", devices=("fast", "slow"), layers=20, activations=20)
    train_run(run, seconds=4.0, families=["roofline"])
    return bundle_run(run, best_candidates(load_candidates(run / "candidates")))


class Server:
    """`medn serve` on a free port."""

    def __init__(self, bundle: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "medn", "serve", str(bundle), "--port", "0", *options]

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"the server did not start: {self.process.communicate()[1]}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)

    def counts(self) -> dict[str, float]:
        """What the server counts, by the name and labels of each."""
        lines = self.ask("GET", "/metrics")[1].splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = JSON
    ) -> tuple[int, str, http.client.HTTPMessage]:
        """Status, text and headers of an answer; a body that is neither text nor bytes goes as JSON."""
        connection = self.connection()
        sent = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, sent, dict(headers))
        answer = connection.getresponse()
        found = answer.status, answer.read().decode(), answer.headers
        connection.close()
        return found

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        status, text, _ = self.ask("POST", path, body)
        return status, json.loads(text)

    def get(self, path: str) -> Any:
        return json.loads(self.ask("GET", path)[1])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """The exit code after a signal, and what was said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said
