"""What a search found, beside what a device says to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from experiments.integrations.pipeline_split import best_s
from experiments.integrations.search_space import Population, build, example, expressiveness, latency_s, told
from medn.predictor.predictor import Predictor

PASSES = 20


def measured_s(networks: Mapping[str, torch.nn.Module], image: torch.Tensor, passes: int = PASSES) -> dict[str, float]:
    """Undisturbed seconds of whole networks, measured in turns."""

    def run(network: torch.nn.Module) -> Callable[[], object]:
        return lambda: network(image)

    with torch.no_grad():
        return best_s({name: run(network) for name, network in networks.items()}, passes)


def measured_rows(population: Population, names: Sequence[str], predictor: Predictor) -> list[dict[str, Any]]:
    """Each network's score, predicted and measured latency."""
    networks = {name: build(population, row) for row, name in enumerate(names)}
    seconds = measured_s(networks, example())
    predicted_s = latency_s(population, predictor)
    scores = expressiveness(population)
    return [
        {
            "network": name,
            "stages": told(population, row),
            "score": float(scores[row]),
            "predicted ms": 1e3 * float(predicted_s[row]),
            "measured ms": 1e3 * seconds[name],
            "predicted / measured": float(predicted_s[row]) / seconds[name],
        }
        for row, name in enumerate(names)
    ]
