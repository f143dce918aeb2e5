"""What all cells say together: errors as geometric means over tables and seeds, coverages as means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.few_points.cells import ALONE, OWN, PEER_INPUTS, Cell

Json = dict[str, Any]
Row = dict[str, Any]

CHOSEN, ORACLE, MEDN = "chosen", "best family on test rows", "medn"
DRAWS, LEVEL = 2000, 0.95


@dataclass(frozen=True)
class Result:
    """What everybody made of one cell."""

    cell: Cell
    by: Mapping[str, Json]

    @property
    def own(self) -> Json:
        return self.by[OWN]

    @property
    def errors(self) -> dict[str, float]:
        """By everybody who has one: what was chosen, the best family in hindsight, families, MEDN alone, peers."""
        families: dict[str, float] = self.own["families"]
        found = {CHOSEN: self.own["error"], ORACLE: min(families.values()), **families}
        beside = {who: self.by[who]["error"] for who in (ALONE, *PEER_INPUTS) if who in self.by}
        return {**found, **{who: error for who, error in beside.items() if error is not None}}


def whole(results: Sequence[Result]) -> list[Result]:
    """Those that medn has learned; everything is compared with what it chose."""
    return [each for each in results if OWN in each.by and each.own["error"] is not None]


def size_rows(results: Sequence[Result]) -> list[Row]:
    """One row for each number of layers."""
    return [_size_row(size, [each for each in results if each.cell.layers == size]) for size in sizes(results)]


def sizes(results: Sequence[Result]) -> list[int]:
    return sorted({each.cell.layers for each in results})


def _size_row(size: int, results: Sequence[Result]) -> Row:
    errors = by_name(results)
    fixed = {name: error for name, error in errors.items() if name not in (CHOSEN, ORACLE, ALONE, *PEER_INPUTS)}
    best = min(fixed, key=fixed.__getitem__, default=None)
    return {
        "layers": size,
        "tables": len({each.cell.table.name for each in results}),
        "cells": len(results),
        "chosen %": errors[CHOSEN],
        "best family on test rows %": errors[ORACLE],
        "regret %": 100 * (errors[CHOSEN] / errors[ORACLE] - 1),
        "worst regret %": 100 * max(each.errors[CHOSEN] / each.errors[ORACLE] - 1 for each in results),
        "best fixed family": f"{best} {fixed[best]:.2f}" if best else None,
        "MEDN %": errors.get(MEDN),
        "gain over MEDN, points": gain(results, MEDN),
        "MEDN alone %": errors.get(ALONE),
        "gain over MEDN alone, points": gain(results, ALONE),
        **{f"{who} %": errors[who] for who in PEER_INPUTS if who in errors},
        "error / promised": _geometric([each.own["error"] / each.own["promised"] for each in results]),
        "covered %": 100 * _mean(results, "covered"),
        "covered far %": 100 * _mean(results, "covered far"),
        "width %": 100 * _mean(results, "width"),
        "train s": float(np.mean([each.own["spent"]["train"] for each in results])),
        "select s": float(np.mean([each.own["spent"]["select"] for each in results])),
    }


def by_name(results: Sequence[Result]) -> dict[str, float]:
    """Geometric means in per cent, of everybody that has an error in every cell."""
    errors = [each.errors for each in results]
    return {
        name: 100 * _geometric([own[name] for own in errors])
        for name in errors[0]
        if all(name in own for own in errors)
    }


def family_rows(results: Sequence[Result]) -> list[Row]:
    """One row for each family and each peer, with a column for each number of layers; cells where it has failed are
    counted, and its mean is over the others."""
    names = list(dict.fromkeys(name for each in results for name in each.errors))
    rows = []
    for name in names:
        row: Row = {"who": name}
        for size in sizes(results):
            own = [each for each in results if each.cell.layers == size]
            errors = [each.errors[name] for each in own if name in each.errors]
            missing = f" ({len(errors)} of {len(own)})" if len(errors) < len(own) else ""
            row[str(size)] = f"{100 * _geometric(errors):.2f}{missing}" if errors else ""
        rows.append(row)
    return rows


def gain(results: Sequence[Result], over: str) -> str | None:
    """Points of accuracy, as the mean over tables, with an interval from drawing the seeds of every table again."""
    gains: dict[str, list[float]] = {}
    for each in results:
        if over in each.errors:
            gains.setdefault(each.cell.table.name, []).append(100 * (each.errors[over] - each.errors[CHOSEN]))
    if not gains:
        return None
    random = np.random.default_rng(0)
    drawn = np.mean([random.choice(own, (DRAWS, len(own))).mean(axis=1) for own in gains.values()], axis=0)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = np.mean([np.mean(own) for own in gains.values()])
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


def cell_rows(results: Sequence[Result]) -> list[Row]:
    """Every cell by itself."""
    return [
        {
            "table": each.cell.table.name,
            "layers": each.cell.layers,
            "seed": each.cell.seed,
            "chosen": each.own["chosen"],
            **{f"{name} %": 100 * error for name, error in each.errors.items() if name in (CHOSEN, ORACLE, MEDN)},
            "best family": min(each.own["families"], key=each.own["families"].__getitem__),
            "promised %": 100 * each.own["promised"],
            "covered %": 100 * each.own["covered"],
            "covered far %": 100 * each.own["covered far"],
            "width %": 100 * each.own["width"],
            "code": each.own["code"],
        }
        for each in results
    ]


def _mean(results: Sequence[Result], name: str) -> float:
    return float(np.mean([each.own[name] for each in results]))


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))
