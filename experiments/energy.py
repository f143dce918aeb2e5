"""How well the energy of matrix products is predicted, by what a user runs: import, train, select.

    python -m experiments.energy --data DATA --out results

The table aic_power_gemm (bf16 on an H200, 35,742 rows) is imported with its shipped mapping, trained on one core and
selected from; the run stays in OUT/energy. What is told is the error on test layers: shapes of weights that neither
training nor choosing has seen, at all their batch sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.public_layers import medn
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.bundle.bundle import read_bundle
from medn.core.errors import UsageError
from medn.core.splits import Split
from medn.deployed.candidate import deployed_of, scores_of
from medn.runs.tables import read_source
from medn.training.prepared import prepare

FILE, MAPPING = "aic_power_gemm.csv.gz", "aic_power_gemm"
LONG_S = 50e-6
"""Calls shorter than this are told apart: power is read over many of them, with what lies between."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--time", default="4m", help="for training")
    parser.add_argument("--regressors", default="lightgbm_on_roofline", help="for the latency, separated by commas")
    options = parser.parse_args(arguments)
    if not (options.data / FILE).is_file():
        raise UsageError(f"{options.data} has no {FILE}")
    run = options.out / "energy"
    if not run.exists():
        medn("import", str(options.data / FILE), "--map", MAPPING, "--run", str(run))
    medn("train", str(run), "--time", options.time, "--regressors", options.regressors)
    medn("select", str(run))
    rows = energy_rows(run)
    print(markdown_table(rows))
    write_tables(options.out, "energy", rows, {"medn train --time": options.time, "seed": 0})
    return 0


def energy_rows(run: Path) -> list[dict[str, object]]:
    """The errors of what was shipped for energy, on test layers."""
    (entry,) = read_bundle(run / f"{run.name}.medn").entries
    energy = entry.further["energy_j"]
    tables, _ = prepare(read_source(run), [entry.kind], Split(), 0, False)
    test = tables[entry.device][entry.kind].test
    joules = test.further["energy_j"]
    errors = np.abs(deployed_of(energy).predict(test.inputs) / joules - 1)
    parts = {"all": test.target > 0, "50 us and longer": test.target >= LONG_S, "shorter": test.target < LONG_S}
    told = scores_of(energy).test.mape
    return [
        {
            "calls": name,
            "rows": int(part.sum()),
            "regressor": energy.regressor,
            "MAPE": f"{errors[part].mean():.1%}",
            "median": f"{np.median(errors[part]):.1%}",
            "told in the bundle": f"{told:.1%}" if name == "all" else None,
        }
        for name, part in parts.items()
    ]


if __name__ == "__main__":
    end_with(main)
