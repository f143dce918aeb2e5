"""How often the forecast of a learning curve is right: of some layers it is made, with more of them it is checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.few_points.tables import Drawn, draw
from medn.adaptive.cross_validation import growing_errors
from medn.adaptive.curve import learning_curve
from medn.adaptive.quick_fit import QuickFit
from medn.core.atomic import atomic_write
from medn.core.metrics import relative_errors
from medn.core.table import Table
from medn.core.values import content_key
from medn.runs.tables import KindTable, kind_table, read_source

LAYERS = (40, 80, 160)
FACTORS = (1, 2, 4)
ROWS_PER_LAYER = 3
NEAR = 0.2
"""A forecast within a fifth of what came is right."""


@dataclass(frozen=True)
class Checked:
    """One forecast and what came."""

    table: str
    is_public: bool
    layers: int
    factor: int
    seed: int
    error: float
    low: float
    high: float
    came: float


def checked(tables: Sequence[Drawn], seeds: Iterable[int], kept: Path) -> list[Checked]:
    """All of them, those of one table and seed computed once."""
    found: list[Checked] = []
    for drawn in tables:
        table = kind_table(read_source(drawn.run), drawn.kind, device=drawn.device)
        for seed in seeds:
            key = content_key([drawn.name, table.key, seed, *LAYERS, ROWS_PER_LAYER])
            file = kept / "forecasts" / f"{key}.json"
            if not file.is_file():
                made = [each for layers in LAYERS for each in _forecasts(drawn, table, layers, seed)]
                file.parent.mkdir(parents=True, exist_ok=True)
                atomic_write(file, json.dumps([asdict(each) for each in made]).encode())
            found += [Checked(**written) for written in json.loads(file.read_text())]
    return found


def _forecasts(drawn: Drawn, table: KindTable, layers: int, seed: int) -> list[Checked]:
    order = draw(drawn, seed)
    if 2 * layers > len(order.learned):
        return []
    test = _rows(table.table, order.test, seed)
    growing = growing_errors(_rows(table.table, order.learned[:layers], seed), seed)
    curve = learning_curve(growing, table.noise.median if table.noise else None, seed)
    found = []
    for factor in FACTORS:
        if not curve.has_forecast or factor * layers > len(order.learned):
            continue
        learned = _rows(table.table, order.learned[: factor * layers], seed)
        errors = relative_errors(QuickFit.of(learned, seed).predict(test.inputs), test.target)
        told = asdict(curve.forecast(factor * layers))
        found.append(Checked(drawn.name, drawn.is_public, layers, factor, seed, **told, came=float(errors.mean())))
    return found


def _rows(table: Table, layers: Sequence[str], seed: int) -> Table:
    """Some rows of these layers, in all as many as if each had a few."""
    rows = np.flatnonzero(np.isin(table.groups, layers))
    kept = np.random.default_rng(seed).permutation(len(rows))[: ROWS_PER_LAYER * len(layers)]
    return table.take(np.sort(rows[kept]))


def forecast_rows(found: Sequence[Checked]) -> list[dict[str, Any]]:
    """By where the tables are from and how far ahead: how many forecasts were right."""
    rows = []
    for is_public in (True, False):
        for factor in FACTORS:
            same = [each for each in found if (each.is_public, each.factor) == (is_public, factor)]
            if not same:
                continue
            ratios = np.array([each.error / each.came for each in same])
            inside = np.mean([each.low <= each.came <= each.high for each in same])
            rows.append(
                {
                    "tables": "public" if is_public else "of the sweep",
                    "times the layers": factor,
                    "forecasts": len(same),
                    "within a fifth %": round(100 * float((np.abs(ratios - 1) <= NEAR).mean())),
                    "inside bounds %": round(100 * float(inside)),
                    "median ratio": round(float(np.median(ratios)), 2),
                }
            )
    return rows
