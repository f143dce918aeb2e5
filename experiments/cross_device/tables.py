"""Public tables of several devices each, thinned out, with the data sheets of the devices."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.public.prepare import prepared
from medn.core.atomic import atomic_path
from medn.core.config import parse_yaml
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping
from medn.runs.folder import RunFolder

MAPPINGS = Path(__file__).resolve().parents[1] / "imports"
ROWS = 12_000
"""Of each device: its predictor learns from them, or errors are told on some and points are chosen from the others."""

Row = dict[str, Any]

# Dense bf16 arithmetic, memory bandwidth, multiprocessors and last-level cache, from the manufacturers' data sheets.
AIC_SHEETS = {
    "A100-SXM4-80GB": (312_000, 2039, 108, 40),
    "H100 80GB HBM3": (989_000, 3350, 132, 50),
    "H200": (989_000, 4800, 132, 50),
    "B200": (2_250_000, 8000, 148, 126),
    "B300 SXM6 AC": (2_250_000, 8000, 148, 126),
    "GB200": (2_500_000, 8000, 148, 126),
    "GB300": (2_500_000, 8000, 152, 126),
    "L40S": (362_000, 864, 142, 96),
    "RTX PRO 6000 Server": (504_000, 1597, 188, 128),
    "Intel(R) Arc(TM) Pro B60 Graphics": (98_500, 456, 20, 18),
}
# The same for fp32 on AMD GPUs; gfx1030 counts pairs of compute units.
MIOPEN_SHEETS = {
    "gfx900_56cu": (10_500, 410, 56, 4),
    "gfx900_64cu": (12_300, 484, 64, 4),
    "gfx906_60cu": (13_300, 1024, 60, 4),
    "gfx906_64cu": (14_700, 1024, 64, 4),
    "gfx908_120cu": (23_100, 1230, 120, 8),
    "gfx90a_104cu": (22_600, 1638, 104, 8),
    "gfx90a_110cu": (23_950, 1638, 110, 8),
    "gfx1030_36cu": (20_700, 512, 36, 128),
    "gfx942_304cu": (163_400, 5300, 304, 256),
}


def _sheets(known: Mapping[str, tuple[float, float, float, float]]) -> dict[str, Row]:
    names = ("peak_gflops", "bandwidth_gb_s", "multiprocessors", "cache_mb")
    return {device: dict(zip(names, numbers, strict=True)) for device, numbers in known.items()}


@dataclass(frozen=True)
class DeviceTable:
    """A table of one layer kind on several devices."""

    name: str
    file: str
    mapping: str
    """The mapping that is shipped for it, whose `where` and `sheets` are those of this table."""
    is_wanted: Callable[[Row], bool]
    sheets: Mapping[str, Row] = field(default_factory=dict)
    """Those of the mapping where none are given."""
    source_family: str = "lightgbm"
    """What learns each known device."""

    def imported(self, data: Path, out: Path) -> Path:
        """The run of all devices, thinned out and imported where it is not there yet."""
        run = out / f"{self.name}-devices"
        if run.is_dir():
            return run
        with atomic_path(run) as beside:
            beside.mkdir(parents=True)
            table = beside / "rows.csv"
            write_thinned(prepared(self.file, data, out), table, self.is_wanted, ROWS)
            import_table(table, self._mapping(), RunFolder(beside))
        return run

    def _mapping(self) -> ImportMapping:
        """The shipped one, for all devices."""
        written = parse_yaml((MAPPINGS / self.mapping).read_text(), self.mapping)
        assert isinstance(written, dict), "a mapping is one"
        written = {name: value for name, value in written.items() if name != "where"}
        return ImportMapping.model_validate({**written, **({"sheets": self.sheets} if self.sheets else {})})


def _is_cde(row: Row) -> bool:
    return bool(row["op"] == "conv2d" and row["batch"] <= 32)


def _is_aic(row: Row) -> bool:
    return bool(row["dtype"] == "bfloat16")


def _is_miopen(row: Row) -> bool:
    return bool(row["dtype"] == "fp32" and row["layout"] == "NCHW" and "Naive" not in row["solver"])


TABLES = {
    table.name: table
    for table in (
        DeviceTable("cde", "cde_conv2d.csv", "cde_conv2d_pooled.yaml", _is_cde),
        DeviceTable("aic", "aic_gemm.csv.gz", "aic_gemm.yaml", _is_aic, _sheets(AIC_SHEETS)),
        DeviceTable("miopen", "miopen_conv_fwd.csv.gz", "miopen_conv2d.yaml", _is_miopen, _sheets(MIOPEN_SHEETS)),
    )
}


def write_thinned(source: Path, path: Path, is_wanted: Callable[[Row], bool], most: int) -> None:
    """The wanted rows of a table as another one, at random at most so many of each device."""
    from pyarrow import csv as arrow_csv

    rows = [row for row in arrow_csv.read_csv(source).to_pylist() if is_wanted(row)]
    kept: dict[str, int] = {}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in (rows[place] for place in np.random.default_rng(0).permutation(len(rows))):
            kept[row["device"]] = kept.get(row["device"], 0) + 1
            if kept[row["device"]] <= most:
                writer.writerow(row)
