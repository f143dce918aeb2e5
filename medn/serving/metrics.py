"""What the server has done, for Prometheus."""

from __future__ import annotations

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, the upper ends of the bars of the histogram."""


class Metrics:
    """Counts of one server."""

    def __init__(self) -> None:
        self.in_progress = 0
        self.waiting_bytes = 0
        """Of requests that were received and are not answered yet."""
        self._registry = own = CollectorRegistry()
        self._requests = Counter("medn_requests", "requests answered", ("endpoint", "status"), registry=own)
        self._durations = Histogram(
            "medn_request_seconds", "time from a request to its answer", ("endpoint",), buckets=BOUNDS, registry=own
        )
        self.layers = Counter("medn_layers", "layers predicted", registry=own)
        for name, about, value in (
            ("medn_requests_in_progress", "requests being answered", lambda: self.in_progress),
            ("medn_waiting_bytes", "bytes of requests that are not answered yet", lambda: self.waiting_bytes),
            ("process_resident_memory_bytes", "memory that the server holds", _resident_bytes),
        ):
            Gauge(name, about, registry=own).set_function(value)
        started = Gauge("process_start_time_seconds", "when the server started, in seconds since 1970", registry=own)
        started.set_to_current_time()

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        self._requests.labels(endpoint, status).inc()
        self._durations.labels(endpoint).observe(seconds)

    def text(self) -> str:
        return generate_latest(self._registry).decode()


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
