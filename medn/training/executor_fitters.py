"""Fits handed out through a `concurrent.futures.Executor`: a worker that dies costs a retry, never a result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Protocol

from medn.core.errors import MednError, reason_of
from medn.core.text import first_line
from medn.core.units import format_duration
from medn.deployed.candidate import Candidate
from medn.training.fit_processes import (
    GRACE_S,
    LOAD_TIMEOUT_S,
    LOOK_EVERY_S,
    TIMES_GRANTED,
    OnWait,
    Timetable,
    no_time_left,
)
from medn.training.job import Job
from medn.training.packed_job import PackedResult, fit_packed, pack, unpack
from medn.training.train_regressor import fail_job

MOST_RETRIES = 5
"""How often a job is handed out again whose worker is gone; an engine may have done so by itself before."""

NO_WORKERS_S = 120.0
"""How long nobody may be there to fit: a scheduler starts workers anew."""

SILENCE_S = 300.0
"""How much longer than it could take a job may be silent: an engine hands it out again by itself, which is not seen."""


GO_ON = "What is finished is kept; start workers, and the same command goes on from there"


class WorkersGone(MednError):
    """Nobody is left to fit; what was finished is in the run."""


class Workers(Protocol):
    """Where fits are made: an executor, and how many fits it makes at once."""

    name: str

    @property
    def executor(self) -> Executor: ...

    def slots(self) -> int:
        """How many fits can be under way now; 0 where no worker is there."""

    def close(self) -> None: ...


@dataclass
class _HandedOut:
    job: Job
    future: Future[PackedResult]
    granted: float
    began: float
    retries: int = 0

    @property
    def silent_after(self) -> float:
        attempt_s = TIMES_GRANTED * self.granted + GRACE_S + LOAD_TIMEOUT_S
        return self.began + 2 * attempt_s + SILENCE_S


class ExecutorFitters:
    """The same as `Fitters`, with workers elsewhere: the same jobs in the same order, by the same timetable."""

    def __init__(self, workers: Workers, on_wait: OnWait | None = None) -> None:
        self.workers = workers
        self.on_wait = on_wait
        self.loading_s = 0.0
        self.retries = 0
        """How many jobs were handed out again."""
        self._has_waited = False
        """Whether dead workers, or none, have cost time: what has no fit yet then has a short one, late as it is."""
        self._under_way: list[_HandedOut] = []
        self._seen = time.monotonic()

    @property
    def processes(self) -> int:
        return max(self.workers.slots(), 1)

    def __enter__(self) -> ExecutorFitters:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._under_way:
            each.future.cancel()
        self.workers.close()

    def run(self, times: Timetable) -> Iterator[list[Candidate]]:
        """The candidates of each job, written into the run as soon as it has ended in whatever way."""
        while True:
            while len(self._under_way) < self._slots() and (job := times.next_job()):
                if times.seconds_to_end <= 0 and not self._has_waited:
                    yield no_time_left(job)
                else:
                    self._hand_out(job, times.granted(job))
            if not self._under_way:
                return
            done, _ = wait([each.future for each in self._under_way], LOOK_EVERY_S, FIRST_COMPLETED)
            for each in list(self._under_way):
                if each.future in done or time.monotonic() >= each.silent_after:
                    self._under_way.remove(each)
                    if made := self._ended(each, times):
                        yield made
            if self.on_wait:
                self.on_wait(times.seconds_left, [_about(each) for each in self._under_way])

    def _slots(self) -> int:
        """At least one, so that what is to be done is handed out and waits for who comes; not for ever."""
        slots = self.workers.slots()
        if slots:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > NO_WORKERS_S:
            raise WorkersGone(f"{self.workers.name} has had no worker for {format_duration(NO_WORKERS_S)}. {GO_ON}")
        return max(slots, 1)

    def _hand_out(self, job: Job, granted: float, retries: int = 0) -> None:
        try:
            future = self.workers.executor.submit(fit_packed, pack(replace(job, seconds=granted)))
        except (RuntimeError, OSError) as error:
            raise WorkersGone(f"{self.workers.name} takes no more work ({first_line(error)}). {GO_ON}") from None
        self._under_way.append(_HandedOut(job, future, granted, time.monotonic(), retries))

    def _ended(self, each: _HandedOut, times: Timetable) -> list[Candidate] | None:
        """What came of a job; None where it was handed out again."""
        if not each.future.done():
            each.future.cancel()
            waited = format_duration(time.monotonic() - each.began)
            return fail_job(each.job, f"its worker gave no answer within {waited}: it had {each.granted:.0f} s")
        try:
            result = each.future.result()
        except (Exception, CancelledError) as error:  # of the engine: what a fit raises is the reason of its candidate
            return self._lost(each, error)
        self.loading_s += result.loading_s
        times.prolong(result.loading_s)
        self._has_waited |= time.monotonic() - each.began - result.worked_s > GRACE_S
        return unpack(each.job, result)

    def _lost(self, each: _HandedOut, error: BaseException) -> list[Candidate] | None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "medn":
            raise MednError(f"the workers of {self.workers.name} cannot import medn: install it there") from None
        if each.retries >= MOST_RETRIES:
            reason = f"its worker was lost {each.retries + 1} times, the last time: {reason_of(error)}"
            return fail_job(replace(each.job, budget_s=0.0), reason)
        self.retries += 1
        self._has_waited = True
        # With the time it had: what a dead worker has spent is not held against the family.
        self._hand_out(each.job, each.granted, each.retries + 1)
        return None


def _about(each: _HandedOut) -> str:
    again = f", handed out again ({each.retries})" if each.retries else ""
    return f"{each.job.regressor} for {' and '.join(each.job.tables)}{again}"
