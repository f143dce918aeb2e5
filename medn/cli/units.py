"""Numbers as people read them, under the name that verbs know them by."""

from __future__ import annotations

from medn.core.units import bytes_words, duration_words, latency_words, percent

__all__ = ["bytes_words", "duration_words", "latency_words", "percent"]
