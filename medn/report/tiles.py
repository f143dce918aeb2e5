"""The headline numbers of a run: each a number, what it is, and what to hold it against."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass

from medn.core.units import format_bytes, percent
from medn.report.content import Content
from medn.report.summary_text import joined, misses
from medn.report.verdicts import VERDICTS, verdict


@dataclass(frozen=True)
class Tile:
    name: str
    value: str
    about: str
    verdicts: tuple[tuple[str, int], ...] = ()
    """Where it counts kinds: how many of each verdict, drawn as a bar."""


def tiles(content: Content) -> list[Tile]:
    return [_error(content), _noise(content), _kinds(content), _intervals(content), _cost(content), _measured(content)]


def _error(content: Content) -> Tile:
    errors = [kind.row["mape"] for kind in content.kinds]
    spread = f", by kind {100 * min(errors):.1f} to {percent(max(errors))}" if len(errors) > 1 else ""
    return Tile("mean error", percent(statistics.fmean(errors)) or "", f"for layers it has not seen{spread}")


def _noise(content: Content) -> Tile:
    known = [kind for kind in content.kinds if kind.noise is not None]
    if not known:
        return Tile("noise", "not known", "the measurements were not made twice")
    noise = statistics.fmean(kind.noise or 0.0 for kind in known)
    error = statistics.fmean(kind.row["mape"] for kind in known)
    times = f"; the error is {error / noise:.2g} times that" if noise > 0 else ""
    return Tile("noise", percent(noise) or "", f"how far repeated measurements disagree{times}")


def _kinds(content: Content) -> Tile:
    counts = Counter(verdict(kind) for kind in content.kinds)
    told = tuple((word, counts[word]) for word in VERDICTS if counts[word])
    without = len(content.lost) + len(content.untrained)
    about = joined([f"{count} {word}" for word, count in told])
    about += f"; {without} more without a predictor" if without else ""
    return Tile("good predictors", f"{counts['good']} of {len(content.kinds)}", about, told)


def _intervals(content: Content) -> Tile:
    covered = statistics.fmean(kind.row["coverage"] for kind in content.kinds)
    level = statistics.fmean(kind.level for kind in content.kinds)
    missed = sum(misses(kind) for kind in content.kinds)
    about = f"of the measurements, {100 * level:.3g} % are promised"
    return Tile("intervals hold", percent(covered) or "", f"{about}; too few in {missed} kinds" if missed else about)


def _cost(content: Content) -> Tile:
    rows = [kind.row for kind in content.kinds]
    value = f"{statistics.fmean(row['us_1'] for row in rows):.3g} us"
    return Tile(
        "one prediction", value, f"mean over the kinds; {format_bytes(sum(row['bytes'] for row in rows))} in all"
    )


def _measured(content: Content) -> Tile:
    points, layers = (sum(getattr(kind, what) for kind in content.kinds) for what in ("points", "layers"))
    return Tile("measured", f"{points:,}", f"points of {layers:,} layers on {joined(content.devices)}")
