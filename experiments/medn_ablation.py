"""What each part of MEDN is worth: its tasks, its waves and its scope, against a plain perceptron of the same size.

    python -m experiments.medn_ablation --data ../shared/data --out results [--run runs/NAME] [--seeds 5]

Rows of one public table (convolutions on a V100, forward), and with `--run` the kinds of one device of an own sweep,
each learned with several seeds that also draw the split. Writes medn_ablation.{md,json}.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.public.tables import find_table, tasks_of
from experiments.tables import markdown_table, write_tables
from medn.core.metrics import score
from medn.core.splits import split_by_group
from medn.core.table import Schema, Table
from medn.network.design import DEFAULTS
from medn.network.tasks import all_tasks
from medn.regressors.regressor import Effort, regressors

FEWEST_LAYERS = 40
LIKE_MEDN = {name: DEFAULTS[name] for name in ("relative_share", "learning_rate")}

Kinds = Mapping[str, Table]


@dataclass(frozen=True)
class Variant:
    """A family, and what differs from its defaults."""

    name: str
    family: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class TrainingLimits:
    """How long one network may learn one kind. The epochs end first, or numbers would depend on the machine."""

    epochs: int
    seconds: float


def variants(tasks: tuple[str, ...], is_shared: bool) -> list[Variant]:
    """The latency alone, with each task that has data; MEDN as it is by default and changed; the perceptron."""
    variants = [Variant("latency alone", "medn", {"tasks": ()})]
    variants += [Variant(f"latency + {task}", "medn", {"tasks": (task,)}) for task in tasks]
    variants += [Variant("latency + all tasks", "medn", {"tasks": tasks})]
    variants += [Variant("latency + all tasks, each at 0.1", "medn", {"tasks": tasks, "task_weight": 0.1})]
    variants += [Variant("medn (default)", "medn", {}), Variant("medn without waves", "medn", {"frequencies": 0})]
    variants += [Variant("medn by the error of the log alone", "medn", {"relative_share": 0.0})]
    variants += [Variant("mlp (default)", "mlp", {}), Variant("mlp trained like medn", "mlp", LIKE_MEDN)]
    if is_shared:
        variants += [
            Variant("medn_shared", "medn_shared", {}),
            Variant("medn_shared, latency alone", "medn_shared", {"tasks": ()}),
        ]
    return variants


def public_kinds(data: Path, out: Path, rows: int) -> Kinds:
    """The first so many rows, in a random order, of the forward passes on a V100."""
    (task,) = tasks_of(find_table("cde"), data, out / "public_layers")
    table = task.table
    names = table.schema.categories
    is_chosen = (table.column("device") == names["device"].index("V100")) & (
        table.column("pass") == names["pass"].index("forward")
    )
    order = np.random.default_rng(0).permutation(np.flatnonzero(is_chosen))
    return {"conv2d": without_constants(table.take(order[:rows]))}


def without_constants(table: Table) -> Table:
    kept = [place for place in range(len(table.schema.names)) if np.ptp(table.inputs[:, place]) > 0]
    names = tuple(table.schema.names[place] for place in kept)
    categories = {name: values for name, values in table.schema.categories.items() if name in names}
    return Table(Schema(names, categories), table.inputs[:, kept], table.target, table.groups, table.further)


def own_kinds(run: Path) -> Kinds:
    """The kinds of the first device of a run that have enough layers to be split."""
    from medn.runs.tables import kind_table, read_source

    source = read_source(run)
    tables = {kind: kind_table(source, kind, device=source.devices[0]).table for kind in source.rows}
    return {kind: table for kind, table in tables.items() if len(np.unique(table.groups)) >= FEWEST_LAYERS}


def tasks_with_data(kinds: Kinds) -> tuple[str, ...]:
    return tuple(
        name
        for name, task in all_tasks().items()
        if all(
            (targets := task.targets(table, table.inputs)) is not None and np.isfinite(targets).any()
            for table in kinds.values()
        )
    )


def errors(kinds: Kinds, variant: Variant, seed: int, limits: TrainingLimits) -> dict[str, float]:
    """Test MAPE of one variant per kind."""
    family = regressors[variant.family]
    parts = {kind: split_by_group(table.groups, seed) for kind, table in kinds.items()}
    pairs = {kind: (table.take(parts[kind].train), table.take(parts[kind].validation)) for kind, table in kinds.items()}
    settings = {**family.defaults, **variant.settings, "epochs": limits.epochs}
    fitted = family.fit_together(pairs, settings, Effort(limits.seconds * len(kinds), seed=seed))
    tested = {kind: table.take(parts[kind].test) for kind, table in kinds.items()}
    return {kind: score(fitted[kind].predict(one.inputs), one.target).mape for kind, one in tested.items()}


def ablation(
    name: str, kinds: Kinds, seeds: int, limits: TrainingLimits, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One row per variant: the mean over kinds of the test MAPE, and its mean and spread over the seeds."""
    rows: list[dict[str, Any]] = []
    for variant in variants(tasks_with_data(kinds), is_shared=len(kinds) > 1):
        began = time.process_time()
        means = [float(np.mean(list(errors(kinds, variant, seed, limits).values()))) * 100 for seed in range(seeds)]
        taken = (time.process_time() - began) / seeds
        base = rows[0]["test MAPE %"] if rows else np.mean(means)
        rows.append(
            {
                "data": name,
                "variant": variant.name,
                "test MAPE %": round(float(np.mean(means)), 2),
                "deviation": round(float(np.std(means)), 2),
                "against latency alone": round(float(np.mean(means) - base), 2),
                "CPU s per seed": round(taken, 1),
            }
        )
        say(str(rows[-1]))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of public tables")
    parser.add_argument("--run", type=Path, help="a run folder of an own sweep")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4000, help="of the public table")
    parser.add_argument("--epochs", type=int, default=10, help=f"of a network ({DEFAULTS['epochs']} outside of here)")
    parser.add_argument("--seconds", type=float, default=60.0, help="at most, for one fit of one kind")
    options = parser.parse_args()

    def say(line: str) -> None:
        print(line, file=sys.stderr)

    sources = {"cde conv2d V100": public_kinds(options.data, options.out, options.rows)}
    if options.run:
        sources[f"run {options.run.name}"] = own_kinds(options.run)
    rows = [
        row
        for name, kinds in sources.items()
        for row in ablation(name, kinds, options.seeds, TrainingLimits(options.epochs, options.seconds), say)
    ]
    about = {
        "seeds": options.seeds,
        "epochs": options.epochs,
        "rows": {name: {kind: len(table) for kind, table in kinds.items()} for name, kinds in sources.items()},
        "split by layer": "60 % learned, 15 % to stop by, 15 % tested (10 % kept for intervals)",
    }
    write_tables(options.out, "medn_ablation", rows, about)
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
