"""Where `medn train --on` fits: in child processes of this machine, on a Dask cluster, or in jobs of Slurm.

Each place is an executor. Measuring never happens there, nor is it timed there what predictors cost: an engine's event
loop and heartbeats disturb, and workers may be machines of any kind.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medn.core.errors import MednError, UsageError, did_you_mean
from medn.core.packages import need
from medn.core.text import first_line, last_line
from medn.training.fitters import Fitters, OnWait, Workers
from medn.training.supervised_fit import Children, children_of_this_thread

LOCAL = "local"
SLURM = "slurm"
DASK = {"dask": "tcp", "dask+tls": "tls"}
"""How an address begins, and what Dask calls that."""

CONNECT_S = 15.0
CLOSE_EVERY_S = 0.05
QUEUE_S = 7 * 86_400.0
"""How long Slurm may let its jobs wait."""

LOGS = "slurm"
"""The folder of a run in which jobs of Slurm leave what they print."""

JOB_OF_SLURM: Mapping[str, Any] = {"cores": 1, "processes": 1, "memory": "4GB", "job_name": "medn"}

Options = Mapping[str, Any]


def check_place(on: str) -> None:
    """Refuse what names no place to fit at."""
    scheme, separator, rest = on.partition("://")
    if on in (LOCAL, SLURM) or (separator and scheme in DASK and _is_address(rest)):
        return
    near = did_you_mean(on, (LOCAL, SLURM)) or did_you_mean(scheme, DASK)
    raise UsageError(f"--on: must be local, slurm or dask://HOST:PORT (got {on!r}).{near}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname and parts.port)
    except ValueError:
        return False


def fitters_on(on: str, jobs: int, run: Path, options: Options, on_wait: OnWait | None = None) -> Fitters:
    """What fits, for a `with` block. `jobs` is how many fits there are at once, which a Dask cluster says itself."""
    check_place(on)
    if options and on != SLURM:
        raise UsageError("--on-option: goes with --on slurm")
    workers: Workers
    if on == LOCAL:
        workers = LocalWorkers(jobs)
    else:
        workers = SlurmWorkers(jobs, run / LOGS, options) if on == SLURM else DaskWorkers(on)
    return Fitters(workers, on_wait)


class DaskWorkers:
    """A Dask cluster that is up: each of its worker threads fits one job at a time."""

    are_here = False
    expected = 1

    def __init__(self, on: str) -> None:
        need("training on Dask", "distributed", extra="dask")
        scheme, _, rest = on.partition("://")
        self.name = on
        try:
            self._connect(f"{DASK[scheme]}://{rest}")
        except (OSError, TimeoutError, ValueError) as error:
            raise MednError(
                f"no Dask scheduler answers at {rest} ({first_line(error)}). Start one: dask scheduler --port PORT, "
                f"and workers: dask worker {rest} --nthreads 1"
            ) from None

    def _connect(self, to: Any) -> None:
        import distributed

        # What becomes of workers is told by who hands out fits; Dask would tell it once more, in many lines.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        connect: Any = distributed.Client  # which is not typed
        self._client = connect(to, timeout=CONNECT_S)
        self.executor: Executor = self._client.get_executor(pure=False)

    def slots(self) -> Mapping[str, int]:
        try:
            return {str(name): int(threads) for name, threads in self._client.nthreads().items()}
        except (OSError, RuntimeError, ValueError):  # the scheduler is gone, for a while or for good
            return {}

    def close(self) -> None:
        with suppress(Exception):  # a scheduler that is gone need not be told
            self._client.close(timeout=CONNECT_S)


class SlurmWorkers(DaskWorkers):
    """A Dask cluster of our own whose workers are jobs of Slurm: queued once, and used for fit after fit."""

    name = SLURM

    def __init__(self, jobs: int, folder: Path, options: Options) -> None:
        need("training on Slurm", "dask_jobqueue", extra="slurm")
        from dask_jobqueue.slurm import SLURMCluster

        if not shutil.which("sbatch"):
            raise UsageError("--on slurm: there is no sbatch here; run this where jobs are submitted from")
        self.expected = jobs
        folder.mkdir(parents=True, exist_ok=True)
        given = {**JOB_OF_SLURM, "python": sys.executable, "log_directory": str(folder), **options}
        if isinstance(directive := given.get("job_extra_directives"), str):
            given["job_extra_directives"] = [directive]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._cluster: Any = SLURMCluster(**given)
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            raise UsageError(f"--on slurm: {first_line(error)}") from None
        try:
            self._try_job()
            # So many, and a new one for each that ends: by its own limits, or by somebody else.
            self._cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
            self._connect(self._cluster)
            self._client.wait_for_workers(1, timeout=QUEUE_S)
        except BaseException:
            self.close()
            raise

    def _try_job(self) -> None:
        """What Slurm refuses, such as a queue that is not there, it says here; later a job would just never come."""
        script = self._cluster.job_script()
        told = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
        if told.returncode:
            raise UsageError(f"--on slurm: sbatch refuses its jobs: {last_line(told.stderr)}")

    def close(self) -> None:
        with suppress(Exception):
            super().close()
        with suppress(Exception):
            self._cluster.close(timeout=CONNECT_S)


class LocalWorkers:
    """Threads of this process, each with a child process that fits."""

    name = LOCAL
    are_here = True

    def __init__(self, jobs: int) -> None:
        self.expected = jobs
        self._begun: list[tuple[threading.Thread, Children]] = []
        self._threads = ThreadPoolExecutor(jobs, "fit", self._begin_thread)
        self.executor: Executor = self._threads

    def _begin_thread(self) -> None:
        self._begun.append((threading.current_thread(), children_of_this_thread()))

    def slots(self) -> Mapping[str, int]:
        return {self.name: self.expected}

    def close(self) -> None:
        """What is still being fitted has no taker any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for thread, children in self._begun:
            while thread.is_alive():
                children.kill()
                thread.join(CLOSE_EVERY_S)
            children.stop()
