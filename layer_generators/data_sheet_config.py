"""The data sheet of a device as configs and mappings write it."""

from __future__ import annotations

from pydantic import Field

from medn.core.config import Section
from medn.core.data_sheet import SHEET_NUMBERS, Sheet


class DataSheet(Section):
    """What a device could do at best; every number may be left out."""

    peak_gflops: float | None = Field(default=None, gt=0, description=SHEET_NUMBERS["peak_gflops"])
    bandwidth_gb_s: float | None = Field(default=None, gt=0, description=SHEET_NUMBERS["bandwidth_gb_s"])
    multiprocessors: float | None = Field(default=None, gt=0, description=SHEET_NUMBERS["multiprocessors"])
    cache_mb: float | None = Field(default=None, gt=0, description=SHEET_NUMBERS["cache_mb"])
    clock_mhz: float | None = Field(default=None, gt=0, description=SHEET_NUMBERS["clock_mhz"])

    @property
    def numbers(self) -> Sheet:
        """Those that are known."""
        return self.model_dump(exclude_none=True)
