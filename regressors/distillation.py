"""Teaching a small regressor by larger ones: the table it learns from is labelled by its teachers.

Besides the rows that were measured it gets rows between two of them. Sizes are mixed as factors, so that a product of
sizes, such as the FLOPs, stays the product of the mixed sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import thinned
from medn.regressors.regressor import Effort, Fitted

TRIED_ROWS = 2000
"""So many rows tell how long teachers take for one."""


def taught(table: Table, teachers: Sequence[Fitted], extra: float, effort: Effort) -> Table:
    """The table as its teachers see it, and so many times its rows between them on top, as far as the time goes."""
    random = np.random.default_rng(effort.seed)
    most = _affordable_rows(table, teachers, effort)
    table = thinned(table, most, effort.seed)
    mixed = _between(table, min(round(extra * len(table)), most - len(table)), random)
    inputs = np.vstack([table.inputs, mixed]).astype(np.float32).astype(np.float64)
    # The median, as one of them may have had too little time.
    logs = np.median([np.log(teacher.predict(inputs)) for teacher in teachers], axis=0)
    groups = np.concatenate([table.groups, np.full(len(mixed), "between two layers")])
    return replace(table, inputs=inputs, target=np.exp(logs), groups=groups, further={})


def _affordable_rows(table: Table, teachers: Sequence[Fitted], effort: Effort) -> int:
    before, tried = effort.seconds_left, table.inputs[:TRIED_ROWS]
    for teacher in teachers:
        teacher.predict(tried)
    after = effort.seconds_left
    return max(int(after * len(tried) / max(before - after, 1e-9)), len(tried))


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
