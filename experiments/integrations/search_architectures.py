"""Optuna looks for the most expressive network within a budget of seconds, which medn predicts.

    pip install -c constraints.txt -e ".[train]"
    python -m experiments.integrations.search_architectures --bundle runs/laptop/laptop.medn --trials 200

Predicted latency is a constraint of every trial (`medn.integrations.optuna`). The budget is a share of the seconds of a
network made by hand; this one and the best that were found are measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch

import medn
from experiments.integrations.measured_networks import measured_rows
from experiments.integrations.search_space import (
    DEEPEST,
    HAND_MADE,
    KERNELS,
    STAGES,
    WIDEST,
    decode,
    expressiveness,
    latency_s,
)
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.errors import UsageError
from medn.integrations.optuna import best_within, constrain, constrained_study, is_within
from medn.predictor.predictor import Predictor

BEST = 4


def genes_of(trial: optuna.Trial) -> list[int]:
    widths = [trial.suggest_int(f"width_{stage}", 1, WIDEST) for stage in range(STAGES)]
    depths = [trial.suggest_int(f"depth_{stage}", 1, DEEPEST) for stage in range(STAGES)]
    kernels = [trial.suggest_int(f"kernel_{stage}", 0, len(KERNELS) - 1) for stage in range(STAGES)]
    return [*widths, *depths, *kernels]


def search(predictor: Predictor, budget_s: float, trials: int, seed: int = 0) -> optuna.Study:
    """The study; its best trial is the most expressive one within the budget."""

    def objective(trial: optuna.Trial) -> float:
        network = decode(np.array([genes_of(trial)]))
        constrain(trial, latency_s(network, predictor).item(), budget_s)
        return float(expressiveness(network)[0])

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = constrained_study("maximize", seed)
    study.optimize(objective, n_trials=trials)
    return study


def best_genes(study: optuna.Study, count: int) -> list[list[int]]:
    """The most expressive different networks within the budget."""
    return [list(trial.params.values()) for trial in best_within(study, count)]


def compare(predictor: Predictor, share: float, trials: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    by_hand = decode(HAND_MADE)
    budget_s = share * latency_s(by_hand, predictor).item()
    started = time.perf_counter()
    study = search(predictor, budget_s, trials)
    search_s = time.perf_counter() - started
    genes = best_genes(study, BEST)
    names = ["made by hand", *(f"found, place {place}" for place in range(1, len(genes) + 1))]
    rows = measured_rows(decode(np.array([*HAND_MADE.tolist(), *genes])), names, predictor)
    for row in rows:
        row["predicted against budget"] = row["predicted ms"] / (1e3 * budget_s) - 1
        row["measured against budget"] = row["measured ms"] / (share * rows[0]["measured ms"]) - 1
    about = {
        "device": predictor.device,
        "budget": f"{share:.0%} of the seconds of the network made by hand",
        "trials": trials,
        "trials within the budget": sum(map(is_within, study.trials)),
        "seconds to search": search_s,
    }
    return rows, about


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--share", type=float, default=0.7, help="of the latency of the network made by hand")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    if options.trials < 1 or options.share <= 0:
        raise UsageError("--trials must be at least 1 and --share above 0")
    torch.set_num_threads(1)
    rows, about = compare(medn.load(options.bundle, options.device), options.share, options.trials)
    write_tables(options.out, "search_architectures", rows, about)
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
