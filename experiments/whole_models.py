"""Whole networks, predicted from their layers and measured, on every backend that a bundle knows.

    medn sweep whole-models
    medn train runs/whole-models --time 8m
    medn select runs/whole-models
    python -m experiments.whole_models --bundle runs/whole-models/whole-models.medn --out results

How layer times compose into a model's time is fitted to the networks of one list, measured at every batch size. The
networks of the other list are only predicted. Each of the first list is also predicted with what was fitted without
it. OUT/whole_models keeps what was measured (`experiments.measured_models`) and captured; delete either to have it
made again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.measured_models import (
    BATCH_SIZES,
    FITTED,
    UNSEEN,
    Case,
    Kept,
    check_names,
    measured_once,
    shapes,
)
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.bundle.bundle import read_bundle
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel, load_captured
from medn.core.errors import UsageError
from medn.fusion.rules import rules_for
from medn.model.composition import CONVERTED, HOT, Composition
from medn.model.fit_composition import BOUNDS, FEWEST_NETWORKS, Coefficient, fit_composition, leave_one_network_out
from medn.model.measured_models import Measured
from medn.model.prediction import ModelPrediction
from medn.model.prepared_model import PreparedModel
from medn.predictor.predictor import Predictor

COLD: tuple[Coefficient, ...] = ("small_share", "large_share")


@dataclass(frozen=True)
class Way:
    """One way to add layers up."""

    name: str
    fused: bool = True
    composition: Composition = HOT
    coefficients: tuple[Coefficient, ...] = ()
    """What is fitted to networks."""


ALL_FITTED = Way("all of it", coefficients=tuple(BOUNDS))
ALONE = Way("every layer alone", fused=False, composition=CONVERTED)
WAYS = (
    ALONE,
    Way("fused groups alone", composition=CONVERTED),
    Way("without conversions of layout"),
    Way("and overhead of each layer", coefficients=("overhead_s",)),
    Way("and a cold share, no overhead", coefficients=COLD),
    Way("and both", coefficients=(*COLD, "overhead_s")),
    Way("and stretch, no cold share", coefficients=("stretch", "overhead_s", "conversion_share")),
    ALL_FITTED,
)

LEFT_OUT, NEW, OTHER_BATCH = "fitted, left out", "unseen", "unseen, fitted at batch size 1 alone"

Predictions = dict[Case, ModelPrediction]


class Networks:
    """Networks on one device: measured, and ready to be predicted."""

    def __init__(
        self,
        predictor: Predictor,
        captured: Mapping[Case, CapturedModel],
        measured: Mapping[Case, Measured],
        fitted: Sequence[str],
    ) -> None:
        self.predictor = predictor
        self.backend = predictor.bundle.backend(predictor.device)
        self.measured = measured
        self.fitted_cases = [case for case in measured if case.network in fitted]
        self.unseen = [case for case in measured if case.network not in fitted]
        self._prepared = {
            fused: {case: PreparedModel(predictor, captured[case], fused) for case in measured}
            for fused in (False, True)
        }

    def fitted(self, way: Way, cases: Sequence[Case]) -> Composition:
        """Fitted to some cases."""
        if not way.coefficients:
            return way.composition
        names = [case.network for case in cases]
        return fit_composition(self.predictor, self._measured(way, cases), None, way.coefficients, names)

    def left_out(self, way: Way) -> Predictions:
        """Each fitted network, predicted by what was fitted to the others."""
        if not way.coefficients:
            return self.predicted(way, way.composition, self.fitted_cases)
        names = [case.network for case in self.fitted_cases]
        compositions = leave_one_network_out(
            self.predictor, self._measured(way, self.fitted_cases), way.coefficients, names
        )
        return {
            case: self._prepared[way.fused][case].predict(composition=each)
            for case, each in zip(self.fitted_cases, compositions, strict=True)
        }

    def predicted(self, way: Way, composition: Composition, cases: Sequence[Case]) -> Predictions:
        return {case: self._prepared[way.fused][case].predict(composition=composition) for case in cases}

    def _measured(self, way: Way, cases: Sequence[Case]) -> list[tuple[PreparedModel, float]]:
        return [(self._prepared[way.fused][case], self.measured[case].seconds) for case in cases]

    def ways(self) -> list[Way]:
        """Without a difference between fused and not there are fewer."""
        return [way for way in WAYS if rules_for(self.backend) is not None or way.coefficients or way is ALONE]


def network_rows(networks: Networks, which: str, predictions: Predictions) -> Iterator[dict[str, Any]]:
    """A network a row: measured, its layers alone, and all of it."""
    alone = networks.predicted(ALONE, ALONE.composition, list(predictions))
    for case, each in predictions.items():
        measured = networks.measured[case]
        yield {
            "backend": networks.backend,
            "set": which,
            "network": case.network,
            "batch size": case.batch_size,
            "layers": len(alone[case].layers),
            "as run": len(each.layers),
            "measured ms": 1e3 * measured.seconds,
            "spread": measured.spread,
            "layers alone ms": 1e3 * alone[case].latency_s,
            "predicted ms": 1e3 * each.latency_s,
            "error": each.latency_s / measured.seconds - 1,
            "low ms": 1e3 * each.low_s,
            "high ms": 1e3 * each.high_s,
            "within": bool(each.low_s <= measured.seconds <= each.high_s),
            "half width": (each.high_s - each.low_s) / 2 / each.latency_s,
            "estimated share": each.unknown_share,
            "outside share": each.outside_share,
            "streaming share": each.streaming_share,
        }


def summary_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """How far off each set is at each batch size."""
    for key in dict.fromkeys((row["backend"], row["set"], row["batch size"]) for row in rows):
        chosen = [row for row in rows if (row["backend"], row["set"], row["batch size"]) == key]
        worst = max(chosen, key=lambda row: abs(row["error"]))
        errors = [abs(row["error"]) for row in chosen]
        yield {
            **dict(zip(("backend", "set", "batch size"), key, strict=True)),
            "networks": len(chosen),
            "mean error": float(np.mean(errors)),
            "median": float(np.median(errors)),
            "worst": f"{worst['error']:+.1%} ({worst['network']})",
            "within": sum(row["within"] for row in chosen),
            "mean half width": float(np.mean([row["half width"] for row in chosen])),
            "median spread": float(np.median([row["spread"] for row in chosen])),
        }


def way_row(networks: Networks, way: Way, left_out: Predictions, unseen: Predictions) -> dict[str, Any]:
    """How far off one way is."""
    row: dict[str, Any] = {"backend": networks.backend, "layers added up": way.name}
    for which, predictions in ((LEFT_OUT, left_out), (NEW, unseen)):
        errors = {case: each.latency_s / networks.measured[case].seconds - 1 for case, each in predictions.items()}
        if errors:
            worst = max(errors, key=lambda case: abs(errors[case]))
            row[f"{which}: mean error"] = float(np.mean(np.abs(list(errors.values()))))
            row[f"{which}: worst"] = f"{errors[worst]:+.1%} ({worst})"
    return row


def compare(networks: Networks) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Composition]:
    """Rows by network, rows by way of adding layers up, and the composition fitted to all of the first list."""
    rows, ways = [], []
    for way in networks.ways():
        print(f"{networks.backend}: {way.name}", file=sys.stderr, flush=True)
        composition = networks.fitted(way, networks.fitted_cases)
        left_out, unseen = networks.left_out(way), networks.predicted(way, composition, networks.unseen)
        ways.append(way_row(networks, way, left_out, unseen))
        if way is ALL_FITTED:
            rows += [*network_rows(networks, NEW, unseen), *network_rows(networks, LEFT_OUT, left_out)]
    smallest = min(case.batch_size for case in networks.fitted_cases)
    small = [case for case in networks.fitted_cases if case.batch_size == smallest]
    beyond = [case for case in networks.unseen if case.batch_size > smallest]
    narrow = networks.fitted(ALL_FITTED, small)
    rows += network_rows(networks, OTHER_BATCH, networks.predicted(ALL_FITTED, narrow, beyond))
    return rows, ways, networks.fitted(ALL_FITTED, networks.fitted_cases)


def captured_once(folder: Path, case: Case, tell: Callable[[str], None]) -> CapturedModel:
    """A network as it was captured before, or now."""
    file = folder / f"{case}.json"
    if not file.exists():
        tell(f"capturing {case}")
        folder.mkdir(parents=True, exist_ok=True)
        capture(*shapes(case)).save(file)
    return load_captured(file)


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A column for each backend, a colour for each batch size: predictions as shares of what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    backends = list(dict.fromkeys(row["backend"] for row in rows))
    sizes = sorted({row["batch size"] for row in rows})
    names = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = plt.subplots(
        1,
        len(backends),
        figsize=(2.5 + 3.6 * len(backends), 1.5 + 0.34 * len(names)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, backend in zip(axes[0], backends, strict=True):
        axis.axvline(1, color="black", linewidth=0.8)
        for number, size in enumerate(sizes):
            chosen = [row for row in rows if row["backend"] == backend and row["batch size"] == size]
            places = np.array([names.index(row["network"]) for row in chosen]) + 0.25 * (number - (len(sizes) - 1) / 2)
            measured = np.array([row["measured ms"] for row in chosen])
            low, middle, high = (
                np.array([row[name] for row in chosen]) / measured for name in ("low ms", "predicted ms", "high ms")
            )
            colour = f"C{number}"
            alone = np.array([row["layers alone ms"] for row in chosen]) / measured
            axis.plot(alone, places, "x", color=colour, alpha=0.4, markersize=4)
            error = [middle - low, high - middle]
            label = f"batch size {size}"
            axis.errorbar(middle, places, xerr=error, fmt="o", markersize=3, elinewidth=1, color=colour, label=label)
        axis.set(title=backend, xlabel="share of the measured time", xlim=(0, 2), yticks=range(len(names)))
        axis.set_yticklabels(names)
        axis.grid(alpha=0.3)
    axes[0][0].invert_yaxis()
    axes[0][0].legend(loc="lower left", fontsize=8)
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, action="append", required=True, help="repeat it for several bundles")
    parser.add_argument("--fitted", nargs="+", default=list(FITTED), metavar="NAME")
    parser.add_argument("--unseen", nargs="+", default=list(UNSEEN), metavar="NAME")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=list(BATCH_SIZES))
    parser.add_argument("--kept", action="store_true", help="only what was measured before")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    names = [*options.fitted, *options.unseen]
    check_names(names)
    if len(set(options.fitted)) <= FEWEST_NETWORKS:
        raise UsageError(f"--fitted: name more than {FEWEST_NETWORKS}, as each is left out in turn")
    if both := set(options.fitted) & set(options.unseen):
        raise UsageError(f"--unseen: {', '.join(sorted(both))} must not be fitted as well")

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    cases = [Case(name, batch_size) for batch_size in options.batch_sizes for name in names]
    folder = options.out / "whole_models"
    captured = {case: captured_once(folder / "captured", case, tell) for case in cases}
    kept = Kept(folder / "measured.json")
    rows, ways, compositions = [], [], {}
    for bundle in map(read_bundle, options.bundle):
        for device in bundle.devices:
            passes = 0 if options.kept else 1
            measured = measured_once(kept, bundle.backend(device), cases, tell, passes)
            networks = Networks(Predictor(bundle, device), captured, measured, options.fitted)
            more_rows, more_ways, composition = compare(networks)
            rows, ways = rows + more_rows, ways + more_ways
            composition.save(folder / f"composition-{networks.backend}.json")
            compositions[networks.backend] = asdict(composition)
    about = {"threads": 1, "fitted": options.fitted, "unseen": options.unseen, "compositions": compositions}
    summary = list(summary_rows(rows))
    for name, table in (("whole_models", rows), ("whole_models_summary", summary), ("whole_models_ways", ways)):
        write_tables(options.out, name, table, about)
    draw([row for row in rows if row["set"] == NEW], options.out / "whole_models.png")
    print(markdown_table(summary), markdown_table(ways), sep="\n\n")
    return 0


if __name__ == "__main__":
    end_with(main)
