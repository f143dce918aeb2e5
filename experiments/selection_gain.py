"""What choosing per kind brings over one regressor for everything, with its confidence interval.

    python -m experiments.selection_gain --run runs/laptop --data DATA --out results

For a run it reads the leaderboard that `medn select RUN` wrote. For the public data sets it reads the fits that
`python -m experiments.public_layers` kept in OUT/public_layers; nothing is fitted here. Whatever is chosen is chosen on
validation rows; gains are on test rows, with intervals from drawing layers again. Writes selection_gain.{md,json}.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.public.task import Task
from experiments.public_layers import LOADERS, fits_of, known_names
from experiments.tables import markdown_table, write_tables
from medn.core.errors import MednError, NothingMeasured, UsageError
from medn.core.metrics import relative_errors
from medn.core.table import Array
from medn.pipeline.leaderboard import load_leaderboard
from medn.pipeline.timing import call_seconds
from medn.regressors.form import Form
from medn.selection.budget import Budget
from medn.selection.choice import choose, shares
from medn.selection.ensembles import ensemble_name, mixed, offered
from medn.selection.gain import Estimate, Judged, bootstrap
from medn.selection.option import Cost, Option
from medn.selection.schemes import CHOSEN, schemes

PARTS = ("validation", "test")
PAPER = "2.5 points of accuracy and 0.39 points of R2 over MEDN alone, as published for other layers and devices"
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        rows, about = run(options)
    except MednError as error:
        print(error, file=sys.stderr)
        return 2
    write_tables(options.out, "selection_gain", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", type=Path, action="append", default=[], help="a run folder; may be given several times"
    )
    parser.add_argument("--data", type=Path, default=None, help="folder that holds the public data sets")
    parser.add_argument("--sets", default=",".join(LOADERS), help="data sets, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seed", type=int, default=0, help="as given to experiments.public_layers")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> tuple[list[Row], Row]:
    if not options.run and options.data is None:
        raise UsageError("nothing to compare: give --run RUN, or --data DATA for the public data sets")
    about: Row = {
        "gains": "of the chosen selection over each other one, in points, on test rows; 95 % intervals",
        "overall": "means over layer kinds or tasks; accuracy is 100 % less the mean relative error",
        "published": PAPER,
    }
    rows: list[Row] = []
    for folder in options.run:
        board = load_leaderboard(folder)
        about[board.run] = f"{len({row['kind'] for row in board.rows})} layer kinds, budget {board.budget}"
        rows += [_row(board.run, each, each["gain"], each["r2_gain"]) for each in board.schemes]
    if options.data is not None:
        found, tasks = public_rows(options)
        rows += found
        about["public"] = f"{len(tasks)} tasks: {', '.join(tasks)}"
    return rows, about


def _row(measured: str, scheme: Mapping[str, Any], gain: Mapping[str, float], r2_gain: Mapping[str, float]) -> Row:
    return {
        "measurements": measured,
        "selection": scheme["name"],
        "accuracy %": 100 * scheme["accuracy"],
        "R2": scheme["r2"],
        "accuracy gain": _points(gain),
        "R2 gain": _points(r2_gain),
        "us, 1 row": scheme["us_1"],
        "kB": scheme["bytes"] / 1e3,
    }


def _points(gain: Mapping[str, float]) -> str:
    value, low, high = (100 * gain[name] for name in ("value", "low", "high"))
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


def public_rows(options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """All public tasks together, each of them in the part of a layer kind."""
    tasks = [
        task
        for name in known_names("data set", options.sets, LOADERS)
        for task in LOADERS[name](options.data, options.seed)
    ]
    logs = {task.name: _logs(task, options.out) for task in tasks}
    tasks = [task for task in tasks if logs[task.name]]
    if not tasks:
        raise NothingMeasured(f"no fits in {options.out / 'public_layers'}: python -m experiments.public_layers")
    choices = [option for task in tasks for option in _task_options(task, logs[task.name], options.out)]
    share = shares({task.name: 1.0 for task in tasks})
    compared = schemes(choices, choose(choices, Budget(), share), Budget(), share)
    judged = bootstrap(
        [
            Judged(
                task.table.latency_s[task.parts.test],
                task.table.groups[task.parts.test],
                {
                    each.name: np.exp(_predicted(each.selection[task.name], logs[task.name], "test"))
                    for each in compared
                },
            )
            for task in tasks
        ],
        options.seed,
    )
    rows = []
    for each in compared:
        picked = each.selection.values()
        facts = {
            "name": each.name,
            "accuracy": judged.accuracy_of(each.name).value,
            "r2": judged.r2_of(each.name).value,
            "us_1": float(np.mean([option.cost.us for option in picked])),
            "bytes": sum(option.cost.bytes for option in picked),
        }
        gains: list[Estimate] = [judged.accuracy_gain(CHOSEN, each.name), judged.r2_gain(CHOSEN, each.name)]
        rows.append(_row("public", facts, *(gain.as_json() for gain in gains)))
    return rows, [task.name for task in tasks]


def _logs(task: Task, out: Path) -> dict[str, dict[str, Array]]:
    """What every fit that was kept predicts; one for other rows than the task has now is left out."""
    fits = fits_of(task, out)
    names = sorted(path.name.removesuffix(".form.npz") for path in fits.folder.glob("*.form.npz"))
    found = {name: fits.logs(name) for name in names}
    return {
        name: own
        for name, own in found.items()
        if all(len(own[part]) == len(getattr(task.parts, part)) for part in PARTS)
    }


def _row_seconds(form: Form, row: Array) -> float:
    form.one(row)  # what happens once belongs to loading
    return call_seconds(lambda: form.one(row), time.thread_time)


def _task_options(task: Task, logs: Mapping[str, Mapping[str, Array]], out: Path) -> list[Option]:
    fits = fits_of(task, out)
    forms = {name: fits.form(name) for name in logs}
    times = {name: 1e6 * _row_seconds(form, task.table.inputs[0]) for name, form in forms.items()}
    sizes = {name: form.parts().size_bytes for name, form in forms.items()}
    held = task.parts.validation
    validation = {name: own["validation"] for name, own in logs.items()}
    ensembles = {ensemble_name(each): each for each in offered(validation, task.table.latency_s[held], times)}
    return [
        Option(
            task.name,
            name,
            relative_errors(np.exp(mixed(validation, weights)), task.table.latency_s[held]),
            task.table.groups[held],
            # The members of an ensemble are asked one after the other. Nothing is loaded here.
            Cost(sum(times[each] for each in weights), sum(sizes[each] for each in weights), 0.0),
            weights if len(weights) > 1 else {},
        )
        for name, weights in ({name: {name: 1.0} for name in logs} | ensembles).items()
    ]


def _predicted(option: Option, logs: Mapping[str, Mapping[str, Array]], part: str) -> Array:
    weights = option.members or {option.name: 1.0}
    return mixed({name: logs[name][part] for name in weights}, weights)


if __name__ == "__main__":
    sys.exit(main())
