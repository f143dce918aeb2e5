"""One cell: so many layers of a table, drawn by a seed, learned by medn's verbs and by its peers, each result kept."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.few_points.tables import Drawn, thinned
from experiments.peers.medn_verbs import RUN, verb
from experiments.peers.training import PEERS, PREPARED, RAW, Allowed, trained, write_rows
from medn.choosing.evaluation import Evaluated, evaluate_run
from medn.choosing.select_run import CHOSEN_FOLDER
from medn.core.atomic import atomic_write
from medn.core.errors import MednError
from medn.core.metrics import score
from medn.core.table import Table
from medn.deployed.calibration import interval_coverage
from medn.deployed.candidate import Candidate, deployed_of
from medn.regressors.distances import Points
from medn.regressors.encoding import Encoding
from medn.training.candidate_store import load_candidates

Json = dict[str, Any]

OWN = "medn"
"""Every family, and what is chosen."""
ALONE = "medn alone"
"""The network MEDN alone, with all of the time to itself."""
PEER_INPUTS = {
    f"{peer} {name}": (peer, inputs) for peer in PEERS for name, inputs in (("raw", RAW), ("inputs", PREPARED))
}
EVERYBODY = (OWN, ALONE, *PEER_INPUTS)

FAR_SHARE = 0.2
"""The test rows that count as far: a fifth, those whose nearest learned row is farthest away."""

CODE_FOLDERS = ("medn", "regressors", "selection", "layer_generators")


@dataclass(frozen=True)
class Cell:
    table: Drawn
    layers: int
    seed: int

    def folder(self, out: Path) -> Path:
        return out / self.table.name / f"{self.layers}-{self.seed}"

    def result(self, out: Path, who: str) -> Path:
        return self.folder(out) / f"{who}.json"


@cache
def code_version() -> str:
    """Changes with the code that learns and chooses."""
    root = Path(__file__).resolve().parents[2]
    hashed = hashlib.sha256()
    for file in sorted(file for name in CODE_FOLDERS for file in (root / name).rglob("*.py")):
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:10]


def kept(cell: Cell, who: str, out: Path) -> Json | None:
    """What came of a cell before; None where nothing did."""
    path = cell.result(out, who)
    return json.loads(path.read_text()) if path.is_file() else None


def is_done(cell: Cell, who: str, seconds: float, out: Path, again: bool) -> bool:
    """Whether there is a result of the same time; what failed is tried again, and with `again` what other code made."""
    found = kept(cell, who, out)
    if found is None or found["error"] is None or found["seconds"] != seconds:
        return False
    return not again or who in PEER_INPUTS or found["code"] == code_version()


def work_on(cell: Cell, everybody: Sequence[str], out: Path, allowed: Allowed, again: bool, keep: bool) -> None:
    """Whatever is missing of a cell, unless another process is at it."""
    with _held(cell.folder(out)) as is_free:
        wanted = [who for who in everybody if is_free and not is_done(cell, who, allowed.seconds, out, again)]
        if not wanted:
            return
        folder = cell.folder(out).resolve()
        run = folder / RUN
        shutil.rmtree(run, ignore_errors=True)
        thinned(cell.table, cell.layers, cell.seed, run)
        for who in wanted:
            result = (
                _by_verbs(cell, who, run, allowed, keep)
                if who in (OWN, ALONE)
                else _by_peer(cell, who, folder, allowed)
            )
            told = {"code": code_version(), "seconds": allowed.seconds, **result}
            atomic_write(cell.result(out, who), json.dumps(told, indent=1).encode())
            error = "failed" if result["error"] is None else f"{100 * result['error']:.2f} %"
            print(
                f"{cell.table.name}, {cell.layers} layers, seed {cell.seed}: {who} {error}", file=sys.stderr, flush=True
            )
        if not keep:
            shutil.rmtree(run)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether nobody else has this cell; if so, nobody gets it meanwhile."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock").acquire(timeout=0):
            yield True
    except Timeout:
        yield False


def _by_peer(cell: Cell, who: str, folder: Path, allowed: Allowed) -> Json:
    peer, inputs = PEER_INPUTS[who]
    measured = write_rows(folder / RUN, cell.seed, folder)
    found = trained(PEERS[peer], inputs, folder, measured, cell.seed, allowed)
    return {"error": found.error, "note": found.note, "spent": found.costs.get("fit s")}


def _by_verbs(cell: Cell, who: str, run: Path, allowed: Allowed, keep: bool) -> Json:
    """`medn train` and `medn select` on a copy of the run, and what they made of it."""
    own = run.with_name(f"{RUN}-{who}")
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(run, own)
    began = time.monotonic()
    families = ("--regressors", "medn") if who == ALONE else ()
    time_s = f"{allowed.seconds:g}"
    try:
        verb("train", str(own), "--time", time_s, "--jobs", "1", "--seed", str(cell.seed), *families)
        selecting = time.monotonic()
        verb("select", str(own))
        spent = {"train": selecting - began, "select": time.monotonic() - selecting}
        (evaluated,) = evaluate_run(own)
        (chosen,) = load_candidates(own / CHOSEN_FOLDER)
        result = {**judged(chosen, evaluated), "spent": spent}
    except (RuntimeError, MednError) as failure:
        result = {"error": None, "note": str(failure)}
    if not keep:
        shutil.rmtree(own)
    return result


def judged(chosen: Candidate, evaluated: Evaluated) -> Json:
    """Errors on test rows of what was chosen and of every family, and how the intervals of what was chosen did."""
    prepared, test = evaluated.prepared, evaluated.prepared.test
    deployed = deployed_of(chosen)
    answer = deployed.answer(test.inputs)
    far = farthest(prepared.source.table.take(prepared.rows.learned), test)
    covered = (test.target >= answer.low) & (test.target <= answer.high)
    errors = {
        part: {name: score(own[part], measured).mape for name, own in evaluated.predicted_s.items()}
        for part, measured in (("test", test.target), ("validation", prepared.validation.target))
    }
    return {
        "error": score(answer.value, test.target).mape,
        "chosen": chosen.regressor,
        "promised": chosen.scores.validation.mape if chosen.scores else None,
        "families": errors["test"],
        "promised by families": errors["validation"],
        "failed": dict(evaluated.failed),
        "covered": interval_coverage(deployed, answer, test.target).covered,
        "covered far": float(covered[far].mean()),
        "width": float(np.median((answer.high - answer.low) / answer.value)),
        "outside": float(np.mean(~answer.inside)),
        "rows": {"learned": len(prepared.train), "test": len(test)},
    }


def farthest(learned: Table, test: Table) -> Any:
    """Which test rows are far from everything learned, by the distance to the nearest row on one scale."""
    encoding = Encoding.fit(learned.schema, learned.inputs)
    points = Points(encoding.transform(learned.inputs))
    nearest = points.squared(encoding.transform(test.inputs)).min(axis=1)
    return nearest >= np.quantile(nearest, 1 - FAR_SHARE)
