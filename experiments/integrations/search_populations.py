"""pymoo's NSGA-II trades expressiveness for seconds; medn answers for a whole population in one go.

    pip install -c constraints.txt -e ".[optimizers]"
    python -m experiments.integrations.search_populations --bundle runs/laptop/laptop.medn

Some networks of the front and one made by hand are measured. The same population is also asked for layer by layer,
to tell what asking at once is worth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import medn
from experiments.integrations.measured_networks import measured_rows
from experiments.integrations.pipeline_split import best_s
from experiments.integrations.search_space import (
    HAND_MADE,
    HIGHEST,
    LOWEST,
    Population,
    decode,
    expressiveness,
    latency_s,
    questions,
    rows,
)
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.core.errors import MednError, UsageError
from medn.integrations.pymoo import latency_problem, search_front
from medn.predictor.predictor import Predictor

SHOWN = 5


def search(predictor: Predictor, size: int, generations: int, seed: int = 0) -> NDArray[Any]:
    """The genes of the front, the fastest network first."""
    problem = latency_problem(
        lambda genes: latency_s(decode(genes), predictor), lambda genes: expressiveness(decode(genes)), LOWEST, HIGHEST
    )
    return search_front(problem, size, generations, seed)


def layer_by_layer_s(population: Population, predictor: Predictor) -> float:
    """The sum over a population with one question for each layer."""
    _, queries = questions(population)
    return sum(predictor.layer(kind, **parameters).latency_s for kind, parameters in rows(queries))


def asking_costs(population: Population, bundle: Path, device: str | None) -> dict[str, float]:
    """Milliseconds to ask for a population at once, and layer by layer with layers that were and were not asked for."""
    predictor = medn.load(bundle, device)
    started = time.process_time()
    by_layer_s = layer_by_layer_s(population, predictor)
    first_s = time.process_time() - started
    if not np.isclose(by_layer_s, latency_s(population, predictor).sum(), rtol=1e-6):
        raise MednError("asking layer by layer gives another answer than asking at once")
    again = best_s(
        {
            "at once": lambda: latency_s(population, predictor),
            "cached": lambda: layer_by_layer_s(population, predictor),
        },
        passes=5,
    )
    return {
        "ms per population, at once": 1e3 * again["at once"],
        "ms per population, layer by layer, new": 1e3 * first_s,
        "ms per population, layer by layer, all cached": 1e3 * again["cached"],
        "new layers, times faster at once": first_s / again["at once"],
    }


def compare(
    bundle: Path, device: str | None, size: int, generations: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    predictor = medn.load(bundle, device)
    started = time.perf_counter()
    front = search(predictor, size, generations)
    search_s = time.perf_counter() - started
    shown = np.unique(np.linspace(0, len(front) - 1, SHOWN).round().astype(int))
    names = ["made by hand", *(f"front, {place + 1} of {len(front)}" for place in shown)]
    measured = measured_rows(decode(np.vstack([HAND_MADE, front[shown]])), names, predictor)
    random = np.random.default_rng(0).integers(LOWEST, HIGHEST, (size, len(LOWEST)), endpoint=True)
    about = {
        "device": predictor.device,
        "population": size,
        "layers in a random population": sum(1 for _ in rows(questions(decode(random))[1])),
        "generations": generations,
        "seconds to search": search_s,
        **asking_costs(decode(random), bundle, device),
    }
    return measured, about


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--population", type=int, default=64)
    parser.add_argument("--generations", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    if options.population < 4 or options.generations < 1:
        raise UsageError("--population must be at least 4 and --generations at least 1")
    torch.set_num_threads(1)
    measured, about = compare(options.bundle, options.device, options.population, options.generations)
    write_tables(options.out, "search_populations", measured, about)
    print(markdown_table(measured))
    return 0


if __name__ == "__main__":
    end_with(main)
