"""pymoo with seconds among its aims: a whole population of networks is predicted in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from medn.core.errors import UsageError
from medn.core.packages import need
from medn.core.table import Array
from medn.predictor.predictor import Predictor

if TYPE_CHECKING:
    import torch

Genes = NDArray[Any]
"""Whole numbers: a row for each network."""
OfPopulation = Callable[[Genes], ArrayLike]


def layers_latency_s(
    predictor: Predictor, owners: ArrayLike, columns: Mapping[str, Mapping[str, Any]], count: int
) -> Array:
    """Seconds of `count` networks given by the columns of all their layers, for each kind: one query for each kind.

    `owners` says which network each layer belongs to, for the kinds in their order.
    """
    parts = [predictor.predict(of_kind, kind).latency_s for kind, of_kind in columns.items()]
    seconds, networks = np.concatenate(parts), np.asarray(owners)
    if networks.shape != seconds.shape:
        raise UsageError(f"owners: must name a network for each of the {len(seconds)} layers (got {len(networks)})")
    total = np.zeros(count)
    np.add.at(total, networks, seconds)
    return total


def models_latency_s(predictor: Predictor, models: Iterable[tuple[torch.nn.Module, Any]]) -> Array:
    """Seconds of torch modules, each with its example inputs; they are captured one by one."""
    return np.array([predictor.model(model, example_inputs).latency_s for model, example_inputs in models])


def latency_problem(
    latency_s: OfPopulation, score: OfPopulation, lowest: ArrayLike, highest: ArrayLike, budget_s: float | None = None
) -> Any:
    """A pymoo problem of two aims, few seconds and a high score, over whole numbers between `lowest` and `highest`.

    Both functions get all genes of a population at once and give one number for each row. With `budget_s` slower
    networks break a constraint.
    """
    need("a problem of pymoo", "pymoo", extra="optimizers")
    from pymoo.core.problem import Problem

    low, high = np.asarray(lowest), np.asarray(highest)
    if low.shape != high.shape or low.ndim != 1 or not (low <= high).all():
        raise UsageError("lowest, highest: must be as many numbers each, the lowest not above the highest")

    class Networks(Problem):  # type: ignore[misc]
        def __init__(self) -> None:
            limits = 0 if budget_s is None else 1
            super().__init__(n_var=len(low), n_obj=2, n_ieq_constr=limits, xl=low, xu=high, vtype=int)

        def _evaluate(self, x: Genes, out: dict[str, Array]) -> None:
            seconds = np.asarray(latency_s(x), dtype=float)
            out["F"] = np.column_stack([seconds, -np.asarray(score(x), dtype=float)])
            if budget_s is not None:
                out["G"] = seconds[:, None] / budget_s - 1

    return Networks()


def search_front(problem: Any, population: int = 64, generations: int = 40, seed: int = 0) -> Genes:
    """The genes of the networks that no other beats in both aims, found by NSGA-II, the fastest first."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.operators.sampling.rnd import IntegerRandomSampling
    from pymoo.optimize import minimize

    whole = {"vtype": float, "repair": RoundingRepair()}
    algorithm = NSGA2(
        pop_size=population,
        sampling=IntegerRandomSampling(),
        crossover=SBX(prob=0.9, eta=10, **whole),
        mutation=PM(eta=10, **whole),
        eliminate_duplicates=True,
    )
    result = minimize(problem, algorithm, ("n_gen", generations), seed=seed)
    if result.X is None:
        raise UsageError("no network is within the budget: allow a larger budget_s, or more generations")
    genes: Genes = np.atleast_2d(result.X)
    return genes[np.argsort(np.atleast_2d(result.F)[:, 0])]
