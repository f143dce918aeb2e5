"""The run of a new device: some of its points to learn from, others for test, taken out of the run of all devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from experiments.cross_device.tables import DeviceTable
from medn.core.ranges import WORK_COLUMNS
from medn.core.table import Array
from medn.core.values import Measurement
from medn.runs.folder import RunFolder
from medn.runs.tables import SHEETS_NOTE, TEST_PART, KindTable, Source, kind_table, read_source
from medn.sources.run_sources import KnownDevices
from medn.transfer.candidate_points import sizes
from medn.transfer.points import WAYS, Places

TEST_ROWS = 1_500
"""Rows of the new device that errors are told on, whatever the size and the seed; of few rows a third."""

MOST_FOR_MEDOIDS = 30
"""From more points on they are drawn at random, which is as good."""


@dataclass(frozen=True)
class Cell:
    table: DeviceTable
    device: str
    size: int
    seed: int
    way: str = "medoids"
    """How few points are chosen."""

    @property
    def name(self) -> str:
        way = "" if self.way == "medoids" else f"-{self.way}"
        return f"{self.table.name}-{self.device.replace(' ', '_').replace('/', '_')}-{self.size}-{self.seed}{way}"


def write_target(cell: Cell, devices: Path, sources: Path, run: Path) -> None:
    """Write the run that `medn adapt` is given."""
    table = table_of(devices, cell.device)
    test, pool = _parts(table)
    chosen = [table.points[place] for place in pool[_choose(cell, table, pool, sources)]]
    for_test = {table.points[place] for place in test}
    measured = measured_points(devices)
    with RunFolder(devices).store(must_exist=True) as whole, RunFolder(run).store() as store:
        sheets = whole.read_note(SHEETS_NOTE) or {}
        store.note(SHEETS_NOTE, {name: sheet for name, sheet in sheets.items() if name == cell.device})
        for name, manifest in whole.environments().items():
            store.add_environment(name, manifest)
            store.add_environment(f"{name}-{TEST_PART}", {**manifest, "part": TEST_PART})
        store.record((measured[key].point, visit) for key in chosen for visit in measured[key].visits)
        store.record(
            (measured[key].point, replace(visit, environment_id=f"{visit.environment_id}-{TEST_PART}"))
            for key in for_test
            for visit in measured[key].visits
        )


@cache
def source_of(devices: Path) -> Source:
    return read_source(devices)


@cache
def table_of(devices: Path, device: str) -> KindTable:
    source = source_of(devices)
    (kind,) = source.rows
    return kind_table(source, kind, device=device)


@cache
def measured_points(devices: Path) -> Mapping[str, Measurement]:
    with RunFolder(devices).store(must_exist=True) as store:
        return {each.point.key: each for each in store.measurements()}


def test_rows(table: KindTable) -> Places:
    """The rows of the new device that errors are told on."""
    return _parts(table)[0]


def _parts(table: KindTable) -> tuple[Places, Places]:
    """Rows for test and rows to choose from; a layer is on one side."""
    names, layer = np.unique(table.table.groups, return_inverse=True)
    rank = np.random.default_rng(0).permutation(len(names))[layer]
    order = rank.argsort(kind="stable")
    count = min(TEST_ROWS, len(order) // 3)
    last = rank[order[count - 1]]
    return np.flatnonzero(rank <= last), np.flatnonzero(rank > last)


def _choose(cell: Cell, table: KindTable, pool: Places, sources: Path) -> list[int]:
    way = cell.way if cell.size <= MOST_FOR_MEDOIDS else "random"
    features = _features(table, pool, sources) if way != "random" else np.zeros((len(pool), 1))
    return WAYS[way](features, cell.size, (), cell.seed)


def _features(table: KindTable, pool: Places, sources: Path) -> Array:
    """What the points that could be measured are, and what known devices take; nothing of what they take here."""
    beside = KnownDevices.read([sources]).beside(replace(table, table=table.table.take(pool))).table
    asked = {parameter.name for parameter in table.layer_kind.parameters} | {"batch_size", *WORK_COLUMNS}
    columns = {name: beside.column(name) for name in beside.schema.numeric if name in asked}
    return np.column_stack([*sizes(columns), np.asarray(beside.source_logs)])
