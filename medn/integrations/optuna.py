"""Optuna with a budget of seconds: predicted latency is a constraint of every trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from medn.core.errors import MednError, UsageError
from medn.core.packages import need
from medn.predictor.predictor import Predictor

if TYPE_CHECKING:
    import optuna
    import torch

    from medn.model.prediction import ModelPrediction

CONSTRAINT = "latency"
POPULATION = 20


def constrain(trial: optuna.Trial, latency_s: float, budget_s: float, name: str = CONSTRAINT) -> None:
    """Tell a trial how far beyond a budget its network is; 0 and below is within."""
    if not budget_s > 0:
        raise UsageError(f"budget_s: must be above 0 (got {budget_s})")
    if not hasattr(trial, "set_constraint"):
        raise MednError("a constraint of a trial needs Optuna 5: pip install 'medn[train]'")
    # Relative, so that a sampler sees how far beyond the budget a network is, whatever the device.
    trial.set_constraint(name, latency_s / budget_s - 1)


def predict_within(
    trial: optuna.Trial,
    predictor: Predictor,
    network: torch.nn.Module,
    example_inputs: Any,
    budget_s: float,
    *,
    pessimistic: bool = False,
) -> ModelPrediction:
    """Predict a trial's network and constrain the trial by it: by its latency, or by the upper end of the interval.

    A search finds the networks that a predictor takes for too fast; `pessimistic` asks for those that are surely so.

    >>> def objective(trial):                                                       # doctest: +SKIP
    ...     net = make(trial.suggest_int("width", 8, 64))
    ...     predict_within(trial, predictor, net, example, budget_s=0.002)
    ...     return accuracy(net)
    """
    prediction = predictor.model(network, example_inputs)
    constrain(trial, prediction.high_s if pessimistic else prediction.latency_s, budget_s)
    return prediction


def constrained_study(
    direction: Literal["minimize", "maximize"] = "maximize", seed: int = 0, population: int = POPULATION
) -> optuna.Study:
    """A study by a genetic algorithm: TPE stays near the first network within a tight budget, this one goes on."""
    need("a study", "optuna")
    import optuna

    sampler = optuna.samplers.NSGAIISampler(population_size=population, seed=seed)
    return optuna.create_study(direction=direction, sampler=sampler)


def is_within(trial: optuna.trial.FrozenTrial) -> bool:
    """Whether the network of a trial keeps to its budgets."""
    return all(value <= 0 for value in trial.constraints.values())


def best_within(study: optuna.Study, count: int = 1) -> Sequence[optuna.trial.FrozenTrial]:
    """The best different trials of a study of one aim that keep to their budgets, the best first."""
    within = [trial for trial in study.trials if trial.value is not None and is_within(trial)]
    if not within:
        raise MednError(f"none of {len(study.trials)} networks is within the budget: allow a larger one")
    falling = study.direction.name == "MAXIMIZE"
    ranked = sorted(within, key=lambda trial: trial.value or 0.0, reverse=falling)
    different = {tuple(trial.params.items()): trial for trial in reversed(ranked)}
    return sorted(different.values(), key=ranked.index)[:count]
