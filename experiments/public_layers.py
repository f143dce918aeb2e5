"""How well every regressor predicts layers that others measured, next to what others reached on the same rows.

    python -m experiments.public_layers --data DATA --out results

Each regressor is fitted once on every table, within a limit of processor time, so that other programs take nothing
from it; what is chosen is chosen on validation rows, and what is reported is the error on test rows. A run that is
broken off goes on where it was: every fit is kept in OUT/public_layers. Writes public_layers.{md,json}.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.public import cde, miopen, neusight, vidur
from experiments.public.task import Loader, Task
from experiments.tables import markdown_table, write_tables
from medn.core.errors import MednError, UsageError, unknown
from medn.core.metrics import score
from medn.core.splits import Parts
from medn.core.table import Array
from medn.deployed.packing import pack, unpack
from medn.pipeline.timing import call_seconds, one_thread
from medn.pipeline.tuning import one_line
from medn.regressors.form import Form, restore
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.learned import thinned
from medn.regressors.regressor import Effort, regressors
from medn.selection.ensembles import choose_weights, mixed

LOADERS: dict[str, Loader] = {
    "vidur": vidur.load,
    "neusight": neusight.load,
    "miopen": miopen.load,
    "cde": cde.load,
}
QUICK_ROWS = 2000
MANY_ROWS = 10_000
ENSEMBLE = "ensemble (validation-weighted)"
OF_PEAK = " of peak"
"""After a regressor's name: it learns multiples of the time that the device's data sheet would allow."""
ON_PEAKS = ("lightgbm", "xgboost", "medn", "mlp")
Row = dict[str, Any]


@dataclass(frozen=True)
class Fits:
    """The fits of one task on disk: the row of the table, the predictions an ensemble is made of, the deployed form."""

    folder: Path

    def path(self, regressor: str, end: str) -> Path:
        return self.folder / f"{regressor}.{end}"

    def row(self, regressor: str, asked: Row) -> Row | None:
        """What is known of a regressor, if it was fitted as asked."""
        path = self.path(regressor, "json")
        kept: Row = json.loads(path.read_text()) if path.is_file() else {}
        return kept["row"] if kept.get("asked") == asked else None

    def logs(self, regressor: str) -> dict[str, Array]:
        with np.load(self.path(regressor, "npz")) as arrays:
            return dict(arrays)

    def form(self, regressor: str) -> Form:
        kept = json.loads(self.path(regressor, "json").read_text())
        with np.load(self.path(regressor, "form.npz")) as arrays:
            return restore(unpack(kept["form"], dict(arrays)))

    def keep(self, regressor: str, asked: Row, row: Row, logs: dict[str, Array], form: Form) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        facts, arrays = pack(form.parts())
        np.savez_compressed(self.path(regressor, "npz"), **logs)  # type: ignore[arg-type]
        np.savez_compressed(self.path(regressor, "form.npz"), **arrays)  # type: ignore[arg-type]
        self.path(regressor, "json").write_text(json.dumps({"asked": asked, "row": row, "form": facts}) + "\n")


def fits_of(task: Task, out: Path) -> Fits:
    """Where the fits of a task are kept."""
    return Fits(out / "public_layers" / re.sub(r"\W+", "_", task.name))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        rows, about = run(options)
    except MednError as error:
        print(error, file=sys.stderr)
        return 2
    write_tables(options.out, "public_layers", rows, about)
    print(markdown_table(rows), *(f"{name}: {value}" for name, value in about.items()), sep="\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--sets", default=",".join(LOADERS), help="data sets, separated by commas")
    parser.add_argument("--regressors", default="", help="regressors, separated by commas; all of them if left out")
    parser.add_argument("--seconds", type=float, default=None, help="per fit, in place of each task's own limit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help=f"at most {QUICK_ROWS} rows per part, 5 seconds per fit")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> tuple[list[Row], Row]:
    sets = known_names("data set", options.sets, LOADERS)
    names = known_names("regressor", options.regressors, list(regressors)) or list(regressors)
    rows: list[Row] = []
    about: Row = {
        "seed": options.seed,
        "errors": "per cent, on test rows; us: processor time of the deployed form on one thread",
    }
    for name in sets:
        for task in LOADERS[name](options.data, options.seed):
            task = _quick(task) if options.quick else task
            about[task.name] = f"{task.about}; {_sizes(task.parts)}"
            rows += task_rows(task, names, options)
    return rows, about


def known_names(what: str, given: str, known: Sequence[str] | dict[str, Loader]) -> list[str]:
    names = [name for name in given.split(",") if name]
    for name in names:
        if name not in known:
            raise UsageError(unknown(what, name, list(known)))
    return names


def _quick(task: Task) -> Task:
    few = {
        name: np.random.default_rng(0).permutation(getattr(task.parts, name))[:QUICK_ROWS] for name in task.parts.sizes
    }
    return replace(task, parts=Parts(**few), seconds=5.0)


def _sizes(parts: Parts) -> str:
    return ", ".join(f"{size} {name}" for name, size in parts.sizes.items() if size) + " rows"


def task_rows(task: Task, names: Sequence[str], options: argparse.Namespace) -> list[Row]:
    """The rows of one task: what others published, every regressor, and the ensemble."""
    fits = fits_of(task, options.out)
    seconds = options.seconds or task.seconds
    asked = {
        "seed": options.seed,
        "seconds": seconds,
        "parts": task.parts.sizes,
        "inputs": list(task.table.schema.names),
    }
    rows = [_row(task, other.who, 100 * other.mape, note=other.source) for other in task.published]
    fitted: dict[str, Row] = {}
    of_peak = [name + OF_PEAK for name in names if task.peak_us and name in ON_PEAKS]
    for name in (*names, *of_peak):
        row = fits.row(name, asked)
        if row is None:
            row, logs, form = fit_one(task, name, Effort(seconds, options.seed, clock=time.process_time))
            if form:  # what failed is tried again
                fits.keep(name, asked, row, logs, form)
            print(f"{task.name}: {name} {_said(row)}", file=sys.stderr, flush=True)
        if row["MAPE %"] is not None:
            row = fitted[name] = row | costs(fits.form(name), task)
        rows.append(row)
    if len(fitted) > 1:
        rows.append(ensemble_row(task, fits, fitted))
        print(f"{task.name}: {ENSEMBLE} {_said(rows[-1])}", file=sys.stderr, flush=True)
    return rows


def _said(row: Row) -> str:
    return row["note"] if row["MAPE %"] is None else f"{row['MAPE %']:.2f} % (validation {row['validation %']:.2f} %)"


def costs(form: Form, task: Task) -> Row:
    """Measured whenever the table is made, so that they are those of today's forms."""
    many = np.resize(task.table.inputs, (MANY_ROWS, task.table.inputs.shape[1]))
    with one_thread():
        form.one(many[0])  # what happens once belongs to loading
        one_s, many_s = (
            call_seconds(call, time.thread_time) for call in (lambda: form.one(many[0]), lambda: form.predict(many))
        )
    return {"us, 1 row": 1e6 * one_s, "us, 10,000 rows": 1e6 * many_s, "bytes": form.parts().size_bytes}


