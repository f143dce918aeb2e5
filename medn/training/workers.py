"""Where `medn train --on` fits: in child processes of this machine, on a Dask cluster, or in jobs of Slurm.

Measuring never happens there, nor is it timed there what predictors cost: an engine's event loop and heartbeats
disturb, and workers may be machines of any kind.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medn.core.errors import MednError, UsageError, did_you_mean
from medn.core.packages import need
from medn.core.text import first_line
from medn.training.executor_fitters import ExecutorFitters, Workers
from medn.training.fit_processes import Fitters, OnWait

if TYPE_CHECKING:
    import submitit

LOCAL = "local"
SLURM = "slurm"
DASK = {"dask": "tcp", "dask+tls": "tls"}
"""How an address begins, and what Dask calls that."""

CONNECT_S = 15.0
LOGS = "submitit"
"""The folder of a run in which submitit keeps what it sends to jobs and what they print."""

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


def fitters_on(
    on: str, jobs: int, run: Path, options: Options, on_wait: OnWait | None = None
) -> Fitters | ExecutorFitters:
    """What fits, for a `with` block. `jobs` is how many fits there are at once, which a Dask cluster says itself."""
    check_place(on)
    if on == LOCAL:
        if options:
            raise UsageError("--on-option: goes with --on slurm")
        return Fitters(jobs, on_wait)
    workers: Workers = SlurmWorkers(jobs, run / LOGS, options) if on == SLURM else DaskWorkers(on, options)
    return ExecutorFitters(workers, on_wait)


class DaskWorkers:
    """A Dask cluster that is up: each of its worker threads fits one job at a time."""

    def __init__(self, on: str, options: Options) -> None:
        if options:
            raise UsageError("--on-option: goes with --on slurm; Dask reads its own configuration")
        need("training on Dask", "distributed", extra="dask")
        import distributed

        # What becomes of workers is told by who hands out fits; Dask would tell it once more, in many lines.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        scheme, _, rest = on.partition("://")
        self.name = on
        connect: Any = distributed.Client  # which is not typed
        try:
            self._client = connect(f"{DASK[scheme]}://{rest}", timeout=CONNECT_S)
        except (OSError, TimeoutError, ValueError) as error:
            raise MednError(
                f"no Dask scheduler answers at {rest} ({first_line(error)}). Start one: dask scheduler --port PORT, "
                f"and workers: dask worker {rest} --nthreads 1"
            ) from None
        self.executor: Executor = self._client.get_executor(pure=False)

    def slots(self) -> int:
        try:
            return int(sum(self._client.nthreads().values()))
        except (OSError, RuntimeError, ValueError):  # the scheduler is gone, for a while or for good
            return 0

    def close(self) -> None:
        with suppress(Exception):  # a scheduler that is gone need not be told
            self._client.close(timeout=CONNECT_S)


class SlurmWorkers:
    """Jobs of Slurm, one for each fit, as many at once as are asked for; the folder of the run must be shared."""

    name = SLURM

    def __init__(self, jobs: int, folder: Path, options: Options) -> None:
        need("training on Slurm", "submitit", extra="slurm")
        import submitit

        self._jobs = jobs
        given = dict(options)
        cluster = str(given.pop("cluster", SLURM))
        try:
            engine = submitit.AutoExecutor(folder=folder, cluster=cluster)
            engine.update_parameters(**{"cpus_per_task": 1, "name": "medn", **given})
        except (RuntimeError, NameError, ValueError, TypeError) as error:
            raise UsageError(f"--on slurm: {first_line(error)}") from None
        self.executor: Executor = _SubmititExecutor(engine, jobs)

    def slots(self) -> int:
        return self._jobs

    def close(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)


class _SubmititExecutor(Executor):
    """submitit's jobs as futures: a thread waits for each."""

    def __init__(self, engine: submitit.Executor, jobs: int) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="submitit")
        self._running: set[Any] = set()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(self._run, fn, *args, **kwargs)

    def _run(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        job = self._engine.submit(fn, *args, **kwargs)
        self._running.add(job)
        try:
            return job.result()
        finally:
            self._running.discard(job)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for job in list(self._running) if cancel_futures else ():
            with suppress(Exception):  # it may have ended meanwhile
                job.cancel()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
