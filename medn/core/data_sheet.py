"""A device's data sheet: the few numbers that say what it could do at best."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from medn.core.errors import unknown
from medn.core.text import shown

Sheet = Mapping[str, Any]
"""Numbers of a data sheet by name, those that are known: one each, or a column with one per row."""

Sheets = Mapping[str, Sheet]
"""By device."""

NO_SHEET: Sheet = MappingProxyType({})

SHEET_NUMBERS: Mapping[str, str] = {
    "peak_gflops": "arithmetic of the whole device at its peak, in GFLOP/s, for the data type that was measured",
    "bandwidth_gb_s": "main memory bandwidth at its peak, in GB/s",
    "multiprocessors": "multiprocessors or compute units of a GPU, cores of a CPU",
    "cache_mb": "the last-level cache, in MB",
    "clock_mhz": "the clock at work, in MHz",
}

LARGEST = 1e30
"""Nothing is as fast or as large."""


def sheet_mistakes(sheet: Mapping[Any, Any]) -> list[str]:
    """A sentence for everything that cannot stand in a data sheet."""
    mistakes = []
    for name, number in sheet.items():
        if name not in SHEET_NUMBERS:
            mistakes.append(unknown("number of a data sheet", name, SHEET_NUMBERS))
        elif isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < LARGEST:
            mistakes.append(f"{name}: must be a number above 0 (got {shown(number)})")
    return mistakes