def fit_one(task: Task, name: str, effort: Effort) -> tuple[Row, dict[str, Array], Form | None]:
    """Fit and export one regressor; what goes wrong is the note of its row."""
    regressor, parts = regressors[name.removesuffix(OF_PEAK)], task.parts
    peak = _peak(task) if name.endswith(OF_PEAK) else None
    if regressor.shares_kinds:
        return _row(task, name, None, note="shares an encoder between kinds: a single kind is no use to it"), {}, None
    reason = regressor.missing()
    if reason:
        return _row(task, name, None, note=reason), {}, None
    table = (
        replace(task.table, latency_s=task.table.latency_s / peak.predict(task.table.inputs)) if peak else task.table
    )
    train = thinned(table.take(parts.train), regressor.largest, effort.seed)
    try:
        settings = {**regressor.defaults, **task.settings.get(name, {})}
        form = regressor.fit(train, table.take(parts.validation), settings, effort).export()
        form = WeightedSum([peak, form]) if peak else form
        spent = effort.seconds - effort.seconds_left
        logs = {part: form.log_latency(task.table.inputs[getattr(parts, part)]) for part in ("validation", "test")}
    except Exception as failure:  # a family may fail in any way its library does
        return _row(task, name, None, note=one_line(failure)), {}, None
    note = f"learned from {len(train)} rows" if len(train) < len(parts.train) else ""
    return _scored(task, name, logs, spent, note), logs, form


def _peak(task: Task) -> Affine:
    column = np.array([task.table.schema.index(task.peak_us)], dtype=np.int32)
    return Affine(column, np.array([1e-6]), constant_s=0.0, floor_s=1e-12)


def ensemble_row(task: Task, fits: Fits, fitted: dict[str, Row]) -> Row:
    """The best few together; their costs add up."""
    logs = {name: fits.logs(name) for name in fitted}
    held = task.table.latency_s[task.parts.validation]
    weights = choose_weights({name: own["validation"] for name, own in logs.items()}, held)
    together_logs = {
        part: mixed({name: own[part] for name, own in logs.items()}, weights) for part in ("validation", "test")
    }
    members = [fitted[name] for name in weights]
    together = {name: sum(member[name] for member in members) for name in ("us, 1 row", "us, 10,000 rows", "bytes")}
    note = " + ".join(f"{weight:.2f} {name}" for name, weight in weights.items())
    return _scored(task, ENSEMBLE, together_logs, sum(member["fit s"] for member in members), note) | together


def _scored(task: Task, name: str, logs: dict[str, Any], spent: float, note: str) -> Row:
    measured = {part: task.table.latency_s[getattr(task.parts, part)] for part in ("validation", "test")}
    held = score(np.exp(logs["validation"]), measured["validation"])
    scores = score(np.exp(logs["test"]), measured["test"])
    return _row(task, name, 100 * scores.mape, note=note) | {
        "validation %": 100 * held.mape,
        "median %": 100 * scores.median,
        "p90 %": 100 * scores.p90,
        "within 10 %": 100 * scores.within_10,
        "R2": scores.r2,
        "fit s": spent,
    }


def _row(task: Task, who: str, mape: float | None, note: str) -> Row:
    """A row with nothing but its error; the aim is missed by what is above zero in the third column."""
    missed = None if mape is None else mape - 100 * task.aim
    blank = dict.fromkeys(("validation %", "median %", "p90 %", "within 10 %", "R2"))
    unknown_costs = dict.fromkeys(("us, 1 row", "us, 10,000 rows", "bytes", "fit s"))
    return {
        "task": task.name,
        "regressor": who,
        "MAPE %": mape,
        "above aim": missed,
        **blank,
        **unknown_costs,
        "note": note,
    }


if __name__ == "__main__":
    sys.exit(main())
