"""What the decoders learn. Every task but the latency can be switched on and off, and is off where it has no data.

Targets are logarithms, so that the losses of all tasks are close to relative errors and can be added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from medn.core.errors import UsageError, unknown
from medn.core.quantities import Quantity, all_quantities
from medn.core.table import Array, Table
from medn.network.modules import LATENCY

if TYPE_CHECKING:
    from torch import Tensor

QUANTILES = (0.1, 0.9)


@dataclass(frozen=True)
class Task:
    """One thing to learn beside the latency."""

    about: str
    targets: Callable[[Table, Array], Array | None]
    """One row per row of the training table (beside it: its encoded inputs), NaN where unknown; None without data."""
    loss: Callable[[Tensor, Tensor], Tensor]
    """From predictions and targets to a loss per entry."""


def absolute(predicted: Tensor, target: Tensor) -> Tensor:
    return (predicted - target).abs()


def relative(predicted: Tensor, target: Tensor) -> Tensor:
    """The error of the latency itself. Bounded where it is hopeless, or one wild row would undo a whole batch."""
    return ((predicted - target).clamp(-3.0, 3.0).exp() - 1.0).abs()


def pinball(predicted: Tensor, target: Tensor) -> Tensor:
    levels = predicted.new_tensor(QUANTILES)
    missed = target - predicted
    return (levels * missed).maximum((levels - 1.0) * missed)


def squared(predicted: Tensor, target: Tensor) -> Tensor:
    return (predicted - target).square()


def _measured(*names: str) -> Callable[[Table, Array], Array | None]:
    """Logarithms of those further targets of a table that it has."""

    def targets(table: Table, encoded: Array) -> Array | None:
        known = [table.further[name] for name in names if name in table.further]
        return _log(np.column_stack(known)) if known else None

    return targets


def _log(values: Array) -> Array:
    """Zero and less cannot be measured relatively: such entries count as unknown."""
    return np.log(np.where(values > 0, values, np.nan))


def _quantiles(table: Table, encoded: Array) -> Array:
    return np.repeat(np.log(table.target)[:, None], len(QUANTILES), axis=1)


def _efficiency(table: Table, encoded: Array) -> Array | None:
    """How much of the best rates seen in the table each row reaches."""
    bytes_moved = _bytes_moved(table)
    if "flops" not in table.schema.names or bytes_moved is None:
        return None
    work = np.column_stack([table.column("flops"), bytes_moved])
    best_rates = (work / table.target[:, None]).max(axis=0)
    return _log((work / np.maximum(best_rates, 1e-300)).max(axis=1, keepdims=True) / table.target[:, None])


def _bytes_moved(table: Table) -> Array | None:
    names = table.schema.names
    if "moved_bytes" in names:
        return table.column("moved_bytes")
    parts = [table.column(name) for name in ("bytes_read", "bytes_written") if name in names]
    return np.sum(parts, axis=0) if parts else None


def _inputs(table: Table, encoded: Array) -> Array:
    return encoded


OWN: Mapping[str, Task] = {
    "quantiles": Task("the lowest and highest tenth of the latency", _quantiles, pinball),
    "efficiency": Task("the share of the best rates seen", _efficiency, absolute),
    "reconstruction": Task("the inputs themselves", _inputs, squared),
}


def all_tasks() -> dict[str, Task]:
    """Those above, and one for what else is measured; quantities that name the same task are learned together."""
    learned: dict[str, list[Quantity]] = {}
    for quantity in all_quantities().values():
        learned.setdefault(quantity.task, []).append(quantity)
    found = dict(OWN)
    for task, together in learned.items():
        about = " and ".join(each.about for each in together)
        found[task] = Task(about, _measured(*(each.name for each in together)), absolute)
    return found


def task_targets(names: Sequence[str], table: Table, encoded: Array) -> dict[str, Array]:
    """The targets of the latency and of those tasks that have data, each with one row per row of the table."""
    targets = {LATENCY: np.log(table.target)[:, None]}
    tasks = all_tasks()
    for name in names:
        if name not in tasks:
            raise UsageError(unknown("task", name, tasks))
        found = tasks[name].targets(table, encoded)
        if found is not None and np.isfinite(found).any():
            targets[name] = found[:, np.isfinite(found).any(axis=0)]
    return targets
