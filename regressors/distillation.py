"""Teaching a small regressor by larger ones: the table it learns from is labelled by its teachers.

Besides the rows that were measured it gets rows between two of them. Sizes are mixed as factors, so that a product of
sizes, such as the FLOPs, stays the product of the mixed sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.regressor import Fitted


def taught(table: Table, teachers: Sequence[Fitted], extra: float, seed: int) -> Table:
    """The table as its teachers see it, and so many times its rows between them on top."""
    random = np.random.default_rng(seed)
    mixed = _between(table, round(extra * len(table)), random)
    inputs = np.vstack([table.inputs, mixed]).astype(np.float32).astype(np.float64)
    logs = np.mean([np.log(teacher.predict(inputs)) for teacher in teachers], axis=0)
    groups = np.concatenate([table.groups, np.full(len(mixed), "between two layers")])
    return replace(table, inputs=inputs, latency_s=np.exp(logs), groups=groups, targets={})


def _between(table: Table, count: int, random: np.random.Generator) -> Array:
    """Rows somewhere between two rows that agree in nothing but chance; categories are those of the first."""
    first, second = (table.inputs[random.integers(len(table), size=count)] for _ in range(2))
    share = random.random((count, 1))
    is_positive = (table.inputs > 0).all(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        as_factors = np.exp((1 - share) * np.log(first) + share * np.log(second))
    mixed = np.where(is_positive, as_factors, (1 - share) * first + share * second)
    fixed = [table.schema.index(name) for name in table.schema.categories]
    mixed[:, fixed] = first[:, fixed]
    return mixed
