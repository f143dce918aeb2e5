"""Training on a Dask cluster against joblib and against threads of medn's own, and with its workers killed meanwhile.

    python -m experiments.train_on_dask RUN --seconds 60 --kills 20

Makes four trainings of copies of a run, through the same executor interface: as `--on local` does, by joblib's worker
processes (loky), on a Dask cluster of as many workers on this machine, and on such a cluster while a worker is killed
with signal 9 every few seconds. Told are wall times, the candidates that are there at the end, and the best errors.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import distributed
from joblib.externals.loky import get_reusable_executor

from experiments.script import end_with, named
from medn.deployed.candidate import scores_of
from medn.training.fitters import Fitters
from medn.training.train_run import TrainOutcome, train_run

OWN = ("measurements.sqlite", "measurements.sqlite-wal")


def copied(run: Path, folder: Path) -> Path:
    """Only what was measured."""
    folder.mkdir()
    for name in OWN:
        if (run / name).exists():
            shutil.copy(run / name, folder / name)
    return folder


class JoblibWorkers:
    """joblib's own processes, each with a child process that fits."""

    name = "joblib"
    are_here = True

    def __init__(self, jobs: int) -> None:
        self.expected = jobs
        self.executor = get_reusable_executor(jobs)

    def slots(self) -> Mapping[str, int]:
        return {self.name: self.expected}

    def close(self) -> None:
        self.executor.shutdown(wait=True, kill_workers=True)


def told(outcome: TrainOutcome, wall_s: float) -> dict[str, Any]:
    good = [each for each in outcome.candidates if each.is_good]
    return {
        "wall_s": round(wall_s, 1),
        "candidates": len(outcome.candidates),
        "good": len(good),
        "failed": {f"{each.kind} {each.regressor}": each.reason for each in outcome.candidates if not each.is_good},
        "trials": sum(each.facts.trials.made for each in good),
        "best": {each.kind: round(scores_of(each).validation.mape, 4) for each in outcome.best()},
        "handed_out_again": outcome.retries,
    }


class OwnWorkers(threading.Thread):
    """Worker processes without nannies, one of which is killed every few seconds and started anew."""

    def __init__(self, address: str, workers: int, kills: int, every_s: float) -> None:
        super().__init__(daemon=True)
        self.command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1"]
        self.processes = [self._new_worker() for _ in range(workers)]
        self.kills = kills
        self.every_s = every_s
        self.ended = threading.Event()
        self.killed = 0

    def _new_worker(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.command, "--no-dashboard"], stderr=subprocess.DEVNULL)

    def run(self) -> None:
        while self.killed < self.kills and not self.ended.wait(self.every_s):
            place = self.killed % len(self.processes)
            self.processes[place].kill()
            self.processes[place].wait()
            self.processes[place] = self._new_worker()
            self.killed += 1

    def stop(self) -> None:
        self.ended.set()
        self.join()
        for process in self.processes:
            process.kill()
            process.wait()


def on_this_machine(run: Path, workers: int, by_joblib: bool, **options: Any) -> dict[str, Any]:
    began = time.monotonic()
    if by_joblib:
        with patch("medn.training.train_run.fitters_on", lambda *_: Fitters(JoblibWorkers(workers))):
            outcome = train_run(run, jobs=workers, **options)
    else:
        outcome = train_run(run, jobs=workers, **options)
    return told(outcome, time.monotonic() - began)


def on_cluster(run: Path, workers: int, kills: int, every_s: float, **options: Any) -> dict[str, Any]:
    with distributed.LocalCluster(0, dashboard_address=None, silence_logs=50, host="127.0.0.1") as cluster:
        own = OwnWorkers(cluster.scheduler_address, workers, kills, every_s)
        with distributed.Client(cluster) as client:
            client.wait_for_workers(workers)
        own.start()
        began = time.monotonic()
        try:
            outcome = train_run(run, on=cluster.scheduler_address.replace("tcp://", "dask://"), **options)
        finally:
            wall_s = time.monotonic() - began
            own.stop()
        return {**told(outcome, wall_s), "killed": own.killed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--every", type=float, default=None, help="seconds between kills; spread over the time")
    parser.add_argument("--regressors", default="")
    parser.add_argument("--parts", default="local,joblib,dask,killed", help="which trainings to make")
    given = parser.parse_args()
    families = [name for name in given.regressors.split(",") if name]
    options: dict[str, Any] = {"seconds": given.seconds, "families": families, "seed": 0}
    every_s = given.every or given.seconds / max(given.kills, 1)
    with tempfile.TemporaryDirectory(prefix="medn-dask-") as made:
        folder = Path(made)
        found: dict[str, dict[str, Any]] = {}
        for name in named("training", given.parts, dict.fromkeys(("local", "joblib", "dask", "killed"))):
            run, kills = copied(given.run, folder / name), given.kills if name == "killed" else 0
            if name in ("local", "joblib"):
                found[name] = on_this_machine(run, given.workers, name == "joblib", **options)
            else:
                found[name] = on_cluster(run, given.workers, kills, every_s, **options)
            print(json.dumps({name: found[name]}), flush=True)
    print(f"candidates in each training: {sorted({each['candidates'] for each in found.values()})}")
    for name in {"local", "joblib"} & found.keys() if "dask" in found else ():
        print(f"wall time on Dask over {name}: {found['dask']['wall_s'] / found[name]['wall_s']:.2f}")
    return 0


if __name__ == "__main__":
    end_with(main)
