"""The fastest that any measured layer read from memory."""

from __future__ import annotations

from typing import Any

import pytest

from medn.core.environment import DEFAULT_CACHE_BYTES, largest_cache_bytes
from medn.runs.memory_rate import streaming_rates
from medn.runs.tables import Source


def row(latency_s: float | None, **changed: Any) -> dict[str, Any]:
    layer = {"in_features": 1000, "out_features": 999, "rows": 1, "bias": False}  # 4 MB read at batch size 1
    condition = {"batch_size": 1, "dtype": "fp32", "cache": "cold", "device": "cpu", "status": "ok"}
    return {**layer, **condition, "latency_s": latency_s, **changed}


def test_the_fastest_cold_layer_counts() -> None:
    assert streaming_rates(Source({"linear": [row(4e-3), row(1e-3), row(2e-3)]}), 1e6) == {"cpu": pytest.approx(4e9)}


def test_what_may_lie_in_a_cache_is_not_read_from_memory() -> None:
    assert streaming_rates(Source({"linear": [row(1e-3, cache="hot")]}), 3e6) == {"cpu": pytest.approx(1e9)}
    assert streaming_rates(Source({"linear": [row(1e-9, cache="hot")]}), 8e6) == {}


def test_layers_that_failed_say_nothing() -> None:
    assert streaming_rates(Source({"linear": [row(None, status="failed"), row(1e-3)]}), 0) == {"cpu": 4e9}


def test_each_device_has_its_own_rate() -> None:
    rows = [row(1e-3), row(2e-3, device="gpu")]
    assert streaming_rates(Source({"linear": rows}), 0) == {"cpu": 4e9, "gpu": 2e9}


def test_only_the_rows_of_a_table_that_are_looked_up_are_read() -> None:
    table = {"vocabulary": 10**6, "features": 1000, "tokens": 1}
    condition = {"batch_size": 1, "dtype": "fp32", "cache": "cold", "device": "cpu", "status": "ok", "latency_s": 1e-6}
    (found,) = streaming_rates(Source({"embedding": [{**table, **condition}]}), 0).values()
    assert found < 1e10


def test_the_largest_cache_of_all_machines_counts() -> None:
    small, large = ({"cpu": {"cache_bytes": {"L2": 10, "L3": size}}} for size in (200, 300))
    assert largest_cache_bytes({"a": large, "b": small, "c": {}}) == 300


@pytest.mark.parametrize(
    "junk", [5, None, {"cpu": 3}, {"cpu": {"cache_bytes": [1]}}, {"cpu": {"cache_bytes": {"L3": "x"}}}]
)
def test_a_machine_that_is_described_wrongly_says_nothing(junk: Any) -> None:
    assert largest_cache_bytes({"a": junk}) == DEFAULT_CACHE_BYTES
