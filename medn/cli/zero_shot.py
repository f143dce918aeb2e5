"""`medn adapt --points 0`: a bundle for a device that is known by its data sheet alone."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.cli.output import Row, say, write_json, write_rows
from medn.core.units import format_bytes, percent

if TYPE_CHECKING:
    from medn.transfer.adapt_sweep import Wanted
    from medn.transfer.zero_shot import Foreseen, ZeroShot


def show_zero_shot(wanted: Wanted, sources: list[Path], folder: Path, seed: int, as_json: bool) -> None:
    """Make the bundle, write it into a folder, and tell how well known devices are told by one another."""
    from medn.transfer.adapt_sweep import known_and_pool
    from medn.transfer.zero_shot import check_sheet, zero_shot

    check_sheet(wanted.sheet)
    known, pool = known_and_pool(sources, wanted)
    outcome = zero_shot(known, wanted.device, wanted.sheet, pool, seed)
    bundle = outcome.write(folder / f"{folder.resolve().name}.medn")
    if as_json:
        write_json(_as_json(bundle, outcome))
    else:
        write_rows([_row(kind, each) for kind, each in outcome.kinds.items()], as_json=False)
        say("left out: the mean error on known devices, each predicted by the others; worst: on the worst of them")
    for name, reason in outcome.unusable.items():
        say(f"{name} is not leaned on: {reason}")
    say(f"nothing was measured on {wanted.device}: its predictions are flagged, and a few points make them far better")
    say(f"the bundle is {bundle} ({format_bytes(bundle.stat().st_size)})")


def _row(kind: str, each: Foreseen) -> Row:
    from medn.deployed.candidate import deployed_of

    worst = max(each.left_out, key=each.left_out.__getitem__)
    interval = deployed_of(each.candidate).interval
    return {
        "kind": kind,
        "devices": len(each.left_out),
        "left out": percent(statistics.fmean(each.left_out.values())),
        "worst": f"{percent(each.left_out[worst])} ({worst})",
        "within a factor of": f"{math.exp(interval.quantile):.2f} at {percent(interval.guaranteed_level)}",
        "leans on": ", ".join(f"{name} {share:.2f}" for name, share in list(each.shares.items())[:3]),
    }


def _as_json(bundle: Path, outcome: ZeroShot) -> dict[str, Any]:
    return {
        "bundle": str(bundle),
        "bytes": bundle.stat().st_size,
        "chosen": [each.candidate.summary() for each in outcome.kinds.values()],
        "leaned_on": {kind: dict(each.shares) for kind, each in outcome.kinds.items()},
        "left_out": {kind: dict(each.left_out) for kind, each in outcome.kinds.items()},
        "unusable": dict(outcome.unusable),
    }
