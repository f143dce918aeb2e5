"""Whole networks, predicted from their layers and measured, on every backend that a bundle knows.

    medn sweep experiments/configs/whole-models.yaml
    medn train runs/whole-models --time 8m
    medn select runs/whole-models
    python -m experiments.whole_models --bundle runs/whole-models/whole-models.medn --out results

How layers run among one another is learned from measured networks too. Each network is predicted with what all the
others but not itself taught. Measurements are kept in OUT/whole_models/measured.json; delete it to measure again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.measured_models import MODELS, Measured, make, measured_once
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.bundle.bundle import read_bundle
from medn.capture.capturing import capture
from medn.capture.values import CapturedModel
from medn.core.errors import UsageError, unknown
from medn.fusion.rulebook import rules_for
from medn.model.placement import BOUNDS, CONVERTED, HOT, Placement, Unknown, fit_placement, taught_by_others
from medn.model.prediction import ModelPrediction
from medn.model.prepared import PreparedModel
from medn.predictor.predictor import Predictor

COLD: tuple[Unknown, ...] = ("small_share", "large_share")


@dataclass(frozen=True)
class Way:
    """One way to add layers up."""

    name: str
    fused: bool = True
    placement: Placement = HOT
    unknowns: tuple[Unknown, ...] = ()
    """What is learned from the other networks."""


ALL_LEARNED = Way("all of it", unknowns=tuple(BOUNDS))
ALONE = Way("every layer alone", fused=False, placement=CONVERTED)
WAYS = (
    ALONE,
    Way("fused groups alone", placement=CONVERTED),
    Way("without conversions of layout"),
    Way("and overhead of each layer", unknowns=("overhead_s",)),
    Way("and a cold share, no overhead", unknowns=COLD),
    Way("and both", unknowns=(*COLD, "overhead_s")),
    Way("and stretch, no cold share", unknowns=("stretch", "overhead_s", "conversion_share")),
    ALL_LEARNED,
)


def predict(predictor: Predictor, measured: Sequence[tuple[PreparedModel, float]], way: Way) -> list[ModelPrediction]:
    """Each network, with a placement learned from the others where the way learns anything."""
    if not way.unknowns:
        return [prepared.predict(placement=way.placement) for prepared, _ in measured]
    placements = taught_by_others(predictor, measured, way.unknowns)
    return [prepared.predict(placement=each) for (prepared, _), each in zip(measured, placements, strict=True)]


def way_row(
    backend: str, way: Way, found: Mapping[str, ModelPrediction], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """How far off one way is."""
    shares = {name: each.latency_s / seconds[name] for name, each in found.items()}
    worst = max(shares, key=lambda name: abs(shares[name] - 1))
    return {
        "backend": backend,
        "layers added up": way.name,
        "mean error": float(np.mean([abs(share - 1) for share in shares.values()])),
        "worst": f"{shares[worst] - 1:+.1%} ({worst})",
        "mean of predicted / measured": float(np.mean(list(shares.values()))),
    }


def network_row(
    backend: str, name: str, measured: Measured, alone: ModelPrediction, found: ModelPrediction
) -> dict[str, Any]:
    """A network: measured, its layers alone, and all of it."""
    return {
        "backend": backend,
        "network": name,
        "layers": len(alone.layers),
        "as run": len(found.layers),
        "measured ms": 1e3 * measured.seconds,
        "spread": measured.spread,
        "layers alone ms": 1e3 * alone.latency_s,
        "predicted ms": 1e3 * found.latency_s,
        "error": found.latency_s / measured.seconds - 1,
        "low ms": 1e3 * found.low_s,
        "high ms": 1e3 * found.high_s,
        "estimated share": found.unknown_share,
        "outside share": found.outside_share,
    }


def compare(
    predictor: Predictor, models: Mapping[str, CapturedModel], measured: Mapping[str, Measured]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Placement]:
    """Rows by network, rows by way of adding layers up, and the placement that all networks together teach."""
    backend = predictor.bundle.backend(predictor.device)
    seconds = {name: each.seconds for name, each in measured.items()}
    known = {
        fused: [(PreparedModel(predictor, model, fused), seconds[name]) for name, model in models.items()]
        for fused in (False, True)
    }
    fuses = rules_for(backend) is not None
    found = {}
    for way in [way for way in WAYS if fuses or way.unknowns or way is ALONE]:
        print(f"{backend}: {way.name}", file=sys.stderr)
        found[way] = dict(zip(models, predict(predictor, known[way.fused], way), strict=True))
    networks = [
        network_row(backend, name, measured[name], found[ALONE][name], found[ALL_LEARNED][name]) for name in models
    ]
    ways = [way_row(backend, way, each, seconds) for way, each in found.items()]
    return networks, ways, fit_placement(predictor, known[True])


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A column for each backend: what layers alone say, and what is predicted, as shares of what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    by_backend: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_backend.setdefault(row["backend"], []).append(row)
    size = (2 + 3.2 * len(by_backend), 5.5)
    figure, axes = plt.subplots(1, len(by_backend), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axis, (backend, chosen) in zip(axes[0], by_backend.items(), strict=True):
        names, measured = [row["network"] for row in chosen], np.array([row["measured ms"] for row in chosen])
        low, middle, high = (
            np.array([row[name] for row in chosen]) / measured for name in ("low ms", "predicted ms", "high ms")
        )
        alone = np.array([row["layers alone ms"] for row in chosen]) / measured
        axis.axvline(1, color="black", linewidth=0.8)
        axis.plot(alone, names, "x", color="tab:gray", label="every layer alone")
        axis.errorbar(middle, names, xerr=[middle - low, high - middle], fmt="o", elinewidth=1, label="predicted")
        axis.set(title=backend, xlabel="share of the measured time", xlim=(0, None))
        axis.grid(alpha=0.3)
    axes[0][0].invert_yaxis()
    axes[0][0].legend(loc="lower left")
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, action="append", required=True, help="repeat it for several bundles")
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    for name in options.models:
        if name not in MODELS:
            raise UsageError(unknown("model", name, MODELS))
    if len(options.models) < 2:
        raise UsageError("--models: name at least 2, as each is predicted with what the others teach")

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    networks, ways, placements = [], [], {}
    models = {}
    for name in options.models:
        tell(f"capturing {name}")
        models[name] = capture(*make(name))
    for bundle in map(read_bundle, options.bundle):
        for device in bundle.devices:
            backend = bundle.backend(device)
            measured = measured_once(options.out / "whole_models" / "measured.json", backend, options.models, tell)
            rows, by_way, placement = compare(Predictor(bundle, device), models, measured)
            networks, ways = networks + rows, ways + by_way
            within = sum(row["low ms"] <= row["measured ms"] <= row["high ms"] for row in rows)
            tell(f"{backend}: {within} of {len(rows)} networks within their intervals")
            placement.save(options.out / "whole_models" / f"placement-{backend}.json")
            placements[backend] = asdict(placement)
    about = {"batch size": 1, "threads": 1, "networks": len(models), "placements": placements}
    write_tables(options.out, "whole_models", networks, about)
    write_tables(options.out, "whole_models_ways", ways, about)
    draw(networks, options.out / "whole_models.png")
    print(markdown_table(networks), markdown_table(ways), sep="\n\n")
    return 0


if __name__ == "__main__":
    end_with(main)
