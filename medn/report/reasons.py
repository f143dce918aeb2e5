"""Why a candidate was chosen, or was not, or failed, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medn.core.units import format_bytes, percent
from medn.report.leaderboard_rows import Row

LIMITS = ("max_us", "max_kb", "max_load_ms")


def reason(row: Row, chosen: Row | None, budget: Mapping[str, Any]) -> str:
    """Of one row of a leaderboard, beside the one that was chosen for its kind."""
    if row["chosen"]:
        return "chosen" if row["mape"] is not None else f"chosen: {row['note']}"
    if row["mape"] is None:
        return f"failed: {row['note']}"
    if too_dear := _alone_too_dear(row, budget):
        return too_dear
    if chosen is None or chosen.get("validation_mape") is None:
        return "not chosen"
    own, best = row["validation_mape"], chosen["validation_mape"]
    beside = f"validation error {percent(own)}, chosen {percent(best)}"
    if own > best:
        return beside
    if any(budget.get(limit) for limit in LIMITS):
        return f"{beside}: too dear for the limits, with the other kinds"
    if budget.get("mode", "accuracy") != "accuracy":
        return f"{beside}: mode {budget['mode']} took a cheaper one"
    dearer = row["us_1"] > chosen["us_1"] or row["bytes"] > chosen["bytes"]
    return f"{beside}: no better beyond luck" + (", and dearer" if dearer else "")


def _alone_too_dear(row: Row, budget: Mapping[str, Any]) -> str:
    """Where it would break a limit of the whole selection by itself."""
    kilobytes, load_ms = budget.get("max_kb"), budget.get("max_load_ms")
    if kilobytes and row["bytes"] > 1e3 * kilobytes:
        return f"{format_bytes(row['bytes'])} of the {kilobytes:g} kB that all kinds may take"
    if load_ms and row["load_ms"] > load_ms:
        return f"{row['load_ms']:.3g} ms of the {load_ms:g} ms that loading may take"
    return ""
