"""Tables that the tests of regressors learn from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from medn.core.table import Schema, Table

SCHEMA = Schema(
    (
        *("in_channels", "out_channels", "in_h", "kernel_size", "batch_size", "utilization", "function"),
        *("flops", "bytes_read", "bytes_written", "parameter_bytes", "memory_bytes", "intensity"),
    ),
    {"function": ("relu", "tanh", "silu")},
)


def make_table(rows: int, seed: int = 0) -> Table:
    """Convolutions by the roofline of a small device, with steps at multiples of 16 and 5 % of noise."""
    random = np.random.default_rng(seed)
    in_channels, out_channels = random.integers(3, 256, rows), random.integers(8, 512, rows)
    size, kernel, batch = random.integers(4, 64, rows), random.choice([1, 3, 5], rows), 2 ** random.integers(0, 5, rows)
    busy = random.uniform(0, 0.8, rows) * (random.random(rows) > 0.5)
    function = random.integers(0, 3, rows)
    flops = 2.0 * batch * in_channels * out_channels * (size * kernel) ** 2
    parameters = 4.0 * in_channels * out_channels * kernel**2
    read, written = 4.0 * batch * in_channels * size**2 + parameters, 4.0 * batch * out_channels * size**2
    padded = -(-out_channels // 16) * 16 / out_channels
    seconds = 1e-5 * (1 + function) + np.maximum(flops * padded / 5e10, (read + written) / 8e9)
    seconds *= np.exp(random.normal(0, 0.05, rows)) / (1 - 0.8 * busy)
    columns = (in_channels, out_channels, size, kernel, batch, busy, function)
    analytic = (flops, read, written, parameters, read + written, flops / (read + written))
    inputs = np.column_stack([*columns, *analytic]).astype(np.float32).astype(np.float64)
    return Table(SCHEMA, inputs, seconds, np.array([f"layer {row}" for row in range(rows)]))


@pytest.fixture(scope="session")
def latency_table() -> Callable[..., Table]:
    """Makes a table of so many rows."""
    return make_table


@pytest.fixture(scope="session")
def train() -> Table:
    return make_table(300, seed=1)


@pytest.fixture(scope="session")
def validation() -> Table:
    return make_table(80, seed=2)


@pytest.fixture(scope="session")
def held_out() -> Table:
    return make_table(150, seed=3)
