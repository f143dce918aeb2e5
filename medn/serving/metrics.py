"""What the server has done, counted and in the text format that Prometheus reads."""

from __future__ import annotations

import bisect
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, the upper ends of the bars of the histogram."""


@dataclass
class Durations:
    """A histogram of seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass
class Metrics:
    """Counts of one server. They are kept by the event loop alone, so nothing here needs a lock."""

    started: float = field(default_factory=time.time)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By endpoint and status."""
    durations: dict[str, Durations] = field(default_factory=dict)
    layers: int = 0
    in_progress: int = 0
    waiting_bytes: int = 0
    """Of requests that were received and are not answered yet."""

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        self.requests[endpoint, status] += 1
        self.durations.setdefault(endpoint, Durations()).add(seconds)

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("medn_requests_total", "counter", "requests answered")
        for (endpoint, status), count in sorted(self.requests.items()):
            yield f'medn_requests_total{{endpoint="{endpoint}",status="{status}"}} {count}'
        yield from _head("medn_request_seconds", "histogram", "time from a request to its answer")
        for endpoint, found in sorted(self.durations.items()):
            sums = list(itertools.accumulate(found.counts))
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), sums, strict=True):
                yield f'medn_request_seconds_bucket{{endpoint="{endpoint}",le="{bound}"}} {count}'
            yield f'medn_request_seconds_sum{{endpoint="{endpoint}"}} {found.total:.9g}'
            yield f'medn_request_seconds_count{{endpoint="{endpoint}"}} {sums[-1]}'
        yield from _head("medn_layers_total", "counter", "layers predicted")
        yield f"medn_layers_total {self.layers}"
        yield from _head("medn_requests_in_progress", "gauge", "requests being answered")
        yield f"medn_requests_in_progress {self.in_progress}"
        yield from _head("medn_waiting_bytes", "gauge", "bytes of requests that are not answered yet")
        yield f"medn_waiting_bytes {self.waiting_bytes}"
        yield from _head("process_start_time_seconds", "gauge", "when the server started, in seconds since 1970")
        yield f"process_start_time_seconds {self.started:.3f}"
        yield from _head("process_resident_memory_bytes", "gauge", "memory that the server holds")
        yield f"process_resident_memory_bytes {_resident_bytes()}"


def _head(name: str, sort: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {sort}"


def _resident_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)
