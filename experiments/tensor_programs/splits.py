"""Who learns from what: networks held out, and devices with few programs of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medn.programs.programs import MeasuredPrograms

HELD_NETWORKS = 2
VALIDATION_SHARE = 8
"""One task in so many of those to learn from is there to stop by."""
CLUSTERED = 20
"""Columns that tasks are clustered by: of the mean leaf, those that vary most."""


@dataclass(frozen=True, eq=False)
class Part:
    train: MeasuredPrograms
    validation: MeasuredPrograms
    test: MeasuredPrograms


def networks_held_out(programs: MeasuredPrograms, network_of: Mapping[str, str], seed: int) -> Part:
    """Two networks for test; nothing of them, not even one layer, is learned from."""
    random = np.random.default_rng(seed)
    networks = np.array([network_of[task] for task in programs.tasks])
    held = random.permutation(np.unique(networks))[:HELD_NETWORKS]
    return _parted(programs, np.isin(networks, held), random)


def device_from_few(programs: MeasuredPrograms, device: str, share: float, seed: int) -> Part:
    """All programs of other devices, and of the device those of a share of its tasks: a clustering chooses which.

    Test are the programs that the device ran of all other tasks.
    """
    random = np.random.default_rng(seed)
    own = programs.devices == device
    tasks = np.unique(programs.tasks[own])
    half = random.permutation(tasks)
    test_tasks, offered = half[: len(half) // 2], half[len(half) // 2 :]
    chosen = _spread_tasks(programs, offered, max(1, round(share * len(offered))), random)
    test = own & np.isin(programs.tasks, test_tasks)
    unused = own & np.isin(programs.tasks, offered) & ~np.isin(programs.tasks, chosen)
    kept = programs.take(~unused)
    return _parted(kept, test[~unused], random)


def _parted(programs: MeasuredPrograms, test: NDArray[np.bool_], random: np.random.Generator) -> Part:
    rest = random.permutation(np.unique(programs.tasks[~test]))
    validation = np.isin(programs.tasks, rest[: max(2, len(rest) // VALIDATION_SHARE)]) & ~test
    return Part(*(programs.take(rows) for rows in (~test & ~validation, validation, test)))


def _spread_tasks(
    programs: MeasuredPrograms, tasks: NDArray[np.str_], count: int, random: np.random.Generator
) -> NDArray[np.str_]:
    """As many tasks as are asked for, from clusters of tasks alike: the larger clusters first, of each the nearest."""
    from sklearn.cluster import KMeans

    means = np.array(
        [
            np.mean([own.leaves.mean(axis=0) for own in programs.take(programs.tasks == task).programs], axis=0)
            for task in tasks
        ]
    )
    columns = np.argsort(-means.std(axis=0))[:CLUSTERED]
    spread = means[:, columns] / np.maximum(means[:, columns].std(axis=0), 1e-6)
    fitted = KMeans(count, n_init=4, random_state=int(random.integers(1 << 30))).fit(spread)
    order = np.argsort(-np.bincount(fitted.labels_, minlength=count), kind="stable")
    free, chosen = set(range(len(tasks))), []
    for cluster in order:
        nearest = min(free, key=lambda at: float(np.linalg.norm(spread[at] - fitted.cluster_centers_[cluster])))
        free.discard(nearest)
        chosen.append(nearest)
    return tasks[chosen]
