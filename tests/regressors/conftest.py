"""The tables that the tests of regressors learn from are those of the suite that all families pass."""

from __future__ import annotations

from medn.regressors.conformance import held_out, latency_table, train, validation

__all__ = ["held_out", "latency_table", "train", "validation"]
