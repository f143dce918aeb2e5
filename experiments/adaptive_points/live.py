"""The same comparison on this machine: test points, points drawn at random and chosen ones, all of them measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medn.adaptive.adaptive_sweep import AdaptiveSweep
from medn.adaptive.quick_fit import QuickFit
from medn.adaptive.run_curve import ADAPTIVE_NOTE
from medn.core.metrics import relative_errors
from medn.core.table import Array, as_inputs
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder
from medn.runs.inputs import input_columns
from medn.runs.tables import KindTable, Source, column_of, kind_table, read_source

TEST_SHARE = 0.5
"""As many test points as this share of the points to learn from."""

SHARES = (0.25, 0.35, 0.5, 0.7, 1.0)
"""Of the points, at which errors are told."""


def compare_live(path: Path, out: Path, points: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure, or go on where it stopped, and compare."""
    config = _with_points(parse_sweep(path), points)
    test = _with_points(config.model_copy(update={"seed": config.seed + 1}), round(TEST_SHARE * points))
    runs = {name: RunFolder(out / config.name / name) for name in ("test", "random", "adaptive")}
    run_sweep(test, runs["test"])
    run_sweep(config, runs["random"])
    run_sweep(config, runs["adaptive"], next_points=AdaptiveSweep(config, runs["adaptive"]).next_points)
    orders = {"random": drawn_order(config), "adaptive": chosen_order(runs["adaptive"])}
    sources = {name: read_source(folder.path) for name, folder in runs.items()}
    rows = []
    for share in SHARES:
        row: dict[str, Any] = {"points": round(share * points)}
        for way, order in orders.items():
            errors = _errors(config, sources, way, set(order[: round(share * points)]))
            row[f"{way} %"] = round(100 * float(errors.mean()), 2)
        rows.append(row)
    noise = {name: _noise(source) for name, source in sources.items()}
    error = "mean over test points whose layers are in neither of the others"
    about = {"config": path.name, "points of each way": points, "error": error, "noise": noise}
    return about, rows


def _with_points(config: SweepConfig, points: int) -> SweepConfig:
    return config.model_copy(update={"budget": config.budget.model_copy(update={"points": points})})


def drawn_order(config: SweepConfig) -> list[str]:
    """Keys in an order of which any beginning has every kind by its share."""
    points = plan_points(config).points
    counts: dict[str, int] = {}
    places = []
    totals = {kind: sum(point.layer.kind == kind for point in points) for kind in config.layers}
    for point in points:
        counts[point.layer.kind] = counts.get(point.layer.kind, 0) + 1
        places.append(counts[point.layer.kind] / totals[point.layer.kind])
    return [points[place].key for place in np.argsort(places, kind="stable")]


def chosen_order(folder: RunFolder) -> list[str]:
    """Keys in the order of rounds: those that come first, then what the journal says was chosen, both ways in step."""
    with folder.store(must_exist=True) as store:
        note = store.read_note(ADAPTIVE_NOTE)
        later = [key for name in ("informative", "random") for key in note[name]]
        first = [key for key in store.visited() if key not in set(later)]
    places = [(place + 1) / len(note[name]) for name in ("informative", "random") for place in range(len(note[name]))]
    return [*first, *(later[place] for place in np.argsort(places, kind="stable"))]


def _errors(config: SweepConfig, sources: Mapping[str, Source], way: str, keys: set[str]) -> Array:
    """Of every test point, by what learns from these points alone; kinds are among them by their share."""
    errors: list[Array] = []
    for kind in config.layers:
        for device in sources[way].devices:
            tables = {name: kind_table(source, kind, device=device) for name, source in sources.items()}
            learned, judged = tables[way], tables["test"]
            seen = np.concatenate([tables[name].table.groups for name in ("random", "adaptive")])
            new = ~np.isin(judged.table.groups, seen)
            rows = np.array([key in keys for key in learned.points])
            fitted = QuickFit.of(learned.table.take(rows), config.seed)
            predicted = fitted.predict(_inputs(sources["test"], judged, learned)[new])
            errors.append(relative_errors(predicted, judged.table.target[new]))
    return np.concatenate(errors)


def _inputs(source: Source, judged: KindTable, learned: KindTable) -> Array:
    """The test points as the table that is learned from has its inputs: others may vary here."""
    by_key = {row["point_key"]: row for row in source.rows[judged.kind]}
    rows = [by_key[key] for key in judged.points]
    names = [name for name in rows[0] if all(row.get(name) is not None for row in rows)]
    columns = {name: column_of([row[name] for row in rows]) for name in names}
    found = input_columns(learned.layer_kind, columns, learned.choice, (), learned.sheets, learned.dtypes)
    return as_inputs({name: found[name] for name in learned.table.schema.names}, learned.table.schema)


def _noise(source: Source) -> float | None:
    """The mean difference between two halves of the visits."""
    found: Sequence[float] = [
        row["split_half_difference"]
        for rows in source.rows.values()
        for row in rows
        if row["split_half_difference"] is not None
    ]
    return round(float(np.mean(found)), 4) if found else None
